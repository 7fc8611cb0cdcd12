"""`vlmopt profile` with a real vLLM: its stages agree with a clock outside; it changes and leaves nothing."""

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest

from tests.cli.command import arguments, environment, vlmopt
from tests.support.models import engine_params, load_model
from vlmopt.engine.protocol import Load, Request
from vlmopt.engine.worker import ENGINE, Worker
from vlmopt.measure.photographs import jpegs
from vlmopt.measure.profile_file import read_profile
from vlmopt.measure.watch import Watch
from vlmopt.small import build_small_model
from vlmopt.specs import load_spec

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

PROCESSOR = ("hash", "resize", "split", "normalize", "cast", "assemble", "placeholders")
"""The stages of the processor's call."""
ENGINE_STAGES = ("decode", "tokenize", "transfer", "batch", "tower", "projector", "prefill", "first-token")
WITHIN = 0.10
ROUNDS, TRIES = 9, 3
START_S = 400
BYTECODE = "vlmopt-bytecode"
"""What is kept in the folder for temporary files where Python may not keep it beside the sources."""


def seen_in(profile):
    return {stage.id for stage in profile.stages if stage.seen}


def check(profile, engine):
    """What holds for every profile of stock, however busy the machine is."""
    assert sum(stage.share for stage in profile.stages) == pytest.approx(1)
    assert set(ENGINE_STAGES) <= seen_in(profile)
    assert {"hash", "resize", "normalize", "assemble", "placeholders"} <= seen_in(profile)
    assert profile.moved.wire == (engine == "serve")
    assert profile.moved.to_engine > 1_000_000
    assert profile.moved.to_device >= 0.9 * profile.moved.to_engine
    assert profile.moved.copies >= 1
    assert not profile.moved.leaves_host
    assert not any(name.startswith("vllm.vlmopt_runtime") for name in profile.absent)


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        *(pytest.param("offline", *param.values, marks=param.marks) for param in engine_params("profiled")),
        *(
            pytest.param("serve", *param.values, marks=param.marks)
            for param in engine_params("profiled served")
        ),
    ],
)
def test_a_profile_of_stock(engine, name, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    out = tmp_path / "out" / "p.json"
    said = profile_of(name, engine, out, requests=6, TMPDIR=str(scratch))
    files = [Path(file) for file in said.pop("files")]
    profile = read_profile(out)
    assert profile.model_dump(mode="json") == said
    check(profile, engine)
    assert [file.suffix for file in files] == [".json", ".collapsed", ".svg"]
    stacks = files[1].read_text().splitlines()
    assert any("vllm/multimodal/processing" in line for line in stacks)
    assert any("vllm/v1/worker" in line for line in stacks)
    processes = {line.split(";")[0] for line in stacks}
    assert processes == {"first process"} | ({"its engine process"} if engine == "serve" else set())
    assert sorted(out.parent.iterdir()) == sorted(files)
    assert [path.name for path in scratch.iterdir() if not path.name.startswith(BYTECODE)] == []


def profile_of(name, engine, out, *, requests, **changes):
    """What `vlmopt profile --json` says."""
    done = vlmopt(
        *("profile", "--model", name, "--engine", engine, "--requests", requests, "--out", out, "--json"),
        seconds=START_S,
        **changes,
    )
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["offline", "serve"])
@pytest.mark.parametrize("name", engine_params("profiled served"))
def test_a_profile_adds_up_to_the_clock(engine, name, tmp_path):
    """A machine that others use may stall: a profile that it spoils is made again."""
    for left in reversed(range(TRIES)):
        profile_of(name, engine, out := tmp_path / "p.json", requests=ROUNDS)
        profile = read_profile(out)
        with contextlib.suppress(AssertionError) if left else contextlib.nullcontext():
            assert profile.other.share < WITHIN
            assert profile.clock.median == pytest.approx(profile.untimed.median, rel=WITHIN)
            break


@pytest.mark.long
@pytest.mark.parametrize("name", engine_params("profiled"))
def test_a_clock_outside(name, model_folders):
    """The processor's stages against a clock around its call with the timers off; outputs as without timers.

    The clock is in the same process: two processes with one vLLM differ by more, by where their memory lies.
    """
    model = load_model(name)
    requests = [Request(model.prompt_for(1), (file,)) for file in jpegs((640, 480), 2)]
    with Watch() as watch, Worker() as bare, Worker(environment=watch.environment(None)) as timed:
        for worker in (bare, timed):
            worker.start(Load(str(model_folders[name]), model.trust_remote_code))
        for worker in (bare, timed):
            worker.finish()
        made = bare.process(requests[0], data=True)
        assert made.error is None
        assert watch.watch(lambda: timed.process(requests[0], data=True)).answer == made
        for left in reversed(range(TRIES)):
            clock, stages, decode = [], [], []
            for number in range(ROUNDS):
                request = requests[number % 2]
                timing = timed.time(request)
                seen = watch.watch(lambda r=request: timed.time(r)).seconds
                clock.append((timing.processor_s, timing.decode_s))
                stages.append(sum(seen[stage] for stage in PROCESSOR))
                decode.append(seen["decode"])
            with contextlib.suppress(AssertionError) if left else contextlib.nullcontext():
                assert median(stages) == pytest.approx(median(c for c, _ in clock), rel=WITHIN)
                assert median(decode) == pytest.approx(median(d for _, d in clock), rel=WITHIN)
                break


@pytest.mark.long
@pytest.mark.parametrize("name", engine_params("profiled"))
def test_timers_change_no_answer(name):
    """Tokens, log-probabilities and what enters the tower: without timers, with them off, with them on."""
    model = load_model(name)
    folder = build_small_model(load_spec(name))
    requests = [Request(model.prompt_for(1), (file,)) for file in jpegs((640, 480), 2)]
    found = []
    with Watch() as watch:
        for environment_ in ({}, watch.environment(None)):
            with Worker(child=ENGINE, environment=environment_) as worker:
                worker.load(folder, trust_remote_code=model.trust_remote_code)

                def answers(worker=worker):
                    worker.forget()
                    return [worker.generate(request, tokens=4) for request in requests]

                found.append(answers())
                if environment_:
                    found.append(watch.watch(answers).answer)
    assert found[0][0].answers[0].error is None
    assert found[0] == found[1] == found[2]


def processes_with(text):
    """Ids of the processes whose environment holds a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.parametrize("name", engine_params("profiled"))
def test_ctrl_c_ends_every_process_and_leaves_nothing(name, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mine = f"TMPDIR={scratch}"
    process = subprocess.Popen(
        arguments("profile", "--model", name, "--out", tmp_path / "p.json"),
        env=environment(TMPDIR=str(scratch)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: list(scratch.glob("worker-*/output")) and len(processes_with(mine)) > 1, START_S)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "interrupted")
    wait_for(lambda: not processes_with(mine), 20)
    assert [path.name for path in scratch.iterdir() if not path.name.startswith(BYTECODE)] == []
    assert not (tmp_path / "p.json").exists()
