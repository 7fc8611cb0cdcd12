"""A release of vLLM on the package index, of which only the files that are asked for are fetched.

A wheel is a zip file: its directory stands at its end, and one range request gives one file, or a run
of neighbours. What was fetched is kept in the user's cache folder under the wheel's sha256, checked
against the wheel's own RECORD when it is fetched and whenever it is read again. Where the server has no
ranges, the sdist (or else the whole wheel) is fetched and kept.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import platformdirs

from vlmopt.errors import SourceError
from vlmopt.sources.archive import ArchiveTree, SdistTree, WheelTree, metadata_names, wheel_version
from vlmopt.sources.cache import download, store
from vlmopt.sources.http import CONNECTIONS, Http, NoRanges
from vlmopt.sources.index import IndexFile, find_release, index_url
from vlmopt.sources.remote import RemoteFile, fetch_range
from vlmopt.sources.tree import UNKNOWN_VERSION, Progress, metadata_version
from vlmopt.sources.zipmember import Member, extract, read_directory

_GAP_BYTES = 128 << 10
"""Two members this near are fetched in one request: cheaper than a round trip."""
_REQUEST_BYTES = 4 << 20
"""No run of neighbours grows beyond this, so that requests can go in parallel."""


def open_release(version: str, *, progress: Progress | None = None, cache: Path | None = None) -> ArchiveTree:
    """Opens a release by its number.

    Raises:
        SourceError: there is no such release, or neither index nor cache can give it.
    """
    folder = cache or platformdirs.user_cache_path("vlmopt") / "releases"
    http = Http()
    index = index_url()
    known = folder / f"{version}-{hashlib.sha256(index.encode()).hexdigest()[:16]}.json"
    release = _Release.load(known)
    if release is None:
        release = _Release(*find_release(http, index, version))
        store(known, json.dumps(asdict(release), sort_keys=True).encode())
    where = f"release {version}"
    if release.wheel is not None:
        tree = ReleaseTree(release.wheel, http, folder, where, progress)
        try:
            tree.exists("vllm/__init__.py")
        except NoRanges:
            pass
        else:
            return tree
    whole = release.sdist or release.wheel
    assert whole is not None  # find_release gives one of the two
    path = download(whole, http, folder, progress)
    return SdistTree(path, "release") if whole is release.sdist else WheelTree(path, "release")


@dataclass(frozen=True)
class _Release:
    wheel: IndexFile | None
    sdist: IndexFile | None

    @classmethod
    def load(cls, path: Path) -> _Release | None:
        """What an earlier run found; None where there is none, or it cannot be read."""
        try:
            known = json.loads(path.read_bytes())
            return cls(*(IndexFile(**known[key]) if known[key] else None for key in ("wheel", "sdist")))
        except (OSError, ValueError, KeyError, TypeError):
            return None


class ReleaseTree(ArchiveTree):
    """A tree inside a wheel behind a network."""

    def __init__(
        self, wheel: IndexFile, http: Http, cache: Path, location: str, progress: Progress | None = None
    ) -> None:
        super().__init__("release", location)
        self._wheel = wheel
        self._http = http
        self._folder = cache / (wheel.sha256 or hashlib.sha256(wheel.url.encode()).hexdigest())
        self._progress = progress
        self._unstored: dict[str, bytes] = {}

    @cached_property
    def _versions(self) -> tuple[str, str]:
        named = wheel_version(self._wheel.filename)
        return named or metadata_version(self.metadata()) or (UNKNOWN_VERSION, "")

    def _names(self) -> Collection[str]:
        return self._directory.keys()

    @cached_property
    def _directory(self) -> dict[str, tuple[Member, str]]:
        """Python and metadata files: where each lies in the wheel, and its sha256 by the wheel's RECORD."""
        path = self._folder / "directory.json"
        try:
            return {name: (Member(*row[:-1]), row[-1]) for name, row in json.loads(path.read_bytes()).items()}
        except (OSError, ValueError, TypeError):
            pass
        directory = self._fetch_directory()
        rows = {name: [*asdict(member).values(), sha256] for name, (member, sha256) in directory.items()}
        store(path, json.dumps(rows).encode())
        return directory

    def _fetch_directory(self) -> dict[str, tuple[Member, str]]:
        remote = RemoteFile(self._http, self._wheel)
        # zipfile asks only for read, seek and tell.
        members = read_directory(remote, self.location)
        record = next((name for name in members if name.endswith(".dist-info/RECORD")), None)
        if record is None or "vllm/__init__.py" not in members:
            raise SourceError(f"{self._wheel.filename} is no wheel of vLLM; name another release")
        text = extract(remote.range(members[record]), members[record], record, self.location).decode()
        hashes = dict(_hashes(text))
        wanted = {name for name in members if name.startswith("vllm/") and name.endswith(".py")}
        wanted.update(metadata_names(members).values())
        unrecorded = sorted(wanted - hashes.keys())
        if unrecorded:
            raise SourceError(
                f"the RECORD of {self._wheel.filename} lacks {unrecorded[0]}; name another release"
            )
        return {name: (members[name], hashes[name]) for name in sorted(wanted)}

    def _bytes(self, name: str) -> bytes:
        data = self._stored(name)
        if data is None:
            self._fetch([name])
            data = self._stored(name)
        if data is None:
            raise SourceError(f"{name} in {self.location} changes while it is read; try again")
        return data

    def _stored(self, name: str) -> bytes | None:
        """A file fetched before, or None when it was not, or is not what it was."""
        if name in self._unstored:
            return self._unstored[name]
        try:
            data = (self._folder / "files" / name).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == self._directory[name][1] else None

    def prefetch(self, paths: Iterable[str]) -> None:
        """Fetches those of the files that are in the tree and not in the cache, several at a time."""
        missing = [p for p in dict.fromkeys(paths) if p in self._directory and self._stored(p) is None]
        if missing:
            self._fetch(missing)

    def _fetch(self, names: list[str]) -> None:
        runs = _runs({name: self._directory[name][0] for name in names})
        done = 0
        if self._progress:
            self._progress(f"Fetching files of {self.location}", 0, len(names))
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            for fetched in pool.map(self._fetch_run, runs):
                done += fetched
                if self._progress:
                    self._progress(f"Fetching files of {self.location}", done, len(names))

    def _fetch_run(self, run: list[str]) -> int:
        members = [self._directory[name][0] for name in run]
        start = members[0].start
        try:
            data = fetch_range(self._http, self._wheel.url, start, members[-1].end)
        except NoRanges:
            raise SourceError(
                f"the server of {self._wheel.filename} serves no ranges any more; try again"
            ) from None
        for name, member in zip(run, members, strict=True):
            content = extract(data[member.start - start : member.end - start], member, name, self.location)
            if hashlib.sha256(content).hexdigest() != self._directory[name][1]:
                raise SourceError(
                    f"{name} in {self.location} differs from the wheel's RECORD; name another source"
                )
            if not store(self._folder / "files" / name, content):
                self._unstored[name] = content
        return len(run)


def _runs(members: dict[str, Member]) -> list[list[str]]:
    """Groups of near neighbours, in the order of the wheel."""
    runs: list[list[str]] = []
    for name in sorted(members, key=lambda name: members[name].start):
        near = runs and members[name].start - members[runs[-1][-1]].end <= _GAP_BYTES
        if near and members[name].end - members[runs[-1][0]].start <= _REQUEST_BYTES:
            runs[-1].append(name)
        else:
            runs.append([name])
    return runs


def _hashes(record: str) -> Iterator[tuple[str, str]]:
    """Names and hexadecimal sha256 of a RECORD's files."""
    for row in csv.reader(io.StringIO(record)):
        if len(row) >= 2 and row[1].startswith("sha256="):
            yield row[0], base64.urlsafe_b64decode(row[1].removeprefix("sha256=") + "=").hex()
