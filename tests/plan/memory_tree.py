"""A vLLM tree in memory: given files, over those of another tree if there is one."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from vlmopt.errors import SourceError
from vlmopt.sources import Tree


class MemoryTree:
    """Holds `files`; what it does not hold is read from `below`. Paths in `without` are not there at all."""

    version = "1.2.3"
    build = ""
    kind = "folder"
    location = "memory"
    root: Path | None = None

    def __init__(
        self, files: Mapping[str, str], below: Tree | None = None, without: Iterable[str] = ()
    ) -> None:
        self.files = dict(files)
        self.below = below
        self.without = frozenset(without)
        self.prefetched: list[str] = []
        self.reads: list[str] = []

    def read(self, path: str) -> str:
        self.reads.append(path)
        if not self.exists(path):
            raise SourceError(f"{path} is not in vLLM {self.version} ({self.location})")
        if path in self.files:
            return self.files[path]
        assert self.below is not None
        return self.below.read(path)

    def exists(self, path: str) -> bool:
        below = self.below is not None and self.below.exists(path)
        return path not in self.without and (path in self.files or below)

    def paths(self, prefix: str = "vllm/") -> list[str]:
        below = [] if self.below is None else self.below.paths(prefix)
        return sorted(
            {path for path in (*self.files, *below) if path.startswith(prefix) and self.exists(path)}
        )

    def prefetch(self, paths: Iterable[str]) -> None:
        self.prefetched += paths

    def metadata(self) -> Mapping[str, str]:
        return {}
