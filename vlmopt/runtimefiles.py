"""The files of vlmopt/runtime that a fork carries. A file brings the files that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from vlmopt.errors import RuleError
from vlmopt.folders import runtime_folder

PACKAGE = "vllm/vlmopt_runtime"
"""Where they stand in a fork."""


def with_imports(names: Iterable[str], folder: Path | None = None) -> list[str]:
    """The files in `names` and every file of the same folder that they import, directly or not; sorted.

    Raises:
        RuleError: one of them is not there.
    """
    folder = folder or runtime_folder()
    found: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue.extend(_imports(folder / name))
    return sorted(found)


def fork_files(names: Iterable[str], folder: Path | None = None) -> dict[str, str]:
    """Fork path -> text of these files, and of the package's `__init__.py` when there are any."""
    folder = folder or runtime_folder()
    wanted = set(names)
    if wanted:
        wanted.add("__init__.py")
    return {f"{PACKAGE}/{name}": _read(folder / name) for name in sorted(wanted)}


@cache
def _imports(path: Path) -> frozenset[str]:
    """Files of the same folder that a Python file imports, anywhere in it."""
    names: set[str] = set()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(_read(path))):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                modules = [alias.name for alias in node.names] if node.module is None else [node.module]
                names.update(f"{module.partition('.')[0]}.py" for module in modules)
    return frozenset(names)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuleError(f"the runtime file {path} cannot be read: {error.strerror}") from None
