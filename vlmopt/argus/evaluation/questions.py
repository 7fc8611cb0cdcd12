"""What is asked in an evaluation, and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vlmopt.argus.examples import Example, Samples

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Question:
    """One question about one picture, with what is known to be right. `image()` makes the picture, RGB."""

    picture: str
    image: Callable[[], Image]
    example: Example


@dataclass(frozen=True)
class Answer:
    """A greedy answer.

    Attributes:
        text: without special tokens.
        tokens: ids, with that of the end where the answer came to it.
        logprobs: the natural logarithm of each token's probability.
    """

    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


Tick = Callable[[int], None]
"""Called with how many questions have been answered."""


class Engine(Protocol):
    """Who answers: transformers, vLLM, a fork."""

    def answer(self, questions: Sequence[Question], tick: Tick) -> list[Answer]:
        """The answers to all questions, in their order."""
        ...


def questions_of(samples: Samples, count: int | None) -> list[Question]:
    """All questions about the first `count` pictures, or about all for None."""
    numbers = range(len(samples) if count is None else min(count, len(samples)))
    return [
        Question(sample.name, sample.image, example)
        for sample in map(samples.__getitem__, numbers)
        for example in sample.examples
    ]
