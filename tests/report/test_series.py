"""Patches are read back as they were written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.errors import SourceError
from vlmopt.fork.patches import file_diff
from vlmopt.fork.series import read_patch

from .plans import MODEL, small_fork

HEAD = (
    "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
    "From: vlmopt <vlmopt@localhost>\nSubject: [PATCH 1/1] a-rule: A title\nMIME-Version: 1.0\n"
    "Content-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n"
    "Why.\n\nContract: exact\n---\n\n"
)
LINE = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12
)
TEXT = st.lists(LINE, min_size=1, max_size=12).map("\n".join)


def test_a_fork_is_read_back(tmp_path: Path) -> None:
    fork = small_fork(tmp_path / "fork")
    assert list(fork.patches) == ["scale-late", "pin"]
    patch = read_patch(fork.patches["scale-late"])
    assert (patch.title, patch.why) == ("scale-late: Title of scale-late", "Why scale-late.")
    (file,) = patch.files
    assert (file.path, file.is_new, file.added, file.removed) == (MODEL, False, 1, 1)
    removed, added = (line for line in file.lines if line.mark in ("removed", "added"))
    assert (removed.text, removed.old, removed.new) == ("    return pixels / 255", 2, None)
    assert (added.text, added.old, added.new) == ("    return pixels  # <b>late</b> & 'raw'", None, 2)


def lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


@given(TEXT, TEXT)
def test_line_numbers_and_texts_are_those_of_the_files(tmp_path_factory, before: str, after: str) -> None:
    path = tmp_path_factory.mktemp("patch") / "0001-a.patch"
    diff = file_diff("vllm/a.py", before, after)
    path.write_bytes(f"{HEAD}{diff}-- \nvlmopt 1\n\n".encode())
    patch = read_patch(path)
    assert patch.text == diff
    old, new = before.split("\n"), after.split("\n")
    for line in (line for file in patch.files for line in file.lines):
        assert line.old is None or old[line.old - 1] == line.text
        assert line.new is None or new[line.new - 1] == line.text
    assert [file.apply(before) for file in patch.files] == [after]
    assert [file.undo(lines_of(after)) for file in patch.files] in ([lines_of(before)], [])


@given(TEXT)
def test_a_new_file_is_read_back(tmp_path_factory, text: str) -> None:
    path = tmp_path_factory.mktemp("patch") / "0001-a.patch"
    path.write_bytes(f"{HEAD}{file_diff('vllm/a.py', None, text)}-- \nvlmopt 1\n\n".encode())
    assert [file.apply("") for file in read_patch(path).files] == [text]


def test_a_change_of_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0001-a.patch"
    diff = file_diff("vllm/a.py", "one\ntwo\n", "one\n2\n")
    path.write_bytes(f"{HEAD}{diff}-- \nvlmopt 1\n\n".encode())
    (file,) = read_patch(path).files
    with pytest.raises(SourceError, match="line 2 is another"):
        file.apply("one\n3\n")
    with pytest.raises(SourceError, match="line 2 is another"):
        file.undo(["one", "two"])


def test_what_is_no_patch_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "x.patch"
    with pytest.raises(SourceError, match="cannot read"):
        read_patch(path)
    path.write_text("hello\nworld\n")
    with pytest.raises(SourceError, match="is no patch of a fork"):
        read_patch(path)
