"""Faults that only the vision tower shows: the tower level of verify sees each, and names its rule."""

import pytest

from tests.verify.faulty import ALL, FAULTS, Bench, Fault
from vlmopt.specs import load_spec
from vlmopt.verify.images import ImageCase
from vlmopt.verify.parts import TOWER, Level
from vlmopt.verify.requests import RequestCase
from vlmopt.verify.run import verify_fork
from vlmopt.verify.subject import model_of

CASE = (RequestCase((ImageCase(640, 480),), ("", "")),)
OF_TOWERS = [fault for fault in FAULTS if fault.level is Level.tower]

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize(
    "fault", [fault for fault in OF_TOWERS if ALL or fault.every_run], ids=lambda fault: fault.id
)
def test_the_tower_shows_the_fault(fault: Fault, bench: Bench) -> None:
    fork = bench.fork_of(fault.model)
    with model_of(load_spec(fault.model), None, weights=True) as model, TOWER.open(fork, model) as sides:
        assert sides.compare(CASE).differences == []
        with bench.faulty(fault.model, fault.edits), sides.beside(fork) as compare:
            assert {each.stage for each in compare(CASE).differences} == {fault.stage}


@pytest.mark.long
@pytest.mark.parametrize("fault", OF_TOWERS, ids=lambda fault: fault.id)
def test_verify_names_its_rule(fault: Fault, bench: Bench) -> None:
    with bench.faulty(fault.model, fault.edits) as fork:
        found = verify_fork(fork, level=fault.level, examples=16).failure
    assert found is not None, f"{fault} survives"
    assert found.stable
    assert all(breach.startswith(fault.stage) for breach in found.breaches), found.breaches
    assert found.culprit is not None
    assert found.culprit.startswith(f"{fault.rule} ")
