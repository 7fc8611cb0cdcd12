"""`report.md` of a fork: what was done, to what, why, and what was left alone and why.

`apply` writes it: the same plan gives the same bytes, without a time and without the fork's path. `verify`,
`bench` and `profile` write it anew with what they found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlmopt.measure.bench_file import bench_path
from vlmopt.report.evidence import UNMEASURED, UNVERIFIED, Evidence, Verified
from vlmopt.report.measured import Table, all_tables, flame_words, headlines, noise_words, setting
from vlmopt.report.story import Fact, Recipe, Story, story_of_plan
from vlmopt.sources.local import LOCK_NAME
from vlmopt.whole import write_whole

if TYPE_CHECKING:
    from vlmopt.plan import Plan

REPORT_NAME = "report.md"
_CELL = str.maketrans({"|": "\\|", "\n": " "})


def report(plan: Plan) -> str:
    """The report of a fork that is about to be written."""
    return markdown(story_of_plan(plan), Evidence())


def refresh(folder: Path) -> None:
    """Writes the report of a fork on disk anew, with its last verifications and its last benchmark.

    Raises:
        SourceError: the folder is no fork, or a file of it cannot be read.
        UsageError: the report cannot be written.
    """
    from vlmopt.report.review import open_review

    review = open_review(folder)
    write_whole(folder / REPORT_NAME, markdown(review.story, review.evidence))


def refresh_around(file: Path) -> None:
    """The same for the fork in whose folder `measured/` a file lies, if it lies in one.

    Raises:
        SourceError, UsageError: as of `refresh`.
    """
    folder = file.absolute().parent.parent
    if file.absolute().parent == bench_path(folder).parent and (folder / LOCK_NAME).is_file():
        refresh(folder)


def markdown(story: Story, evidence: Evidence) -> str:
    """The whole report."""
    return (
        "\n\n".join([*_head(story, evidence), *_evidence(evidence), *_recipes(story), *_rest(story)]) + "\n"
    )


def _head(story: Story, evidence: Evidence) -> Iterator[str]:
    yield f"# {story.headline}"
    yield story.origin
    if evidence.warning:
        yield f"**{evidence.warning}**"
    yield story.summary
    if story.promises:
        yield _list(story.promises)


def _evidence(evidence: Evidence) -> Iterator[str]:
    yield "## Verification"
    for each in evidence.verified:
        yield from _verified(each)
    if not evidence.verified:
        yield UNVERIFIED
    yield "## Measured"
    if evidence.bench is None:
        yield UNMEASURED
    else:
        yield _list([*map(str, headlines(evidence.bench)), *noise_words(evidence.bench)])
        yield "\n".join(setting(evidence.bench))
    for table in all_tables(evidence):
        yield from _measured(table)
    if evidence.flames:
        yield _list(map(flame_words, evidence.flames))


def _verified(each: Verified) -> Iterator[str]:
    yield f"**{each.verdict}** {each.extent}"
    if each.trouble:
        yield _list(map(_code, each.trouble))
    yield _table(("compared", "times", "result"), each.rows)


def _measured(table: Table) -> Iterator[str]:
    yield f"### {table.name}"
    if table.refused:
        yield f"Stock refuses it: {table.refused}"
    else:
        yield _table(table.head, [row.cells for row in (*table.stages, *table.rows)])


def _recipes(story: Story) -> Iterator[str]:
    yield "## What was done"
    for number, recipe in enumerate(story.applied, 1):
        yield f"### {number}. `{recipe.id}`: {recipe.title}"
        yield from recipe.why
        yield _list(map(_fact, recipe.facts()))
    if not story.applied:
        yield "Nothing: this fork is stock vLLM."
    yield "## What was left alone, and why"
    yield _left(story.left) if story.left else "Nothing: every recipe was applied."


def _left(left: Iterable[Recipe]) -> str:
    rows = [(f"`{each.id}`", each.title, each.status, each.reason) for each in left]
    return _table(("recipe", "what", "status", "why"), rows)


def _rest(story: Story) -> Iterator[str]:
    yield "## Changed files"
    rows = [
        (f"`{f.path}`", f"+{f.added}", f"-{f.removed}", ", ".join(f"`{rule}`" for rule in f.rules))
        for f in story.files
    ]
    yield _table(("file", "added", "removed", "by"), rows) if rows else "None."
    if story.new_files:
        yield "New files:"
        yield _list(f"`{path}`" for path in story.new_files)
    yield story.guard
    yield "## How to use it"
    yield "FORK is this folder."
    yield _list(f"{what}: `{command}`" for what, command in story.commands)


def _fact(fact: Fact) -> str:
    return f"{fact.label}: {', '.join(f'`{value}`' if fact.code else value for value in fact.values)}"


def _code(text: str) -> str:
    """Text that may hold anything, as code."""
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{' '.join(text.split())}{pad}{ticks}"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *[[cell.translate(_CELL) for cell in row] for row in rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
