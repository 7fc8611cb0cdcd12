"""A small vLLM tree in every form that a source may have."""

import base64
import hashlib
import io
import random
import tarfile
import zipfile
from pathlib import Path

VERSION = "1.2.3"
FILES = {
    "vllm/__init__.py": '"""A tree."""\n\nfrom .version import __version__\n',
    "vllm/_version.py": f"__version__ = version = '{VERSION}'\n",
    "vllm/version.py": "from ._version import __version__\n",
    "vllm/multimodal/utils.py": "def batch(items):\r\n\treturn items  # trailing blanks  \r\n",
    "vllm/models/é.py": "NAME = 'é'\n",
    "vllm/models/empty.py": "",
}
METADATA = f"Metadata-Version: 2.4\nName: vllm\nVersion: {VERSION}\n\nAbout.\n"
ENTRY_POINTS = "[console_scripts]\nvllm = vllm.entrypoints.cli.main:main\n"


def filler(size: int) -> bytes:
    """Bytes that do not compress, the same in every run."""
    return random.Random(7).randbytes(size)


def write_tree(root: Path, files: dict[str, str] = FILES) -> Path:
    """Writes files below `root` with their newlines as they are."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    return root


def write_installed(root: Path, files: dict[str, str] = FILES, name: str = "vllm") -> Path:
    """The tree as a package manager lays it: beside its dist-info."""
    write_tree(root, files)
    info = root / f"{name.replace('-', '_')}-{VERSION}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.replace("Name: vllm", f"Name: {name}"))
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in files))
    return root


def wheel_bytes(
    files: dict[str, str] = FILES,
    *,
    name: str = "vllm",
    binary: int = 0,
    record: dict[str, str] | None = None,
) -> bytes:
    """A wheel of the tree.

    Args:
        files: its Python files.
        name: the distribution's.
        binary: size of a compiled module in it, in bytes.
        record: digests by path that its RECORD states in place of the true ones.
    """
    info = f"{name.replace('-', '_')}-{VERSION}.dist-info"
    content = {path: text.encode() for path, text in files.items()}
    content["vllm/_C.abi3.so"] = filler(binary)
    content[f"{info}/METADATA"] = METADATA.replace("Name: vllm", f"Name: {name}").encode()
    content[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    lines = []
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={(record or {}).get(path, digest)},{len(data)}\n")
    content[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return buffer.getvalue()


def sdist_bytes(files: dict[str, str] = FILES) -> bytes:
    """An sdist of the tree."""
    content = {**files, "PKG-INFO": METADATA, "pyproject.toml": "[project.scripts]\nvllm = 'vllm.cli:main'\n"}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in content.items():
            data = text.encode()
            member = tarfile.TarInfo(f"vllm-{VERSION}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
