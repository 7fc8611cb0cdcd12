"""Paths inside a vLLM tree: relative, posix, and never out of it."""

from __future__ import annotations


def tree_path(path: str) -> str:
    """Gives `path` back when it stays inside the tree's `vllm/` folder.

    Raises:
        ValueError: the path is absolute, climbs, or is not in plain posix form.
    """
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") for part in parts)
    if not plain or parts[0] != "vllm" or any(c in path for c in "\\:\0") or not path.isprintable():
        raise ValueError(f"{path!r} is not a path inside the tree (vllm/..., no '..', not absolute)")
    return path
