"""How long models of the study's sizes take for one picture, in transformers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import quantiles

import torch
from argus_arms import Arm
from argus_record import Latency, Spread
from argus_scores import HeldOut

from vlmopt.argus.build import build_model, build_processor
from vlmopt.argus.evaluation.questions import Question
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor


class _Timed:
    """One model, and how long it took."""

    def __init__(self, arm: Arm) -> None:
        # The weights do not matter: every answer is made as long as the right one is.
        member = arm.member()
        self.processor = build_processor(member)
        self.model = build_model(member, self.processor)
        self.first: list[float] = []
        self.answer: list[float] = []
        self.tokens = 0

    def ask(self, question: Question) -> None:
        """Answers twice: with one token, and with as many as the right answer has."""
        text = question.example.text(self.processor.boxes)
        self.tokens = len(self.processor.tokenizer(text, add_special_tokens=False)["input_ids"]) + 1
        self.first.append(_seconds(self.model, self.processor, question, 1))
        self.answer.append(_seconds(self.model, self.processor, question, self.tokens))


def measure(arms: Sequence[Arm], repeats: int) -> dict[str, Latency]:
    """By the name of the size, with one thread: the sizes take turns at the same question.

    The first turn of each is not counted.
    """
    torch.set_num_threads(1)
    questions = HeldOut(8).groundings
    timed: Mapping[str, _Timed] = {arm.name: _Timed(arm) for arm in arms}
    for turn in range(repeats + 1):
        for one in timed.values():
            one.ask(questions[turn % len(questions)])
    return {
        name: Latency(
            parameters=one.model.num_parameters(),
            tokens=one.tokens,
            repeats=repeats,
            first_token=_spread(one.first[1:]),
            answer=_spread(one.answer[1:]),
        )
        for name, one in timed.items()
    }


def _seconds(
    model: ArgusVLMForConditionalGeneration, processor: ArgusVLMProcessor, question: Question, tokens: int
) -> float:
    """From a decoded picture to the last of so many tokens."""
    picture = question.image()
    began = time.perf_counter()
    inputs = processor(images=picture, text=processor.prompt(question.example.question), return_tensors="pt")
    with torch.inference_mode():
        model.generate(**inputs, min_new_tokens=tokens, max_new_tokens=tokens)
    return time.perf_counter() - began


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = quantiles(values, n=4)
    return Spread(median=median, low=low, high=high)
