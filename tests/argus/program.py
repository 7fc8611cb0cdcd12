"""Runs the `vlmopt` program inside the test's process, which has torch already."""

import sys

import pytest

from vlmopt import cli


def vlmopt(monkeypatch, capsys, *words):
    """(exit code, stdout, stderr) of `vlmopt WORDS`."""
    monkeypatch.setattr(sys, "argv", ["vlmopt", *map(str, words)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    return stop.value.code or 0, out, err
