"""What an engine leaves in its folder for temporary files is gone when the engine is."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vlmopt.engine.environment import engine_environment
from vlmopt.engine.scratch import Scratch
from vlmopt.engine.worker import Worker, WorkerDiedError

LITTER = "tests.support.litter"
WAITING = """
from vlmopt.engine.scratch import Scratch
from vlmopt.engine.worker import Worker
try:
    with Worker(child="tests.support.litter") as worker:
        print(worker.hello().vllm, flush=True)
        worker.load("nothing")
except KeyboardInterrupt:
    raise SystemExit(130)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def left(scratch: Path) -> list[str]:
    return [path.name for path in scratch.iterdir() if not path.name.startswith("vlmopt-bytecode")]


def test_nothing_is_left_of_an_engine_that_is_closed(scratch: Path) -> None:
    with Worker(child=LITTER) as worker:
        litter = Path(worker.hello().vllm)
        assert litter.is_file()
        assert litter.is_relative_to(scratch)
    assert left(scratch) == []


def test_nothing_is_left_of_an_engine_that_died(scratch: Path) -> None:
    with (
        Worker(child=LITTER, environment={"LITTER_DIES": "1"}) as worker,
        pytest.raises(WorkerDiedError, match="exit code 3"),
    ):
        worker.hello()
    assert left(scratch) == []


def test_nothing_is_left_after_an_interrupt(scratch: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env=os.environ | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    litter = Path(process.stdout.readline().strip())
    assert litter.is_file()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert left(scratch) == []


@pytest.mark.parametrize("length", [5, 40, 55, 56, 90])
def test_sockets_have_a_path_that_the_system_takes(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_RPC_BASE_PATH", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t") as home:
        folder = Path(home) / ("t" * (length - len(home) - 1)) if length > len(home) else Path(home)
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        scratch = Scratch("worker-")
        environment = engine_environment(None, scratch.path, scratch.sockets)
        assert environment["TMPDIR"] == str(scratch.path)
        assert scratch.path.is_dir()
        sockets = Path(environment.get("VLLM_RPC_BASE_PATH", environment["TMPDIR"]))
        assert (sockets == scratch.path) == (len(str(scratch.path)) <= 70)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(sockets / "00000000-0000-0000-0000-000000000000"))
        scratch.cleanup()
        scratch.cleanup()
        assert left(folder) == []
        assert not sockets.exists()


def test_a_folder_for_sockets_that_was_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", "/run/mine")
    environment = engine_environment(None, Path("/" + "t" * 90), Path("/tmp/short"))
    assert environment["VLLM_RPC_BASE_PATH"] == "/run/mine"
