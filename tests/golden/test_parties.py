"""The third party, stock vLLM and a fork against the golden outputs, with the same seeded weights."""

import pytest

from tests.support.models import engine_params
from vlmopt.folders import golden_folder
from vlmopt.golden.cases import cases_of
from vlmopt.golden.check import Checked, Party, check
from vlmopt.golden.record import make_golden
from vlmopt.specs import load_spec

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
