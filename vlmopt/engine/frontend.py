"""A process with vLLM's own processors, answering over a pipe (`vlmopt.engine.worker.PROCESSORS`).

    python -m vlmopt.engine.frontend FD

Which vLLM that is, stock or a fork, is decided by PYTHONPATH alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from vllm.config import ModelConfig
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.cache import MultiModalProcessorOnlyCache
from vllm.multimodal.inputs import MultiModalKwargsItem
from vllm.multimodal.media import ImageMediaIO
from vllm.multimodal.utils import argsort_mm_positions, group_and_batch_mm_kwargs
from vllm.platforms import current_platform
from vllm.plugins import load_general_plugins
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from vlmopt.engine.answering import answer_messages, describe_error, tensors_in
from vlmopt.engine.length import prompt_length
from vlmopt.engine.protocol import (
    Batch,
    Load,
    Message,
    Outcome,
    Placeholder,
    Process,
    Prompt,
    Request,
    Tensor,
    TensorImage,
    Time,
    Timing,
)

Items = list[tuple[str, MultiModalKwargsItem]]
Embed = Callable[[dict[str, Any], bool], tuple[Tensor, ...]]


def open_images(request: Request) -> list[Any]:
    """Encoded files are opened as the server opens them; all else is what a user hands to vLLM."""
    return [_open(image) for image in request.images]


def _open(image: Any) -> Any:
    if isinstance(image, bytes):
        return ImageMediaIO().load_bytes(image)
    return torch.from_numpy(image.array) if isinstance(image, TensorImage) else image


class Frontend:
    """vLLM's frontend for one model, without a server: from a request to what an engine process receives."""

    def __init__(self, message: Load) -> None:
        load_general_plugins()  # an engine does it by itself
        usual = {
            "tokenizer": message.folder,
            "dtype": "bfloat16",
            "max_model_len": prompt_length(Path(message.folder)),
            "mm_processor_cache_gb": 1,
            "seed": 0,
        }
        config = ModelConfig(
            model=message.folder,
            trust_remote_code=message.trust_remote_code,
            **(usual | dict(message.config)),
        )
        self.processor = MULTIMODAL_REGISTRY.create_processor(config)
        self.cache = MultiModalProcessorOnlyCache(config)
        self.encoder = MsgpackEncoder()
        self.decoder = MsgpackDecoder(list[MultiModalKwargsItem])
        self.device = torch.device(current_platform.device_type)

    def process(self, message: Process, embed: Embed | None = None) -> Outcome:
        """Each prompt, and the batches that all items make together; the cache is empty at the start."""
        self.cache.clear_cache()
        prompts, items = [], list[tuple[str, MultiModalKwargsItem]]()
        for request in message.requests:
            prompt, more = self._prompt(request)
            prompts.append(prompt)
            items += more
        items.sort(key=lambda item: item[0])  # by modality, stable: so the model runner orders a batch
        batches = []
        try:
            for modality, count, kwargs in group_and_batch_mm_kwargs(items, device=self.device):
                tensors = dict(tensors_in(kwargs, message.data))
                batches.append(Batch(modality, count, tensors, embed(kwargs, message.data) if embed else ()))
        except Exception as error:
            return Outcome(tuple(prompts), error=describe_error(error))
        return Outcome(tuple(prompts), tuple(batches))

    def time(self, message: Time) -> Timing:
        """One request with the clock around it."""
        start = time.perf_counter()
        images = open_images(message.request)
        opened = time.perf_counter()
        result = self._call(message.request, images)
        done = time.perf_counter()
        return Timing(opened - start, done - opened, self._send(result)[1], len(result["prompt_token_ids"]))

    def _call(self, request: Request, images: list[Any]) -> Any:
        return self.processor(
            request.prompt,
            mm_items=self.processor.info.parse_mm_data(
                ({"image": images} if images else {}) | dict(request.more)
            ),
            mm_uuid_items=request.uuids,
            hf_processor_mm_kwargs=request.mm_processor_kwargs,
            cache=self.cache if request.cached else None,
        )

    def _send(self, result: Any) -> tuple[Items, int]:
        """The items in prompt order, after a way through the engine's wire format, and their bytes on it."""
        order = argsort_mm_positions(result["mm_placeholders"])
        wire = self.encoder.encode([result["mm_kwargs"][modality][index] for modality, index in order])
        received = self.decoder.decode(wire)
        modalities = [modality for modality, _ in order]
        return list(zip(modalities, received, strict=True)), sum(memoryview(part).nbytes for part in wire)

    def _prompt(self, request: Request) -> tuple[Prompt, Items]:
        try:
            result = self._call(request, open_images(request))
            items, sent = self._send(result)
        except Exception as error:
            return Prompt(error=describe_error(error)), []
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


def _answer(frontend: Frontend, message: Message) -> object:
    if isinstance(message, Process):
        return frontend.process(message)
    if isinstance(message, Time):
        return frontend.time(message)
    raise TypeError(f"processors alone cannot answer {type(message).__name__}")


if __name__ == "__main__":
    answer_messages(int(sys.argv[1]), Frontend, _answer)
