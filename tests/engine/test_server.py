"""The server process and its client: what they make of answers, refusals, silence and deaths."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stand_in import write_stand_in
from vlmopt.engine import server as server_module
from vlmopt.engine.client import ChatAnswer, ask, greedy
from vlmopt.engine.protocol import Answer, Error
from vlmopt.engine.server import Server, ServerError


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_stand_in(tmp_path_factory.mktemp("stand-in"))


@pytest.fixture
def server(stand_in: Path, tmp_path: Path) -> Iterator[Server]:
    with Server(stand_in, tmp_path) as server:
        yield server


def say(text: str, **more: object) -> dict[str, object]:
    return greedy([{"role": "user", "content": text}], 2, **more)


def test_an_answer_is_read_whole_and_streamed_alike(server: Server) -> None:
    steps = (((7, -0.5), (7, -0.5)), ((9, -1.5), (8, -0.25)))
    whole = ChatAnswer(200, Answer((1, 2, 3), (7, 9), steps), "ab", "length", 3)
    assert ask(server, say("hello")) == whole
    assert ask(server, say("hello", stream=True)) == whole


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_has_its_status_class_and_message(server: Server, stream: bool) -> None:
    refused = ask(server, say("refuse", stream=stream))
    error = Error("HTTP 400 BadRequestError of image", "no such image")
    assert refused == ChatAnswer(400, Answer(error=error))
    assert ask(server, say("fail")).answer.error == Error("HTTP 500", "Internal Server Error")


def test_an_answer_that_breaks_off_keeps_what_there_was(server: Server) -> None:
    broken = ask(server, say("break off", stream=True))
    assert (broken.status, broken.text, broken.answer.tokens) == (200, "a", (7,))
    assert broken.answer.error == Error("HTTP 200 BadRequestError of image", "no such image")


def test_a_server_that_ends_says_so_with_its_exit_code(server: Server) -> None:
    with pytest.raises(ServerError, match=r"the server of the fork .* ended with exit code 3") as caught:
        ask(server, say("die"))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert server.exit_code() == 3
    assert not server.well()


def test_a_server_that_gives_no_answer_in_time_says_so(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "ANSWER_S", 0.3)
    with Server(stand_in, tmp_path) as server:
        with pytest.raises(ServerError, match=r"gave no answer \(ReadTimeout\)"):
            ask(server, say("hang"))
        assert server.well()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "vllm.py").write_text("print('first'); raise ImportError('this is no vLLM')", "utf-8")
    with Server(tmp_path, tmp_path) as server, pytest.raises(ServerError, match="this is no vLLM") as caught:
        server.ready()
    assert "ended with exit code 1 while it started" in str(caught.value)
    assert "first" in caught.value.output
    assert not os.path.exists(f"/proc/{server.pid}")


def test_a_server_that_is_never_ready_is_given_up(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stand_in / "vllm" / "entrypoints" / "openai" / "api_server.py"
    silent = write_stand_in(tmp_path / "silent") / file.relative_to(stand_in)
    silent.write_text("import time; time.sleep(60)", "utf-8")
    monkeypatch.setattr(server_module, "START_S", 0.5)
    with (
        Server(tmp_path / "silent", tmp_path) as server,
        pytest.raises(ServerError, match=r"was not ready after 0\.5 s"),
    ):
        server.ready()
