"""vLLM's OpenAI server in a process of its own, stock's or a fork's, with the same command line for both."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from vlmopt.engine.child import Child, ChildError, Closing
from vlmopt.engine.environment import engine_environment
from vlmopt.engine.length import LONGEST, prompt_length
from vlmopt.engine.scratch import Scratch

START_S, ANSWER_S, STOP_S = 600, 300, 20
MODEL = "model"
"""The name that the server knows its model by."""
# Stock's own `vllm` command stops on CPU builds, which have no metadata of a distribution named vllm.
COMMAND = (sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model")
SETTINGS = (
    *("--served-model-name", MODEL, "--seed", "0", "--enforce-eager", "--no-enable-prefix-caching"),
    *("--max-num-batched-tokens", str(LONGEST), "--skip-mm-profiling"),
    *("--mm-processor-cache-gb", "1", "--trust-request-mm-kwargs"),
)


class ServerError(ChildError):
    """The server did not start, or is gone. `how` says it shortly; `output` holds the end of the log."""

    def __init__(self, name: str, how: str, output: str) -> None:
        super().__init__(f"{name} {how}", output)
        self.how = how


class Server(Closing):
    """Stock vLLM's server or, with `fork`, that of the fork in that folder, for the model in `folder`.

    Use it as a context manager: the server and its engine end with the block, and when this process ends,
    however that is. Starting takes many seconds and happens in the background: start both servers of a pair,
    then wait with `ready`. It listens on a Unix socket of its own, so that no port is needed and nobody else
    can ask it.

    `dtype` is the model's type, and `media` the folder that file URLs may read from. `command` starts the
    server when the model's folder and options are added to it, `more` are further options of ``vllm serve``,
    and `environment` is added to what `engine_environment` gives.
    """

    def __init__(
        self,
        fork: Path | None,
        folder: Path,
        *,
        trust_remote_code: bool = False,
        dtype: str = "float32",
        media: Path | None = None,
        command: Sequence[str] = COMMAND,
        more: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch = Scratch("server-")
        scratch = self._scratch.path
        socket = self._scratch.sockets / "socket"
        ours = engine_environment(fork, scratch, self._scratch.sockets)
        length = str(prompt_length(folder))
        options = [*SETTINGS, "--max-model-len", length, "--dtype", dtype, "--uds", str(socket), *more]
        options += ["--trust-remote-code"] if trust_remote_code else []
        options += ["--allowed-local-media-path", str(media.resolve())] if media else []
        self.name = "stock's server" if fork is None else f"the server of the fork {fork}"
        self._child = Child(
            [*command, str(folder.resolve()), *options],
            # The development mode of the server brings the call that empties its caches.
            ours | {"VLLM_SERVER_DEV_MODE": "1"} | dict(environment or {}),
            scratch / "log",
            patience=STOP_S,
        )
        self._started = time.monotonic()
        self.was_ready = False
        # A connection a request: the server closes one after an error of its own, and the next request on it
        # could meet that.
        self._client = httpx.Client(
            base_url="http://server",
            transport=httpx.HTTPTransport(uds=str(socket), limits=httpx.Limits(max_keepalive_connections=0)),
            timeout=ANSWER_S,
        )

    def close(self) -> None:
        """Ends the server and every process that it started. Closing twice does nothing."""
        self._client.close()
        self._child.end()
        self._scratch.cleanup()

    def kill(self) -> None:
        """Ends all of it at once, as a crash would."""
        self._child.kill()

    @property
    def pid(self) -> int:
        """The process id of the API server, which is the parent of its engine's."""
        return self._child.pid

    def exit_code(self, wait: float = 0) -> int | None:
        """What the server ended with; None where it still runs after `wait` seconds."""
        return self._child.exit_code(wait)

    def ready(self) -> Self:
        """Waits until the server answers. Raises ServerError when it ends before, or is not ready in time."""
        while not self.was_ready:
            if how := self._child.ending():
                raise self._error(f"{how} while it started")
            if time.monotonic() - self._started > START_S:
                raise self._error(f"was not ready after {START_S} s")
            try:
                self.was_ready = self._client.get("/health", timeout=5).is_success
            except httpx.TransportError:
                time.sleep(0.1)
        return self

    def get(self, path: str) -> httpx.Response:
        """The answer to a question without a body, as `post` gives it."""
        self.ready()
        with self._failing():
            return self._client.get(path)

    def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Sends JSON and returns the answer, whatever its status.

        Raises:
            ServerError: the server is gone, or gave no answer in time.
        """
        self.ready()
        with self._failing():
            return self._client.post(path, json=body)

    def stream(self, path: str, body: Mapping[str, Any]) -> tuple[httpx.Response, list[dict[str, Any]]]:
        """Sends JSON and returns the answer, read to its end, with the server-sent events in it.

        An answer that is no event stream, such as an error, has no events.

        Raises:
            ServerError: the server is gone, or gave no answer in time.
        """
        self.ready()
        with self._failing(), self._client.stream("POST", path, json=body) as response:
            lines = response.read().decode().splitlines()
        found = (line.removeprefix("data: ") for line in lines if line.startswith("data: "))
        return response, [json.loads(event) for event in found if event != "[DONE]"]

    def well(self) -> bool:
        """Whether the server runs and says that its engine does."""
        try:
            return self._client.get("/health").is_success
        except httpx.TransportError:
            return False

    def forget(self) -> None:
        """Empties the caches of images and of their embeddings.

        Raises:
            ServerError: the engine behind the server has ended, or ends.
        """
        for path in ("/reset_mm_cache", "/reset_encoder_cache"):
            status = self.post(path, {}).status_code
            if status >= 400:
                raise self._error(f"answered {path} with status {status}")

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            how = self._child.ending(1) or "gave no answer"
            raise self._error(f"{how} ({type(error).__name__})") from error

    def _error(self, how: str) -> ServerError:
        return ServerError(self.name, how, self._child.tail())
