"""Bursts of chat requests to an OpenAI server, so many under way at once."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vlmopt.engine.client import CHAT
from vlmopt.engine.server import MODEL, Server
from vlmopt.errors import VlmoptError

LEAVE_OUT = "leave it out with --sizes, --images or --tokens"


class RefusedError(VlmoptError):
    """A server or an engine answered a request with an error."""


@dataclass(frozen=True)
class Burst:
    """Requests a second from the first one's start to the last one's end, and the seconds of each."""

    rate: float
    seconds: list[float] = field(repr=False)


def chat_body(text: str, urls: list[str], tokens: int = 1) -> dict[str, Any]:
    """A chat request of images and a text for exactly `tokens` greedy tokens."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }


def burst(server: Server, body: Mapping[str, Any], requests: int, concurrency: int) -> Burst:
    """Sends the same request so often; each of `concurrency` clients sends its next one when it is answered.

    Raises:
        ServerError: the server is gone, or gave no answer in time.
        RefusedError: it answered with an error.
    """
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(requests):
        left.put(number)
    seconds: list[float] = []
    failures: list[VlmoptError] = []

    def client() -> None:
        while not failures:
            try:
                left.get_nowait()
            except queue.Empty:
                return
            start = time.perf_counter()
            try:
                response = server.post(CHAT, body)
            except VlmoptError as error:
                failures.append(error)
                return
            if not response.is_success:
                failures.append(
                    RefusedError(f"{server.name} refused a request: {_reason(response.text)}; {LEAVE_OUT}")
                )
                return
            seconds.append(time.perf_counter() - start)

    # Daemons: whoever interrupts a burst does not wait for its answers.
    clients = [threading.Thread(target=client, daemon=True) for _ in range(concurrency)]
    start = time.perf_counter()
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    wall = time.perf_counter() - start
    if failures:
        raise failures[0]
    return Burst(requests / wall, seconds)


def _reason(text: str) -> str:
    return " ".join(text.split())[:200]
