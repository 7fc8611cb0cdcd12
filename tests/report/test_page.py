"""The review page is one file: nothing is loaded, and nothing but its own script may run."""

import base64
import hashlib
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest

from vlmopt.errors import UsageError
from vlmopt.report.review import open_review, write_page

from .plans import MODEL, small_fork


class Page(HTMLParser):
    """Collects the tags, their attributes, what style and script hold, and the lines of code."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.lines: list[str] = []
        self.inner: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if ("class", "l") in attrs:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] in ("style", "script"):
            self.inner.setdefault(self.tags[-1], data)
        elif self.lines:
            self.lines[-1] += data


@pytest.fixture
def page(tmp_path: Path) -> Page:
    path = tmp_path / "review.html"
    small_fork(tmp_path / "fork")
    write_page(open_review(tmp_path / "fork"), path)
    page = Page()
    page.feed(path.read_text())
    return page


def test_it_is_self_contained(page: Page) -> None:
    assert not {"img", "iframe", "object", "embed", "base", "form", "video", "audio"} & set(page.tags)
    references = {value for name, value in page.attributes if name in ("href", "src")}
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {"#recipe-scale-late", "#recipe-pin"} <= references
    assert {(value or "").removeprefix("#") for value in references} - {"data:,"} <= set(ids)
    assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == []


def test_its_policy_lets_in_its_own_style_and_script_alone(page: Page) -> None:
    (policy,) = [value for name, value in page.attributes if value and value.startswith("default-src 'none'")]
    for kind in ("style", "script"):
        digest = hashlib.sha256(page.inner[kind].encode()).digest()
        assert f"{kind}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert "unsafe" not in policy


def test_it_shows_the_lines_as_they_are(page: Page) -> None:
    lines = [line.strip() for line in page.lines]
    assert "return pixels / 255" in lines
    assert "return pixels  # <b>late</b> & 'raw'" in lines
    assert "b" not in page.tags


def test_it_can_show_one_recipe(tmp_path: Path) -> None:
    small_fork(tmp_path / "fork")
    review = open_review(tmp_path / "fork", "pin")
    assert list(review.patches) == ["pin"]
    write_page(review, tmp_path / "pin.html")
    page = (tmp_path / "pin.html").read_text()
    assert MODEL in page
    assert "Shown: pin. Not shown: 1 more." in page
    assert 'href="#recipe-scale-late"' not in page
    with pytest.raises(UsageError, match=r"guess changed nothing in .*: skipped \(its contract"):
        open_review(tmp_path / "fork", "guess")
    with pytest.raises(UsageError, match="did you mean pin"):
        open_review(tmp_path / "fork", "pins")


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    small_fork(tmp_path / "fork")
    review = open_review(tmp_path / "fork")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write .*file/where.*; name another file with --html"):
        write_page(review, tmp_path / "file" / "where.html")
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        write_page(review, target)
    assert sorted(os.listdir(tmp_path)) == ["file", "fork", "taken"]
