"""The review page is one file: nothing loaded, nothing run, and it shows what the patches hold."""

import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from vlmopt.errors import UsageError
from vlmopt.report.review import open_review, write_page

from .plans import MODEL, small_fork


class Page(HTMLParser):
    """Collects the tags, their attributes and the text of each table row."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append("")

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1] += data


@pytest.fixture
def page(tmp_path: Path) -> Page:
    path = tmp_path / "review.html"
    small_fork(tmp_path / "fork")
    write_page(open_review(tmp_path / "fork"), path)
    page = Page()
    page.feed(path.read_text())
    return page


def test_it_is_self_contained(page: Page) -> None:
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    references = [value or "" for name, value in page.attributes if name in ("href", "src")]
    assert references == ["#scale-late", "#pin"]
    ids = [value for name, value in page.attributes if name == "id"]
    assert ids == ["scale-late", "pin"]


def test_it_shows_the_lines_as_they_are(page: Page) -> None:
    rows = [row.strip("\n") for row in page.rows]
    assert "2-    return pixels / 255" in rows
    assert "2+    return pixels  # <b>late</b> & 'raw'" in rows
    assert "b" not in page.tags[: page.tags.index("ul")]


def test_it_can_show_one_recipe(tmp_path: Path) -> None:
    small_fork(tmp_path / "fork")
    review = open_review(tmp_path / "fork", "pin")
    assert list(review.patches) == ["pin"]
    write_page(review, tmp_path / "pin.html")
    assert MODEL in (tmp_path / "pin.html").read_text()
    with pytest.raises(UsageError, match=r"guess changed nothing in .*: skipped \(its contract"):
        open_review(tmp_path / "fork", "guess")
    with pytest.raises(UsageError, match="did you mean pin"):
        open_review(tmp_path / "fork", "pins")


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    small_fork(tmp_path / "fork")
    review = open_review(tmp_path / "fork")
    with pytest.raises(UsageError, match=r"cannot write .*no/where"):
        write_page(review, tmp_path / "no" / "where.html")
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_page(review, target)
    assert sorted(os.listdir(tmp_path)) == ["fork", "taken"]
