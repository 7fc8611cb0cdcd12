"""Asks transformers, in this process, in float32."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch

from vlmopt.argus.errors import InputError
from vlmopt.argus.evaluation.questions import Answer, Question, Tick
from vlmopt.argus.modeling import ArgusVLMForConditionalGeneration
from vlmopt.argus.processing import ArgusVLMProcessor

BATCH = 32


class Transformers:
    """Greedy answers of `model`, in batches of prompts of one length, so that nothing is padded.

    Args:
        tokens: the most tokens of an answer.
        batch: the most questions in a batch; another number changes no token.

    Raises:
        InputError: from `answer`: a question leaves no room for an answer.
    """

    def __init__(
        self,
        model: ArgusVLMForConditionalGeneration,
        processor: ArgusVLMProcessor,
        tokens: int,
        batch: int = BATCH,
    ) -> None:
        self._model = model
        self._processor = processor
        self._tokens = tokens
        self._batch = batch

    def answer(self, questions: Sequence[Question], tick: Tick = lambda done: None) -> list[Answer]:
        """The answers to all questions, in their order; `tick` is told how many there are so far."""
        prompts = [self._processor.prompt(question.example.question) for question in questions]
        lengths = [len(ids) for ids in self._processor.tokenizer(prompts)["input_ids"]] if prompts else []
        room = self._model.config.text_config.max_position_embeddings - self._processor.image_tokens
        for question, length in zip(questions, lengths, strict=True):
            if length >= room:
                raise InputError(
                    f"a question of {length} tokens about {question.picture}: this model takes {room - 1}"
                )
        # Answers of one task are of one length, too: few wait for others.
        groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        for number, (question, length) in enumerate(zip(questions, lengths, strict=True)):
            groups[length, question.example.task].append(number)
        answers: dict[int, Answer] = {}
        for group in groups.values():
            for start in range(0, len(group), self._batch):
                batch = group[start : start + self._batch]
                pictures = [questions[number].image() for number in batch]
                made = self._generate([prompts[number] for number in batch], pictures)
                answers.update(zip(batch, made, strict=True))
                tick(len(answers))
        return [answers[number] for number in range(len(questions))]

    @torch.inference_mode()
    def _generate(self, prompts: list[str], pictures: list[Any]) -> list[Answer]:
        inputs = self._processor(images=pictures, text=prompts, return_tensors="pt")
        output = self._model.generate(
            **inputs,
            max_new_tokens=self._tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        rows = output.sequences[:, inputs["input_ids"].shape[1] :]
        steps = [logits.float().log_softmax(-1) for logits in output.logits]
        sure = torch.stack(
            [step.gather(1, rows[:, number, None])[:, 0] for number, step in enumerate(steps)], 1
        )
        return [self._read(row, logprobs) for row, logprobs in zip(rows.tolist(), sure.tolist(), strict=True)]

    def _read(self, row: list[int], logprobs: list[float]) -> Answer:
        """Without what fills the row up after its end."""
        ends = self._model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        length = next((place + 1 for place, token in enumerate(row) if token in ends), len(row))
        tokens = row[:length]
        text = self._processor.tokenizer.decode(tokens, skip_special_tokens=True)
        return Answer(text, tuple(tokens), tuple(logprobs[:length]))
