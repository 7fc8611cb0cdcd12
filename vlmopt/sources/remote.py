"""A file behind a network, read by ranges."""

from __future__ import annotations

import io
import os

from vlmopt.sources.http import Http, NoRanges
from vlmopt.sources.index import IndexFile
from vlmopt.sources.zipmember import Member

_TAIL_BYTES = 1 << 20
"""Read from the end at first: the directory of vLLM's wheel takes two thirds of it."""


def fetch_range(http: Http, url: str, start: int, end: int) -> bytes:
    """The bytes `start` to `end` (not included) of a file behind a network."""
    response = http.get(url, {"Range": f"bytes={start}-{end - 1}"})
    if response is None or len(response.content) != end - start:
        raise NoRanges
    return response.content


class RemoteFile(io.RawIOBase):
    """A file behind a network, as much of one as zipfile needs. Its end is fetched once and kept."""

    def __init__(self, http: Http, file: IndexFile) -> None:
        self._http = http
        self._url = file.url
        response = http.get(file.url, {"Range": f"bytes=-{_TAIL_BYTES}"})
        total = response.headers.get("content-range", "").rpartition("/")[2] if response else ""
        if response is None or not total.isdigit():
            raise NoRanges
        self._tail = response.content
        self._size = int(total)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        end = min(self._position + len(buffer), self._size)
        data = self._slice(self._position, end)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def range(self, member: Member) -> bytes:
        """All bytes of a member."""
        return self._slice(member.start, member.end)

    def _slice(self, start: int, end: int) -> bytes:
        tail_start = self._size - len(self._tail)
        if start >= end:
            return b""
        if start < tail_start:
            return fetch_range(self._http, self._url, start, end)
        return self._tail[start - tail_start : end - tail_start]
