"""What needs an engine says so in one line where there is none; all else works without."""

from pathlib import Path

import pytest

from tests.cli.command import vlmopt_alone
from vlmopt.specs import list_specs

NAME = list_specs()[0].name


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "."],
        ["bench", "."],
        ["profile", "--model", NAME],
        ["golden", "check"],
        ["golden", "record"],
        ["models", "build", NAME, "--out", "models"],
    ],
    ids=" ".join,
)
def test_what_needs_an_engine_says_how_to_get_it(words: list[str], tmp_path: Path) -> None:
    done = vlmopt_alone(*words, cwd=tmp_path)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.count("\n") == 1
    assert "install them (uv sync --group engine)" in done.err


@pytest.mark.parametrize(
    "words",
    [["models", "list"], ["models", "show", NAME], ["rules", "list"], ["rules", "check"]],
    ids=" ".join,
)
def test_what_needs_none_works_without(words: list[str], tmp_path: Path) -> None:
    done = vlmopt_alone(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.out
