"""What each contract lets pass."""

from dataclasses import replace

import pytest

from tests.report.plans import small_fork
from vlmopt.fork import Fork
from vlmopt.rules import Contract
from vlmopt.verify.compare import Difference, Stage
from vlmopt.verify.promise import Promise, promise_of

EXACT = Promise(Contract.exact)
BOUNDED = Promise(Contract.bounded, 0.01, ("a",))
APPROXIMATE = Promise(Contract.approximate, None, ("a",))


@pytest.mark.parametrize("stage", list(Stage))
def test_exact_lets_nothing_pass(stage):
    assert EXACT.broken_by([Difference(stage, "", 1e-9)])


@pytest.mark.parametrize("promise", [BOUNDED, APPROXIMATE])
@pytest.mark.parametrize("stage", [Stage.errors, Stage.token_ids, Stage.ranges, Stage.hashes])
def test_what_is_no_number_is_equal_under_every_contract(promise, stage):
    assert promise.broken_by([Difference(stage, "", 0.0)])


@pytest.mark.parametrize("promise", [BOUNDED, APPROXIMATE])
def test_another_shape_or_type_is_a_breach_under_every_contract(promise):
    assert promise.broken_by([Difference(Stage.inputs, "another shape")])


def test_bounded_lets_the_tower_inputs_be_off_by_its_bound():
    assert BOUNDED.broken_by([Difference(Stage.inputs, "", 0.01)]) == []
    assert BOUNDED.broken_by([Difference(Stage.inputs, "", 0.0101)])
    assert BOUNDED.broken_by([Difference(Stage.tokens, "")]) == []


def test_approximate_lets_every_number_pass():
    assert APPROXIMATE.broken_by([Difference(Stage.inputs, "", 5.0), Difference(Stage.logprobs, "")]) == []


def test_a_fork_promises_what_its_loosest_applied_rule_does(tmp_path):
    fork = small_fork(tmp_path / "fork")
    assert promise_of(fork) == EXACT  # its approximate rule was skipped

    applied = [rule for rule in fork.lock.rules if rule.status == "applied"]

    def with_contracts(*contracts):
        rules = [
            replace(rule, contract=contract, bound=0.01 if contract == "bounded" else None)
            for rule, contract in zip(applied, contracts, strict=True)
        ]
        return promise_of(Fork(fork.path, replace(fork.lock, rules=rules)))

    assert with_contracts("exact", "n/a") == EXACT
    assert with_contracts("bounded", "exact") == Promise(Contract.bounded, 0.01, (applied[0].id,))
    assert with_contracts("bounded", "bounded").bound == 0.02
    assert with_contracts("approximate", "bounded").contract is Contract.approximate
    assert with_contracts("approximate", "bounded").bound is None
