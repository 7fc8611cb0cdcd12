"""The serving half of a benchmark: OpenAI servers, alive together, and bursts of requests at each in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vlmopt.engine.child import Closing
from vlmopt.engine.server import Server
from vlmopt.measure import processes
from vlmopt.measure.bench_file import FORK, STOCK, SWITCH, Memory, Side
from vlmopt.measure.load import burst, chat_body
from vlmopt.measure.machine import Others
from vlmopt.measure.matrix import Matrix
from vlmopt.measure.pace import Pace, in_turn
from vlmopt.measure.photographs import jpegs
from vlmopt.measure.record import BurstRounds, Record
from vlmopt.verify.chat import data_url
from vlmopt.verify.parts import Model

SETTINGS = ("--mm-processor-cache-gb", "0", "--limit-mm-per-prompt", '{"image": 4}')
ACCELERATOR = ("--gpu-memory-utilization", "0.28", "--no-enforce-eager")
SWITCHED = ("--no-mm-device-do-normalize",)
TEXT = "Can you describe this image?"
_LEAST_REQUESTS = 6
_MOST_ROUNDS = 15
"""Where no time is given. Where it is, bursts that are unsteady go on until it is over."""

Tick = Callable[[str, int, int], None]


class Servers(Closing):
    """The servers of the given sides, which start together in the background."""

    def __init__(
        self,
        fork: Path,
        model: Model,
        sides: Iterable[Side],
        *,
        load_format: str,
        dtype: str,
        device: str,
    ) -> None:
        more = [*SETTINGS, "--load-format", load_format, *(() if device == "cpu" else ACCELERATOR)]
        self.sides: dict[Side, Server] = {}
        with ExitStack() as stack:
            for side in sides:
                server = Server(
                    fork if side == FORK else None,
                    model.folder,
                    trust_remote_code=model.trust_remote_code,
                    dtype=dtype,
                    more=[*more, *(SWITCHED if side == SWITCH else ())],
                )
                self.sides[side] = stack.enter_context(server)
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Ends the servers. Closing twice does nothing."""
        self._stack.close()

    def ready(self) -> None:
        """Waits until all of them answer. Raises ServerError when one of them cannot start."""
        for server in self.sides.values():
            server.ready()

    @property
    def pids(self) -> list[int]:
        """The sessions of the processes."""
        return [server.pid for server in self.sides.values()]


def measure_serving(
    servers: Servers, records: Sequence[Record], matrix: Matrix, others: Others, until: float, tick: Tick
) -> Memory:
    """Sends bursts for every place of the matrix that has them, and adds what comes out to its record.

    Raises:
        ServerError: a server is gone.
        RefusedError: a server refuses a request.
    """
    places = [record for record in records if record.place in matrix.deep and record.refused is None]
    bodies = [_body(record) for record in places]
    resting = {side: processes.resident(server.pid) for side, server in servers.sides.items()}
    for server in servers.sides.values():
        processes.forget_peak(server.pid)
    for record, body in zip(places, bodies, strict=True):
        record.served = {number: BurstRounds() for number in matrix.concurrency}
        for server in servers.sides.values():
            burst(server, body, _LEAST_REQUESTS, 1)
    end = others.stretch(servers.pids)
    pace = pace_of(until)
    while places and pace.another(found for record in places for found in record.rates()):
        tick(f"Measuring the servers, round {pace.rounds}", 0, 0)
        for record, body in zip(places, bodies, strict=True):
            for at_once, rounds in record.served.items():
                for side in in_turn(list(servers.sides), pace.rounds):
                    found = burst(servers.sides[side], body, max(_LEAST_REQUESTS, 2 * at_once), at_once)
                    rounds.rate.add(side, found.rate)
                    rounds.latency.setdefault(side, []).extend(found.seconds)
    end()
    peak = {side: processes.peak(server.pid) for side, server in servers.sides.items()}
    rise = {side: max(0, peak[side] - resting[side]) for side in peak}
    return Memory(process="server", host=peak, rise=rise)


def pace_of(until: float) -> Pace:
    """How long bursts go on; `until` as for `Pace`."""
    return Pace(until, _MOST_ROUNDS if until == math.inf else math.inf)


def _body(record: Record) -> dict[str, Any]:
    place = record.place
    return chat_body(
        TEXT, [data_url(file, "JPEG") for file in jpegs((place.width, place.height), place.images)]
    )


def sides_of(matrix: Matrix, sides: Iterable[Side]) -> list[Side]:
    """The sides that get a server: upstream's switch only where everything is measured."""
    return [side for side in sides if side in (STOCK, FORK) or matrix.everything]
