"""The review of a fork on a terminal: what `report.md` tells, in the same order, with the patches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from vlmopt.plan import Status
from vlmopt.report.evidence import UNMEASURED, UNVERIFIED, Evidence, Verified
from vlmopt.report.measured import all_tables, flame_words, headlines, noise_words, setting
from vlmopt.report.story import Fact, Recipe, Story
from vlmopt.report.terminal import columns, diff_text, status_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from vlmopt.fork.series import Patch
    from vlmopt.report.review import Review


def review_text(review: Review) -> RenderableType:
    """All of it; of the recipes that were applied, those whose patches are to be shown."""
    story = review.story
    return Group(*_head(story, review.evidence), *_evidence(review.evidence), *_done(review), *_rest(story))


def _head(story: Story, evidence: Evidence) -> Iterator[RenderableType]:
    yield Text(story.headline, style="bold")
    yield Text(story.origin)
    if evidence.warning:
        yield Text(evidence.warning, style="bold red")
    yield ""
    yield Text(story.summary)
    yield from map(Text, story.promises)


def _evidence(evidence: Evidence) -> Iterator[RenderableType]:
    yield from _title("Verification")
    for each in evidence.verified:
        yield from _verified(each)
    if not evidence.verified:
        yield Text(UNVERIFIED)
    yield from _title("Measured")
    if evidence.bench is None:
        yield Text(UNMEASURED)
    else:
        yield from (Text(str(line), style="bold") for line in headlines(evidence.bench))
        yield from (Text(line, style="yellow") for line in noise_words(evidence.bench))
        yield from map(Text, setting(evidence.bench))
    for table in all_tables(evidence):
        yield ""
        yield Text(table.name, style="bold")
        if table.refused:
            yield Text(f"Stock refuses it: {table.refused}")
        else:
            yield columns(table.head, [row.cells for row in (*table.stages, *table.rows)])
    if evidence.flames:
        yield ""
        yield from (Text(flame_words(side)) for side in evidence.flames)


def _verified(each: Verified) -> Iterator[RenderableType]:
    style = "bold green" if each.holds else "bold red"
    yield Text.assemble((each.verdict, style), " ", each.extent)
    yield from (Text(line, style="red") for line in each.trouble)
    yield columns(("compared", "times", "result"), each.rows)


def _done(review: Review) -> Iterator[RenderableType]:
    yield from _title("What was done")
    if review.only:
        yield Text(review.only)
    for number, recipe in enumerate(review.story.applied, 1):
        if recipe.id in review.patches:
            yield from _recipe(number, recipe, review.patches[recipe.id])
    if not review.story.applied:
        yield Text("Nothing: this fork is stock vLLM.")


def _recipe(number: int, recipe: Recipe, patch: Patch) -> Iterator[RenderableType]:
    yield Text(f"{number}. {recipe.id}: {recipe.title}", style="bold")
    yield from (Text(paragraph) for paragraph in recipe.why)
    yield from map(_fact, recipe.facts())
    yield ""
    yield diff_text(patch.text)
    yield ""


def _fact(fact: Fact) -> Text:
    return Text(f"{fact.label}: {', '.join(fact.values)}", style="dim")


def _rest(story: Story) -> Iterator[RenderableType]:
    yield from _title("What was left alone, and why")
    rows = [(each.id, each.title, status_text(Status(each.status)), each.reason) for each in story.left]
    yield (
        columns(("recipe", "what", "status", "why"), rows)
        if rows
        else Text("Nothing: every recipe was applied.")
    )
    yield from _title("Changed files")
    files = [(f.path, f"+{f.added}", f"-{f.removed}", ", ".join(f.rules)) for f in story.files]
    yield columns(("file", "added", "removed", "by"), files) if files else Text("None.")
    if story.new_files:
        yield ""
        yield Text("New files:")
        yield from (Text(f"  {path}") for path in story.new_files)
    yield ""
    yield Text(story.guard)
    yield from _title("How to use it")
    yield Text("FORK is this folder.")
    yield from (Text(f"{what}: {command}") for what, command in story.commands)


def _title(text: str) -> Iterator[RenderableType]:
    yield ""
    yield Text(text, style="bold underline")
