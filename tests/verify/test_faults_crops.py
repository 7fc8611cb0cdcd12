"""Faults in forks of models that crop a picture or cut it into patches: verify fails on each."""

import pytest

from tests.verify.faulty import WITHOUT_SELF_CHECK, Bench, Fault, check, faults_of

MINE = faults_of("edge-crop", "patch-grid", "fixed")

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({fault.model for fault in MINE if fault.self_check == "catches"}))
def test_a_fork_without_its_self_check_is_equal(name: str, bench: Bench) -> None:
    assert bench.verify(name, WITHOUT_SELF_CHECK, examples=20) is None


@pytest.mark.parametrize("fault", MINE, ids=lambda fault: fault.id)
def test_verify_finds_the_fault(fault: Fault, bench: Bench) -> None:
    check(fault, bench)
