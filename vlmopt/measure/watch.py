"""The other side of the timers: turns them on around one request, and says where its time went."""

from __future__ import annotations

import heapq
import itertools
import json
import mmap
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from vlmopt.engine.child import Closing
from vlmopt.engine.environment import engine_environment
from vlmopt.measure.probe import ABSENT, DEVICE, RECORD, SWITCH, TABLE, TIMED
from vlmopt.measure.stages import BEGIN, END, OTHER, Stage, StageTable, stage_table

_INSIDE = Path(__file__).with_name("inside")
_FORK_ONLY = "vllm.vlmopt_runtime."
_MODEL = "model:"

T = TypeVar("T")


@dataclass(frozen=True)
class Called:
    """One call that a timer saw: times in ns of the monotonic clock, and what was counted."""

    call: int
    start: int
    end: int
    nbytes: int = 0
    copies: int = 0
    pinned: int = 0


@dataclass(frozen=True)
class Watched(Generic[T]):
    """One request. `seconds` has every stage and `OTHER`, and adds up to `total`, the time outside.

    `to_engine` counts the bytes that go to the engine; `to_device`, `copies` and `pinned` the bytes that are
    put on the device, by how many copies, and how many of them from page-locked memory.
    """

    answer: T
    total: float
    seconds: Mapping[str, float]
    calls: Mapping[str, int]
    to_engine: int = 0
    to_device: int = 0
    copies: int = 0
    pinned: int = 0


@dataclass(frozen=True)
class Names:
    """What became of the table's names in the processes that were watched, and the device that they run on.

    `accelerator` is the device's own name; None on a CPU.
    """

    timed: frozenset[str]
    absent: frozenset[str]
    device: str
    accelerator: str | None


class Watch(Closing):
    """A folder for timers, and the switch that turns them on.

    Start processes with `environment(fork)` added to theirs, then `watch` one request after another. Close it
    when they have ended: nothing is left behind.
    """

    def __init__(self, table: StageTable | None = None) -> None:
        self.table = table or stage_table()
        self._stages = dict(_calls(self.table))
        self._names = list(self._stages)
        self._moments = [
            (_moment(span.from_, self._names), _moment(span.to, self._names), stage.id)
            for stage in self.table.stages
            for span in stage.spans
        ]
        self._scratch = tempfile.TemporaryDirectory(prefix="vlmopt-probe-")
        self._folder = Path(self._scratch.name)
        (self._folder / TABLE).write_text(json.dumps(self._table_object()), "utf-8")
        (self._folder / SWITCH).write_bytes(b"\0")
        with (self._folder / SWITCH).open("r+b") as file:
            self._switch = mmap.mmap(file.fileno(), 1)

    def close(self) -> None:
        """Removes the folder. Closing twice does nothing."""
        self._switch.close()
        self._scratch.cleanup()

    def environment(self, fork: Path | None) -> dict[str, str]:
        """What a process with stock vLLM, or with the fork in that folder, needs for the timers."""
        path = engine_environment(fork, self._folder)["PYTHONPATH"]
        return {"VLMOPT_PROBE": str(self._folder), "PYTHONPATH": os.pathsep.join([str(_INSIDE), path])}

    def watch(self, request: Callable[[], T]) -> Watched[T]:
        """Makes one request with the timers on. Requests must not overlap."""
        self._switch[0] = 1
        try:
            begin = time.perf_counter_ns()
            answer = request()
            end = time.perf_counter_ns()
        finally:
            self._switch[0] = 0
        return self._watched(answer, begin, end, [called for called in self._called() if called.start < end])

    def names(self) -> Names:
        """What became of the names. Those of a fork's own files are not missed in stock."""
        told = [
            line.split(" ", 1)
            for path in self._folder.glob("*.names")
            for line in path.read_text("utf-8").splitlines()
        ]
        timed = {name for what, name in told if what == TIMED}
        absent = {name for what, name in told if what == ABSENT}
        missed = {name for name in self._names if not name.startswith(_FORK_ONLY)} | absent
        device = next((name for what, name in told if what == DEVICE), "cpu")
        kind, _, name = device.partition(" ")
        return Names(frozenset(timed), frozenset(missed - timed), kind, name or None)

    def of_stage(self, stage: Stage) -> list[str]:
        """The names that are timed for a stage."""
        return [name for name, found in self._stages.items() if found == stage.id]

    def _table_object(self) -> dict[str, object]:
        counts = {call.call: call.counts for stage in self.table.stages for call in stage.calls}
        device = {stage.id for stage in self.table.stages if stage.device}
        entries = [
            {"number": number, "name": name, "counts": counts.get(name), "device": stage in device}
            for number, (name, stage) in enumerate(self._stages.items())
        ]
        return {
            "loaders": self.table.loaders,
            "calls": [entry for entry in entries if not str(entry["name"]).startswith(_MODEL)],
            "model": [
                entry | {"attribute": str(entry["name"]).removeprefix(_MODEL)}
                for entry in entries
                if str(entry["name"]).startswith(_MODEL)
            ],
        }

    def _called(self) -> Iterator[Called]:
        for path in self._folder.glob("*.spans"):
            for start, end, nbytes, call, copies, pinned in RECORD.iter_unpack(path.read_bytes()):
                if start and end:
                    yield Called(call, start, end, nbytes, copies, pinned)

    def _watched(self, answer: T, begin: int, end: int, called: Sequence[Called]) -> Watched[T]:
        called = [one for one in called if one.start >= begin]
        stages = list(self._stages.values())
        intervals = [(one.start, one.end, stage) for one in called if (stage := stages[one.call])]
        intervals += self._spans(begin, end, called)
        seconds = dict.fromkeys([*self.table.ids, OTHER], 0.0)
        for stage, nanoseconds in attribute(intervals, begin, end).items():
            seconds[stage] += nanoseconds / 1e9
        calls: dict[str, int] = defaultdict(int)
        for _, _, stage in intervals:
            calls[stage] += 1
        counts = [one for one in called if one.nbytes]
        copies = [one for one in counts if one.copies]
        copies = [one for one in copies if not any(_holds(one, other) for other in copies)]
        return Watched(
            answer,
            (end - begin) / 1e9,
            seconds,
            dict(calls),
            to_engine=sum(one.nbytes for one in counts if not one.copies),
            to_device=sum(one.nbytes for one in copies),
            copies=sum(one.copies for one in copies),
            pinned=sum(one.pinned for one in copies),
        )

    def _spans(self, begin: int, end: int, called: Sequence[Called]) -> Iterator[tuple[int, int, str]]:
        for from_, to, stage in self._moments:
            start, stop = _time_of(from_, begin, end, called), _time_of(to, begin, end, called)
            if start is not None and stop is not None and stop > start:
                yield start, stop, stage


def attribute(intervals: Sequence[tuple[int, int, str]], begin: int, end: int) -> dict[str, int]:
    """Shares out the time between `begin` and `end`: each moment goes to the interval that began last.

    Intervals are (start, end, name), all in one unit, such as ns; what none covers goes to `OTHER`. In one
    thread the interval that began last is the innermost; across threads and processes it is the one that the
    others wait for, where a request is alone.
    """
    shares: dict[str, int] = defaultdict(int)
    waiting = sorted(intervals, reverse=True)
    edges = sorted({begin, end, *(min(max(edge, begin), end) for one in intervals for edge in one[:2])})
    active: list[tuple[int, int, str]] = []
    for left, right in itertools.pairwise(edges):
        while waiting and waiting[-1][0] <= left:
            start, stop, name = waiting.pop()
            heapq.heappush(active, (-start, stop, name))
        while active and active[0][1] <= left:
            heapq.heappop(active)
        # What has ended lies deeper in the heap until it comes up; the top is what counts.
        shares[active[0][2] if active else OTHER] += right - left
    return dict(shares)


def _calls(table: StageTable) -> Iterator[tuple[str, str]]:
    """(name, stage id) of everything that is timed; "" for what only marks a moment."""
    for stage in table.stages:
        for call in stage.calls:
            yield call.call, stage.id
        for attribute_ in stage.model:
            yield f"{_MODEL}{attribute_}", stage.id
    taken = {call.call for stage in table.stages for call in stage.calls}
    for stage in table.stages:
        for span in stage.spans:
            for moment in (span.from_, span.to):
                name = moment.partition(" ")[2]
                if name and name not in taken:
                    yield name, ""


def _moment(text: str, names: Sequence[str]) -> tuple[str, int]:
    kind, _, name = text.partition(" ")
    return kind, names.index(name) if name else -1


def _time_of(moment: tuple[str, int], begin: int, end: int, called: Sequence[Called]) -> int | None:
    kind, number = moment
    if kind in (BEGIN, END):
        return begin if kind == BEGIN else end
    times = [one.start if kind == "start" else one.end for one in called if one.call == number]
    if not times:
        return None
    return min(times) if kind == "start" else max(times)


def _holds(outer: Called, inner: Called) -> bool:
    return outer is not inner and outer.start <= inner.start and inner.end <= outer.end
