"""What a plan changes, counted: lines added and removed in each file, and by which rules."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from vlmopt.plan import FileChange, Plan


@dataclass(frozen=True)
class ChangedFile:
    """One file that differs from stock. Counts are of lines."""

    path: str
    added: int
    removed: int
    rules: tuple[str, ...]


def changed_files(plan: Plan) -> list[ChangedFile]:
    """The files of vLLM that a plan changes, by path."""
    return [_count(path, change) for path, change in sorted(plan.files.items())]


def _count(path: str, change: FileChange) -> ChangedFile:
    matcher = difflib.SequenceMatcher(
        None, change.before.splitlines(), change.after.splitlines(), autojunk=False
    )
    added = removed = 0
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            removed += i2 - i1
            added += j2 - j1
    return ChangedFile(path, added, removed, tuple(rule for rule, _ in change.steps))
