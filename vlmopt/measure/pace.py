"""How long a benchmark goes on: until its ratios are steady, or its time is over."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from vlmopt.measure.bench_file import Measured
from vlmopt.measure.spread import steady

LIMIT = 0.10
"""How far the ratios of two runs may lie apart, as a share of them."""
_AIM = LIMIT / 2  # what is judged steady too early, by chance, is then still within the limit
_FEWEST, _LEAST, MOST = 2, 5, 30
QUICK_S = 5.0
"""Rounds that take less are made `_LEAST` times even when the time is over."""

T = TypeVar("T")


class Pace:
    """Counts rounds, `most` at most. `until` is a moment of the monotonic clock, or infinity."""

    def __init__(self, until: float = math.inf, most: float = MOST) -> None:
        self._until = until
        self._most = most
        self._start = time.monotonic()
        self.rounds = 0

    def another(self, measured: Iterable[Measured]) -> bool:
        """Whether to measure one more round, after what was measured so far."""
        now = time.monotonic()
        mean = (now - self._start) / self.rounds if self.rounds else 0.0
        least = _LEAST if mean < QUICK_S else _FEWEST
        if self.rounds >= self._most or (self.rounds >= least and now + mean > self._until):
            return False
        going = self.rounds < _LEAST or not all(steady(each, _AIM) for each in measured)
        self.rounds += going
        return going


def in_turn(sides: Sequence[T], round_number: int) -> list[T]:
    """The sides in the order of a round: each begins as often as any other."""
    first = round_number % len(sides)
    return [*sides[first:], *sides[:first]]
