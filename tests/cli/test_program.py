"""The program as a whole: how fast it answers, how it fails, how it behaves in a pipe."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from .command import arguments, environment, vlmopt


def test_help_in_a_third_of_a_second(tmp_path: Path) -> None:
    # Compiled modules are kept, as after any first run; the best of a few, for other work on the machine.
    kept = environment(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(tmp_path))
    seconds = []
    for _ in range(8):
        start = time.perf_counter()
        done = subprocess.run(arguments("--help"), env=kept, capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
    for command in ("apply", "scan", "diff", "run", "wheel", "verify", "rules", "models"):
        assert f"\n  {command} " in done.stdout
    assert min(seconds) <= 0.3


def test_help_brings_nothing_heavy() -> None:
    code = (
        "import sys\nfrom vlmopt.cli import app\n"
        "heavy = {'libcst', 'pydantic', 'rich', 'httpx', 'yaml', 'jinja2', 'vllm', 'torch'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["nope"], "No such command 'nope'"),
        (["apply"], "Missing option '--model'"),
        (["apply", "--nope"], "No such option"),
        (["apply", "--model", "x", "--allow", "anything"], "x"),
    ],
)
def test_wrong_usage_is_exit_code_2(words: list[str], hint: str) -> None:
    done = vlmopt(*words)
    assert (done.code, done.out) == (2, "")
    assert hint in done.err


def test_version() -> None:
    done = vlmopt("--version")
    assert done.code == 0
    assert done.out.strip().count(".") >= 2


def test_no_colour_in_a_pipe_even_if_forced() -> None:
    for words in (["rules", "list"], ["models", "list"]):
        assert "\x1b" not in vlmopt(*words, FORCE_COLOR="1", TERM="xterm-256color").out


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = subprocess.Popen(
        arguments("rules", "list"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    command.stdout.close()
    assert command.stderr.read() == ""
    command.stderr.close()
    assert command.wait(60) in (0, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_clear_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments("rules", "list"),
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
