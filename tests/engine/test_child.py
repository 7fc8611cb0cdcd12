"""A child process ends with all of its own, when it is told to and when its parent dies."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vlmopt.engine.child import Child, ChildError

# Starts a process of its own, says the ids of both, and waits.
FAMILY = """
import os, subprocess, time
other = subprocess.Popen(["sleep", "60"])
print(os.getpid(), other.pid, flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""
PARENT = """
import os, signal, sys, time
from pathlib import Path
from vlmopt.engine.child import Child
out = Path(sys.argv[1])
child = Child([sys.executable, "-c", sys.argv[2]], os.environ, out, patience=float(sys.argv[3]))
while not child.tail().endswith(chr(10)):
    time.sleep(0.02)
print(child.pid, child.tail(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def python(code: str, out: Path, **options: object) -> Child:
    return Child([sys.executable, "-c", code], dict(os.environ), out, **options)


def said(child: Child) -> str:
    """What the child has written, once it has written a line."""
    deadline = time.monotonic() + 20
    while "\n" not in child.tail():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child.tail().strip()


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not runs(pid)


def test_what_a_child_wrote_and_how_it_ended_is_known(tmp_path: Path) -> None:
    child = python("print('done'); raise SystemExit(7)", tmp_path / "out")
    assert child.exit_code(20) == 7
    assert child.ending() == "ended with exit code 7"
    assert child.tail() == "done\n"
    child.end()


def test_ending_a_child_ends_its_whole_group(tmp_path: Path) -> None:
    child = python(FAMILY, tmp_path / "out")
    family = [int(pid) for pid in said(child).split()]
    assert all(map(runs, family))
    child.end()
    assert all(map(ends, family))
    child.end()


def test_a_child_that_does_not_listen_is_killed_when_patience_ends(tmp_path: Path) -> None:
    child = python(DEAF, tmp_path / "out", patience=0.2)
    said(child)
    child.end()
    assert child.ending() == "was killed (signal 9; often for lack of memory)"


@pytest.mark.parametrize(("code", "patience"), [(FAMILY, "0"), (FAMILY, "0.2"), (DEAF, "0.2")])
def test_a_child_and_its_group_end_when_the_parent_is_killed(
    code: str, patience: str, tmp_path: Path
) -> None:
    parent = [sys.executable, "-c", PARENT, str(tmp_path / "out"), code, patience]
    done = subprocess.run(parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    pids = [int(word) for word in done.stdout.split() if word.isdigit()]
    assert pids
    assert all(map(ends, pids))


def test_a_child_ends_when_its_parent_forgets_it(tmp_path: Path) -> None:
    parent = [sys.executable, "-c", PARENT.replace("SIGKILL", "SIGCONT"), str(tmp_path / "out"), FAMILY, "0"]
    done = subprocess.run(parent, capture_output=True, text=True, timeout=60, check=True)
    assert all(ends(int(pid)) for pid in done.stdout.split())


def test_a_closed_pipe_is_seen_although_the_guard_lives(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    child = Child([sys.executable, "-c", "pass"], dict(os.environ), tmp_path / "out", pass_fds=[theirs])
    os.close(theirs)
    assert child.exit_code(20) == 0
    assert select.select([ours], [], [], 10)[0]
    assert os.read(ours, 1) == b""
    child.end()
    os.close(ours)


def test_an_error_is_one_line_and_keeps_the_output() -> None:
    error = ChildError("it ended", "first\nlast words\n\n")
    assert str(error) == "it ended; its last line was: last words"
    assert error.output == "first\nlast words\n\n"
    assert error.exit_code == 2
    assert str(ChildError("it ended", "")) == "it ended"
