"""`vlmopt profile` of a fork whose vLLM does not start."""

import shutil
from pathlib import Path

import pytest

from vlmopt.errors import UsageError
from vlmopt.measure.profile import Wanted, profile_model
from vlmopt.specs import list_specs

from .command import vlmopt
from .conftest import Applied

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_a_fork_for_another_model(applied: Applied) -> None:
    other = next(spec for spec in list_specs() if spec.name != applied.spec.name)
    with pytest.raises(UsageError, match=f"is a fork for {applied.spec.name}, not for {other.name}"):
        profile_model(other.name, Wanted(), fork=applied.fork)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["offline", "serve"])
def test_a_vllm_that_does_not_start(applied: Applied, tmp_path: Path, engine: str) -> None:
    fork = tmp_path / "fork"
    shutil.copytree(applied.fork, fork, symlinks=True)
    file = fork / "vllm/multimodal/__init__.py"
    file.unlink()
    file.write_text("raise RuntimeError('no kernels for this machine')\n", "utf-8")
    done = vlmopt(
        "profile", "--model", applied.spec.name, "--fork", fork, "--engine", engine, TMPDIR=str(tmp_path)
    )
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert f"the fork {fork} ended with exit code 1" in line
    assert "no kernels for this machine" in line
    assert not (fork / "measured").exists()
