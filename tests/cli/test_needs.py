"""What needs an engine says so in one line where there is none; all else works without."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment

# An import of one of these fails, as where it is not installed.
WITHOUT = """
import sys
for name in ("vllm", "transformers", "torch", "torchvision", "accelerate", "PIL", "numpy"):
    sys.modules[name] = None
from vlmopt.cli import main
main()
"""


def alone(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "group"),
    [
        (["verify", "."], "engine"),
        (["bench", "."], "engine"),
        (["profile", "--model", "internvl3-2b"], "engine"),
        (["golden", "check"], "engine"),
        (["golden", "record"], "engine"),
        (["models", "build", "internvl3-2b", "--out", "models"], "engine"),
        (["argus", "train", "--stage", "1", "--out", "out"], "argus"),
        (["argus", "eval"], "argus"),
        (["argus", "show", "photo.jpg"], "argus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_what_needs_an_engine_says_how_to_get_it(words: list[str], group: str, tmp_path: Path) -> None:
    done = alone(words, tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1
    assert f"install them (uv sync --group {group})" in done.stderr


@pytest.mark.parametrize(
    "words",
    [["models", "list"], ["models", "show", "argusvlm-tiny"], ["rules", "list"], ["rules", "check"]],
    ids=" ".join,
)
def test_what_needs_none_works_without(words: list[str], tmp_path: Path) -> None:
    done = alone(words, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
