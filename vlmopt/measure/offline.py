"""The offline half of a benchmark: engines with the model in their process, asked one request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from vlmopt.engine.child import Closing
from vlmopt.engine.protocol import About, Error, Load, Request, Timing
from vlmopt.engine.worker import ENGINE, Worker
from vlmopt.errors import EquivalenceError
from vlmopt.measure import processes
from vlmopt.measure.bench_file import FORK, STOCK, SWITCH, Memory, Side, Transfer
from vlmopt.measure.load import LEAVE_OUT, RefusedError
from vlmopt.measure.machine import Others
from vlmopt.measure.matrix import FIRST, Matrix, Place
from vlmopt.measure.pace import Pace, in_turn
from vlmopt.measure.photographs import jpegs
from vlmopt.measure.record import Record, Rounds
from vlmopt.measure.watch import Watch
from vlmopt.verify.parts import Model

SWITCH_NAME = "mm_device_do_normalize"
CONFIG: Mapping[str, Any] = {"mm_processor_cache_gb": 0}
"""No cache: every request does all of the work."""
ACCELERATOR: Mapping[str, Any] = {"gpu_memory_utilization": 0.28, "enforce_eager": False}
"""On an accelerator three engines share the device, and graphs are used as vLLM uses them."""
_WARM_UPS = 2
_CALLS, _MOST_CALLS, _CALLS_S = 3, 25, 0.1
"""Of the processor in a round: three, and more of quick ones for so many seconds."""

Tick = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Engine:
    """One side: its process, and the timers in it."""

    worker: Worker
    watch: Watch


class Engines(Closing):
    """Stock's offline engine and the fork's with one model; and stock's with upstream's switch turned.

    `load_format` is vLLM's; ``dummy`` for a folder without weights. `dtype` is the model's type.
    """

    def __init__(self, fork: Path, model: Model, load_format: str, dtype: str) -> None:
        self._model = model
        self._config: dict[str, Any] = {**CONFIG, "load_format": load_format, "dtype": dtype}
        self.sides: dict[Side, Engine] = {}
        with ExitStack() as stack:
            self._open(stack, STOCK, None)
            self._open(stack, FORK, fork)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the processes. Closing twice does nothing."""
        self._stack.close()

    def load(self) -> About:
        """Loads the model on all sides, and says what stock's engine is.

        Raises:
            WorkerDiedError: an engine cannot start.
        """
        stock = self.sides[STOCK].worker
        if stock.hello().device != "cpu":
            self._config |= ACCELERATOR
        self._load(self.sides, self._config)
        about = stock.about()
        if about.device_normalizes:
            self._open(self._stack, SWITCH, None)
            self._load([SWITCH], self._config | {SWITCH_NAME: False})
        return about

    @property
    def pids(self) -> list[int]:
        """The sessions of the processes."""
        return [engine.worker.pid for engine in self.sides.values()]

    def _open(self, stack: ExitStack, side: Side, fork: Path | None) -> None:
        watch = stack.enter_context(Watch())
        worker = Worker(fork, child=ENGINE, environment=watch.environment(fork))
        self.sides[side] = Engine(stack.enter_context(worker), watch)

    def _load(self, sides: Sequence[Side] | Mapping[Side, Engine], config: Mapping[str, Any]) -> None:
        workers = [self.sides[side].worker for side in sides]
        for worker in workers:
            worker.start(Load(str(self._model.folder), self._model.trust_remote_code, config))
        for worker in workers:
            worker.finish()


def measure_offline(
    engines: Engines, model: Model, matrix: Matrix, others: Others, until: float, tick: Tick
) -> tuple[list[Record], Memory]:
    """Measures every place of the matrix in rounds, each with every side in turn.

    Raises:
        WorkerDiedError: an engine has ended.
        EquivalenceError: a side refuses what stock serves.
        RefusedError: a side refuses so many tokens.
    """
    requests = {
        place: Request(
            model.requests.prompt_for(place.images), tuple(jpegs((place.width, place.height), place.images))
        )
        for place in matrix.places
    }
    resting = {side: processes.resident(engine.worker.pid) for side, engine in engines.sides.items()}
    for engine in engines.sides.values():
        processes.forget_peak(engine.worker.pid)
        engine.worker.about(forget=True)
    records = []
    for number, (place, request) in enumerate(requests.items()):
        tick(f"Warming up, {place.size}", number, len(requests))
        records.append(_warm_up(engines, matrix, place, request))
    served = [record for record in records if record.refused is None]
    end = others.stretch(engines.pids)
    pace = Pace(until)
    while served and pace.another(found for record in served for found in record.measured()):
        tick(f"Measuring the engines, round {pace.rounds}", 0, 0)
        for record in served:
            for side in in_turn(list(engines.sides), pace.rounds):
                _measure(engines.sides[side], side, record, requests[record.place])
    end()
    return records, _memory(engines, resting)


def _warm_up(engines: Engines, matrix: Matrix, place: Place, request: Request) -> Record:
    record = Record(place)
    for side, engine in engines.sides.items():
        for _ in range(_WARM_UPS):
            answer = engine.worker.latency(request)
        if isinstance(answer, Error):
            if side != STOCK:
                raise EquivalenceError(
                    f"{side} refuses {place.images} x {place.size}, which stock serves: {_line(answer)}; "
                    "run `vlmopt verify`"
                )
            record.refused = _line(answer)
            return record
        record.prompt_tokens = answer.prompt_tokens
        sent = engine.worker.time(request).sent
        record.transfer[side] = Transfer(to_engine=sent)
    tokens = (FIRST, *(matrix.tokens if place in matrix.deep else ()))
    record.latency = {number: Rounds() for number in tokens}
    return record


def _measure(engine: Engine, side: Side, record: Record, request: Request) -> None:
    """One round of one side at one place."""
    worker = engine.worker
    timings = _timings(worker, request)
    record.decode.add(side, median(timing.decode_s for timing in timings))
    record.processor.add(side, median(timing.processor_s for timing in timings))
    for tokens, rounds in record.latency.items():
        answer = worker.latency(request, tokens)
        if isinstance(answer, Error):
            raise RefusedError(
                f"{side} refuses {tokens} tokens for {record.place.size}: {_line(answer)}; {LEAVE_OUT}"
            )
        rounds.add(side, answer.seconds)
    watched = engine.watch.watch(lambda: worker.latency(request))
    record.add_stages(side, watched.seconds)
    record.transfer[side] = record.transfer[side].model_copy(
        update={"to_device": watched.to_device, "copies": watched.copies, "pinned": watched.pinned}
    )


def _timings(worker: Worker, request: Request) -> list[Timing]:
    timings: list[Timing] = []
    end = time.monotonic() + _CALLS_S
    while len(timings) < _CALLS or (len(timings) < _MOST_CALLS and time.monotonic() < end):
        timings.append(worker.time(request))
    return timings


def _memory(engines: Engines, resting: Mapping[Side, int]) -> Memory:
    peak = {side: processes.peak(engine.worker.pid) for side, engine in engines.sides.items()}
    device = {side: engine.worker.about().device_peak for side, engine in engines.sides.items()}
    return Memory(
        process="engine",
        host=peak,
        rise={side: max(0, peak[side] - resting[side]) for side in peak},
        device={side: value for side, value in device.items() if value is not None},
    )


def _line(error: Error) -> str:
    text = " ".join(error.message.split())
    return text if len(text) <= 160 else f"{text[:160]}..."
