"""Single members of a zip file, read by byte ranges: of a file here, or of one behind a network.

`zipfile` reads the central directory; members are then decoded from the bytes between two headers, so
that one range is one member, and neighbours can be fetched in one request.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from vlmopt.errors import SourceError

MAX_MEMBER_BYTES = 64 << 20
"""A larger file is no source file; refusing it keeps a crafted archive from filling the memory."""

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1


@dataclass(frozen=True)
class Member:
    """Where one member lies. Sizes and offsets in bytes; `end` is where the next header starts."""

    start: int
    end: int
    compressed: int
    size: int
    method: int
    crc: int


def read_directory(file: IO[bytes] | io.RawIOBase | Path, location: str) -> dict[str, Member]:
    """All regular members of a zip file by name.

    Raises:
        SourceError: the file is no intact zip, or a member leaves the tree.
    """
    try:
        with zipfile.ZipFile(cast("IO[bytes] | Path", file)) as archive:
            infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
            ends = [info.header_offset for info in infos[1:]] + [archive.start_dir]
    except (zipfile.BadZipFile, EOFError, struct.error, ValueError, NotImplementedError, OSError) as error:
        raise SourceError(f"{location} is not an intact wheel ({error}); download it again") from None
    members = {}
    for info, end in zip(infos, ends, strict=True):
        if not 0 <= info.header_offset <= end:
            raise SourceError(
                f"{location} is not an intact wheel ({info.filename} lies outside of it); download it again"
            )
        if info.is_dir():
            continue
        check_member_name(info.filename, location)
        if stat.S_ISLNK(info.external_attr >> 16) or info.flag_bits & _ENCRYPTED:
            raise SourceError(
                f"{location} holds a link or an encrypted file, {info.filename}; use another wheel"
            )
        members[info.filename] = Member(
            info.header_offset, end, info.compress_size, info.file_size, info.compress_type, info.CRC
        )
    return members


def check_member_name(name: str, location: str) -> None:
    """Raises SourceError when an archive member's name leads out of the archive."""
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/") or name[1:2] == ":":
        raise SourceError(f"{location} holds a file that leaves its folder, {name!r}; use an intact archive")


def extract(record: bytes, member: Member, name: str, location: str) -> bytes:
    """Content of a member, from the bytes `start` to `end` of the zip file; size and CRC are checked.

    Raises:
        SourceError: the bytes are not what the central directory says.
    """
    broken = SourceError(f"{name} in {location} is damaged; download it again")
    if member.size > MAX_MEMBER_BYTES or len(record) < _LOCAL_HEADER.size:
        raise broken
    header = _LOCAL_HEADER.unpack_from(record)
    start = _LOCAL_HEADER.size + header[9] + header[10]
    packed = record[start : start + member.compressed]
    try:
        if member.method == zipfile.ZIP_DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
        elif member.method == zipfile.ZIP_STORED:
            data = packed
        else:
            raise broken
    except zlib.error:
        raise broken from None
    if header[0] != _LOCAL_MAGIC or len(data) != member.size or zlib.crc32(data) != member.crc:
        raise broken
    return data
