"""What `vlmopt golden` refuses before it asks anybody: exit codes, and one line that says what to do."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import vlmopt
from tests.support.models import golden_names
from vlmopt.errors import EquivalenceError
from vlmopt.folders import golden_folder
from vlmopt.golden.cases import cases_of
from vlmopt.golden.check import check_inputs
from vlmopt.golden.files import read_golden
from vlmopt.small import WEIGHTS
from vlmopt.specs import load_spec

pytestmark = pytest.mark.engine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden outputs."""
    return Path(shutil.copytree(golden_folder(), tmp_path / "golden"))


def test_a_changed_file_is_an_equivalence_that_does_not_hold(folder: Path) -> None:
    name = golden_names()[0]
    path = folder / f"{name}.json"
    content = json.loads(path.read_text("utf-8"))
    content["cases"]["photo"]["third_party"]["logits"][0][0][1] += 1e-3
    path.write_text(json.dumps(content), "utf-8")
    done = vlmopt("golden", "check", "--model", name, "--folder", folder, "--json")
    assert done.code == 1
    assert "was changed after it was recorded" in done.err
    assert json.loads(done.out)["error"]["exit_code"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "no-such-model"], "no model spec answers to"),
        (["--model", golden_names()[0], "--folder", "."], "vlmopt golden record"),
        (["--fork", "."], "is no fork"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, words: list[str], says: str) -> None:
    done = vlmopt("golden", "check", *words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


def test_a_fork_for_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    one, other = golden_names()[:2]
    fork = tmp_path / "fork"
    assert vlmopt("apply", "--model", one, "--vllm", "installed", "--out", fork).code == 0
    done = vlmopt("golden", "check", "--model", other, "--fork", fork, "--folder", folder)
    assert done.code == 2
    assert f"is a fork for {one}, not for {other}" in done.err


@pytest.mark.parametrize("name", golden_names())
def test_outputs_are_compared_for_the_same_weights_prompts_and_pixels_alone(name: str) -> None:
    golden, cases = read_golden(golden_folder(), name), cases_of(load_spec(name))
    weights = golden.weights[WEIGHTS]
    check_inputs(golden, cases, weights)
    first, *others = cases
    (image,) = first.images
    pixel = image.copy()
    pixel.putpixel((0, 0), (0, 0, 0))
    for wrong, says in [
        ((cases, "0" * 64), "weights"),
        ((others, weights), "other cases are asked"),
        (([replace(first, prompt="?"), *others], weights), f"case {first.name} has another prompt"),
        (([replace(first, images=(pixel,)), *others], weights), "other pixels"),
    ]:
        with pytest.raises(EquivalenceError, match=says):
            check_inputs(golden, *wrong)
