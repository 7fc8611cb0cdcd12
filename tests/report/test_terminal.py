"""What a pipe gets is plain and whole; what a terminal gets is coloured."""

import io

import pytest

from vlmopt import console
from vlmopt.report import terminal

from .plans import small_plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO) -> str:
    console.show(terminal.plan_tables(small_plan()), stream=stream)
    return stream.getvalue()


def test_a_pipe_gets_plain_unwrapped_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(io.StringIO())
    assert "\x1b" not in text
    lines = text.splitlines()
    assert all(line == line.rstrip() for line in lines)
    (row,) = (line for line in lines if line.startswith("guess"))
    assert row.split(maxsplit=3) == [
        "guess",
        "skipped",
        "approximate",
        "its contract is approximate; --allow approximate lets it in",
    ]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_colour_unless_told_not_to(no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    text = shown(Terminal())
    assert ("\x1b[32m" in text) == (no_color == "")


def test_a_diff_goes_through_a_pipe_byte_for_byte() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n \n-a  \n+b\t\n"
    stream = io.StringIO()
    console.show(terminal.diff_text(diff), stream=stream)
    assert stream.getvalue() == diff


def test_long_lines_of_code_are_not_broken_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    console.show(terminal.diff_text("+" + "x" * 100 + "\n"), stream=stream)
    assert "x" * 100 in stream.getvalue()
