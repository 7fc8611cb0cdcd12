"""Under load, and when the engine dies, a fork's server does what stock's does.

64 chat requests at once, in two orders, so that the batches form differently; then the engine's process is
killed while requests run. In float32 stock gives the same numbers however its batches form, so answers can be
compared to the last bit; a test of its own says so where it does not.
"""

import os
import random
import re
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import arguments
from tests.support.models import engine_params
from vlmopt.engine.client import ChatAnswer, ask
from vlmopt.engine.server import Server, ServerError
from vlmopt.small import build_small_model, small_of
from vlmopt.specs import load_spec
from vlmopt.verify.chat import ChatCase, ChatImage, Part
from vlmopt.verify.images import ImageCase

CONCURRENT = 64
TOKENS = 8
KILLED_WITH = 8
"""Requests that run when the engine is killed; every other one is streamed."""
KILLED_TOKENS = 4000
BUSY_S, END_S = 120, 60

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

Body = dict[str, Any]


def questions(nowhere: Path) -> list[Body]:
    """Requests with one to three images each, none like another."""
    rng = random.Random(0)
    bodies = []
    for number in range(CONCURRENT):
        parts: list[Part] = [f"Question {number}."]
        for _ in range(1 + number % 3):
            width, height = rng.randint(20, 300), rng.randint(20, 300)
            form, content = rng.choice(["JPEG", "PNG"]), rng.choice(["waves", "noise"])
            image = ImageCase(width, height, content=content, form=form, seed=rng.randrange(10**6))
            parts += [ChatImage(image), "What is this?"]
        bodies.append(ChatCase((tuple(parts),), tokens=TOKENS).body(nowhere))
    return bodies


@dataclass(frozen=True)
class Loaded:
    """What one server did: both runs, what clients saw of the kill, how the server ended and what it left."""

    first: Sequence[ChatAnswer]
    second: Sequence[ChatAnswer]
    killed: Sequence[str]
    exit_code: int | None
    left: Sequence[str]


def together(server: Server, bodies: Sequence[Body]) -> list[ChatAnswer]:
    """All answers to requests that are sent at once, to a server with empty caches."""
    server.forget()
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(partial(ask, server), bodies))


def outcome(answer: Callable[[], ChatAnswer]) -> str:
    """What a client is told: the status and the error, or how the connection ended."""
    try:
        got = answer()
    except ServerError as error:
        return re.sub(r"ended with exit code \d+|was killed \(.*?\)|gave no answer", "gone", error.how)
    return f"{got.status} {got.answer.error}"


def processes(pid: int) -> dict[int, str]:
    """The processes below `pid`, with their command lines."""
    found: dict[int, str] = {}
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            found |= processes(child)
    return found


def lives(pid: int) -> bool:
    """Whether a process is there and does not merely wait to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def running(server: Server) -> float:
    """How many requests are in the engine, by the server's own metrics."""
    metrics = server.get("/metrics").text
    return sum(
        float(value) for value in re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", metrics, re.M)
    )


def kill_the_engine(server: Server, bodies: Sequence[Body]) -> tuple[list[str], int | None, list[str]]:
    """Kills the engine while requests run: what clients see, the server's exit code, and what outlives it."""
    family = processes(server.pid)
    (engine,) = (pid for pid, command in family.items() if command.startswith("VLLM::EngineCore"))
    plain = [
        {key: body[key] for key in ("model", "messages", "temperature", "ignore_eos")} for body in bodies
    ]
    long = [
        body | {"max_tokens": KILLED_TOKENS, "stream": number % 2 == 1}
        for number, body in enumerate(plain[:KILLED_WITH])
    ]
    with ThreadPoolExecutor(KILLED_WITH) as pool:
        asked = [pool.submit(outcome, partial(ask, server, body)) for body in long]
        deadline = time.monotonic() + BUSY_S
        while running(server) < KILLED_WITH:
            early = [each.result() for each in asked if each.done()]
            assert not early, f"requests ended before the kill: {early}"
            assert time.monotonic() < deadline, "the requests never ran all at once"
        os.kill(engine, signal.SIGKILL)
        killed = [each.result() for each in asked]
    code = server.exit_code(END_S)
    deadline = time.monotonic() + END_S
    while (left := [family[pid] for pid in family if lives(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return killed, code, left


@pytest.fixture(scope="module", params=engine_params("loaded"))
def loaded(
    request: pytest.FixtureRequest,
    fork_of: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Loaded, Loaded]:
    """Stock and the fork, which is started as the README says; together, and asked one after the other."""
    spec = load_spec(request.param)
    scratch = tmp_path_factory.mktemp("load")
    folder = build_small_model(spec, scratch)
    trust = small_of(spec).trust_remote_code
    bodies = questions(scratch)
    command = arguments("run", fork_of(spec.name), "--", "vllm", "serve")
    both = []
    with (
        Server(None, folder, trust_remote_code=trust) as stock,
        Server(None, folder, trust_remote_code=trust, command=command) as fork,
    ):
        for server in (stock, fork):
            first = together(server, bodies)
            second = together(server, bodies[::-1])[::-1]
            both.append(Loaded(first, second, *kill_the_engine(server, bodies)))
    return both[0], both[1]


def test_every_request_is_answered_and_most_differently(loaded: tuple[Loaded, Loaded]) -> None:
    stock, _ = loaded
    assert {answer.status for answer in stock.first} == {200}
    assert len({answer.text for answer in stock.first}) > CONCURRENT / 2
    assert len({answer.answer.logprobs for answer in stock.first}) == CONCURRENT


def test_stock_agrees_with_itself_however_its_batches_form(loaded: tuple[Loaded, Loaded]) -> None:
    """Where this fails, stock's answers depend on its batches; the next test then compares the others."""
    stock, _ = loaded
    assert unsteady(stock) == []


def test_a_fork_gives_the_same_answers_under_load(loaded: tuple[Loaded, Loaded]) -> None:
    stock, fork = loaded
    skipped = unsteady(stock)
    steady = [number for number in range(CONCURRENT) if number not in skipped]
    assert steady, "stock gave other answers in its second run to every request: nothing can be compared"
    for run in (fork.first, fork.second):
        assert [number for number in steady if run[number] != stock.first[number]] == []


def test_a_killed_engine_is_reported_and_ends_the_server_as_in_stock(loaded: tuple[Loaded, Loaded]) -> None:
    stock, fork = loaded
    assert len(stock.killed) == KILLED_WITH
    for number, seen in enumerate(stock.killed):
        assert seen.startswith("200" if number % 2 else "500"), "a streamed answer has its status already"
        assert "InternalServerError" in seen
    assert fork.killed == stock.killed
    assert stock.exit_code is not None
    assert fork.exit_code == stock.exit_code
    assert stock.left == fork.left == []


def unsteady(stock: Loaded) -> list[int]:
    """The requests to which stock itself gave two answers."""
    return [number for number in range(CONCURRENT) if stock.first[number] != stock.second[number]]
