"""Where a vLLM tree is read from: the installed package, a folder, a wheel or sdist file, a release.

`open_tree` gives a `Tree` for any of them. Files are read one by one when they are asked for; nothing of
the tree is ever imported or run.
"""

from __future__ import annotations

from pathlib import Path

from packaging.version import InvalidVersion, Version

from vlmopt.errors import SourceError
from vlmopt.sources.archive import SdistTree, WheelTree
from vlmopt.sources.local import FolderTree, find_installed, open_folder
from vlmopt.sources.plugin import InstalledPlugin, PluggedTree, find_plugin, plugged
from vlmopt.sources.tree import Progress, Tree

__all__ = [
    "PINNED_RELEASE",
    "FolderTree",
    "InstalledPlugin",
    "PluggedTree",
    "Progress",
    "Tree",
    "find_installed",
    "find_plugin",
    "open_tree",
    "plugged",
]

PINNED_RELEASE = "0.33.0"
"""The release that is fetched where no vLLM is installed and none is named."""


def open_tree(source: str | None = None, *, progress: Progress | None = None) -> Tree:
    """Opens the vLLM tree that `source` names.

    Args:
        source: `installed`, a folder, a `.whl` or `.tar.gz` file, or a release number. None is the installed
            package where there is one, else the pinned release.
        progress: called while files are fetched.

    Raises:
        SourceError: the source cannot be found, fetched or read.
    """
    if source is None or source == "installed":
        installed = find_installed()
        if installed is not None:
            return installed
        if source == "installed":
            raise SourceError("no vllm package is installed here: install it, or name a source with --vllm")
        source = PINNED_RELEASE
    if _is_release(source):
        from vlmopt.sources.release import open_release  # brings what only a network needs

        return open_release(source, progress=progress)
    path = Path(source).expanduser()
    if path.is_dir():
        return open_folder(path)
    if path.is_file() and path.name.endswith((".whl", ".tar.gz")):
        tree = WheelTree(path.absolute()) if path.suffix == ".whl" else SdistTree(path.absolute())
        tree.exists("vllm/__init__.py")  # an unreadable archive is said here, not at the first file
        return tree
    raise SourceError(
        f"{source!r} is no vLLM source: name `installed`, a folder, a .whl or .tar.gz file, or a release"
    )


def _is_release(source: str) -> bool:
    try:
        Version(source)
    except InvalidVersion:
        return False
    return True
