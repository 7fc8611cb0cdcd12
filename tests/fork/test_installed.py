"""A fork of the vLLM that is installed here, with the rules that come with vlmopt."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.models import own_specs
from vlmopt.fork import Fork, write_fork
from vlmopt.plan import make_plan
from vlmopt.rules import load_rules
from vlmopt.runtime.guard import problem
from vlmopt.sources import find_installed

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Fork:
    tree = find_installed()
    assert tree is not None
    plan = make_plan(tree, own_specs()[0], load_rules())
    return write_fork(plan, tmp_path_factory.mktemp("installed") / "fork", "")


def test_every_file_of_stock_is_there_and_none_leads_nowhere(fork: Fork) -> None:
    tree = find_installed()
    assert tree is not None
    for path in tree.paths():
        place = fork.path / path
        assert place.is_symlink() != (path in fork.lock.files)
        assert place.is_file()


def test_git_am_takes_the_patches_on_stocks_files(fork: Fork, tmp_path: Path) -> None:
    tree = find_installed()
    assert tree is not None
    for path, digests in fork.lock.files.items():
        if digests["before"]:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(tree.read(path).encode())
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@localhost"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "stock"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "am", "-q", *map(str, fork.patches.values())], check=True)
    for path in fork.lock.files:
        if path not in ("vllm/__init__.py", "vllm/vlmopt_runtime/guard.py"):
            assert (tmp_path / path).read_bytes() == (fork.path / path).read_bytes()


def test_the_check_of_stock_is_quick(fork: Fork) -> None:
    code = (
        "import json, hashlib, time; from vlmopt.runtime.guard import problem\n"
        "best = 1.0\n"
        "for _ in range(5):\n"
        f"    start = time.perf_counter(); assert problem({str(fork.path)!r}) is None\n"
        "    best = min(best, time.perf_counter() - start)\n"
        "print(best)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert problem(str(fork.path)) is None
    assert float(done.stdout) < 0.010


@pytest.mark.slow
def test_the_vllm_command_runs_and_tells_the_forks_version(fork: Fork) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vlmopt.cli", "run", str(fork.path), "--", "vllm", "--version"],
        env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tag = f"{fork.lock.vllm['version']}+{fork.lock.vllm['build']}.vlmopt".replace("+.", "+")
    assert done.stdout.strip().endswith(tag)
