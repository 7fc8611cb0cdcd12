"""Files kept from one run to the next. A cache file is written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from vlmopt.errors import SourceError
from vlmopt.sources.http import Http, check_status
from vlmopt.sources.index import IndexFile
from vlmopt.sources.tree import Progress

_UNFINISHED = ".unfinished-"
_ABANDONED_SECONDS = 3600


def store(path: Path, data: bytes) -> bool:
    """Writes a cache file. False where the cache cannot be written, which is no failure."""
    try:
        _write(path, [data])
    except OSError:
        return False
    return True


def download(file: IndexFile, http: Http, cache: Path, progress: Progress | None) -> Path:
    """Fetches a whole file into the cache, checks it, and gives its path.

    Raises:
        SourceError: it cannot be fetched or written, or arrives damaged.
    """
    folder = cache / (file.sha256 or hashlib.sha256(file.url.encode()).hexdigest())
    path = folder / file.filename
    if path.is_file() and (not file.sha256 or _sha256(path) == file.sha256):
        return path
    _remove_abandoned(folder)

    def checked_chunks() -> Iterator[bytes]:
        digest = hashlib.sha256()
        done = 0
        with http.stream(file.url, {}) as response:
            check_status(response)
            total = int(response.headers.get("content-length", file.size))
            for chunk in response.iter_bytes(1 << 18):
                done += len(chunk)
                digest.update(chunk)
                if progress:
                    progress(f"Fetching {file.filename}", done, max(total, done))
                yield chunk
        if file.sha256 and digest.hexdigest() != file.sha256:
            raise SourceError(f"{file.filename} arrives damaged (its sha256 is not the index's); try again")

    try:
        _write(path, checked_chunks())
    except OSError as error:
        raise SourceError(
            f"cannot write {path}: {error.strerror}; free some space or set XDG_CACHE_HOME"
        ) from None
    return path


def _remove_abandoned(folder: Path) -> None:
    """Removes what killed downloads left behind."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
            path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
