"""Benchmarks as `vlmopt bench` writes them, with times that a test chooses."""

from collections.abc import Sequence

from vlmopt.measure.bench import noise_of
from vlmopt.measure.bench_file import FORK, STOCK, Bench, Machine, Memory, Point, Served, Transfer
from vlmopt.measure.spread import compare

CALM = (1.0, 1.01, 0.99, 1.0, 1.005)


def point_of(
    size: str = "640x480", stock: Sequence[float] = CALM, fork: Sequence[float] = CALM, share: float = 0.25
) -> Point:
    """Everything takes the fork `share` of stock's time; `stock` and `fork` are how the rounds vary."""

    def times(scale: float) -> dict:
        return {STOCK: [scale * each for each in stock], FORK: [share * scale * each for each in fork]}

    rates = {STOCK: [5 / each for each in stock], FORK: [5 / share / each for each in fork]}
    return Point(
        size=size,
        images=1,
        prompt_tokens=100,
        decode=compare({side: list(CALM) for side in (STOCK, FORK)}),
        processor=compare(times(0.06)),
        stages={"resize": compare(times(0.05)), "prefill": compare(times(0.1))},
        transfer={
            STOCK: Transfer(to_engine=47_700_000, to_device=47_700_000, copies=2, pinned=0),
            FORK: Transfer(to_engine=920_000, to_device=920_000, copies=1, pinned=0),
        },
        latency={1: compare(times(0.2)), 16: compare(times(0.3))},
        served={4: Served(rate=compare(rates, "requests/s"), latency=compare(times(0.8), ratios=False))},
    )


def bench_of(*points: Point, others: float | None = 0.01) -> Bench:
    """A benchmark of these points."""
    return Bench(
        model="a-model",
        title="A model",
        vllm="1.2.3",
        recipes=["uint8-transfer"],
        weights="seeded",
        switch=None,
        settings={"dtype": "bfloat16"},
        started="2026-11-30T05:00:00+00:00",
        seconds=123.4,
        machine=Machine(
            cpu="a processor",
            cores=2,
            memory=1 << 34,
            system="Linux",
            device="cpu",
            accelerator=None,
            threads=1,
            versions={"vllm": "1.2.3"},
        ),
        points=list(points),
        memory=[Memory(process="engine", host={STOCK: 1 << 30, FORK: 1 << 29}, rise={STOCK: 9, FORK: 1})],
        noise=noise_of(list(points), others),
    )
