"""What a plan changes, counted: lines added and removed in each file, and by which rules."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmopt.plan import Plan
from vlmopt.report.versions import versions

if TYPE_CHECKING:
    from vlmopt.fork import Fork
    from vlmopt.fork.series import Patch


@dataclass(frozen=True)
class ChangedFile:
    """One file that differs from stock. Counts are of lines."""

    path: str
    added: int
    removed: int
    rules: tuple[str, ...]


def changed_files(plan: Plan) -> list[ChangedFile]:
    """The files of vLLM that a plan changes, by path."""
    changed = []
    for path, change in sorted(plan.files.items()):
        counts = _count(_lines(change.before), _lines(change.after))
        changed.append(ChangedFile(path, *counts, tuple(rule for rule, _ in change.steps)))
    return changed


def changed_in_series(fork: Fork, patches: Mapping[str, Patch]) -> list[ChangedFile]:
    """The files of vLLM that a fork's patches change, by path.

    Counts are those between stock and the whole series. Of a file that was changed since `apply` they are the
    sums of its patches.
    """
    rules: dict[str, list[str]] = {}
    sums: dict[str, tuple[int, int]] = {}
    for recipe, patch in patches.items():
        for file in patch.files:
            if not file.is_new:
                rules.setdefault(file.path, []).append(recipe)
                added, removed = sums.get(file.path, (0, 0))
                sums[file.path] = (added + file.added, removed + file.removed)
    texts = versions(fork, patches)
    changed = []
    for path, by in sorted(rules.items()):
        first, last = texts.get((by[0], path)), texts.get((by[-1], path))
        counts = _count(first.before, last.after) if first and last else sums[path]
        changed.append(ChangedFile(path, *counts, tuple(by)))
    return changed


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _count(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    added = removed = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += i2 - i1
            added += j2 - j1
    return added, removed
