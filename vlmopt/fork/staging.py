"""Writes a folder beside its final place and swaps it in at the end.

A run that is killed at any moment leaves the old folder or the new one, whole. What it leaves beside it
is removed by the next run.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vlmopt.errors import UsageError
from vlmopt.sources.local import LOCK_NAME

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Gives an empty folder beside `out`, which takes `out`'s place when the block ends well.

    Raises:
        UsageError: `out` holds something that is no fork, or it cannot be written.
    """
    out = Path(os.path.realpath(out))
    staging = out.parent / f".{out.name}.vlmopt-new"
    previous = out.parent / f".{out.name}.vlmopt-old"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(out.parent):
            _clean(out, staging, previous)
            _check_replaceable(out)
            staging.mkdir()
            try:
                yield staging
                _swap(staging, out, previous)
            finally:
                with _uninterrupted():
                    _clean(out, staging, previous)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}; nothing was changed") from None


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Waits until no other run writes in `folder`. The system lets go of the lock of a killed run."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt waits for the end of the block. Only the main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
    if came:
        signal.raise_signal(signal.SIGINT)


def _clean(out: Path, staging: Path, previous: Path) -> None:
    """Removes what stands beside `out`: of this run, or of a killed one.

    Between the two renames of a swap the old folder has no other name than `previous`: it is put back.
    """
    if previous.exists() and not out.exists():
        previous.rename(out)
    for leftover in (staging, previous):
        shutil.rmtree(leftover, ignore_errors=True)


def _check_replaceable(out: Path) -> None:
    if not out.exists() or (out / LOCK_NAME).is_file() or (out.is_dir() and not any(out.iterdir())):
        return
    raise UsageError(f"{out} exists and is no fork: name another folder with --out, or remove it first")


def _swap(staging: Path, out: Path, previous: Path) -> None:
    if not out.exists():
        staging.rename(out)
    elif not _exchange(staging, out):
        out.rename(previous)
        staging.rename(out)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two folders in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(result == 0)
