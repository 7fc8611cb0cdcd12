"""Side by side: every line once and as it is, like beside like, and what changed is marked."""

import html
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from vlmopt.fork.patches import file_diff
from vlmopt.fork.series import FileDiff, read_patch
from vlmopt.report.colour import coloured_lines
from vlmopt.report.sides import Block, Cell, Hunk, hunks
from vlmopt.report.versions import Version, versions

from .plans import MODEL, small_fork
from .test_series import HEAD, TEXT, lines_of

BEFORE = '''import a

class Box:
    """Many
    lines."""

    def area(self):
        return self.width * self.height

    def name(self):
        return "box"
'''
AFTER = '''import a

class Box:
    """Many
    lines."""

    def area(self):
        log(self)
        return self.width * self.depth

    def name(self):
        return "box"
'''


def diff_of(folder: Path, before: str | None, after: str, path: str = "vllm/a.py") -> FileDiff:
    patch = folder / "0001-a.patch"
    patch.write_bytes(f"{HEAD}{file_diff(path, before, after)}-- \nvlmopt 1\n\n".encode())
    (file,) = read_patch(patch).files
    return file


def version_of(before: str, after: str) -> Version:
    return Version(tuple(lines_of(before)), tuple(lines_of(after)))


def text(cell: Cell) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", str(cell.code)))


def blocks_of(found: list[Hunk]) -> list[Block]:
    return [block for hunk in found for block in hunk.blocks]


def named(line: str) -> str:
    """The line with names in the place of characters that nobody sees."""
    odd = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
    return re.sub(odd, lambda found: f"U+{ord(found[0]):04X}", line)


@given(TEXT, TEXT, st.booleans())
def test_every_line_is_shown_once_and_as_it_is(
    tmp_path_factory, before: str, after: str, whole: bool
) -> None:
    if before == after:
        return
    file = diff_of(tmp_path_factory.mktemp("sides"), before, after)
    found = blocks_of(hunks(file, version_of(before, after) if whole else None))
    assert all(len(block.old) == len(block.new) for block in found)
    for side in ("old", "new"):
        cells = [cell for block in found for cell in getattr(block, side) if cell]
        lines = [(getattr(line, side), named(line.text)) for line in file.lines if getattr(line, side)]
        assert [(cell.number, text(cell)) for cell in cells] == lines
    for block in found:
        assert block.same == (not block.adds and not block.removes)


@given(TEXT)
def test_colour_changes_no_text(source: str) -> None:
    lines = source.split("\n")
    assert ["".join(text for _, text in pieces) for pieces in coloured_lines("a.py", lines)] == lines


def test_like_stands_beside_like_and_changes_are_marked(tmp_path: Path) -> None:
    (hunk,) = hunks(diff_of(tmp_path, BEFORE, AFTER), version_of(BEFORE, AFTER))
    assert hunk.scope == "class Box > def area"
    (change,) = [block for block in hunk.blocks if not block.same]
    assert [cell and text(cell).strip() for cell in change.old] == [None, "return self.width * self.height"]
    assert [cell and text(cell).strip() for cell in change.new] == [
        "log(self)",
        "return self.width * self.depth",
    ]
    marks = [re.findall("<mark>(.*?)</mark>", str(side[1].code)) for side in (change.old, change.new)]
    assert marks == [["height"], ["depth"]]
    assert change.old[1].depth == 2


def test_the_scope_is_that_of_the_new_line(tmp_path: Path) -> None:
    body = "".join(f"    a{number}()\n" for number in range(9))
    before = f"def one():\n    gone()\n{body}\nx = 1\n"
    after = before.replace("    gone()\n", "").replace("a8", "b")
    found = [hunk.scope for hunk in hunks(diff_of(tmp_path, before, after), version_of(before, after))]
    assert found == ["def one", "def one"]


def test_the_whole_file_says_what_a_line_is(tmp_path: Path) -> None:
    before = 'x = 1\n"""' + "\nword" * 8 + '\n"""\n'
    after = before.replace("word\n", "for\n", 4).replace("for", "word", 3)
    file = diff_of(tmp_path, before, after)
    with_file = str(blocks_of(hunks(file, version_of(before, after)))[1].new[0].code)
    alone = str(blocks_of(hunks(file, None))[1].new[0].code)
    assert with_file == '<span class="s">for</span>'
    assert alone == '<span class="k">for</span>'


def test_what_nobody_sees_is_named(tmp_path: Path) -> None:
    after = BEFORE + "x = '\u202e\x1b\u200b'\n"
    added = blocks_of(hunks(diff_of(tmp_path, BEFORE, after), None))[-1].new[0]
    assert text(added) == "x = 'U+202EU+001BU+200B'"
    assert str(added.code).count('<span class="odd">') == 3


def test_versions_are_those_between_the_patches(tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork")
    series = {name: read_patch(path) for name, path in fork.patches.items()}
    found = versions(fork, series)
    assert list(found) == [("pin", MODEL), ("scale-late", MODEL)]
    assert found["scale-late", MODEL].after == found["pin", MODEL].before
    assert found["scale-late", MODEL].before[1] == "    return pixels / 255"
    (fork.path / MODEL).write_text("changed\n")
    assert versions(fork, series) == {}
