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
    return build_words(tree.version, tree.build)


def build_words(version: str, build: str) -> str:
    """Version and build of a vLLM: `0.32.0 (cpu)`, `0.33.0`."""
    return f"{version} ({build})" if build else version


def promise_words(holds: bool, contract: str) -> str:
    """What a verification says of a fork's promise."""
    if not holds:
        return "The fork breaks its promise."
    exact = contract == Contract.exact
    return "The fork is equal to stock." if exact else f"The fork keeps its promise ({contract})."


def stage_words(broken: bool, differed: int, distance: float | None) -> str:
    """What came out of one stage of a verification."""
    if broken:
        return "different"
    if not differed:
        return "equal, bit by bit"
    far = "" if distance is None else f", by up to {distance:.6g}"
    return f"{differed:,} differ{far}"
