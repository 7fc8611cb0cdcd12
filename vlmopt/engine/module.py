"""A module of this package that runs once in a process of its own, with stock vLLM's environment."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from vlmopt.engine.environment import engine_environment


def run_module(module: str, *arguments: str) -> str | None:
    """Runs ``python -m module arguments`` and waits: None, or where it failed its last line."""
    with tempfile.TemporaryDirectory(prefix="module-") as scratch:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=scratch,
            env=engine_environment(None, Path(scratch)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if not done.returncode:
        return None
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
