"""A process with a whole engine, the offline ``LLM``, answering over a pipe (`vlmopt.engine.worker.ENGINE`).

python -m vlmopt.engine.offline FD
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the model is in this process: what enters it can be seen

import torch
from vllm import LLM, SamplingParams
from vllm.platforms import current_platform

from vlmopt.engine.answering import answer_messages, describe_error, describe_tensor, tensors_in
from vlmopt.engine.frontend import Frontend, open_images
from vlmopt.engine.length import LONGEST, prompt_length
from vlmopt.engine.protocol import (
    About,
    Answer,
    Answered,
    Batch,
    Describe,
    Error,
    Forget,
    Generate,
    Latency,
    Load,
    Message,
    Process,
    Request,
    Tensor,
    Time,
    Trace,
    Wait,
)

SWITCH = "mm_device_do_normalize"
LOGPROBS = 5
SETTINGS: dict[str, Any] = {
    "dtype": "bfloat16",
    "enforce_eager": True,
    "enable_prefix_caching": False,
    "max_num_batched_tokens": LONGEST,
    "limit_mm_per_prompt": {"image": 4},
    "skip_mm_profiling": True,
    "seed": 0,
}


class Engine:
    """The offline ``LLM`` for one model. `Load.config` holds further arguments of ``LLM``."""

    def __init__(self, message: Load) -> None:
        length = {"max_model_len": prompt_length(Path(message.folder))}
        self.settings = SETTINGS | length | dict(message.config)
        self.llm = LLM(message.folder, trust_remote_code=message.trust_remote_code, **self.settings)
        # The frontend's own settings are those of the engine's model.
        known = {"dtype", "max_model_len", "seed", "limit_mm_per_prompt", "mm_processor_kwargs"} | {SWITCH}
        config = {key: value for key, value in self.settings.items() if key in known}
        self.frontend = Frontend(Load(message.folder, message.trust_remote_code, config))
        self.watched: list[Batch] | None = None
        self.llm.apply_model(self._watch)

    def generate(self, message: Generate) -> Answered:
        """Greedy answers to all requests, in the engine together; its caches are empty at the start."""
        self.llm.reset_mm_cache()
        self.watched = []
        greedy = SamplingParams(
            max_tokens=message.tokens,
            temperature=0,
            logprobs=LOGPROBS,
            ignore_eos=not message.until_end,
        )
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
            prompt, tokens = tuple(output.prompt_token_ids), tuple(text.token_ids)
            answers[index] = Answer(prompt, tokens, steps, text=text.text)
        batches, self.watched = tuple(self.watched), None
        return Answered(tuple(answers), batches)

    def embed(self, kwargs: dict[str, Any], data: bool) -> tuple[Tensor, ...]:
        """What the vision tower and the projector make of one batch, one tensor an item."""

        def run(model: Any) -> tuple[Tensor, ...]:
            with torch.inference_mode():
                return tuple(describe_tensor(item, data) for item in model.embed_multimodal(**kwargs))

        embeddings: tuple[Tensor, ...] = self.llm.apply_model(run)[0]
        return embeddings

    def latency(self, request: Request, tokens: int) -> Latency | Error:
        """An answer of `tokens` tokens with the clock around it, from encoded images on."""
        self.llm.reset_mm_cache()
        greedy = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        start = time.perf_counter()
        try:
            self.llm.enqueue([_prompt(request)], greedy, use_tqdm=False)
        except Exception as error:
            return describe_error(error)
        (output,) = self.llm.wait_for_completion(use_tqdm=False)
        return Latency(time.perf_counter() - start, len(output.prompt_token_ids))

    def forget(self) -> None:
        """Empties the caches of images and of their embeddings."""
        self.llm.reset_mm_cache()
        self.llm.llm_engine.reset_encoder_cache()

    def about(self, forget: bool) -> About:
        """What this engine runs on; with `forget` the peak of the device's memory begins anew."""
        on_device = torch.accelerator.is_available() and current_platform.device_type != "cpu"
        multimodal = self.llm.llm_engine.model_config.get_multimodal_config()
        about = About(
            current_platform.device_type,
            current_platform.get_device_name() if on_device else None,
            torch.get_num_threads(),
            {name: str(value) for name, value in self.settings.items()},
            getattr(multimodal, SWITCH, None),
            torch.accelerator.max_memory_allocated() if on_device else None,
        )
        if forget and on_device:
            torch.accelerator.reset_peak_memory_stats()
        return about

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
        return engine.frontend.time(message)
    if isinstance(message, Wait):
        return engine.latency(message.request, message.tokens)
    if isinstance(message, Describe):
        return engine.about(message.forget)
    if isinstance(message, Forget):
        engine.forget()
        return None
    if isinstance(message, Trace):
        return engine.llm.start_profile() if message.on else engine.llm.stop_profile()
    raise TypeError(f"an engine cannot answer {type(message).__name__}")


if __name__ == "__main__":
    answer_messages(int(sys.argv[1]), Engine, _answer)
