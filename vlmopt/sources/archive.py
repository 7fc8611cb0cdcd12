"""Trees inside an archive file on this machine: a wheel, or an sdist. Nothing is unpacked to disk."""

from __future__ import annotations

import re
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from vlmopt.errors import SourceError
from vlmopt.sources.local import OWN_RECORDS, entry_points
from vlmopt.sources.tree import (
    UNKNOWN_VERSION,
    decode,
    inside,
    metadata_version,
    module_version,
    not_in_tree,
    split_version,
)
from vlmopt.sources.zipmember import MAX_MEMBER_BYTES, Member, check_member_name, extract, read_directory


class ArchiveTree(ABC):
    """A tree whose files are members of an archive. `kind` is `wheel`, `sdist` or `release`."""

    root: Path | None = None

    def __init__(self, kind: str, location: str) -> None:
        self.kind = kind
        self.location = location

    @property
    def version(self) -> str:
        return self._versions[0]

    @property
    def build(self) -> str:
        return self._versions[1]

    @property
    @abstractmethod
    def _versions(self) -> tuple[str, str]:
        """Public version and build."""

    @abstractmethod
    def _names(self) -> Collection[str]:
        """Names of all files: `vllm/...`, and those of the metadata."""

    @abstractmethod
    def _bytes(self, name: str) -> bytes:
        """Content of a file that `_names` has."""

    def read(self, path: str) -> str:
        if not self.exists(path):
            raise not_in_tree(path, self)
        return decode(self._bytes(path), path, self.location)

    def exists(self, path: str) -> bool:
        return inside(path) in self._names()

    def paths(self, prefix: str = "vllm/") -> list[str]:
        return sorted(
            name
            for name in self._names()
            if name.startswith("vllm/") and name.startswith(prefix) and name.endswith(".py")
        )

    def prefetch(self, paths: Iterable[str]) -> None:  # noqa: B027 - not abstract: most archives are here
        """Says that these files will be read."""

    def metadata(self) -> Mapping[str, str]:
        names = metadata_names(self._names())
        self.prefetch(names.values())
        return {short: self._bytes(name).decode("utf-8", "replace") for short, name in names.items()}


class WheelTree(ArchiveTree):
    """A tree inside a wheel file."""

    def __init__(self, path: Path, kind: str = "wheel") -> None:
        super().__init__(kind, str(path))
        self._path = path

    @cached_property
    def _versions(self) -> tuple[str, str]:
        named = wheel_version(self._path.name)
        return named or metadata_version(self.metadata()) or (UNKNOWN_VERSION, "")

    @cached_property
    def _members(self) -> dict[str, Member]:
        members = read_directory(self._path, self.location)
        if "vllm/__init__.py" not in members:
            raise SourceError(f"{self._path} holds no vllm package; name a wheel of vLLM")
        return members

    def _names(self) -> Collection[str]:
        return self._members.keys()

    def _bytes(self, name: str) -> bytes:
        member = self._members[name]
        try:
            with self._path.open("rb") as file:
                file.seek(member.start)
                return extract(file.read(member.end - member.start), member, name, self.location)
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from None


class SdistTree(ArchiveTree):
    """A tree inside a `.tar.gz`: an sdist, or the archive of a checkout. Its Python files stay in memory."""

    _WANTED = re.compile(r"([^/]+)/(vllm/.+\.py|PKG-INFO|pyproject\.toml|LICENSE)")

    def __init__(self, path: Path, kind: str = "sdist") -> None:
        super().__init__(kind, str(path))
        self._path = path

    @cached_property
    def _versions(self) -> tuple[str, str]:
        top, files = self._content
        named = re.fullmatch(r"vllm-v?(\d.*)", top)
        return (
            metadata_version(self.metadata())
            or module_version(files.get("vllm/_version.py", b"").decode("utf-8", "replace"))
            or (split_version(named[1]) if named else (UNKNOWN_VERSION, ""))
        )

    @cached_property
    def _content(self) -> tuple[str, dict[str, bytes]]:
        """The archive's top folder, and its Python and metadata files by their path below it."""
        found: dict[str, dict[str, bytes]] = {}
        try:
            with tarfile.open(self._path, "r:gz") as archive:
                for info in archive:
                    check_member_name(info.name, self.location)
                    match = self._WANTED.fullmatch(info.name)
                    file = archive.extractfile(info) if match and info.isreg() else None
                    if match is None or file is None:
                        continue
                    if info.size > MAX_MEMBER_BYTES:
                        raise SourceError(f"{info.name} in {self._path} is too large for a source file")
                    found.setdefault(match[1], {})[match[2]] = file.read()
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise SourceError(f"{self._path} is not an intact .tar.gz ({error}); download it again") from None
        top = next((top for top, files in found.items() if "vllm/__init__.py" in files), None)
        if top is None:
            raise SourceError(f"{self._path} holds no vllm package; name an sdist of vLLM")
        return top, found[top]

    def _names(self) -> Collection[str]:
        return self._content[1].keys()

    def _bytes(self, name: str) -> bytes:
        return self._content[1][name]

    def metadata(self) -> Mapping[str, str]:
        files = self._content[1]
        sources = {
            "METADATA": "PKG-INFO",
            "entry_points.txt": "pyproject.toml",
            "licenses/LICENSE": "LICENSE",
        }
        found = {name: files[source] for name, source in sources.items() if source in files}
        texts = {name: data.decode("utf-8", "replace") for name, data in found.items()}
        if "entry_points.txt" in texts:
            texts["entry_points.txt"] = entry_points(texts["entry_points.txt"])
        return texts


def metadata_names(names: Iterable[str]) -> dict[str, str]:
    """Member names of a wheel's metadata files, by their name inside the dist-info folder."""
    found = {}
    for name in names:
        folder, _, short = name.partition("/")
        if folder.endswith(".dist-info") and short and short not in OWN_RECORDS:
            found[short] = name
    return found


def wheel_version(filename: str) -> tuple[str, str] | None:
    """Public version and build that a wheel's file name states, or None when the file was renamed."""
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    return split_version(str(version), name)
