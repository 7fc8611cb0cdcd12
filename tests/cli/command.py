"""Runs the `vlmopt` program as a user does, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def arguments(*words: str | Path) -> list[str]:
    """The command line of `vlmopt WORDS`."""
    return [sys.executable, "-m", "vlmopt.cli", *map(str, words)]


def environment(**changes: str) -> Mapping[str, str]:
    """This process's, with the checkout importable from any folder."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root, **changes}


def vlmopt(*words: str | Path, cwd: Path | None = None, seconds: float = 120, **changes: str) -> Done:
    """Runs `vlmopt WORDS` and waits, at most so long; `changes` go into its environment."""
    done = subprocess.run(
        arguments(*words),
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
