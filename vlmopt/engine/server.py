"""vLLM's OpenAI server in a process of its own, and a client for the few calls that tests make."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

START_S, ANSWER_S, STOP_S = 300, 180, 20
# Asks Linux to end the process when the test run ends, however it does, then becomes the command itself.
END_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class ServerError(RuntimeError):
    """The server did not start; the message holds the end of its log."""


@dataclass(frozen=True)
class Answer:
    """One chat answer: its text and, where it was not streamed, the log-probabilities as they were sent."""

    text: str
    logprobs: Any = None


class Server:
    """Runs `command`, which must serve `folder` on the port that `free_port` gave, until the block ends."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], port: int) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="server-")
        self._log = Path(self._scratch.name) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", END_WITH_PARENT, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_S, trust_env=False)

    def __enter__(self) -> Self:
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server and every process that it started."""
        self._client.close()
        for number, wait in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            try:
                os.killpg(self._process.pid, number)
                self._process.wait(wait)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._scratch.cleanup()

    def chat(self, content: list[dict[str, Any]], *, max_tokens: int, stream: bool = False) -> Answer:
        """The greedy answer to one user message. Raises httpx.HTTPStatusError when the server refuses it."""
        body = {
            "model": "model",
            "messages": [{"role": "user", "content": content}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        if stream:
            return Answer("".join(self._stream(body | {"stream": True})))
        response = self._client.post(
            "/v1/chat/completions", json=body | {"logprobs": True, "top_logprobs": 2}
        )
        response.raise_for_status()
        choice = response.json()["choices"][0]
        return Answer(choice["message"]["content"], choice["logprobs"])

    def _stream(self, body: dict[str, Any]) -> list[str]:
        parts = []
        with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    parts.append(
                        json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content") or ""
                    )
        return parts

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise ServerError(f"the server ended with {self._process.returncode}:\n{self._tail()}")
            try:
                if self._client.get("/health", timeout=5).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.5)
        raise ServerError(f"the server was not ready after {START_S} s:\n{self._tail()}")

    def _tail(self) -> str:
        return self._log.read_text("utf-8", "replace")[-4000:]


def free_port() -> int:
    """A TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def image_part(data: bytes, kind: str) -> dict[str, Any]:
    """The part of a chat message that carries an image file; `kind` is ``jpeg`` or ``png``."""
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}
