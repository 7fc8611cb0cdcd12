"""The timers on a small program of known duration: no vLLM is needed to know that they tell the time."""

import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmopt.measure.stages import OTHER, StageTable, stage_table
from vlmopt.measure.watch import Watch, attribute

# Every kind of function that vLLM has: it answers each line of its input, and says what it saw.
PROGRAM = {
    "parts.py": """
        import abc, time

        def work(ms):
            time.sleep(ms / 1e3)
            return ms

        def steps(count):
            for step in range(count):
                work(10)
                yield step
            return "over"

        async def later(ms):
            return work(ms)

        class Base(abc.ABC):
            registered = []

            def __init_subclass__(cls, **kwargs):
                super().__init_subclass__(**kwargs)
                Base.registered.append(cls.__name__)

            @staticmethod
            def fixed(ms):
                return work(ms)

            @classmethod
            def made(cls, ms):
                return cls.__name__, work(ms)

            def outer(self):
                work(20)
                return self.inner()

            def inner(self):
                raise NotImplementedError

            def fails(self):
                work(10)
                raise KeyError("as it was")

        class Buffers:
            def encode(self, parts):
                return [bytes(part) for part in parts]

        class Tensor:
            nbytes = 100

            def is_pinned(self):
                return False

        def listed(parts):
            return parts

        def place(tensors, device, *, pin_memory=False):
            return place_inside(tensors, device) if pin_memory else tensors

        def place_inside(tensors, device, pin_memory=False):
            return tensors
    """,
    "program.py": """
        import asyncio, inspect, os, sys
        from parts import Base, Buffers, Tensor, later, listed, place, steps, work

        class Sub(Base):
            def inner(self):
                return work(30)

        def drain(generator):
            seen = []
            while True:
                try:
                    seen.append(next(generator))
                except StopIteration as stop:
                    return seen, stop.value

        def caught(function):
            try:
                return function()
            except KeyError as error:
                return repr(error)

        def forked():
            if not (pid := os.fork()):
                Base.fixed(25)
                os._exit(0)
            os.waitpid(pid, 0)
            Base.fixed(10)

        TASKS = {
            "nested": lambda: Sub().outer(),
            "steps": lambda: drain(steps(3)),
            "later": lambda: asyncio.run(later(15)),
            "fixed": lambda: Sub.fixed(15),
            "made": lambda: Sub.made(15),
            "fails": lambda: caught(Sub().fails),
            "registered": lambda: Base.registered,
            "signature": lambda: str(inspect.signature(steps)),
            "encode": lambda: len(Buffers().encode([3, 4])),
            "uncounted": lambda: listed(["text"]),
            "place": lambda: len(place({"a": Tensor(), "b": [Tensor(), 7]}, "cpu")),
            "place twice": lambda: len(place([Tensor()], "cpu", pin_memory=True)),
            "keep": lambda: len(place([Tensor()], None)),
            "forked": forked,
            "name": lambda: Sub.outer.__qualname__,
        }
        for line in sys.stdin:
            print(repr(TASKS[line.strip()]()), flush=True)
    """,
}
STAGES = {
    "outer": {"calls": ["parts:Base.outer"]},
    "inner": {"calls": ["parts:Base.inner", "parts:Base.nowhere"]},
    "steps": {"calls": ["parts:steps"]},
    "single": {"calls": ["parts:later", "parts:Base.fixed", "parts:Base.made", "parts:Base.fails"]},
    "sent": {
        "calls": [
            {"call": "parts:Buffers.encode", "counts": "wire"},
            {"call": "parts:place", "counts": "h2d"},
            {"call": "parts:place_inside", "counts": "h2d"},
            {"call": "parts:listed", "counts": "wire"},
        ]
    },
    "far": {"calls": ["not_there:function", "vllm.vlmopt_runtime.fork:only"]},
    "wait": {"spans": [{"from": "begin", "to": "start parts:work"}]},
}
TABLE = {
    "loaders": [],
    "stages": [
        {"id": name, "title": name, "what": "of a test", "where": "frontend"} | stage
        for name, stage in STAGES.items()
    ],
}


class Program:
    """The program under watch, asked one line at a time."""

    def __init__(self, folder, watch):
        for name, text in PROGRAM.items():
            (folder / name).write_text(textwrap.dedent(text), "utf-8")
        environment = os.environ | (watch.environment(None) if watch else {})
        environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(folder)])
        self.process = subprocess.Popen(
            [sys.executable, str(folder / "program.py")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, task):
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    with Watch(StageTable.model_validate(TABLE)) as watch:
        program = Program(tmp_path_factory.mktemp("program"), watch)
        program.ask("name")
        yield watch, program
        program.close()


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("nested", {"outer": 0.02, "inner": 0.03}),
        ("steps", {"steps": 0.03}),
        ("later", {"single": 0.015}),
        ("fixed", {"single": 0.015}),
        ("made", {"single": 0.015}),
        ("fails", {"single": 0.01}),
        ("forked", {"single": 0.035}),
    ],
)
def test_each_stage_takes_what_it_sleeps(watched, task, expected):
    watch, program = watched
    request = watch.watch(lambda: program.ask(task))
    assert sum(request.seconds.values()) == pytest.approx(request.total, rel=1e-6)
    for stage, seconds in expected.items():
        assert seconds <= request.seconds[stage] + 0.002
        assert request.seconds[stage] <= request.total - sum(expected.values()) + seconds
    assert request.seconds["wait"] > 0, "from the beginning to the first call of what is only a mark"
    idle = {stage for stage, seconds in request.seconds.items() if not seconds}
    assert idle >= {"outer", "inner", "steps", "single", "far"} - set(expected)


@pytest.mark.parametrize(
    ("task", "engine", "device", "copies", "pinned"),
    [
        ("encode", 7, 0, 0, 0),
        ("place", 0, 200, 2, 0),
        ("place twice", 0, 100, 1, 0),
        ("keep", 0, 0, 0, 0),
    ],
)
def test_what_is_counted(watched, task, engine, device, copies, pinned):
    watch, program = watched
    request = watch.watch(lambda: program.ask(task))
    assert (request.to_engine, request.to_device, request.copies, request.pinned) == (
        engine,
        device,
        copies,
        pinned,
    )


def test_what_cannot_be_counted_does_not_stop_a_request(watched):
    watch, program = watched
    assert watch.watch(lambda: program.ask("uncounted")).answer == "['text']"


def test_timers_change_no_result(watched, tmp_path):
    watch, program = watched
    bare = Program(tmp_path, None)
    for task in ("nested", "steps", "later", "fixed", "made", "fails", "registered", "signature", "name"):
        assert watch.watch(lambda task=task: program.ask(task)).answer == bare.ask(task), task
    bare.close()


def test_nothing_is_recorded_while_the_switch_is_off(watched):
    watch, program = watched
    before = len(list(watch._called()))
    program.ask("nested")
    assert len(list(watch._called())) == before
    watch.watch(lambda: program.ask("nested"))
    assert len(list(watch._called())) > before


def test_a_name_that_does_not_exist_is_told(watched):
    watch, _ = watched
    names = watch.names()
    assert {"parts:Base.nowhere", "not_there:function"} <= names.absent
    assert {"parts:Base.inner", "parts:steps"} <= names.timed
    assert "vllm.vlmopt_runtime.fork:only" not in names.absent | names.timed


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Watch() as watch:
        assert list(tmp_path.iterdir())
        watch.environment(None)
    assert list(tmp_path.iterdir()) == []


intervals = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from("abc")).map(
        lambda one: (min(one[:2]), max(one[:2]), one[2])
    )
)


@given(intervals, st.integers(0, 50), st.integers(1, 50))
def test_shares_add_up_and_each_moment_goes_to_what_began_last(spans, begin, length):
    end = begin + length
    expected = {}
    for moment in range(begin, end):
        active = [one for one in spans if one[0] <= moment < one[1]]
        latest = max((one[0] for one in active), default=None)
        names = {one[2] for one in active if one[0] == latest} or {OTHER}
        expected[moment] = names
    shares = attribute(spans, begin, end)
    assert sum(shares.values()) == length
    for name in {"a", "b", "c", OTHER}:
        least = sum(names == {name} for names in expected.values())
        most = sum(name in names for names in expected.values())
        assert least <= shares.get(name, 0) <= most


def test_every_stage_of_the_table_has_something_to_time():
    table = stage_table()
    assert len(set(table.ids)) == len(table.ids)
    assert OTHER not in table.ids
    for stage in table.stages:
        assert stage.calls or stage.model or stage.spans, stage.id
    calls = [call.call for stage in table.stages for call in stage.calls]
    assert len(set(calls)) == len(calls)
