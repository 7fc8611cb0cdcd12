"""A fork starts with stock's bytecode, and stock's is never written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vlmopt.fork.bytecode import share_bytecode

TAG = f".{sys.implementation.cache_tag}.pyc"


def run(home: Path, prefix: Path | None) -> str:
    """Imports the package as a process does that may write bytecode; what -v says of it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"PYTHONPATH": str(home), **({"PYTHONPYCACHEPREFIX": str(prefix)} if prefix else {})}
    done = subprocess.run(
        [sys.executable, "-v", "-c", "import vllm.same, vllm.changed; print(vllm.changed.value)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.fixture(params=["beside", "prefix"])
def prefix(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "bytecode" if request.param == "prefix" else None


def test_only_what_is_linked_is_shared(tmp_path: Path, prefix: Path | None) -> None:
    stock, fork = tmp_path / "stock", tmp_path / "fork"
    for home in (stock, fork):
        (home / "vllm").mkdir(parents=True)
    for name in ("__init__.py", "same.py", "changed.py"):
        (stock / "vllm" / name).write_text("value = 1\n")
        (fork / "vllm" / name).symlink_to(stock / "vllm" / name)
    (fork / "vllm/changed.py").unlink()
    (fork / "vllm/changed.py").write_text("value = 2\n")
    run(stock, prefix)
    caches = [Path(f"{prefix}{home}/vllm") if prefix else home / "vllm/__pycache__" for home in (stock, fork)]
    before = {path.name: path.stat().st_mtime_ns for path in caches[0].iterdir()}
    assert f"same{TAG}" in before

    share_bytecode(fork, prefix)
    assert sorted(path.name for path in caches[1].iterdir()) == [f"__init__{TAG}", f"same{TAG}"]
    said = run(fork, prefix)
    assert said.startswith("2")
    assert f"{caches[1]}/same{TAG} matches {fork}/vllm/same.py" in said
    assert f"created '{caches[1]}/changed{TAG}'" in said

    (stock / "vllm/same.py").write_text("value = 'longer'\n")
    assert f"created '{caches[1]}/same{TAG}'" in run(fork, prefix)
    assert {path.name: path.stat().st_mtime_ns for path in caches[0].iterdir()} == before
    share_bytecode(fork, prefix)
