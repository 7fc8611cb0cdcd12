"""Long-lived processes with vLLM's real processors; stock and fork never share one."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from vlmopt.engine.child import Child, ChildError, Closing
from vlmopt.engine.environment import engine_environment
from vlmopt.engine.protocol import (
    About,
    Answered,
    Describe,
    Error,
    Forget,
    Generate,
    Hello,
    Latency,
    Load,
    Message,
    Outcome,
    Process,
    Request,
    Time,
    Timing,
    Trace,
    Wait,
)
from vlmopt.engine.scratch import Scratch

PROCESSORS = "vlmopt.engine.frontend"
ENGINE = "vlmopt.engine.offline"
START_S, ANSWER_S, ENDS_S = 180, 300, 5


class WorkerDiedError(ChildError):
    """The process ended or fell silent. `output` holds the end of what it wrote."""


class Worker(Closing):
    """A process with stock vLLM or, with `fork`, with the fork in that folder.

    Use it as a context manager: the process ends with the block. It also ends when this process does.
    Starting takes seconds and happens in the background: start both workers of a pair, then `load`.
    `child` is the module that it runs: `PROCESSORS` alone, or a whole `ENGINE`. `environment` is added to
    what `engine_environment` gives.
    """

    def __init__(
        self,
        fork: Path | None = None,
        *,
        child: str = PROCESSORS,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._fork = fork
        self._module = child
        self._environment = dict(environment or {})
        self._begin()

    def _begin(self) -> None:
        self._scratch = Scratch("worker-")
        scratch = self._scratch.path
        self._pipe, theirs = Pipe()
        with theirs:
            self._child = Child(
                [sys.executable, "-m", self._module, str(theirs.fileno())],
                engine_environment(self._fork, scratch, self._scratch.sockets) | self._environment,
                scratch / "output",
                pass_fds=[theirs.fileno()],
            )
        self._hello: Hello | None = None

    def close(self) -> None:
        """Ends the process. Closing twice does nothing."""
        self._pipe.close()
        self._child.end()
        self._scratch.cleanup()

    def restart(self) -> None:
        """Ends the process and starts it anew, without a model."""
        self.close()
        self._begin()

    def hello(self) -> Hello:
        """Waits until the worker is ready. Raises WorkerDiedError when its vLLM is not the one asked for."""
        if self._hello is None:
            self._hello = self._receive(START_S)
            if self._fork is not None:
                self._check_home(self._fork.resolve(), self._hello)
        return self._hello

    @staticmethod
    def _check_home(fork: Path, hello: Hello) -> None:
        for what, file in (("vLLM", hello.vllm), ("the plug-in", hello.plugin)):
            home = Path(file).parents[1] if file else fork
            if home != fork:
                raise WorkerDiedError(f"the worker imported {what} from {home}, not from {fork}", "")

    def load(self, folder: Path, *, trust_remote_code: bool = False, **config: Any) -> None:
        """Makes the model in `folder` the one that is asked from now on. Loaded models stay loaded.

        `config` holds further arguments of vLLM's ``ModelConfig``.
        """
        self._ask(Load(str(folder), trust_remote_code, config))

    def process(self, *requests: Request, data: bool = False, embed: bool = False) -> Outcome:
        """Processes each request, then batches all their items together, as the engine does for one step.

        With `embed`, which needs the `ENGINE`, the outcome has what the vision tower makes of each batch.
        """
        outcome: Outcome = self._ask(Process(requests, data, embed))
        return outcome

    def generate(self, *requests: Request, tokens: int, until_end: bool = False) -> Answered:
        """Asks the `ENGINE` for greedy answers to all requests at once, see `Generate`."""
        answered: Answered = self._ask(Generate(requests, tokens, until_end))
        return answered

    def time(self, request: Request) -> Timing:
        """Processes `request` once, with a clock around it."""
        timing: Timing = self._ask(Time(request))
        return timing

    def latency(self, request: Request, tokens: int = 1) -> Latency | Error:
        """Asks the `ENGINE` for so many tokens, with a clock around it."""
        answer: Latency | Error = self._ask(Wait(request, tokens))
        return answer

    def about(self, *, forget: bool = False) -> About:
        """What the `ENGINE` runs on; with `forget` the peak of the device's memory begins anew."""
        about: About = self._ask(Describe(forget))
        return about

    def forget(self) -> None:
        """Empties the caches of the `ENGINE`: of images and of their embeddings."""
        self._ask(Forget())

    def trace(self, on: bool) -> None:
        """Starts or stops the profiler that the `ENGINE` was loaded with (``profiler_config``)."""
        self._ask(Trace(on))

    @property
    def pid(self) -> int:
        """The process id, which is also the number of its session."""
        return self._child.pid

    def start(self, message: Message) -> None:
        """Sends a message and does not wait, so that two workers can work at once; then call `finish`."""
        self.hello()
        try:
            self._pipe.send_bytes(pickle.dumps(message, protocol=5))
        except OSError as error:
            raise self._died(self._child.ending(ENDS_S) or "ended") from error

    def finish(self) -> Any:
        """The answer to the message that `start` sent."""
        return self._receive(ANSWER_S)

    def _ask(self, message: Message) -> Any:
        self.start(message)
        return self.finish()

    def _receive(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise self._died(f"gave no answer in {seconds:g} s")
        try:
            return pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._died(self._child.ending(ENDS_S) or "ended") from error

    def _died(self, how: str) -> WorkerDiedError:
        which = "stock" if self._fork is None else f"the fork {self._fork}"
        return WorkerDiedError(f"the process with {which} {how}", self._child.tail())
