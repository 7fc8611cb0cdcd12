"""Picks rules by what a person types: an id, or a path to a rule file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlmopt.rules import Rule, check_ids, load_rules, read_rule


def pick_rules(names: Sequence[str]) -> list[Rule]:
    """The rules of these ids or paths (what ends in `.yaml` is a path), in the order given.

    Raises:
        UsageError: an id that no rule has; the message names the nearest.
        RuleError: a rule is malformed or cannot be read.
    """
    shipped = load_rules()
    check_ids((name for name in names if not _is_path(name)), shipped)
    by_id = {rule.id: rule for rule in shipped}
    return [read_rule(Path(name)) if _is_path(name) else by_id[name] for name in names]


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))
