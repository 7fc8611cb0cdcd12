"""The review of a fork: its patches, and what became of every recipe, on a terminal or as a page."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vlmopt.errors import UsageError
from vlmopt.fork import Fork
from vlmopt.fork.series import Patch, read_patch
from vlmopt.report.evidence import Evidence, evidence_of
from vlmopt.report.story import Story, story_of_fork
from vlmopt.whole import write_whole


@dataclass(frozen=True)
class Review:
    """A fork, its story, what is known of it, and the patches to look at, by recipe, in order."""

    fork: Fork
    story: Story
    evidence: Evidence
    patches: Mapping[str, Patch]
    series: Mapping[str, Patch]

    @property
    def only(self) -> str:
        """What a reader must know where not all patches are shown; else empty."""
        left_out = len(self.series) - len(self.patches)
        return f"Shown: {', '.join(self.patches)}. Not shown: {left_out} more." if left_out else ""


def open_review(folder: Path, recipe: str | None = None) -> Review:
    """Reads a fork for review: all its patches to look at, or one recipe's.

    Raises:
        SourceError: the folder is no fork, or a file of it cannot be read.
        UsageError: the fork has no such recipe, or it was not applied; or its benchmark cannot be read.
    """
    fork = Fork.open(folder)
    if recipe is not None:
        _check_applied(fork, recipe)
    series = {name: read_patch(path) for name, path in fork.patches.items()}
    shown = series if recipe is None else {recipe: series[recipe]}
    return Review(fork, story_of_fork(fork, series), evidence_of(fork), shown, series)


def _check_applied(fork: Fork, recipe: str) -> None:
    if recipe in fork.patches:
        return
    for rule in fork.lock.rules:
        if rule.id == recipe:
            raise UsageError(f"{recipe} changed nothing in {fork.path}: {rule.status} ({rule.reason})")
    near = difflib.get_close_matches(recipe, [rule.id for rule in fork.lock.rules], n=1)
    raise UsageError(
        f"{fork.path} knows no recipe {recipe!r}" + (f"; did you mean {near[0]}?" if near else "")
    )


def write_page(review: Review, path: Path) -> None:
    """Writes the review as one HTML page, whole: a killed run leaves the old one.

    Raises:
        UsageError: the file cannot be written.
    """
    from vlmopt.report.html import page  # jinja2 is for this alone

    write_whole(path, page(review), advice="name another file with --html")
