"""The measurements of one place of the matrix, as they come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from vlmopt.measure.bench_file import STOCK, Measured, Point, Served, Side, Transfer
from vlmopt.measure.matrix import FIRST, Place
from vlmopt.measure.spread import compare

WORTH_A_RATIO = 0.01
"""A stage has ratios where all sides spend such a share of stock's time to first token on it, or more."""


@dataclass
class Rounds:
    """What each round measured, by side."""

    values: dict[Side, list[float]] = field(default_factory=dict)

    def add(self, side: Side, value: float) -> None:
        """Takes in one measurement."""
        self.values.setdefault(side, []).append(value)

    def measured(self) -> Measured | None:
        """Medians and ratios; None where nothing was measured."""
        return compare(self.values) if self.values else None


@dataclass
class BurstRounds:
    """Bursts of one concurrency: the rate of each, and the latency of every request."""

    rate: Rounds = field(default_factory=Rounds)
    latency: dict[Side, list[float]] = field(default_factory=dict)

    def served(self) -> Served:
        """Requests a second with ratios; latencies without, because the rate has them."""
        return Served(
            rate=compare(self.rate.values, "requests/s"), latency=compare(self.latency, ratios=False)
        )


@dataclass
class Record:
    """One place: see `vlmopt.measure.bench_file.Point`."""

    place: Place
    prompt_tokens: int | None = None
    refused: str | None = None
    transfer: dict[Side, Transfer] = field(default_factory=dict)
    decode: Rounds = field(default_factory=Rounds)
    processor: Rounds = field(default_factory=Rounds)
    latency: dict[int, Rounds] = field(default_factory=dict)
    stages: dict[str, Rounds] = field(default_factory=dict)
    served: dict[int, BurstRounds] = field(default_factory=dict)

    def add_stages(self, side: Side, seconds: Mapping[str, float]) -> None:
        """Takes in the stages of one request."""
        for stage, value in seconds.items():
            self.stages.setdefault(stage, Rounds()).add(side, value)

    def measured(self) -> Iterator[Measured]:
        """Everything that the offline engines have measured of this place so far."""
        yield from (found for rounds in self.latency.values() if (found := rounds.measured()))
        if found := self.processor.measured():
            yield found
        yield from self._stages().values()

    def rates(self) -> Iterator[Measured]:
        """The same of the servers."""
        for bursts in self.served.values():
            if found := bursts.rate.measured():
                yield found

    def point(self) -> Point:
        """All of it, for the file."""
        latency = {tokens: found for tokens, rounds in self.latency.items() if (found := rounds.measured())}
        return Point(
            size=self.place.size,
            images=self.place.images,
            prompt_tokens=self.prompt_tokens,
            refused=self.refused,
            decode=self.decode.measured(),
            processor=self.processor.measured(),
            stages=self._stages(),
            transfer=self.transfer,
            latency=latency,
            served={at_once: bursts.served() for at_once, bursts in self.served.items()},
        )

    def _stages(self) -> dict[str, Measured]:
        first = self.latency[FIRST].values if FIRST in self.latency else {}
        least = WORTH_A_RATIO * median(first[STOCK]) if first else 0.0
        return {
            stage: compare(
                rounds.values,
                ratios=all(median(values) >= least and min(values) > 0 for values in rounds.values.values()),
            )
            for stage, rounds in self.stages.items()
            if any(any(values) for values in rounds.values.values())
        }
