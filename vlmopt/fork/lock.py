"""A fork on disk and its lock: what it was made of, and what became of each rule."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vlmopt.errors import SourceError
from vlmopt.sources.local import LOCK_NAME
from vlmopt.treepath import VLLM

FORMAT = 1


@dataclass(frozen=True)
class LockedRule:
    """One rule: its file's sha256, and what became of it. `patch` is None unless the rule was applied.

    `bound` belongs to contract `bounded`: the largest absolute difference of a value that enters the tower.
    `title`, `why`, `needs` and `brings` (files of the runtime) are the rule's own; a review tells them.
    """

    id: str
    sha256: str
    contract: str
    status: str
    reason: str
    files: list[str]
    patch: str | None
    bound: float | None = None
    title: str = ""
    why: str = ""
    needs: tuple[str, ...] = ()
    brings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LockedStock:
    """The vLLM that the fork's links point to.

    Attributes:
        complete: whether the whole of vLLM is in the fork.
        root: folder that holds the `vllm/` that is linked to; None for copies, and before completion.
        sha256: files of it that must stay as they are, by tree path; compared when the fork is imported.
    """

    complete: bool
    root: str | None
    sha256: dict[str, str]


@dataclass(frozen=True)
class LockedPlugin:
    """The package outside of vLLM that the fork overlays too.

    Attributes:
        package: its top-level package, the folder's name in the fork.
        distribution: the name that it was installed under.
        version: its version.
        kind: `installed`, or `editable` where it is used from its sources.
        location: where it lay, for messages.
        root: folder that holds the package that is linked to; None for copies.
        sha256: files of it that must stay as they are, by tree path; compared when the fork is imported.
        modules: sha256 of the names of its Python files (`vlmopt.runtime.guard.modules`), compared then too:
            a new file has no link in the fork. Empty for copies.
    """

    package: str
    distribution: str
    version: str
    kind: str
    location: str
    root: str | None
    sha256: dict[str, str]
    modules: str

    @property
    def words(self) -> str:
        """Name, version and where it lay."""
        return f"{self.distribution} {self.version} ({self.kind}, {self.location})"


@dataclass(frozen=True)
class Lock:
    """The content of `vlmopt.lock.json`.

    Attributes:
        vlmopt: version of vlmopt that wrote the fork.
        vllm: `version`, `build`, `kind` and `location` of the source.
        spec: `name`, `title`, `architecture` and `sha256` of the spec, and `hub`, its first hub id or "".
        rules: every rule of the plan, in order.
        files: sha256 `before` and `after` of each file that is not stock's; `before` is None for a new file.
        stock: where the rest comes from.
        plugin: the package outside of vLLM that the model comes from; None for a model of vLLM's own.
    """

    vlmopt: str
    vllm: dict[str, str]
    spec: dict[str, str]
    rules: list[LockedRule]
    files: dict[str, dict[str, str | None]]
    stock: LockedStock
    plugin: LockedPlugin | None = None

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that the fork overlays."""
        return (VLLM, self.plugin.package) if self.plugin else (VLLM,)

    def to_json(self) -> str:
        """Sorted, so that the same plan gives the same bytes."""
        return (
            json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True, indent=2, ensure_ascii=False)
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> Lock:
        """Raises ValueError, KeyError or TypeError for a text that is no lock of this format."""
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            raise ValueError("another format")
        data["rules"] = [_rule(rule) for rule in data["rules"]]
        data["stock"] = LockedStock(**data["stock"])
        data["plugin"] = LockedPlugin(**data["plugin"]) if data.get("plugin") else None
        return cls(**data)


@dataclass(frozen=True)
class Fork:
    """A fork on disk."""

    path: Path
    lock: Lock

    @classmethod
    def open(cls, path: Path) -> Fork:
        """Opens the fork in a folder.

        Raises:
            SourceError: the folder is no fork, or its lock cannot be read.
        """
        path = path.absolute()
        try:
            text = (path / LOCK_NAME).read_text("utf-8")
        except (FileNotFoundError, NotADirectoryError):
            raise SourceError(
                f"{path} is no fork: write one with `vlmopt apply --model NAME --out {path}`"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"cannot read {path / LOCK_NAME}: {error}") from None
        try:
            return cls(path, Lock.from_json(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceError(
                f"{path / LOCK_NAME} is damaged or of another vlmopt: write the fork anew with `vlmopt apply`"
            ) from None

    @property
    def package(self) -> Path:
        """The folder `vllm` of the fork."""
        return self.path / "vllm"

    @property
    def patches(self) -> Mapping[str, Path]:
        """The patch file of each applied rule, in order."""
        return {rule.id: self.path / rule.patch for rule in self.lock.rules if rule.patch}


def _rule(data: dict[str, Any]) -> LockedRule:
    lists = {name: tuple(data.get(name, ())) for name in ("needs", "brings")}
    return LockedRule(**{**data, **lists})


def sha256(text: str) -> str:
    """Of a source file's bytes, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def own_version() -> str:
    """Version of vlmopt."""
    try:
        return importlib.metadata.version("vlmopt")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"
