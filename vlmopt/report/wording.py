"""Words that every report shares."""

from __future__ import annotations

from vlmopt.rules import Contract
from vlmopt.sources import Tree

_CONTRACTS = {
    Contract.exact: "exact: the tower's inputs, token ids and placeholder ranges are bitwise stock's.",
    Contract.bounded: "bounded: the tower's inputs are within a stated tolerance of stock's; ids are equal.",
    Contract.approximate: "approximate: the model sees something else than with stock; verify first.",
    Contract.not_about_outputs: "n/a: makes no promise about outputs.",
}


def contract_words(contract: Contract) -> str:
    """What a contract promises, in one line."""
    return _CONTRACTS[contract]


def build_name(tree: Tree) -> str:
    """Version and build of a tree: `0.32.0 (cpu)`, `0.33.0`."""
    return f"{tree.version} ({tree.build})" if tree.build else tree.version
