"""The parts of a benchmark without a vLLM: the matrix, statistics, bursts, what others take, the file."""

import io
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.measure.benches import bench_of, point_of
from tests.support.stand_in import SLOW_S, write_stand_in
from vlmopt.engine.server import Server, ServerError
from vlmopt.errors import UsageError
from vlmopt.measure import pace, processes
from vlmopt.measure.bench_file import FORK, STOCK, bench_path, read_bench, write_bench
from vlmopt.measure.load import RefusedError, burst
from vlmopt.measure.machine import Others
from vlmopt.measure.matrix import Place, matrix_of
from vlmopt.measure.pace import LIMIT, MOST, Pace, in_turn
from vlmopt.measure.photographs import jpegs, parse_size
from vlmopt.measure.record import Record, Rounds
from vlmopt.measure.serving import pace_of
from vlmopt.measure.spread import compare, ratio_of, steady

RUNS = 200


def run(random: np.random.Generator, rounds: int, noise: float) -> tuple[list[float], list[float]]:
    """Times of stock and of a fork that takes a third, with noise and now and then an outlier."""

    def side(median: float) -> list[float]:
        late = np.where(random.random(rounds) < 0.05, 1.4, 1.0)
        return list(median * np.exp(random.normal(0, noise, rounds)) * late)

    return side(0.3), side(0.1)


@pytest.mark.parametrize(("rounds", "noise"), [(5, 0.02), (8, 0.1), (20, 0.1)])
def test_two_runs_lie_within_what_one_of_them_foretells(rounds: int, noise: float) -> None:
    random = np.random.default_rng(7)
    apart = 0
    for _ in range(RUNS):
        first, second = (ratio_of(*run(random, rounds, noise)) for _ in range(2))
        assert first.again is not None
        apart += abs(np.log(first.value / second.value)) > np.log1p(first.again)
    assert apart <= 0.05 * RUNS


def test_what_is_foretold_is_no_more_than_it_must_be() -> None:
    random = np.random.default_rng(7)
    calm, wild = (ratio_of(*run(random, 20, noise)) for noise in (0.01, 0.3))
    assert calm.again is not None
    assert wild.again is not None
    assert calm.again < 0.03
    assert wild.again > LIMIT
    assert calm.value == pytest.approx(1 / 3, rel=0.02)


def test_one_round_says_nothing_of_another_run() -> None:
    once = compare({STOCK: [3.0], FORK: [1.0]})
    assert once.ratios[FORK].again is None
    assert not steady(once, LIMIT)


def test_rounds_go_on_until_ratios_are_steady_or_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = compare({STOCK: [3.0, 3.0, 3.0], FORK: [1.0, 1.0, 1.0]})
    wild = compare({STOCK: [3.0, 1.0, 9.0], FORK: [1.0, 5.0, 0.2]})
    assert _rounds(Pace(), calm) == 5
    assert _rounds(Pace(), wild) == MOST
    assert _rounds(Pace(most=7), wild) == 7
    assert _rounds(Pace(time.monotonic()), wild) == 5
    monkeypatch.setattr(pace, "QUICK_S", 0)
    assert _rounds(Pace(time.monotonic()), wild) == 2


def test_bursts_go_on_while_there_is_time_for_them() -> None:
    wild = compare({STOCK: [3.0, 1.0, 9.0], FORK: [1.0, 5.0, 0.2]})
    assert _rounds(pace_of(math.inf), wild) == 15
    assert _rounds(pace_of(time.monotonic()), wild) == 5
    assert _rounds(pace_of(time.monotonic() + 0.1), wild) > MOST


def _rounds(kept: Pace, measured) -> int:
    while kept.another([measured]):
        pass
    return kept.rounds


def test_each_side_begins_as_often_as_the_others() -> None:
    orders = [in_turn(["a", "b", "c"], number) for number in range(3)]
    assert sorted(order[0] for order in orders) == ["a", "b", "c"]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)


def test_stages_that_take_nearly_nothing_have_no_ratio() -> None:
    record = Record(Place(1, 64, 64), latency={1: Rounds({STOCK: [1.0] * 3, FORK: [0.5] * 3})})
    for side, share in ((STOCK, 1.0), (FORK, 0.5)):
        for _ in range(3):
            stages = {"resize": 0.5 * share, "cast": 0.009 * share, "hash": 0.0, "other": 0.015 * share}
            record.add_stages(side, stages)
    stages = record.point().stages
    assert set(stages) == {"resize", "cast", "other"}
    assert stages["resize"].ratios[FORK].value == 0.5
    assert stages["cast"].ratios == stages["other"].ratios == {}


def test_the_matrix() -> None:
    usual, whole = matrix_of(), matrix_of(everything=True)
    assert [(place.images, place.size) for place in usual.places] == [
        (1, "224x224"),
        (1, "640x480"),
        (1, "1920x1080"),
    ]
    assert [place.size for place in usual.deep] == ["640x480"]
    assert (usual.tokens, usual.concurrency, usual.seconds) == ((16, 128), (1, 4, 16), 300)
    assert len(whole.places) == 20
    assert whole.deep == whole.places
    assert whole.seconds is None
    chosen = matrix_of(["224", "300x200"], ["2"], ["1"], ["8"], minutes=1)
    assert [place.size for place in chosen.deep] == ["300x200"]
    assert (chosen.tokens, chosen.concurrency, chosen.seconds) == ((), (8,), 60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": ["640*480"]}, "'640*480' is no image size: write it like 640x480"),
        ({"sizes": ["0x9"]}, "no image size"),
        ({"images": ["5"]}, "a request has at most 4"),
        ({"images": ["0"]}, "whole numbers from 1"),
        ({"tokens": ["many"]}, "--tokens many"),
        ({"concurrency": ["1000"]}, "at most 256 requests at once"),
        ({"minutes": 0.0}, "give more than 0"),
    ],
)
def test_a_matrix_that_makes_no_sense(options: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        matrix_of(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pictures_have_their_size_and_differ() -> None:
    assert parse_size("224") == (224, 224)
    files = jpegs((96, 64), 4)
    assert len(set(files)) == 4
    assert all(Image.open(io.BytesIO(file)).size == (96, 64) for file in files)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(write_stand_in(tmp_path), tmp_path) as server:
        yield server.ready()


def said(text: str) -> dict:
    return {"messages": [{"content": text}]}


def test_a_burst_counts_every_request(server: Server) -> None:
    start = time.monotonic()
    found = burst(server, said("hello"), 10, 4)
    assert len(found.seconds) == 10
    assert found.rate >= 10 / (time.monotonic() - start)


def test_so_many_requests_of_a_burst_are_under_way_at_once(server: Server) -> None:
    alone, together = (burst(server, said("slow"), 8, clients) for clients in (1, 4))
    assert alone.rate <= 1 / SLOW_S
    assert 1.5 / SLOW_S < together.rate <= 4 / SLOW_S


def test_a_burst_at_a_server_that_refuses_or_dies(server: Server) -> None:
    with pytest.raises(RefusedError, match=r"refused a request: .*no such image") as caught:
        burst(server, said("refuse"), 10, 4)
    assert caught.value.exit_code == 2
    with pytest.raises(ServerError, match="ended with exit code 3"):
        burst(server, said("die"), 10, 4)


def test_what_others_take_is_what_we_do_not() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        ours, theirs = Others(), Others()
        ends = [ours.stretch([busy.pid]), theirs.stretch([])]
        before, start = processes.cpu_seconds([busy.pid]), time.monotonic()
        while processes.cpu_seconds([busy.pid]) - before < 0.4 and time.monotonic() - start < 20:
            time.sleep(0.1)
        for end in ends:
            end()
        used = processes.cpu_seconds([busy.pid]) - before
        every = (time.monotonic() - start) * len(os.sched_getaffinity(0))
    finally:
        busy.kill()
        busy.wait()
    mine, other = ours.share(), theirs.share()
    assert mine is not None
    assert other is not None
    assert other - mine == pytest.approx(used / every, abs=0.1)


def test_peak_memory_is_of_the_time_since_it_was_forgotten() -> None:
    code = "import sys; a = bytearray(200 << 20); del a; print(1, flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        held = processes.resident(child.pid)
        assert held < 100 << 20 < processes.peak(child.pid)
        if processes.forget_peak(child.pid):
            assert processes.peak(child.pid) < 100 << 20
    finally:
        child.communicate(b"")


def test_the_file_comes_back_as_it_was(tmp_path: Path) -> None:
    bench = bench_of(point_of())
    write_bench(bench, bench_path(tmp_path))
    assert read_bench(bench_path(tmp_path)) == bench
    assert list(bench_path(tmp_path).parent.iterdir()) == [bench_path(tmp_path)]


def test_files_that_are_no_benchmark(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_bench(tmp_path / "none.json")
    path = bench_path(tmp_path)
    write_bench(bench_of(point_of()), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(
        UsageError, match=r"is no benchmark of this version of vlmopt: format: .*vlmopt bench"
    ):
        read_bench(path)
    with pytest.raises(UsageError, match="cannot write"):
        write_bench(bench_of(point_of()), path / "below" / "a.json")
