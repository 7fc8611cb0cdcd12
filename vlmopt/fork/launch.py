"""Runs a command against a fork."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from vlmopt.errors import SourceError, UsageError
from vlmopt.fork.bytecode import share_bytecode
from vlmopt.fork.complete import complete_links
from vlmopt.fork.lock import Fork
from vlmopt.runtime.guard import problem


def run(fork: Fork, command: list[str]) -> NoReturn:
    """Becomes `command`, with the fork before everything else that Python imports.

    The process is replaced, so exit code, signals and terminal are the command's own.

    Raises:
        SourceError: the fork cannot be completed, or does not fit the vLLM beside it.
        UsageError: there is no such command.
    """
    if not command:
        raise UsageError(f"name a command: vlmopt run {fork.path} -- vllm serve ...")
    fork = complete_links(fork)
    trouble = problem(str(fork.path))
    if trouble is not None:
        raise SourceError(trouble)
    environment = fork_environment(fork, os.environ)
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None and command[0] == "vllm":
        program = _python(fork)
        command = [program, "-m", "vllm.entrypoints.cli.main", *command[1:]]
    if program is None:
        raise UsageError(f"{command[0]}: no such command; give its path, or install it")
    share_bytecode(fork.path.resolve(), Path(sys.pycache_prefix) if sys.pycache_prefix else None)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise UsageError(f"cannot run {program}: {error.strerror}") from None


def fork_environment(fork: Fork, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Python imports the fork, and `python` and `vllm` are those of stock.

    Raises:
        UsageError: the fork's path cannot stand in `PYTHONPATH`.
    """
    if os.pathsep in str(fork.path):
        raise UsageError(
            f"{fork.path}: a path with {os.pathsep!r} in it cannot be imported from; move the fork"
        )
    changed = dict(environment)
    changed["PYTHONPATH"] = _prepend(str(fork.path), environment.get("PYTHONPATH"))
    changed["PATH"] = _prepend(str(Path(_python(fork)).parent), environment.get("PATH", os.defpath))
    if any(Path(package, "__init__.py").is_file() for package in fork.lock.packages):
        # `python -m` and `python -c` put the current folder before the fork, and it holds a vllm of its own.
        changed["PYTHONSAFEPATH"] = "1"
    return changed


def _prepend(entry: str, path: str | None) -> str:
    return os.pathsep.join(
        [entry, *(part for part in (path or "").split(os.pathsep) if part and part != entry)]
    )


def _python(fork: Fork) -> str:
    """The interpreter of the environment that stock is installed in; this one where stock is a checkout."""
    root = fork.lock.stock.root
    if root is not None:
        candidate = Path(root).parent.parent.parent / "bin" / "python"
        if Path(root).name == "site-packages" and candidate.exists():
            return str(candidate)
    return sys.executable
