"""A package outside of vLLM that registers its models with it, found where it is installed, never imported.

vLLM calls what such packages name under the entry point `vllm.general_plugins`. A tree with one of them
beside it (`PluggedTree`) reads `PACKAGE/...` from there and everything else from vLLM.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vlmopt.errors import SourceError
from vlmopt.sources.local import LOCK_NAME, OWN_RECORDS
from vlmopt.sources.tree import Tree, decode
from vlmopt.treepath import package_of, tree_path

ENTRY_POINT = "vllm.general_plugins"


@dataclass(frozen=True)
class InstalledPlugin:
    """A package that plugs into vLLM.

    Attributes:
        package: its top-level package, such as `acme_vlm`.
        distribution: the name that it was installed under, such as `acme-vlm`.
        version: its version.
        root: folder that holds the package.
        kind: `installed`, or `editable` where it is used from its sources.
    """

    package: str
    distribution: str
    version: str
    root: Path
    kind: str
    _recorded: importlib.metadata.Distribution = field(repr=False, compare=False)

    @property
    def location(self) -> str:
        return str(self.root / self.package)

    @property
    def words(self) -> str:
        """For messages: `acme-vlm 1.2 (installed, /somewhere/acme_vlm)`."""
        return f"{self.distribution} {self.version} ({self.kind}, {self.location})"

    def read(self, path: str) -> str:
        """Text of `PACKAGE/...`, as `Tree.read`.

        Raises:
            SourceError: the file is not in the package, or cannot be read.
        """
        target = self._locate(path)
        try:
            return decode(target.read_bytes(), path, self.location)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise SourceError(f"{path} is not in {self.words}") from None
        except OSError as error:
            raise SourceError(f"cannot read {target}: {error.strerror}") from None

    def exists(self, path: str) -> bool:
        """Whether the file `PACKAGE/...` is in the package."""
        return self._locate(path).is_file()

    def _locate(self, path: str) -> Path:
        try:
            return self.root / tree_path(path, (self.package,))
        except ValueError as error:
            raise SourceError(str(error)) from None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """All that was installed of it, as its installer recorded, below `root`; () where editable."""
        if self.kind != "installed":
            return ()
        recorded = (Path(file).as_posix() for file in self._recorded.files or ())
        return tuple(sorted(path for path in recorded if "__pycache__" not in path))

    def metadata(self) -> Mapping[str, str]:
        """The distribution's metadata files by name: `METADATA`, `entry_points.txt`, licences, ..."""
        names = {"METADATA", "WHEEL", "entry_points.txt"}
        for file in self._recorded.files or ():
            parts = Path(file).parts
            if parts[0].endswith(".dist-info") and len(parts) > 1 and parts[-1] not in OWN_RECORDS:
                names.add("/".join(parts[1:]))
        # What an installer adds for itself (uv_cache.json and the like) says nothing of the distribution.
        names = {name for name in names if not name.endswith(".json")}
        texts = {name: self._recorded.read_text(name) for name in sorted(names)}
        return {name: text for name, text in texts.items() if text is not None}


@dataclass(frozen=True)
class PluggedTree:
    """A vLLM tree with a package beside it that plugs into it. All but `PACKAGE/...` is vLLM's."""

    vllm: Tree
    plugin: InstalledPlugin

    @property
    def version(self) -> str:
        return self.vllm.version

    @property
    def build(self) -> str:
        return self.vllm.build

    @property
    def kind(self) -> str:
        return self.vllm.kind

    @property
    def location(self) -> str:
        return self.vllm.location

    @property
    def root(self) -> Path | None:
        return self.vllm.root

    def read(self, path: str) -> str:
        return self._home(path).read(path)

    def exists(self, path: str) -> bool:
        return self._home(path).exists(path)

    def paths(self, prefix: str = "vllm/") -> list[str]:
        return self.vllm.paths(prefix)

    def prefetch(self, paths: Iterable[str]) -> None:
        self.vllm.prefetch([path for path in paths if package_of(path) != self.plugin.package])

    def metadata(self) -> Mapping[str, str]:
        return self.vllm.metadata()

    def _home(self, path: str) -> Tree | InstalledPlugin:
        return self.plugin if package_of(path) == self.plugin.package else self.vllm


def plugged(tree: Tree, package: str, distribution: str, where: str) -> PluggedTree:
    """The tree with the plug-in beside it that is installed with it, or where this program runs.

    A tree that has the package beside it already is given back.

    Raises:
        SourceError: it is not installed, or registers nothing with vLLM; `where` begins the message.
    """
    if isinstance(tree, PluggedTree):
        if tree.plugin.package == package:
            return tree
        tree = tree.vllm
    return PluggedTree(tree, find_plugin(package, distribution, beside=tree.root, where=where))


def find_plugin(package: str, distribution: str, *, beside: Path | None, where: str) -> InstalledPlugin:
    """Finds a plug-in. Nothing of it is imported or run.

    Args:
        package: its top-level package.
        distribution: the name that it was installed under.
        beside: the folder that holds the `vllm/` that it plugs into; where it is no environment's, and where
            there is none, the plug-in of this environment is taken.
        where: begins the message of an error.

    Raises:
        SourceError: it is not installed, or registers nothing with vLLM.
    """
    for path in _environments(beside):
        recorded = next(iter(importlib.metadata.distributions(name=distribution, path=path)), None)
        if recorded is None:
            continue
        if not any(point.group == ENTRY_POINT for point in recorded.entry_points):
            raise SourceError(
                f"{where}: {distribution} {recorded.version} registers nothing with vLLM (no entry point "
                f"{ENTRY_POINT}), so vLLM would not know its model; name the distribution that does"
            )
        root = _root(package, path, recorded)
        if root is None:
            raise SourceError(
                f"{where}: {distribution} {recorded.version} is installed, but it brings no package "
                f"{package} with an __init__.py; correct plugin.package"
            )
        laid = any(Path(file).as_posix() == f"{package}/__init__.py" for file in recorded.files or ())
        kind = "installed" if laid and root == Path(str(recorded.locate_file(""))).absolute() else "editable"
        return InstalledPlugin(package, distribution, recorded.version, root, kind, recorded)
    place = f"beside the vLLM in {beside} or " if beside is not None else ""
    raise SourceError(
        f"{where}: the plug-in {distribution} (package {package}) is not installed {place}in this "
        f"environment; install it: pip install {distribution}"
    )


def _environments(beside: Path | None) -> Iterator[list[str]]:
    """Where to look, one environment after the other: each as Python would search it."""
    here = [entry for entry in sys.path if not Path(entry or ".", LOCK_NAME).is_file()]
    if beside is not None and beside.name == "site-packages" and str(beside) not in here:
        yield [str(beside), *_path_files(beside)]
    yield here


def _path_files(site: Path) -> list[str]:
    """Folders that the .pth files of a site-packages folder add. Lines of code in them are not run."""
    found = []
    for file in sorted(site.glob("*.pth")):
        for line in file.read_text("utf-8", errors="replace").splitlines():
            entry = line.strip()
            if entry and not entry.startswith(("#", "import ", "import\t")) and (site / entry).is_dir():
                found.append(str(site / entry))
    return found


def _root(package: str, path: Sequence[str], recorded: importlib.metadata.Distribution) -> Path | None:
    """The folder that holds the package, or None."""
    spec = PathFinder.find_spec(package, path)
    if not _is_package(spec):
        # Editable installs may answer through code of their own; they say where their sources are, too.
        spec = PathFinder.find_spec(package, _sources(recorded))
    if spec is None or spec.origin is None or not _is_package(spec):
        return None
    return Path(spec.origin).absolute().parent.parent


def _is_package(spec: ModuleSpec | None) -> bool:
    return spec is not None and spec.origin is not None and Path(spec.origin).name == "__init__.py"


def _sources(recorded: importlib.metadata.Distribution) -> list[str]:
    """The project folder of an editable install (PEP 610), and the usual `src` in it."""
    try:
        said = json.loads(recorded.read_text("direct_url.json") or "{}")
        url = urlsplit(str(said.get("url", "")))
        editable = said.get("dir_info", {}).get("editable", False)
    except (ValueError, AttributeError):
        return []
    if url.scheme != "file" or not editable:
        return []
    folder = re.sub(r"/+$", "", unquote(url.path)) or "/"
    return [folder, f"{folder}/src"]
