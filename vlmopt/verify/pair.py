"""Stock and a fork side by side: two long-lived processes that are asked the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vlmopt.engine.protocol import Answered, Generate, Load, Message, Outcome, Process
from vlmopt.engine.worker import ENGINE, PROCESSORS, Worker, WorkerDiedError
from vlmopt.specs import Requests
from vlmopt.verify.compare import Comparison, Difference, Stage, compare_answers, compare_outcomes
from vlmopt.verify.requests import Case, load_tokenizer

TOKENS = 6


class Pair:
    """Stock and a fork with one model loaded. Use it as a context manager: the processes end with the block.

    With `engine` each runs a whole engine, else vLLM's processors alone.
    """

    def __init__(
        self,
        fork: Path,
        folder: Path,
        requests: Requests,
        *,
        trust_remote_code: bool = False,
        engine: bool = False,
        config: Mapping[str, Any] | None = None,
        stock: Worker | None = None,
    ) -> None:
        self._fork = fork
        self._child = ENGINE if engine else PROCESSORS
        self._load = Load(str(folder), trust_remote_code, dict(config or {}))
        self._requests = requests
        self._tokenizer = load_tokenizer(folder)
        self._borrowed = stock is not None
        self._stock = stock or Worker(child=self._child)
        self._ours = Worker(fork, child=self._child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        if not self._borrowed:
            self._stock.close()

    def load(self) -> None:
        """Loads the model on both sides at once. Raises WorkerDiedError when one of them cannot."""
        for answer in self._ask(self._load):
            if isinstance(answer, WorkerDiedError):
                raise answer

    def processed(self, case: Case, *, embed: bool = False) -> Comparison:
        """Compares what the frontends make of the case, and with `embed` what the vision towers make of it.

        Where tensors differ, the case is asked again with their bytes, so that the distance is known.
        """
        message = self._message(case)
        result = self._compare(Process(message, embed=embed))
        if any(each.stage in (Stage.inputs, Stage.embeddings) for each in result.differences):
            result.differences = self._compare(Process(message, data=True, embed=embed)).differences
        return result

    def generated(self, case: Case) -> Comparison:
        """Compares the greedy answers to the case, and what entered the vision towers on the way."""
        return self._compare(Generate(self._message(case), TOKENS))

    def _message(self, case: Case) -> tuple[Any, ...]:
        return tuple(request.build(self._requests, self._tokenizer) for request in case)

    def _compare(self, message: Process | Generate) -> Comparison:
        stock, fork = self._ask(message)
        ended = [isinstance(answer, WorkerDiedError) for answer in (stock, fork)]
        if any(ended):
            for worker, gone in zip((self._stock, self._ours), ended, strict=True):
                if gone:
                    worker.restart()
            self.load()
            return _compare_ends(stock, fork, len(message.requests))
        if isinstance(stock, Outcome):
            return compare_outcomes(stock, fork)
        assert isinstance(stock, Answered)
        return compare_answers(stock, fork)

    def _ask(self, message: Message) -> tuple[Any, Any]:
        """Both answers; that a process ended, or fell silent, is an answer."""
        workers = (self._stock, self._ours)
        started = [_answer(partial(worker.start, message)) for worker in workers]
        return tuple(
            failure or _answer(worker.finish) for worker, failure in zip(workers, started, strict=True)
        )


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except WorkerDiedError as error:
        return error


def _compare_ends(stock: Any, fork: Any, requests: int) -> Comparison:
    """A request may end an engine. Then it must end both."""
    result = Comparison(requests=requests, refused=requests)
    words = ["ended" if isinstance(each, WorkerDiedError) else "answered" for each in (stock, fork)]
    differs = [Difference(Stage.errors, f"the process of stock {words[0]}, that of the fork {words[1]}")]
    result.add(Stage.errors, iter(differs if words[0] != words[1] else ()), requests)
    return result
