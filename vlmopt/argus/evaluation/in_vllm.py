"""Asks vLLM, stock or a fork, in a process of its own, in float32."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlmopt.argus.errors import InputError
from vlmopt.argus.evaluation.questions import Answer, Question, Tick
from vlmopt.argus.processing import ArgusVLMProcessor
from vlmopt.engine.child import Closing
from vlmopt.engine.protocol import Answer as EngineAnswer
from vlmopt.engine.protocol import Request
from vlmopt.engine.worker import ENGINE, Worker

BATCH = 128


class VLLM(Closing):
    """Greedy answers of the checkpoint in a folder, by stock vLLM or the fork in the folder `fork`.

    The process starts in the background, loads the model at the first questions, and ends with `close`.

    Args:
        context: the most tokens of a prompt and its answer.
        tokens: the most tokens of an answer.

    Raises:
        VlmoptError: from `answer`: the engine does not start, ends, or refuses a question.
    """

    def __init__(
        self,
        checkpoint: Path,
        processor: ArgusVLMProcessor,
        *,
        context: int,
        tokens: int,
        fork: Path | None = None,
    ) -> None:
        self._name = "stock vLLM" if fork is None else f"the fork {fork}"
        self._checkpoint = checkpoint.resolve()
        self._processor = processor
        self._context = context
        self._tokens = tokens
        self._loaded = False
        self._worker = Worker(fork, child=ENGINE)

    def close(self) -> None:
        """Ends the process. Closing twice does nothing."""
        self._worker.close()

    def answer(self, questions: Sequence[Question], tick: Tick = lambda done: None) -> list[Answer]:
        """The answers to all questions, in their order; `tick` is told how many there are so far."""
        if not self._loaded:
            self._worker.load(
                self._checkpoint,
                dtype="float32",
                max_model_len=self._context,
                max_num_batched_tokens=max(self._context, 4096),
                limit_mm_per_prompt={"image": 1},
            )
            self._loaded = True
        answers: list[Answer] = []
        for start in range(0, len(questions), BATCH):
            batch = questions[start : start + BATCH]
            requests = [
                Request(self._processor.prompt(question.example.question), (question.image(),))
                for question in batch
            ]
            made = self._worker.generate(*requests, tokens=self._tokens, until_end=True).answers
            answers += [self._read(question, answer) for question, answer in zip(batch, made, strict=True)]
            tick(len(answers))
        return answers

    def _read(self, question: Question, answer: EngineAnswer) -> Answer:
        if answer.error is not None:
            asked = f"{question.example.question!r} about {question.picture}"
            raise InputError(f"{self._name} refuses the question {asked}: {answer.error.message}")
        logprobs = [dict(step)[token] for step, token in zip(answer.logprobs, answer.tokens, strict=True)]
        # Not the engine's own text, which leaves out half a character at the end.
        text = self._processor.tokenizer.decode(answer.tokens, skip_special_tokens=True)
        return Answer(text, answer.tokens, tuple(logprobs))
