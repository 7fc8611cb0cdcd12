"""What is asked of transformers in a process of its own, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Job:
    """The folder, the class that loads its model, and the prompts with their images.

    Answers have `tokens` greedy tokens each, and the `best` largest logits of every step; with `whole` they
    end where the model ends them. `imports` is a module that makes the model known to transformers.
    """

    folder: str
    model_class: str
    prompts: list[tuple[str, tuple[Image, ...]]]
    tokens: int
    best: int
    whole: bool = False
    imports: str | None = None


@dataclass(frozen=True)
class ThirdPartyAnswer:
    """What transformers made of one prompt.

    `tensors` holds what its processor gives the model beside the token ids, `embeddings` the features of all
    images in a row (float32, tokens x hidden size), `logits` of each step (token, value) from the largest on.
    `text` is the answer without special tokens; `boxes` has of each box in it the words before it and its
    corners, where the processor reads boxes and each can be read.
    """

    token_ids: list[int]
    tensors: dict[str, Array]
    embeddings: Array | None
    logits: list[list[tuple[int, float]]]
    tokens: list[int]
    text: str
    boxes: list[tuple[str, tuple[float, ...]]] | None = None
