"""`vlmopt verify` as a user meets it: what it refuses, and what it prints."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fork.cases import make_plan_of, make_rules, make_stock
from vlmopt.fork import Fork, write_fork
from vlmopt.verify.casefile import CaseFile, encode, write_case
from vlmopt.verify.images import ImageCase
from vlmopt.verify.requests import RequestCase
from vlmopt.verify.result import RESULT_NAME

from .command import vlmopt
from .conftest import Applied

START_S = 400
"""Two processes with vLLM start, and for a failing fork two more for each step of the search for the rule."""

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture
def foreign(tmp_path: Path) -> Fork:
    """A fork of a vLLM of another release, which lies beside it."""
    plan = make_plan_of(make_stock(tmp_path / "site-packages"), make_rules(tmp_path / "rules"))
    return write_fork(plan, tmp_path / "fork", "report\n")


@pytest.fixture
def own(applied: Applied, tmp_path: Path) -> Iterator[Path]:
    """A copy of a real fork that a test may change."""
    copy = tmp_path / "fork"
    shutil.copytree(applied.fork, copy, symlinks=True)
    yield copy
    shutil.rmtree(copy)


def refusal(*words: str | Path, **changes: str) -> str:
    """The one line of stderr of a `verify` that cannot be made."""
    done = vlmopt("verify", *words, **changes)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    return line


def test_a_folder_that_is_no_fork(tmp_path: Path) -> None:
    assert "is no fork: write one with `vlmopt apply" in refusal(tmp_path)


def test_a_fork_of_another_release(foreign: Fork, applied: Applied) -> None:
    line = refusal(foreign.path, "--model", applied.spec.name)
    assert f"is a fork of vLLM {foreign.lock.vllm['version']}, but" in line
    assert "install" in line


def test_without_an_engine(applied: Applied) -> None:
    line = refusal(applied.fork, PYTHONPATH=str(without_vllm(applied.fork.parent)))
    assert "none is installed here: install vLLM" in line


def without_vllm(into: Path) -> Path:
    """A folder whose sitecustomize hides the installed vLLM from the search for it."""
    folder = into / "hide"
    folder.mkdir(exist_ok=True)
    root = Path(__file__).parents[2]
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(root)!r})\n"
        "import vlmopt.sources.local as local\nlocal.find_installed = lambda *_, **__: None\n"
        "import vlmopt.sources as sources\nsources.find_installed = local.find_installed\n"
    )
    return folder


def test_numbers_and_names_that_make_no_sense(applied: Applied, tmp_path: Path) -> None:
    assert "there is no level 'deep'; choose processor, tower, engine" in refusal(
        applied.fork, "--level", "deep"
    )
    assert "at least one example" in refusal(applied.fork, "--examples", "0")
    assert "has no config.json" in refusal(applied.fork, "--folder", tmp_path)
    assert "cannot read" in refusal(applied.fork, "--replay", tmp_path)
    (tmp_path / "case.json").write_text("{}")
    assert "is damaged" in refusal(applied.fork, "--replay", tmp_path)


def test_a_vllm_that_does_not_start(own: Path, tmp_path: Path) -> None:
    file = own / "vllm/multimodal/__init__.py"
    file.unlink()
    file.write_text("raise RuntimeError('no kernels for this machine')\n", "utf-8")
    line = refusal(own, TMPDIR=str(tmp_path))
    assert f"the process with the fork {own} ended with exit code 1; its last line was:" in line
    assert "no kernels for this machine" in line
    log = Path(line.partition("it wrote is in ")[2].partition(":")[0])
    assert log.parent == tmp_path
    assert "Traceback" in log.read_text("utf-8")


def test_an_equal_fork(own: Path) -> None:
    done = vlmopt("verify", own, "--examples", "2", seconds=START_S)
    assert (done.code, done.err) == (0, "")
    assert "The fork is equal to stock." in done.out
    assert "vision tower inputs" in done.out
    assert json.loads((own / RESULT_NAME).read_text("utf-8"))["processor"]["examples"] == 2


def change(fork: Path) -> tuple[Path, str]:
    """Changes a file of a fork for the worse: the file, and what it was."""
    file = fork / "vllm/multimodal/utils.py"
    text = file.read_text("utf-8")
    file.unlink()
    file.write_text(text + WRONG, "utf-8")
    return file, text


def test_a_case_is_run_again(own: Path, applied: Applied, tmp_path: Path) -> None:
    change(own)
    case = (RequestCase((ImageCase(2, 1),), ("",)),)
    version = Fork.open(own).lock.vllm["version"]
    write_case(
        tmp_path / "case",
        CaseFile(applied.spec.name, version, "processor", "processor", 0, encode(case), []),
        [],
    )
    done = vlmopt("verify", own, "--replay", tmp_path / "case", seconds=START_S)
    assert done.code == 1
    assert "The fork breaks its promise." in done.out
    assert "vision tower inputs: batch 1" in done.out


@pytest.mark.long
def test_a_changed_fork_fails_and_its_case_can_be_run_again(own: Path) -> None:
    file, text = change(own)
    done = vlmopt("verify", own, "--examples", "20", "--json", seconds=START_S)
    found = json.loads(done.out)
    assert (done.code, found["holds"]) == (1, False)
    failure = found["failure"]
    assert "vision tower inputs: batch 1" in failure["breaches"][0]
    assert "vllm/multimodal/utils.py" in failure["culprit"]
    assert found["changed"] == ["vllm/multimodal/utils.py"]
    assert failure["case"][1].startswith("  image 1: 1x1")
    assert len(failure["case"]) == 2
    again = vlmopt("verify", own, "--replay", failure["folder"], seconds=START_S)
    assert again.code == 1
    assert "The fork breaks its promise." in again.out
    file.write_text(text, "utf-8")
    mended = vlmopt("verify", own, "--replay", failure["folder"], seconds=START_S)
    assert mended.code == 0


WRONG = """

_stock_batches = group_and_batch_mm_kwargs


def group_and_batch_mm_kwargs(mm_kwargs, **options):
    for modality, items, batch in _stock_batches(mm_kwargs, **options):
        largest = max((v for v in batch.values() if isinstance(v, torch.Tensor)), key=torch.numel)
        largest.view(-1).view(torch.uint8)[-1] ^= 1
        yield modality, items, batch
"""
