"""The unchanged part of a fork: links to stock's files, or copies of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from vlmopt.sources import Progress
from vlmopt.treepath import VLLM

FOLDER_MODE = 0o755
FILE_MODE = 0o644
PROGRAM_MODE = 0o755


def lay_stock(
    root: Path,
    fork: Path,
    changed: Collection[str],
    *,
    package: str = VLLM,
    copy: bool = False,
    earlier: Path | None = None,
    progress: Progress | None = None,
) -> None:
    """Lays every file of `root/vllm` into `fork`, but the changed ones. What is there already stays.

    Args:
        root: folder that holds stock's `vllm/`; only read.
        fork: folder of the fork.
        changed: tree paths that the fork has of its own.
        package: what to lay in place of `vllm`: a package that plugs into it.
        copy: copy the files instead of linking to them.
        earlier: a fork whose links may be shared: they outlive it, and removing it is then fast.
        progress: called while files are copied; linking takes a tenth of a second.

    Raises:
        OSError: a file cannot be written.
    """
    folders, files = stock_entries(root, package)
    for folder in folders:
        make_folder(fork / folder)
    for done, path in enumerate(files, 1):
        if path in changed:
            continue
        if copy:
            shutil.copyfile(root / path, fork / path)
            is_program = os.access(root / path, os.X_OK)
            os.chmod(fork / path, PROGRAM_MODE if is_program else FILE_MODE)
        else:
            _link(f"{root}/{path}", f"{fork}/{path}", f"{earlier}/{path}" if earlier else None)
        if copy and progress:
            progress(f"Copying {package}", done, len(files))


def _link(target: str, place: str, earlier: str | None) -> None:
    if earlier is not None:
        # A long link takes a disk block, and some file systems free one in 2 ms; a second name costs nothing.
        with suppress(OSError):
            if os.readlink(earlier) == target:
                os.link(earlier, place, follow_symlinks=False)
                return
    with suppress(FileExistsError):
        os.symlink(target, place)


def stock_entries(root: Path, package: str = VLLM) -> tuple[list[str], list[str]]:
    """Folders and files of `root/vllm`, or of another package there, by tree path, without compiled Python.

    Links to folders are followed.
    """
    folders, files = [], []
    seen: set[str] = set()
    for folder, names, here in os.walk(root / package, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back to a folder above
            names.clear()
            continue
        seen.add(real)
        names[:] = sorted(name for name in names if name != "__pycache__")
        prefix = os.path.relpath(folder, root)
        folders.append(prefix)
        files += [f"{prefix}/{name}" for name in here]
    return folders, sorted(files)


def make_folder(path: Path) -> None:
    """Makes a folder of a fork, with those above it; the mode does not hang on the user's umask."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir()
        path.chmod(FOLDER_MODE)
