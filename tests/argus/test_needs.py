"""The commands of `vlmopt argus` say in one line what they need where it is not installed."""

import pytest

from tests.cli.command import vlmopt_alone


@pytest.mark.parametrize(
    "words", [["train", "--stage", "1", "--out", "out"], ["eval"], ["show", "photo.jpg"]], ids=" ".join
)
def test_what_is_missing_is_said(words, tmp_path):
    done = vlmopt_alone("argus", *words, cwd=tmp_path)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.count("\n") == 1
    assert "install them (uv sync --group argus)" in done.err
