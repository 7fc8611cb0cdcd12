"""Builds an installable wheel from a fork (PEP 427).

A fork that overlays a plug-in beside vLLM becomes two wheels, one of each distribution: a wheel with both
would lay files over those of the plug-in's own.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vlmopt.errors import SourceError, UsageError
from vlmopt.fork.complete import complete_links
from vlmopt.fork.distinfo import fork_version
from vlmopt.fork.links import FILE_MODE, PROGRAM_MODE, stock_entries
from vlmopt.fork.lock import Fork, own_version
from vlmopt.fork.plugin import installed_plugin
from vlmopt.runtime.guard import problem
from vlmopt.sources import Progress

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can say
_CHUNK = 1 << 20
_WRITTEN_HERE = {"WHEEL", "RECORD", "INSTALLER"}


def build_wheel(fork: Fork, out: Path, *, progress: Progress | None = None) -> Path:
    """Builds the wheel of a fork's vLLM: all of it with the changes in it, nothing linked.

    The same fork gives the same bytes. The file is written beside its place and renamed at the end.

    Args:
        fork: completed first when it holds the changed files alone.
        out: the wheel file, or a folder to put it in under its proper name (which pip insists on).
        progress: called with bytes packed and to pack.

    Returns:
        The wheel's path.

    Raises:
        SourceError: the fork cannot be completed, or does not fit the vLLM beside it.
        UsageError: `out` is no place for a wheel, or cannot be written.
    """
    fork = _ready(fork)
    if out.is_dir():
        out = out / wheel_name(fork)
    elif out.suffix != ".whl":
        raise UsageError(f"{out} is no wheel's name: end it with .whl, or name a folder")
    files = stock_entries(fork.path)[1]
    info = f"vllm-{_version(fork)}.dist-info"
    return _write(_Contents(fork.path, fork.path, files, info, _tag(fork), pure=False), out, progress)


def build_plugin_wheel(fork: Fork, folder: Path, *, progress: Progress | None = None) -> Path | None:
    """Builds the wheel of the plug-in that a fork overlays, with the changes in it, into a folder.

    It holds every file that the plug-in's own wheel has laid, and its version has the local tag `vlmopt`.

    Returns:
        The wheel's path; None where there is no plug-in, or where it is used from its sources (editable):
        then only its own build knows what belongs in its wheel, and the patches are to be taken there.

    Raises:
        SourceError: the plug-in is not installed any more, or does not fit the fork.
        UsageError: the folder cannot be written.
    """
    plugin = fork.lock.plugin
    if plugin is None or plugin.kind != "installed":
        return None
    fork = _ready(fork)
    installed = installed_plugin(fork)
    if installed.version != plugin.version:
        raise SourceError(
            f"{fork.path} was made with {plugin.words}, but {installed.words} is installed: "
            "run `vlmopt apply` again"
        )
    (info,) = (path.name for path in fork.path.glob("*.dist-info") if not path.name.startswith("vllm-"))
    files = [path for path in installed.files if not path.startswith("..") and ".dist-info/" not in path]
    stem = info.removesuffix(".dist-info")
    tag = "py3-none-any"
    if any(path.endswith(".so") for path in files):
        stated = re.search(r"^Tag: (\S+)$", installed.metadata().get("WHEEL", ""), re.MULTILINE)
        tag = stated[1] if stated else _tag(fork)
    contents = _Contents(fork.path, installed.root, files, info, tag, pure=tag.endswith("-any"))
    return _write(contents, folder / f"{stem}-{tag}.whl", progress)


def _ready(fork: Fork) -> Fork:
    """The fork, whole. Raises SourceError when it cannot be made so, or does not fit what is beside it."""
    fork = complete_links(fork)
    trouble = problem(str(fork.path))
    if trouble is not None:
        raise SourceError(trouble)
    return fork


@dataclass(frozen=True)
class _Contents:
    """What a wheel holds: `files` from the fork or, where it has none of that name, from `beside`."""

    fork: Path
    beside: Path
    files: list[str]
    info: str
    tag: str
    pure: bool

    def source(self, path: str) -> Path:
        own = self.fork / path
        return own if own.exists() else self.beside / path


def _write(contents: _Contents, out: Path, progress: Progress | None) -> Path:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}-")
        try:
            with os.fdopen(handle, "wb") as file:
                _pack(contents, file, progress)
            os.chmod(unfinished, FILE_MODE)
            os.replace(unfinished, out)
        finally:
            Path(unfinished).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from None
    return out


def wheel_name(fork: Fork) -> str:
    """The name by which pip takes the wheel, such as `vllm-0.32.0+cpu.vlmopt-cp38-abi3-linux_x86_64.whl`."""
    return f"vllm-{_version(fork)}-{_tag(fork)}.whl"


def _version(fork: Fork) -> str:
    return fork_version(fork.lock.vllm["version"], fork.lock.vllm["build"])


def _tag(fork: Fork) -> str:
    """Compatibility tag, from what the compiled modules say; a distributor's own tag is not always true."""
    modules = [path for path in stock_entries(fork.path)[1] if path.endswith(".so")]
    if not modules:
        return "py3-none-any"
    versions = {found[1] for path in modules if (found := re.search(r"\.cpython-(\d+)[^/]*\.so$", path))}
    python = f"cp{max(versions)}-cp{max(versions)}" if versions else "cp38-abi3"
    stock = fork.path / f"vllm-{_version(fork)}.dist-info" / "WHEEL"
    stated = re.search(
        r"^Tag: \S+-([^\s-]+)$", stock.read_text("utf-8") if stock.is_file() else "", re.MULTILINE
    )
    platform = stated[1] if stated and stated[1] != "any" else re.sub(r"[-.]", "_", sysconfig.get_platform())
    return f"{python}-{platform}"


def _pack(contents: _Contents, file: BinaryIO, progress: Progress | None) -> None:
    info, files = contents.info, contents.files
    about = {
        path.relative_to(contents.fork).as_posix()
        for path in (contents.fork / info).rglob("*")
        if path.is_file() and path.name not in _WRITTEN_HERE
    }
    total = sum(contents.source(path).stat().st_size for path in files)
    done = 0
    record = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [*files, *sorted(about)]:
            source = contents.source(path)
            mode = PROGRAM_MODE if os.access(source, os.X_OK) else FILE_MODE
            digest = hashlib.sha256()
            size = 0
            with source.open("rb") as data, archive.open(_entry(path, mode), "w", force_zip64=True) as member:
                for chunk in _chunks(data):
                    digest.update(chunk)
                    size += len(chunk)
                    member.write(chunk)
                    if progress:
                        progress("Packing the wheel", min(done + size, total), total)
            done += size
            record.append(_record_line(path, digest.digest(), size))
        wheel = (
            f"Wheel-Version: 1.0\nGenerator: vlmopt ({own_version()})\n"
            f"Root-Is-Purelib: {str(contents.pure).lower()}\nTag: {contents.tag}\n"
        ).encode()
        archive.writestr(_entry(f"{info}/WHEEL", FILE_MODE), wheel)
        record.append(_record_line(f"{info}/WHEEL", hashlib.sha256(wheel).digest(), len(wheel)))
        record.append(f"{info}/RECORD,,\n")
        archive.writestr(_entry(f"{info}/RECORD", FILE_MODE), "".join(record))


def _entry(path: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, wherever this runs
    entry.external_attr = (0o100000 | mode) << 16
    return entry


def _record_line(path: str, digest: bytes, size: int) -> str:
    name = f'"{path}"' if "," in path else path
    return f"{name},sha256={base64.urlsafe_b64encode(digest).decode().rstrip('=')},{size}\n"


def _chunks(data: BinaryIO) -> Iterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk
