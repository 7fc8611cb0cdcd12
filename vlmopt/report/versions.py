"""Every changed file of a fork as it was before and after each patch, worked out from the fork alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vlmopt.errors import SourceError

if TYPE_CHECKING:
    from vlmopt.fork import Fork
    from vlmopt.fork.series import Patch


@dataclass(frozen=True)
class Version:
    """The lines of a file before and after one patch; `before` is empty for a new file."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def versions(fork: Fork, patches: Mapping[str, Patch]) -> dict[tuple[str, str], Version]:
    """By recipe and path. A file that was changed since `apply`, so that its patches do not fit, is left out.

    Args:
        fork: the fork; its files are read.
        patches: its whole series, in order.
    """
    found: dict[tuple[str, str], Version] = {}
    for path in dict.fromkeys(file.path for patch in patches.values() for file in patch.files):
        try:
            found |= _of_file(path, (fork.path / path).read_bytes().decode("utf-8"), patches)
        except (OSError, UnicodeDecodeError, SourceError):
            continue
    return found


def _of_file(path: str, text: str, patches: Mapping[str, Patch]) -> dict[tuple[str, str], Version]:
    found = {}
    after = text.removesuffix("\n").split("\n") if text else []
    for recipe, patch in reversed(list(patches.items())):
        for file in patch.files:
            if file.path == path:
                before = file.undo(after)
                found[recipe, path] = Version(tuple(before), tuple(after))
                after = before
    return found
