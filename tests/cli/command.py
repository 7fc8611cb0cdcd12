"""Runs the `vlmopt` program as a user does, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# An import of one of these fails, as where it is not installed.
_WITHOUT_ENGINE = """
import sys
for name in ("vllm", "transformers", "torch", "torchvision", "accelerate", "PIL", "numpy"):
    sys.modules[name] = None
from vlmopt.cli import main
main()
"""


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
    return _run(arguments(*words), cwd, seconds, environment(**changes))


def vlmopt_alone(*words: str | Path, cwd: Path) -> Done:
    """Runs `vlmopt WORDS` as where there is no engine, only what vlmopt itself depends on."""
    return _run([sys.executable, "-c", _WITHOUT_ENGINE, *map(str, words)], cwd, 120, environment())


def _run(command: list[str], cwd: Path | None, seconds: float, variables: Mapping[str, str]) -> Done:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
