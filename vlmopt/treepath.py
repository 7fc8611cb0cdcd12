"""Paths inside a vLLM tree, or in a package that plugs into vLLM: relative, posix, and never out of it."""

from __future__ import annotations

from collections.abc import Collection

VLLM = "vllm"


def tree_path(path: str, packages: Collection[str] = (VLLM,)) -> str:
    """Gives `path` back when it stays inside the folder of one of these packages.

    Raises:
        ValueError: the path is absolute, climbs, is in another package, or is not in plain posix form.
    """
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") for part in parts)
    if not plain or parts[0] not in packages or any(c in path for c in "\\:\0") or not path.isprintable():
        inside = " or ".join(f"{package}/..." for package in packages)
        raise ValueError(f"{path!r} is not a path inside the tree ({inside}, no '..', not absolute)")
    return path


def package_of(path: str) -> str:
    """The top-level package that a tree path is in."""
    return path.partition("/")[0]
