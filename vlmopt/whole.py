"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from vlmopt.errors import UsageError


def write_whole(
    path: Path, text: str, *, advice: str = "make room, or make its folder one that you may write to"
) -> None:
    """Writes beside the place first: a killed run leaves the old file. Folders above it are made.

    Raises:
        UsageError: the file cannot be written.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_text(text, "utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}; {advice}") from None
