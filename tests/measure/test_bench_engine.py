"""Benchmarks of a real fork: what is measured of it, and what happens when an engine dies or a user stops."""

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import arguments, environment, vlmopt
from tests.support.models import engine_params
from tests.support.stand_in import write_stand_in
from vlmopt.compiler import compile_model
from vlmopt.engine.worker import WorkerDiedError
from vlmopt.measure import pace, processes
from vlmopt.measure.bench_file import FORK, STOCK, Bench, bench_path, read_bench
from vlmopt.measure.dtype import usual_dtype
from vlmopt.measure.machine import Others
from vlmopt.measure.matrix import matrix_of
from vlmopt.measure.offline import Engines, measure_offline
from vlmopt.measure.record import Record
from vlmopt.measure.serving import Servers, measure_serving
from vlmopt.small import build_small_model, requests_of
from vlmopt.specs import load_spec
from vlmopt.verify.parts import Model

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def quiet(what: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module", params=engine_params("benched"))
def model(request: pytest.FixtureRequest) -> Model:
    spec = load_spec(request.param)
    trust = spec.small is not None and spec.small.trust_remote_code
    return Model(build_small_model(spec), requests_of(spec), trust)


@pytest.fixture(scope="module")
def fork(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "fork"
    return compile_model(model.folder.name, source="installed", out=out)[1].path


@pytest.fixture(scope="module")
def engines(model: Model, fork: Path) -> Iterator[Engines]:
    with Engines(fork, model, "auto", usual_dtype()) as engines:
        engines.load()
        yield engines


def test_engines_are_measured_in_turn(
    engines: Engines, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "QUICK_S", 0)
    matrix, others = matrix_of(["640x480"], ["1", "4"], ["1", "3"]), Others()
    (one, four), memory = measure_offline(engines, model, matrix, others, time.monotonic(), quiet)
    point = one.point()
    assert point.prompt_tokens is not None
    assert point.transfer[FORK].to_engine < 0.1 * point.transfer[STOCK].to_engine
    assert point.transfer[FORK].to_device < 0.1 * point.transfer[STOCK].to_device
    assert point.transfer[FORK].copies >= 1
    assert set(point.latency) == {1, 3}
    assert all(found.sides[side].count == 2 for found in point.latency.values() for side in (STOCK, FORK))
    assert point.processor.ratios[FORK].value < 0.5
    assert {"decode", "prefill", "first-token"} < set(point.stages)
    for side in (STOCK, FORK):
        whole = sum(found.sides[side].median for found in point.stages.values())
        # Of two requests, on a machine that may stall.
        assert 0.2 < whole / point.first_token.sides[side].median < 5
        assert 10 << 20 < memory.rise[side] < memory.host[side] < 16 << 30
    assert "longer than the maximum model length" in four.refused
    assert four.point().latency == {}
    assert 0 <= others.share() <= 1


def test_a_dead_engine_is_one_line(engines: Engines, model: Model) -> None:
    os.kill(engines.sides[FORK].worker.pid, signal.SIGKILL)
    with pytest.raises(
        WorkerDiedError, match=r"the process with the fork .* was killed \(signal 9"
    ) as caught:
        measure_offline(engines, model, matrix_of(["64x64"]), Others(), math.inf, quiet)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_servers_get_bursts_in_turn(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "QUICK_S", 0)
    stand_in = write_stand_in(tmp_path)
    options = {"load_format": "auto", "dtype": "float16", "device": "cpu"}
    matrix = matrix_of(["64x64", "640x480"], concurrency=["1", "3"])
    records = [Record(place) for place in matrix.places]
    with (
        Servers(stand_in, model, [FORK], **options) as stock,
        Servers(stand_in, model, [FORK], **options) as fork,
    ):
        fork.sides = {STOCK: stock.sides[FORK], FORK: fork.sides[FORK]}
        fork.ready()
        memory = measure_serving(fork, records, matrix, Others(), time.monotonic(), quiet)
        assert fork.pids == [server.pid for server in fork.sides.values()]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in fork.pids]
        assert all(b"\0--dtype\0float16\0" in command for command in commands)
        fork.sides = {FORK: fork.sides[FORK]}
    assert memory.process == "server"
    small, main = (record.point() for record in records)
    assert small.served == {}
    assert set(main.served) == {1, 3}
    for at_once, served in main.served.items():
        assert served.rate.unit == "requests/s"
        assert served.rate.sides[STOCK].count == 2
        assert served.latency.sides[FORK].count == 2 * max(6, 2 * at_once)
        assert set(served.rate.ratios) == {FORK}


def test_an_interrupt_ends_every_process(fork: Path) -> None:
    bench = subprocess.Popen(
        arguments("bench", fork), env=environment(), stderr=subprocess.PIPE, start_new_session=True, text=True
    )
    until = time.monotonic() + 120
    while len(children := _below(bench.pid)) < 4:  # two engines, each with the guard of its group
        assert bench.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)
    bench.send_signal(signal.SIGINT)
    _, said = bench.communicate(timeout=60)
    assert bench.returncode == 130
    assert said.strip() == "interrupted"
    until = time.monotonic() + 20
    while left := [pid for pid in children if os.path.exists(f"/proc/{pid}")]:
        assert time.monotonic() < until, left
        time.sleep(0.2)
    assert not bench_path(fork).exists()


def _below(parent: int) -> set[int]:
    """The processes of the sessions that a process has started."""
    started = {
        int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _parent(path) == parent
    }
    return {pid for leader in started for pid in processes.session(leader)}


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def refusal(*words: str | Path, **changes: str) -> str:
    done = vlmopt("bench", *words, **changes)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    return line


def test_what_cannot_be_measured_is_one_line(fork: Path, tmp_path: Path) -> None:
    assert "is no image size" in refusal(fork, "--sizes", "large")
    assert "has no config.json" in refusal(fork, "--folder", tmp_path)


@pytest.mark.long
def test_two_runs_agree_or_say_that_they_may_not(fork: Path) -> None:
    """With no options, each in its five minutes."""
    runs = []
    for _ in range(2):
        start = time.monotonic()
        done = vlmopt("bench", fork, "--json", seconds=600)
        assert (done.code, done.err) == (0, "")
        assert time.monotonic() - start < 330
        runs.append(Bench.model_validate(json.loads(done.out)))
    assert read_bench(bench_path(fork)) == runs[1]
    first, second = map(_ratios, runs)
    assert len(first) > 10
    apart = [
        name
        for name in first.keys() & second.keys()
        if not 1 / 1.1 <= first[name] / second[name] <= 1.1
        and not any(bench.noise.busy or name in bench.noise.unsteady for bench in runs)
    ]
    assert apart == []


def _ratios(bench: Bench) -> dict[str, float]:
    return {
        name: measured.ratios[FORK].value
        for point in bench.points
        for name, measured in point.measured()
        if FORK in measured.ratios
    }
