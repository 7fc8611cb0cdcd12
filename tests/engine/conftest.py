"""Forks and workers that the engine tests share."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vlmopt.engine.environment import BYTECODE
from vlmopt.engine.worker import Worker

ROOT = Path(__file__).parents[2]
APPLY_S = 120


@pytest.fixture(scope="session")
def fork_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A function from a model's name to the fork that ``vlmopt apply`` makes of the installed vLLM for it."""
    into = tmp_path_factory.mktemp("forks")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def make(name: str) -> Path:
        fork = into / name
        if not fork.exists():
            command = [sys.executable, "-c", "from vlmopt.cli import main; main()", "apply", "--model", name]
            done = subprocess.run(
                [*command, "--vllm", "installed", "--out", str(fork)],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=APPLY_S,
                check=False,
            )
            if done.returncode:
                pytest.fail(f"vlmopt apply --model {name}: {done.stderr.strip()[-1500:]}", pytrace=False)
        return fork

    yield make
    shutil.rmtree(BYTECODE / into.relative_to("/"), ignore_errors=True)


@pytest.fixture(scope="module")
def stock_worker() -> Iterator[Worker]:
    """The process that runs stock vLLM's processors."""
    with Worker() as worker:
        yield worker
