"""`diff`, `report.md` and the page tell one story: the same facts, in the same order."""

import html
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from vlmopt import console
from vlmopt.errors import VlmoptError
from vlmopt.report.evidence import UNMEASURED, UNVERIFIED
from vlmopt.report.html import page
from vlmopt.report.markdown import markdown, refresh, refresh_around
from vlmopt.report.measured import all_tables, flame_words, headlines, noise_words, setting
from vlmopt.report.review import Review, open_review
from vlmopt.report.review_text import review_text
from vlmopt.report.story import GUARD, story_of_plan

from .evidence import add_bench, add_profiles, add_verification
from .plans import MODEL, small_fork, small_plan


class Text(HTMLParser):
    """What a reader sees of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in ("style", "script", "title")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script", "title")
        self.parts += [] if tag in ("code", "span", "strong") else [" "]

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def facts(review: Review) -> Iterator[str]:
    """Every fact, in the order in which it must be told."""
    story, evidence = review.story, review.evidence
    yield from (story.headline, story.origin)
    yield from ([evidence.warning] if evidence.warning else [])
    yield story.summary
    yield from (word for promise in story.promises for word in promise.split(": "))
    yield "Verification"
    for each in evidence.verified:
        yield from (each.verdict, each.extent, *each.trouble)
        yield from (cell for row in each.rows for cell in row)
    yield from ([] if evidence.verified else [UNVERIFIED])
    yield "Measured"
    if evidence.bench:
        yield from map(str, headlines(evidence.bench))
        yield from (*noise_words(evidence.bench), *setting(evidence.bench))
    else:
        yield UNMEASURED
    for table in all_tables(evidence):
        yield from (table.name, *table.head)
        yield from (cell for row in (*table.stages, *table.rows) for cell in row.cells)
    yield from map(flame_words, evidence.flames)
    yield "What was done"
    for number, recipe in enumerate(story.applied, 1):
        yield f"{number}. {recipe.id}: {recipe.title}"
        yield from recipe.why
        for fact in recipe.facts():
            yield from (fact.label, *fact.values)
    yield "What was left alone, and why"
    for recipe in story.left:
        yield from (recipe.id, recipe.title, recipe.status, recipe.reason)
    yield "Changed files"
    for file in story.files:
        yield from (file.path, f"+{file.added}", f"-{file.removed}", *file.rules)
    yield from story.new_files
    yield GUARD
    yield "How to use it"
    for command in story.commands:
        yield from command


def plain(text: str) -> str:
    """Words alone: no marks of Markdown, one kind of dash, single blanks."""
    return " ".join(re.sub(r"[`*|\\]", "", text.replace("−", "-")).split())


def shown(review: Review) -> dict[str, str]:
    stream = io.StringIO()
    console.show(review_text(review), stream=stream)
    reader = Text()
    reader.feed(page(review))
    return {
        "terminal": stream.getvalue(),
        "report.md": html.unescape(markdown(review.story, review.evidence)),
        "page": "".join(reader.parts),
    }


def check(review: Review) -> None:
    for where, told in shown(review).items():
        text, at = plain(told), 0
        for fact in map(plain, facts(review)):
            found = text.find(fact, at)
            assert found >= 0, f"{where} does not tell {fact!r} after {text[max(0, at - 80) : at]!r}"
            at = found + len(fact)


def test_the_plan_and_the_fork_tell_the_same(tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork")
    assert open_review(fork.path).story == story_of_plan(small_plan())
    before = (fork.path / "report.md").read_bytes()
    refresh(fork.path)
    assert (fork.path / "report.md").read_bytes() == before
    assert sorted(path.name for path in fork.path.iterdir() if path.name.startswith(".")) == []


def test_a_fresh_fork_is_told_alike(tmp_path: Path) -> None:
    review = open_review(small_fork(tmp_path / "fork").path)
    assert [*facts(review)].count(UNVERIFIED) == 1
    check(review)


@pytest.mark.parametrize("holds", [True, False])
def test_what_was_found_is_told_alike(holds: bool, tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork").path
    add_verification(fork, holds=holds)
    add_bench(fork)
    add_profiles(fork)
    review = open_review(fork)
    told = [*facts(review)]
    assert ("The fork breaks its promise." in told) == (not holds)
    assert "Most likely from: scale-late" in told or holds
    assert any("0.25 of stock's" in fact for fact in told)
    assert any(fact.startswith("Too noisy") for fact in told)
    check(review)
    refresh_around(fork / "measured" / "profile-stock.json")
    assert (fork / "report.md").read_text("utf-8") == markdown(review.story, review.evidence)
    refresh_around(tmp_path / "elsewhere" / "profile-stock.json")


def test_a_profile_of_one_side_is_told_without_ratios(tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork").path
    add_profiles(fork)
    (fork / "measured" / "profile-stock.json").unlink()
    review = open_review(fork)
    (table,) = all_tables(review.evidence)
    assert table.head == ["", "fork"]
    assert table.stages[0].cells == ["Resize", "6.00 ms"]
    check(review)


def test_changes_since_apply_are_told_first(tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork").path
    (fork / MODEL).write_text("something else\n")
    review = open_review(fork)
    assert review.evidence.warning.startswith(f"Changed since apply: {MODEL}.")
    assert [(file.added, file.removed) for file in review.story.files] == [(2, 2)]
    check(review)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("verification.json", "{"),
        ("verification.json", '{"processor": {"holds": true}}'),
        ("measured/bench.json", "[]"),
        ("measured/profile-fork.json", "{}"),
    ],
)
def test_a_damaged_file_is_one_clear_line(name: str, text: str, tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork").path
    (fork / name).parent.mkdir(exist_ok=True)
    (fork / name).write_text(text)
    with pytest.raises(VlmoptError, match=re.escape(name)) as error:
        open_review(fork)
    assert "\n" not in str(error.value)
