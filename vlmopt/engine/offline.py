"""A process with a whole engine, the offline ``LLM``, answering over a pipe (`vlmopt.engine.worker.ENGINE`).

python -m vlmopt.engine.offline FD
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the model is in this process: what enters it can be seen

import torch
from vllm import LLM, SamplingParams

from vlmopt.engine.answering import answer_messages, describe_error, describe_tensor, tensors_in
from vlmopt.engine.frontend import Frontend, open_images
from vlmopt.engine.protocol import (
    Answer,
    Answered,
    Batch,
    Error,
    FirstToken,
    Generate,
    Load,
    Message,
    Process,
    Request,
    Tensor,
    Time,
)

MAX_MODEL_LEN = 8192
LOGPROBS = 5
SETTINGS: dict[str, Any] = {
    "dtype": "bfloat16",
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "max_model_len": MAX_MODEL_LEN,
    "max_num_batched_tokens": MAX_MODEL_LEN,
    "limit_mm_per_prompt": {"image": 4},
    "skip_mm_profiling": True,
    "seed": 0,
}


class Engine:
    """The offline ``LLM`` for one model. `Load.config` holds further arguments of ``LLM``."""

    def __init__(self, message: Load) -> None:
        self.llm = LLM(
            message.folder, trust_remote_code=message.trust_remote_code, **(SETTINGS | dict(message.config))
        )
        # The frontend's own settings are those of the engine's model.
        known = {"dtype", "max_model_len", "seed", "limit_mm_per_prompt", "mm_processor_kwargs"}
        config = {key: value for key, value in (SETTINGS | dict(message.config)).items() if key in known}
        self.frontend = Frontend(Load(message.folder, message.trust_remote_code, config))
        self.watched: list[Batch] | None = None
        self.llm.apply_model(self._watch)

    def generate(self, message: Generate) -> Answered:
        """Greedy answers to all requests, in the engine together; its caches are empty at the start."""
        self.llm.reset_mm_cache()
        self.watched = []
        greedy = SamplingParams(max_tokens=message.tokens, temperature=0, logprobs=LOGPROBS, ignore_eos=True)
        accepted: list[int] = []
        answers: list[Answer] = [Answer() for _ in message.requests]
        for index, request in enumerate(message.requests):
            try:
                self.llm.enqueue([_prompt(request)], greedy, use_tqdm=False)
                accepted.append(index)
            except Exception as error:
                answers[index] = Answer(error=describe_error(error))
        # In the order of arrival.
        for index, output in zip(accepted, self.llm.wait_for_completion(use_tqdm=False), strict=True):
            (text,) = output.outputs
            steps = tuple(
                tuple((token, entry.logprob) for token, entry in step.items()) for step in text.logprobs
            )
            answers[index] = Answer(tuple(output.prompt_token_ids), tuple(text.token_ids), steps)
        batches, self.watched = tuple(self.watched), None
        return Answered(tuple(answers), batches)

    def embed(self, kwargs: dict[str, Any], data: bool) -> tuple[Tensor, ...]:
        """What the vision tower and the projector make of one batch, one tensor an item."""

        def run(model: Any) -> tuple[Tensor, ...]:
            with torch.inference_mode():
                return tuple(describe_tensor(item, data) for item in model.embed_multimodal(**kwargs))

        embeddings: tuple[Tensor, ...] = self.llm.apply_model(run)[0]
        return embeddings

    def first_token(self, request: Request) -> FirstToken | Error:
        """One token with the clock around it, from encoded images on."""
        self.llm.reset_mm_cache()
        one = SamplingParams(max_tokens=1, temperature=0)
        start = time.perf_counter()
        try:
            (output,) = self.llm.generate([_prompt(request)], one, use_tqdm=False)
        except ValueError as error:
            return describe_error(error)
        return FirstToken(time.perf_counter() - start, len(output.prompt_token_ids))

    def _watch(self, model: Any) -> None:
        stock = model.embed_multimodal

        def embed_multimodal(**kwargs: Any) -> Any:
            if self.watched is not None:
                tensors = dict(tensors_in(kwargs, False))
                self.watched.append(Batch("", 0, tensors))
            return stock(**kwargs)

        model.embed_multimodal = embed_multimodal


def _prompt(request: Request) -> dict[str, Any]:
    images = open_images(request)
    key = "prompt" if isinstance(request.prompt, str) else "prompt_token_ids"
    return {
        key: request.prompt,
        "multi_modal_data": ({"image": images} if images else {}) | dict(request.more),
        "mm_processor_kwargs": dict(request.mm_processor_kwargs),
    }


def _answer(engine: Engine, message: Message) -> object:
    if isinstance(message, Process):
        return engine.frontend.process(message, engine.embed if message.embed else None)
    if isinstance(message, Generate):
        return engine.generate(message)
    if isinstance(message, Time):
        return engine.first_token(message.request)
    raise TypeError(f"an engine cannot answer {type(message).__name__}")


if __name__ == "__main__":
    answer_messages(int(sys.argv[1]), Engine, _answer)
