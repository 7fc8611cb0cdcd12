"""Measures a fork against its stock, alternating, in one run on one machine."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from pathlib import Path

from vlmopt.measure import pace
from vlmopt.measure.bench_file import SWITCH, Bench, Noise, Point, bench_path, write_bench
from vlmopt.measure.dtype import Dtype, usual_dtype
from vlmopt.measure.machine import Others, machine_of
from vlmopt.measure.matrix import Matrix
from vlmopt.measure.offline import SWITCH_NAME, Engines, Tick, measure_offline
from vlmopt.measure.serving import Servers, measure_serving, sides_of
from vlmopt.measure.sessions import loaded_model
from vlmopt.plan import Status
from vlmopt.verify.subject import open_subject

OTHERS_LIMIT = 0.10
"""The share of the machine that others may have."""
_ENDING_S = 8
_BURSTS_S = 100
"""Of the time that a benchmark may take: what closing takes, and what bursts need at least."""


def bench_fork(
    folder: Path,
    matrix: Matrix,
    *,
    model: str | None = None,
    model_folder: Path | None = None,
    dtype: Dtype | None = None,
    progress: Tick | None = None,
) -> Bench:
    """Measures the fork in `folder`, and keeps the result in it.

    Args:
        folder: a fork that `apply` wrote.
        matrix: what to measure.
        model: the spec, as a name, a path or a hub id; None for the one that the fork's lock names.
        model_folder: a real model folder; None for the spec's small one.
        dtype: the model's type; None for bfloat16, or float32 on a CPU without arithmetic for it.
        progress: called as the work goes on.

    Raises:
        VlmoptError: it cannot be measured; the message says why.
    """
    started, start = datetime.now(UTC), time.monotonic()
    until = math.inf if matrix.seconds is None else start + matrix.seconds - _ENDING_S
    tick = progress or _silent
    subject = open_subject(folder, model)
    spec, fork, others = subject.spec, subject.fork, Others()
    dtype = dtype or usual_dtype()
    with loaded_model(spec, model_folder) as (loaded, weights, load_format):
        tick("Starting the engines", 0, 0)
        opened = time.monotonic()
        with Engines(fork.path, loaded, load_format, dtype) as engines:
            about = engines.load()
            starting = time.monotonic() - opened
            # Two servers are four processes.
            reserve = 1.5 * starting + _BURSTS_S
            records, offline = measure_offline(engines, loaded, matrix, others, until - reserve, tick)
            sides = list(engines.sides)
        memory = [offline]
        if any(record.refused is None and record.place in matrix.deep for record in records):
            tick("Starting the servers", 0, 0)
            with Servers(
                fork.path,
                loaded,
                sides_of(matrix, sides),
                load_format=load_format,
                dtype=dtype,
                device=about.device,
            ) as servers:
                servers.ready()
                memory.append(measure_serving(servers, records, matrix, others, until, tick))
    points = [record.point() for record in records]
    bench = Bench(
        model=spec.name,
        title=spec.title,
        vllm=subject.vllm,
        recipes=[rule.id for rule in fork.lock.rules if rule.status == Status.applied],
        weights=weights,
        switch=f"stock with {SWITCH_NAME} off" if SWITCH in sides else None,
        settings=dict(about.settings),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - start, 1),
        machine=machine_of(about, subject.vllm),
        points=points,
        memory=memory,
        noise=noise_of(points, others.share()),
    )
    write_bench(bench, bench_path(fork.path))
    return bench


def noise_of(points: list[Point], others: float | None) -> Noise:
    """Which ratios of these points another run may not give again; `others` is their share of the machine."""
    unsteady = [
        name
        for point in points
        for name, measured in point.measured()
        for ratio in measured.ratios.values()
        if ratio.again is None or ratio.again > pace.LIMIT
    ]
    return Noise(
        limit=pace.LIMIT,
        unsteady=list(dict.fromkeys(unsteady)),
        others=others,
        others_limit=OTHERS_LIMIT,
    )


def _silent(what: str, done: int, total: int) -> None:
    pass
