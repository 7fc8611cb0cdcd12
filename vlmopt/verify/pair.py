"""Stock and a fork side by side: two long-lived processes that are asked the same."""

from __future__ import annotations

from collections.abc import Mapping
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
        self._both(self._load)

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
        try:
            stock, fork = self._both(message)
        except ForkDiedError as error:
            self._ours = Worker(self._fork, child=self._child)
            self._ours.start(self._load)
            self._ours.finish()
            died = Difference(Stage.errors, f"stock answered, and {error}")
            return Comparison(differences=[died])
        if isinstance(stock, Outcome):
            return compare_outcomes(stock, fork)
        assert isinstance(stock, Answered)
        return compare_answers(stock, fork)

    def _both(self, message: Message) -> tuple[Any, Any]:
        self._stock.start(message)
        try:
            self._ours.start(message)
        except WorkerDiedError as error:
            self._stock.finish()
            raise ForkDiedError(error) from None
        stock = self._stock.finish()
        try:
            return stock, self._ours.finish()
        except WorkerDiedError as error:
            raise ForkDiedError(error) from None


class ForkDiedError(WorkerDiedError):
    """The fork's process ended where stock's did not."""

    def __init__(self, error: WorkerDiedError) -> None:
        Exception.__init__(self, str(error))
        self.output = error.output
