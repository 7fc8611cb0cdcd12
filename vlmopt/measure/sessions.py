"""A vLLM that answers one request after another, with the timers in it: offline, or the OpenAI server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vlmopt.engine.client import CHAT
from vlmopt.engine.protocol import Error, Request
from vlmopt.engine.server import Server
from vlmopt.engine.worker import ENGINE, Worker
from vlmopt.errors import UsageError
from vlmopt.measure.load import chat_body
from vlmopt.measure.profile_file import EngineKind
from vlmopt.measure.watch import Watch
from vlmopt.small import small_of
from vlmopt.specs import Spec
from vlmopt.verify.chat import data_url
from vlmopt.verify.parts import Model
from vlmopt.verify.subject import model_of

CACHE_GB = 1
"""Of the processor's cache, which is emptied before each request; stock hashes pictures where it has one."""
TEXT = "Can you describe this image?"
_ANOTHER = "try another --size or --image"
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt")


@dataclass(frozen=True)
class Picture:
    """An encoded image, and its format as Pillow names it."""

    file: bytes
    form: str


class Session(Protocol):
    """What is profiled."""

    @property
    def pid(self) -> int:
        """The first of its processes."""
        ...

    def ask(self, pictures: Sequence[Picture]) -> int:
        """Asks for one token; returns the number of prompt tokens."""
        ...

    def forget(self) -> None:
        """Empties the caches of images and of their embeddings."""
        ...

    def trace(self, on: bool) -> None:
        """Starts or stops vLLM's own profiler."""
        ...


class Offline:
    """The offline engine, with the model in its process."""

    def __init__(self, worker: Worker, model: Model) -> None:
        self._worker = worker
        self._model = model

    @property
    def pid(self) -> int:
        return self._worker.pid

    def ask(self, pictures: Sequence[Picture]) -> int:
        prompt = self._model.requests.prompt_for(len(pictures))
        answer = self._worker.latency(
            Request(prompt, tuple(picture.file for picture in pictures), cached=True)
        )
        if isinstance(answer, Error):
            raise UsageError(f"the engine refuses the request: {_line(answer.message)}; {_ANOTHER}")
        return answer.prompt_tokens

    def forget(self) -> None:
        self._worker.forget()

    def trace(self, on: bool) -> None:
        self._worker.trace(on)


class Serving:
    """The OpenAI server, whose engine is a process of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def pid(self) -> int:
        return self._server.pid

    def ask(self, pictures: Sequence[Picture]) -> int:
        response = self._server.post(
            CHAT, chat_body(TEXT, [data_url(picture.file, picture.form) for picture in pictures])
        )
        if not response.is_success:
            raise UsageError(f"{self._server.name} refuses the request: {_line(response.text)}; {_ANOTHER}")
        return int(response.json()["usage"]["prompt_tokens"])

    def forget(self) -> None:
        self._server.forget()

    def trace(self, on: bool) -> None:
        path = "/start_profile" if on else "/stop_profile"
        response = self._server.post(path, {})
        if not response.is_success:
            raise UsageError(f"{self._server.name} answers {path} with status {response.status_code}")


@contextmanager
def open_session(
    kind: EngineKind,
    fork: Path | None,
    model: Model,
    watch: Watch,
    *,
    load_format: str,
    dtype: str,
    traces: Path | None = None,
) -> Iterator[Session]:
    """A session that is ready to be asked. Its processes end with the block.

    Args:
        kind: the offline engine, or the server.
        fork: the fork's folder; None for stock.
        model: what to load.
        watch: the timers that are put into all of its processes.
        load_format: vLLM's; ``dummy`` for a folder without weights.
        dtype: the model's type.
        traces: the folder that vLLM's own profiler writes to; None for none.

    Raises:
        ChildError: it cannot start.
    """
    environment = watch.environment(fork)
    profiler = {"profiler": "torch", "torch_profiler_dir": str(traces), "torch_profiler_use_gzip": False}
    if kind == "offline":
        config = {"profiler_config": profiler} if traces else {}
        with Worker(fork, child=ENGINE, environment=environment) as worker:
            worker.load(
                model.folder,
                trust_remote_code=model.trust_remote_code,
                mm_processor_cache_gb=CACHE_GB,
                load_format=load_format,
                dtype=dtype,
                **config,
            )
            yield Offline(worker, model)
        return
    more = ["--load-format", load_format, *(("--profiler-config", json.dumps(profiler)) if traces else ())]
    with Server(
        fork,
        model.folder,
        trust_remote_code=model.trust_remote_code,
        dtype=dtype,
        more=more,
        environment=environment,
    ) as server:
        yield Serving(server.ready())


@contextmanager
def loaded_model(spec: Spec, folder: Path | None) -> Iterator[tuple[Model, str, str]]:
    """The model to load, its weights in words, and vLLM's load format for them.

    Raises:
        UsageError: `folder` is no model folder.
        SpecError: there is no folder, and the spec describes no small one.
    """
    with model_of(spec, folder, weights=True) as model:
        if folder is None:
            shipped = small_of(spec).checkpoint
            yield model, shipped or "small model of the spec, seeded weights", "auto"
        elif any(any(model.folder.glob(pattern)) for pattern in _WEIGHTS):
            yield model, f"of the folder {model.folder.name}", "auto"
        else:
            yield model, f"dummies, for the folder {model.folder.name} has none", "dummy"


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else f"{text[:200]}..."
