"""Medians, ratios, and how far the ratio of a second run may lie from this one.

Sides alternate, so measurement i of one side belongs to measurement i of the other: a *round*. Ratios are of
medians over all rounds. Their standard error comes from the bootstrap: rounds are drawn again with
replacement, whole, and the spread of the logarithm of the ratio is taken. Two runs differ by the square root
of two times as much, so that 19 times of 20 they lie within

    again = exp(t * sqrt(2) * error) - 1

of each other, with Student's t for as many rounds as there were. This sees what changes from round to round;
what slows a whole run shows in the machine's other work (`vlmopt.measure.machine`).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np

from vlmopt.measure.bench_file import STOCK, Measured, Ratio, Sample, Side

_DRAWS = 1000
_CONFIDENCE = 0.95


def sample_of(values: Sequence[float]) -> Sample:
    """Count, median, quartiles and 95th percentile of at least one value."""
    low, median, high, p95 = (float(value) for value in np.percentile(values, (25, 50, 75, 95)))
    return Sample(count=len(values), median=median, low=low, high=high, p95=p95)


def ratio_of(stock: Sequence[float], side: Sequence[float]) -> Ratio:
    """The ratio of the medians of two sides that were measured in the same rounds, all above zero."""
    top, bottom = np.asarray(side, np.float64), np.asarray(stock, np.float64)
    rounds = len(bottom)
    value = float(np.median(top) / np.median(bottom))
    if rounds < 2:
        return Ratio(value=value, again=None)
    # The same measurements give the same answer.
    drawn = np.random.default_rng(zlib.crc32(top.tobytes() + bottom.tobytes())).integers(
        0, rounds, (_DRAWS, rounds)
    )
    logs = np.log(np.median(top[drawn], axis=1)) - np.log(np.median(bottom[drawn], axis=1))
    # The bootstrap's variance is too small by (n - 1) / n.
    error = float(logs.std()) * math.sqrt(rounds / (rounds - 1))
    return Ratio(value=value, again=math.expm1(_students_t(rounds - 1) * math.sqrt(2) * error))


def compare(
    rounds: Mapping[Side, Sequence[float]], unit: Literal["s", "requests/s"] = "s", *, ratios: bool = True
) -> Measured:
    """One thing that was measured on several sides, once a round on each. Without `ratios` it has none."""
    beside = [side for side in rounds if side != STOCK] if ratios else []
    return Measured(
        unit=unit,
        sides={side: sample_of(values) for side, values in rounds.items()},
        ratios={side: ratio_of(rounds["stock"], rounds[side]) for side in beside},
    )


def steady(measured: Measured, limit: float) -> bool:
    """Whether every ratio of a second run will lie within `limit` of this one's, as far as can be seen."""
    return all(ratio.again is not None and ratio.again <= limit for ratio in measured.ratios.values())


def _students_t(degrees: int) -> float:
    """The two-sided quantile, by its expansion around the normal one (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
