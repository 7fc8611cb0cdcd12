"""A small stock, rules on it, and what a whole fork is."""

import hashlib
import os
from pathlib import Path

from tests.plan.cases import FAST_RESIZE, FILES, MOVE, NORMALIZE, PINNED, SPEC, write_rule
from tests.sources.trees import FILES as TREE_FILES
from tests.sources.trees import write_installed
from vlmopt.fork import Fork, write_fork
from vlmopt.plan import Plan, make_plan
from vlmopt.rules import load_rules
from vlmopt.sources import open_tree

STOCK_FILES = {
    **TREE_FILES,
    **FILES,
    "vllm/__init__.py": '"""A stand-in for stock."""\n\nimport vllm.version\n',
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/cli/__init__.py": "",
    "vllm/entrypoints/cli/main.py": "import sys, vllm\n\nprint(vllm.__file__, *sys.argv[1:])\n",
}
BINARY = b"\x7fELF" + bytes(range(256))


def make_stock(root: Path, name: str = "vllm") -> Path:
    """A site-packages folder with a small vLLM."""
    write_installed(root, STOCK_FILES, name)
    (root / "vllm/_C.abi3.so").write_bytes(BINARY)
    (root / "vllm/_C.abi3.so").chmod(0o755)
    (root / "vllm/configs").mkdir()
    (root / "vllm/configs/a b,c.json").write_text("{}\n")
    (root / "vllm/__pycache__").mkdir()
    (root / "vllm/__pycache__/version.cpython-311.pyc").write_bytes(b"stale")
    return root


def make_rules(folder: Path) -> Path:
    """Three rules: two on one file, one that brings a runtime file, one that is skipped."""
    folder.mkdir()
    write_rule(folder, "fast-resize", FAST_RESIZE, runtime=["keys.py"], needs=["normalize"])
    write_rule(folder, "normalize", NORMALIZE, why="Été is\n---\nFrom 9 to 5.\n\ndiff --git a/x b/x")
    write_rule(folder, "pinned", PINNED, contract="bounded", bound=0.01)
    write_rule(folder, "rough", MOVE | {"replace": "move(item)"}, contract="approximate")
    return folder


def make_plan_of(source: Path, rules: Path, **options: object) -> Plan:
    """The plan of the rules on a stock."""
    return make_plan(open_tree(str(source)), SPEC, load_rules(rules), allow="bounded", **options)  # type: ignore[arg-type]


def snapshot(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below a folder; a link's content is its target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = (
            os.readlink(path) if path.is_symlink() else path.read_bytes().hex() if path.is_file() else ""
        )
        found[path.relative_to(folder).as_posix()] = (mode, content)
    return found


def assert_whole(folder: Path) -> None:
    """Fails unless the folder is a fork with all of its files as the lock says, and all of stock."""
    fork = Fork.open(folder)
    for path, digests in fork.lock.files.items():
        assert not (folder / path).is_symlink()
        assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == digests["after"], path
    assert all(patch.is_file() for patch in fork.patches.values())
    assert (folder / "report.md").is_file()
    for path in STOCK_FILES:
        assert (folder / path).is_file(), path


__all__ = ["SPEC", "assert_whole", "make_plan_of", "make_rules", "make_stock", "snapshot", "write_fork"]
