"""A fork's first start with the bytecode that stock has already, instead of 15 seconds of compiling."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_SUFFIX = f".{sys.implementation.cache_tag}.pyc"


def share_bytecode(fork: Path, prefix: Path | None = None) -> None:
    """Links stock's bytecode beside the files of a fork that are links to stock's.

    Python takes bytecode only for a file of the same size and time, as a link is, and replaces it without
    writing through the link: so stock is not written, and a changed file is compiled as ever.

    Args:
        fork: a fork's folder, absolute.
        prefix: PYTHONPYCACHEPREFIX of the process that will import it.
    """
    packages = [file.parent for file in fork.glob("*/__init__.py")]  # vllm, and what plugs into it
    for folder, _, names in (entry for package in packages for entry in os.walk(package)):
        ours = _cache(folder, prefix)
        there = set(os.listdir(ours)) if os.path.isdir(ours) else set()
        for name in names:
            module, extension = os.path.splitext(name)
            compiled = module + _SUFFIX
            if extension != ".py" or compiled in there or not os.path.islink(f"{folder}/{name}"):
                continue
            theirs = f"{_cache(os.path.dirname(os.readlink(f'{folder}/{name}')), prefix)}/{compiled}"
            if os.path.isfile(theirs):
                # Another process may start the same fork; where nothing can be written, it starts as ever.
                with suppress(OSError):
                    os.makedirs(ours, exist_ok=True)
                    os.symlink(theirs, f"{ours}/{compiled}")


def _cache(folder: str, prefix: Path | None) -> str:
    """Where Python keeps the bytecode of the modules in an absolute folder."""
    return f"{prefix}{folder}" if prefix else f"{folder}/__pycache__"
