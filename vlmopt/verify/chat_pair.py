"""Two servers, stock's and a fork's, that get the same chat request at the same time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self

from vlmopt.engine.child import Closing
from vlmopt.engine.client import ChatAnswer, ask
from vlmopt.engine.protocol import Answer, Answered, Error
from vlmopt.engine.server import Server, ServerError
from vlmopt.verify.chat import ChatCase
from vlmopt.verify.compare import Comparison, Difference, Stage, compare_answers


def compare_chat(stock: Sequence[ChatAnswer], fork: Sequence[ChatAnswer]) -> Comparison:
    """Compares what two servers answered to the same requests, one answer each.

    Status, error and whether the server was well after it; token ids of the prompt and their number; the text
    with its token ids, its end and its log-probabilities.
    """
    left, right = (Answered(tuple(each.answer for each in answers)) for answers in (stock, fork))
    result = compare_answers(left, right)
    for number, (ours, theirs) in enumerate(zip(stock, fork, strict=True), 1):
        for stage, name in (
            (Stage.errors, "status"),
            (Stage.errors, "alive"),
            (Stage.token_ids, "counted"),
            (Stage.tokens, "text"),
            (Stage.tokens, "finish"),
        ):
            result.add(stage, _equal(stage, name, ours, theirs, f"request {number}"), 0)
    return result


def _equal(stage: Stage, name: str, stock: ChatAnswer, fork: ChatAnswer, where: str) -> Iterator[Difference]:
    left, right = getattr(stock, name), getattr(fork, name)
    # Where only one of them answers, the status is enough to say.
    if left != right and (stage is Stage.errors or stock.status == fork.status):
        yield Difference(stage, f"{where}: {name}: stock {left!r}, the fork {right!r}")


class ChatPair(Closing):
    """Stock's server and that of `fork`, with the model in `folder`.

    Both start in the background; `ready` waits for them. A server that a request has killed is started again
    for the next one. With `beside` the pair shares the stock server of another pair, which must be open as
    long.
    """

    def __init__(
        self,
        fork: Path,
        folder: Path,
        *,
        trust_remote_code: bool = False,
        dtype: str = "float32",
        beside: ChatPair | None = None,
    ) -> None:
        self._pool = ThreadPoolExecutor(2)
        self._scratch = tempfile.TemporaryDirectory(prefix="chat-")
        self._media: Path = beside._media if beside else Path(self._scratch.name) / "media"
        self._media.mkdir(exist_ok=True)
        start = partial(
            Server, folder=folder, trust_remote_code=trust_remote_code, dtype=dtype, media=self._media
        )
        self._stock: _Restarting = beside._stock if beside else _Restarting(partial(start, None))
        self._fork = _Restarting(partial(start, fork))
        self._shared = beside is not None

    def close(self) -> None:
        """Ends the servers that the pair has started."""
        self._pool.shutdown()
        self._fork.server.close()
        if not self._shared:
            self._stock.server.close()
        self._scratch.cleanup()

    def ready(self) -> Self:
        """Waits until both servers answer. Raises ServerError when one of them cannot start."""
        self._stock.ready()
        self._fork.ready()
        return self

    def answers(self, case: ChatCase) -> tuple[list[ChatAnswer], list[ChatAnswer]]:
        """What stock and the fork answer to one case; their caches are empty at the start.

        Raises:
            ServerError: a server cannot start.
        """
        servers = self._stock.ready(), self._fork.ready()
        try:
            body = case.body(self._media)
            asked = [self._pool.submit(_ask, server, body, 2 if case.again else 1) for server in servers]
            stock, fork = (each.result() for each in asked)
        finally:
            for path in (*self._media.iterdir(), *self._media.parent.iterdir()):
                if path.is_file():
                    path.unlink()
        return stock, fork

    def compare(self, case: ChatCase) -> Comparison:
        """Asks both servers and compares their answers.

        Raises:
            ServerError: a server cannot start.
        """
        return compare_chat(*self.answers(case))


class _Restarting:
    """A server that is started again after its end, or when its engine has ended behind it."""

    def __init__(self, start: Callable[[], Server]) -> None:
        self._start = start
        self.server = start()

    def ready(self) -> Server:
        """The server, with empty caches. Raises ServerError when it cannot start."""
        try:
            if self.server.was_ready:
                self.server.forget()
        except ServerError:
            self.server.close()
            self.server = self._start()
        return self.server.ready()


def _ask(server: Server, body: dict[str, Any], times: int) -> list[ChatAnswer]:
    """The answers to the same request, one after the other. That a server is gone, or hangs, is an answer."""
    answers: list[ChatAnswer] = []
    try:
        for _ in range(times):
            answers.append(ask(server, body))
    except ServerError as error:
        server.kill()
        gone = ChatAnswer(0, Answer(error=Error("ServerError", error.how)), alive=False)
        answers += [gone] * (times - len(answers))
    return answers
