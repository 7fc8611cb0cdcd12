"""The third party, stock vLLM and a fork against the golden outputs, with the same seeded weights."""

from pathlib import Path

import pytest

from tests.support.models import engine_params
from tests.verify.faulty import Bench, Edit
from vlmopt.folders import golden_folder
from vlmopt.golden.cases import cases_of
from vlmopt.golden.check import Checked, Party, check, compare
from vlmopt.golden.parties import ask_vllm
from vlmopt.golden.record import make_golden
from vlmopt.small import build_small_model
from vlmopt.specs import load_spec

BLUE_FIRST = Edit(
    "vllm/vlmopt_runtime/packer.py",
    "        pixels = read_pixels(picture)",
    "        pixels = read_pixels(picture)[..., ::-1]",
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=engine_params("golden"))
def checked(request: pytest.FixtureRequest) -> Checked:
    """The outputs of all parties, one model after the other."""
    return check(load_spec(request.param), golden_folder(), None, progress=lambda what, done, total: None)


def test_everybody_gives_what_was_recorded(checked: Checked) -> None:
    assert [row for row in checked.rows if row.breaches] == []


def test_recording_again_finds_the_same_differences(checked: Checked) -> None:
    golden, spec = checked.golden, load_spec(checked.golden.model)
    third_party, stock = checked.outputs[Party.third_party], checked.outputs[Party.stock]
    again = make_golden(spec, "", cases_of(spec), third_party, stock, golden.vllm)
    assert {name: (case.why, set(case.apart)) for name, case in again.cases.items()} == {
        name: (case.why, set(case.apart)) for name, case in golden.cases.items()
    }


@pytest.mark.long
def test_a_fork_with_one_line_changed_is_apart_and_nobody_else(checked: Checked, tmp_path: Path) -> None:
    spec = load_spec(checked.golden.model)
    with Bench(tmp_path) as bench, bench.faulty(spec.name, [BLUE_FIRST]) as fork:
        outputs, _ = ask_vllm(spec, build_small_model(spec), cases_of(spec), fork)
    rows = compare(checked.golden, {**checked.outputs, Party.fork: outputs})
    assert {row.party for row in rows if row.breaches} == {Party.fork}
