"""Trees that lie unpacked on this machine: the installed package and folders."""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import PathFinder
from pathlib import Path

from vlmopt.errors import SourceError
from vlmopt.sources.tree import (
    UNKNOWN_VERSION,
    decode,
    inside,
    metadata_version,
    module_version,
    not_in_tree,
    split_version,
)

LOCK_NAME = "vlmopt.lock.json"
OWN_RECORDS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""What an installer writes about its own doing; not part of what a distribution says of itself."""


@dataclass(frozen=True)
class FolderTree:
    """A tree under `root`. A link that leaves `root` is refused, unless a package manager laid the files."""

    root: Path
    kind: str = "folder"
    _info: Path | None = field(default=None, repr=False)

    @property
    def location(self) -> str:
        return str(self.root / "vllm")

    @property
    def version(self) -> str:
        return self._versions[0]

    @property
    def build(self) -> str:
        return self._versions[1]

    @cached_property
    def _versions(self) -> tuple[str, str]:
        path = self.root / "vllm" / "_version.py"
        stated = module_version(path.read_text("utf-8", errors="replace")) if path.is_file() else None
        recorded = metadata_version(self.metadata())
        if recorded and (stated is None or recorded[0] == stated[0]):
            return recorded
        return stated or _tagged_version(self.root) or (UNKNOWN_VERSION, "")

    @cached_property
    def _real_root(self) -> Path:
        return self.root.resolve()

    def _locate(self, path: str) -> Path:
        target = self.root / inside(path)
        if self._info is None and not target.resolve().is_relative_to(self._real_root):
            raise SourceError(f"{target} is a link that leaves {self.root}; use a tree without such links")
        return target

    def read(self, path: str) -> str:
        target = self._locate(path)
        try:
            return decode(target.read_bytes(), path, self.location)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise not_in_tree(path, self) from None
        except OSError as error:
            raise SourceError(f"cannot read {target}: {error.strerror}") from None

    def exists(self, path: str) -> bool:
        return self._locate(path).is_file()

    def paths(self, prefix: str = "vllm/") -> list[str]:
        top = self.root / prefix.rpartition("/")[0]
        found = []
        for folder, names, files in os.walk(top):
            names[:] = [name for name in names if name != "__pycache__"]
            here = Path(folder).relative_to(self.root).as_posix()
            found += [f"{here}/{name}" for name in files if name.endswith(".py")]
        return sorted(path for path in found if path.startswith(prefix))

    def prefetch(self, paths: Iterable[str]) -> None:
        """Nothing to do: the files are here."""

    def metadata(self) -> Mapping[str, str]:
        if self._info is not None:
            return {
                path.relative_to(self._info).as_posix(): path.read_text("utf-8")
                for path in sorted(self._info.rglob("*"))
                if path.is_file() and path.name not in OWN_RECORDS
            }
        return _project_metadata(self.root)


def find_installed() -> FolderTree | None:
    """The vllm package that `import vllm` would find here, or None. It is not imported.

    A fork on the path (`PYTHONPATH` set by `vlmopt run`) is passed over: its stock is meant.
    """
    path = [entry for entry in sys.path if not Path(entry or ".", LOCK_NAME).is_file()]
    spec = PathFinder.find_spec("vllm", path)
    if spec is None or spec.origin is None:
        # Editable installs answer through finders of their own, which are on sys.meta_path already.
        finders = [finder for finder in sys.meta_path if finder is not PathFinder]
        specs = (finder.find_spec("vllm", None) for finder in finders if hasattr(finder, "find_spec"))
        spec = next((found for found in specs if found is not None and found.origin), None)
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).absolute().parent.parent
    return FolderTree(root, "installed", _recorded_info(root))


def open_folder(folder: Path) -> FolderTree:
    """The tree in a checkout, a `site-packages` folder, a virtual environment or the `vllm` folder itself.

    Raises:
        SourceError: there is no vllm package, or the folder is a fork.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise SourceError(f"{folder} is not a folder")
    candidates = [folder, *sorted(folder.glob("lib/python3.*/site-packages"))]
    if folder.name == "vllm":
        candidates.append(folder.parent)
    root = next((root for root in candidates if (root / "vllm" / "__init__.py").is_file()), None)
    if root is None:
        raise SourceError(
            f"no vllm package in {folder}: name a checkout, a site-packages folder or the vllm folder itself"
        )
    if (root / LOCK_NAME).is_file():
        raise SourceError(f"{root} is a fork already: name the vLLM that it was made from")
    return FolderTree(root, "folder", _recorded_info(root))


def _recorded_info(root: Path) -> Path | None:
    """The dist-info folder whose distribution laid `root/vllm`; of several, the one that fits it."""
    claims = []
    for info in sorted(root.glob("*vllm*.dist-info")):
        record = info / "RECORD"
        if record.is_file() and re.search(r"^vllm/__init__\.py,", record.read_text("utf-8"), re.MULTILINE):
            claims.append(info)
    version_file = root / "vllm" / "_version.py"
    stated = module_version(version_file.read_text("utf-8")) if version_file.is_file() else None
    for info in claims:
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if stated and split_version(version, name)[0] == stated[0]:
            return info
    return claims[-1] if claims else None


def _project_metadata(root: Path) -> dict[str, str]:
    """Metadata of a checkout or an unpacked sdist: what its build has left, else what pyproject.toml says."""
    files: dict[str, str] = {}
    for name, source in (
        ("METADATA", "PKG-INFO"),
        ("METADATA", "vllm.egg-info/PKG-INFO"),
        ("entry_points.txt", "vllm.egg-info/entry_points.txt"),
        ("licenses/LICENSE", "LICENSE"),
    ):
        path = root / source
        if path.is_file():
            files.setdefault(name, path.read_text("utf-8", errors="replace"))
    project = root / "pyproject.toml"
    if "entry_points.txt" not in files and project.is_file():
        files["entry_points.txt"] = entry_points(project.read_text("utf-8", errors="replace"))
    return files


def entry_points(pyproject: str) -> str:
    """The `entry_points.txt` that a pyproject.toml stands for; empty where it declares none."""
    import tomllib  # rarely needed, and 20 ms

    try:
        table = tomllib.loads(pyproject).get("project", {})
    except tomllib.TOMLDecodeError:
        return ""
    groups = {"console_scripts": table.get("scripts", {}), **table.get("entry-points", {})}
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in groups.items()
        if entries
    ]
    return "\n".join(sections)


def _tagged_version(root: Path) -> tuple[str, str] | None:
    """Version of the release tag that a git checkout stands on. Git is not run: its settings may run code."""
    git = root / ".git"
    if not git.is_dir() or not (git / "HEAD").is_file():
        return None
    head = (git / "HEAD").read_text("utf-8").strip()
    packed_file = git / "packed-refs"
    packed = packed_file.read_text("utf-8") if packed_file.is_file() else ""
    if head.startswith("ref: "):
        ref = head.removeprefix("ref: ")
        loose = git / ref
        found = re.search(rf"^(\w+) {re.escape(ref)}$", packed, re.MULTILINE)
        head = loose.read_text("utf-8").strip() if loose.is_file() else found[1] if found else ""
    # An annotated tag's commit stands on the line after it, behind a caret.
    tags = re.findall(r"^(\w+) refs/tags/(v\d\S*)(?:\n\^(\w+))?$", packed, re.MULTILINE)
    loose_tags = (path for path in git.glob("refs/tags/v*") if path.is_file())
    for path in loose_tags:
        commit = path.read_text("utf-8").strip()
        tags.append((commit, path.name, _tagged_commit(git, commit)))
    matching = [tag for commit, tag, peeled in tags if head and head in (commit, peeled)]
    return split_version(matching[-1]) if matching else None


def _tagged_commit(git: Path, tag: str) -> str:
    """The commit that an annotated tag's loose object names; empty for anything else."""
    try:
        text = zlib.decompress((git / "objects" / tag[:2] / tag[2:]).read_bytes())
    except (OSError, zlib.error):
        return ""
    found = re.match(rb"tag \d+\0object (\w+)\n", text)
    return found[1].decode() if found else ""
