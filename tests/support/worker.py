"""Long-lived processes with vLLM's real processors; stock and fork never share one."""

import os
import pickle
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.protocol import Error, FirstToken, Hello, Load, Outcome, Process, Request, Time, Timing

ROOT = Path(__file__).parents[2]
PYCACHE = Path(tempfile.gettempdir()) / f"vlmopt-tests-pycache-{os.getuid()}"
START_S, ANSWER_S = 180, 300


class WorkerDiedError(RuntimeError):
    """The process ended or fell silent; the message holds the end of what it wrote."""


def engine_environment(fork: Path | None, scratch: Path) -> dict[str, str]:
    """The environment of a process that runs vLLM offline on the CPU: stock's, or with `fork` that fork's.

    `scratch` takes what transformers writes (remote code modules), so that two engines never write one file.
    """
    ours = {
        "HF_HUB_OFFLINE": "1",
        "HF_MODULES_CACHE": str(scratch / "modules"),
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",  # vLLM hashes embeddings in the order of a set of names
    }
    left_out = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out} | ours
    if sys.dont_write_bytecode:
        # Compiling torch and vLLM takes ten seconds a process: keep the bytecode, outside the installation.
        environment["PYTHONPYCACHEPREFIX"] = str(PYCACHE)
    if fork is not None:
        environment["PYTHONPATH"] = str(fork.resolve())
    return environment


class Worker:
    """A process with stock vLLM or, with `fork`, with the fork in that folder.

    Use it as a context manager: the process ends with the block. It also ends when this process does.
    Starting takes seconds and happens in the background: start both workers of a pair, then `load`.
    `child` is the module that it runs: processors alone, or a whole engine.
    """

    def __init__(self, fork: Path | None = None, *, child: str = "tests.support.worker_child") -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="worker-")
        scratch = Path(self._scratch.name)
        self._output = scratch / "output"
        self._pipe, theirs = Pipe()
        with theirs, self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", child, str(theirs.fileno())],
                cwd=ROOT,
                env=engine_environment(fork, scratch),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._fork = fork
        self._hello: Hello | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. Closing twice does nothing."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()
        self._scratch.cleanup()

    def hello(self) -> Hello:
        """Waits until the worker is ready. Raises WorkerDiedError when its vLLM is not the one asked for."""
        if self._hello is None:
            self._hello = self._receive(START_S)
            home = Path(self._hello.vllm).parents[1]
            if self._fork is not None and home != self._fork.resolve():
                raise WorkerDiedError(f"the worker imported vLLM from {home}, not from {self._fork}")
        return self._hello

    def load(self, folder: Path, *, trust_remote_code: bool = False, **config: Any) -> None:
        """Makes the model in `folder` the one that is asked from now on. Loaded models stay loaded.

        `config` holds further arguments of vLLM's ``ModelConfig``.
        """
        self._ask(Load(str(folder), trust_remote_code, config))

    def process(self, *requests: Request, data: bool = False) -> Outcome:
        """Processes each request, then batches all their items together, as the engine does for one step."""
        return self._ask(Process(requests, data))

    def time(self, request: Request) -> Timing:
        """Processes `request` once, with a clock around it."""
        return self._ask(Time(request))

    def first_token(self, request: Request) -> FirstToken | Error:
        """Asks a worker that runs ``tests.support.engine_child`` for one token, with a clock around it."""
        return self._ask(Time(request))

    def start(self, message: Load | Process | Time) -> None:
        """Sends a message and does not wait, so that two workers can work at once; then call `finish`."""
        self.hello()
        try:
            self._pipe.send_bytes(pickle.dumps(message, protocol=5))
        except OSError as error:
            raise self._died("ended") from error

    def finish(self) -> Any:
        """The answer to the message that `start` sent."""
        return self._receive(ANSWER_S)

    def _ask(self, message: Load | Process | Time) -> Any:
        self.start(message)
        return self.finish()

    def _receive(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise self._died(f"gave no answer in {seconds:g} s")
        try:
            return pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._died("ended") from error

    def _died(self, how: str) -> WorkerDiedError:
        tail = self._output.read_text("utf-8", "replace")[-3000:]
        return WorkerDiedError(f"the worker {how}; its output ends with:\n{tail}")
