"""What a fork promises about its outputs, and which differences break that promise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vlmopt.fork import Fork
from vlmopt.rules import Contract
from vlmopt.verify.compare import Difference, Stage

# What may differ when a rule is looser than exact: numbers, and what the model makes of them.
_NUMERIC = {Stage.inputs, Stage.embeddings, Stage.tokens, Stage.logprobs}
_STRICTNESS = (Contract.exact, Contract.bounded, Contract.approximate)


@dataclass(frozen=True)
class Promise:
    """The loosest contract of the rules that were applied.

    `bound` belongs to `bounded`: the largest absolute difference of a value that enters the vision tower.
    `rules` are the ids of the rules that are looser than exact.
    """

    contract: Contract
    bound: float | None = None
    rules: tuple[str, ...] = ()

    def broken_by(self, differences: Iterable[Difference]) -> list[Difference]:
        """The differences that the contract does not allow.

        Token ids, placeholder ranges, cache keys, errors, shapes and types are equal under every contract.
        Only numbers may be off, those that enter the tower by no more than `bound`.
        """
        return [each for each in differences if not self._allows(each)]

    def _allows(self, difference: Difference) -> bool:
        if self.contract is Contract.exact or difference.stage not in _NUMERIC:
            return False
        if difference.stage is not Stage.inputs:
            return True
        if difference.distance is None:
            return False
        return self.bound is None or difference.distance <= self.bound


def promise_of(fork: Fork) -> Promise:
    """The promise of a fork, from the rules in its lock."""
    applied = [rule for rule in fork.lock.rules if rule.status == "applied"]
    loose = [rule for rule in applied if Contract(rule.contract) in _STRICTNESS[1:]]
    contract = max((Contract(rule.contract) for rule in loose), key=_STRICTNESS.index, default=Contract.exact)
    bounds = [rule.bound for rule in loose if rule.bound is not None]
    bound = sum(bounds) if contract is Contract.bounded else None
    return Promise(contract, bound, tuple(rule.id for rule in loose))
