"""The process behind `tests.support.worker.Worker`: vLLM's own processors, answering over a pipe.

    python -m tests.support.worker_child FD

Which vLLM that is, stock or a fork, is decided by PYTHONPATH alone.
"""

import hashlib
import pickle
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import torch
import vllm
from vllm.config import ModelConfig
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.cache import MultiModalProcessorOnlyCache
from vllm.multimodal.inputs import MultiModalKwargsItem
from vllm.multimodal.media import ImageMediaIO
from vllm.multimodal.utils import argsort_mm_positions, group_and_batch_mm_kwargs
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from tests.support.protocol import (
    Batch,
    Error,
    Hello,
    Load,
    Outcome,
    Placeholder,
    Process,
    Prompt,
    Request,
    Tensor,
    Time,
    Timing,
)

Items = list[tuple[str, MultiModalKwargsItem]]


class Frontend:
    """vLLM's frontend for one model, without a server: from a request to what an engine process receives."""

    def __init__(self, message: Load) -> None:
        usual = {
            "tokenizer": message.folder,
            "dtype": "bfloat16",
            "max_model_len": 8192,
            "mm_processor_cache_gb": 1,
            "seed": 0,
        }
        config = ModelConfig(
            model=message.folder,
            trust_remote_code=message.trust_remote_code,
            **(usual | message.config),
        )
        self.processor = MULTIMODAL_REGISTRY.create_processor(config)
        self.cache = MultiModalProcessorOnlyCache(config)
        self.encoder = MsgpackEncoder()
        self.decoder = MsgpackDecoder(list[MultiModalKwargsItem])

    def open(self, request: Request) -> list[Any]:
        return [ImageMediaIO().load_bytes(i) if isinstance(i, bytes) else i for i in request.images]

    def call(self, request: Request, images: list[Any]) -> Any:
        return self.processor(
            request.prompt,
            mm_items=self.processor.info.parse_mm_data(({"image": images} if images else {}) | request.more),
            mm_uuid_items=request.uuids,
            hf_processor_mm_kwargs=request.mm_processor_kwargs,
            cache=self.cache if request.cached else None,
        )

    def send(self, result: Any) -> tuple[Items, int]:
        """The items in prompt order, after a way through the engine's wire format, and their bytes on it."""
        order = argsort_mm_positions(result["mm_placeholders"])
        wire = self.encoder.encode([result["mm_kwargs"][modality][index] for modality, index in order])
        received = self.decoder.decode(wire)
        modalities = [modality for modality, _ in order]
        return list(zip(modalities, received, strict=True)), sum(memoryview(part).nbytes for part in wire)

    def prompt(self, request: Request) -> tuple[Prompt, Items]:
        try:
            result = self.call(request, self.open(request))
            items, sent = self.send(result)
        except Exception as error:
            return Prompt(error=describe(error)), []
        placeholders = tuple(
            Placeholder(
                modality,
                place.offset,
                place.length,
                None if place.is_embed is None else tuple(place.is_embed.tolist()),
            )
            for modality, places in result["mm_placeholders"].items()
            for place in places
        )
        hashes = {modality: tuple(values) for modality, values in result["mm_hashes"].items()}
        return Prompt(tuple(result["prompt_token_ids"]), placeholders, hashes, sent=sent), items

    def process(self, message: Process) -> Outcome:
        prompts, items = [], list[tuple[str, MultiModalKwargsItem]]()
        for request in message.requests:
            prompt, more = self.prompt(request)
            prompts.append(prompt)
            items += more
        items.sort(key=lambda item: item[0])  # by modality, stable: so the model runner orders a batch
        try:
            batches = tuple(
                Batch(modality, count, dict(facts(kwargs, message.data)))
                for modality, count, kwargs in group_and_batch_mm_kwargs(items, device=torch.device("cpu"))
            )
        except Exception as error:
            return Outcome(tuple(prompts), error=describe(error))
        return Outcome(tuple(prompts), batches)

    def time(self, message: Time) -> Timing:
        start = time.perf_counter()
        images = self.open(message.request)
        opened = time.perf_counter()
        result = self.call(message.request, images)
        done = time.perf_counter()
        return Timing(opened - start, done - opened, self.send(result)[1], len(result["prompt_token_ids"]))


def facts(value: Any, data: bool, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Walks the keyword arguments of a batch and describes each tensor in them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from facts(inner, data, key)
    elif isinstance(value, torch.Tensor):
        raw = value.detach().contiguous().flatten().view(torch.uint8).numpy()
        dtype = str(value.dtype).removeprefix("torch.")
        digest = hashlib.sha256(raw).hexdigest()
        yield name, Tensor(tuple(value.shape), dtype, digest, raw.tobytes() if data else None)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from facts(inner, data, f"{name}[{index}]")
    else:
        yield name, Tensor((), type(value).__name__, repr(value))


def describe(error: BaseException) -> Error:
    return Error(type(error).__name__, str(error), error.__cause__ and describe(error.__cause__))


def main() -> None:
    torch.set_num_threads(1)
    pipe = Connection(int(sys.argv[1]))
    frontends: dict[str, Frontend] = {}
    frontend: Frontend | None = None
    pipe.send_bytes(pickle.dumps(Hello(vllm.__file__, vllm.__version__)))
    while True:
        try:
            message = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        answer: Outcome | Timing | None = None
        if isinstance(message, Load):
            frontend = frontends.get(repr(message)) or Frontend(message)
            frontends[repr(message)] = frontend
        elif frontend is None:
            raise RuntimeError("no model is loaded")
        elif isinstance(message, Process):
            answer = frontend.process(message)
        else:
            answer = frontend.time(message)
        pipe.send_bytes(pickle.dumps(answer, protocol=5))


if __name__ == "__main__":
    main()
