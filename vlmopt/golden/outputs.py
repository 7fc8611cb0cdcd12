"""What one implementation makes of one case, in short, and how far two of them are apart."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SAMPLES = 48


class Stage(StrEnum):
    """What is compared, in the order of a request's way."""

    token_ids = "prompt token ids"
    inputs = "vision tower inputs"
    embeddings = "image embeddings"
    logits = "logits"
    tokens = "greedy tokens"
    answer = "answer"


# How far apart two right implementations may be: their sums are in another order. What enters the tower and
# every token is equal.
TOLERANCE: Mapping[Stage, float] = {
    Stage.token_ids: 0,
    Stage.inputs: 0,
    Stage.embeddings: 1e-4,
    Stage.logits: 1e-3,
    Stage.tokens: 0,
    Stage.answer: 0,
}


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Summary(_Frozen):
    """One tensor: shape without leading ones, type, SHA-256 of its bytes, and `SAMPLES` of its values."""

    shape: tuple[int, ...]
    dtype: str
    sha256: str
    samples: tuple[float, ...]


class Output(_Frozen):
    """One case by one implementation.

    `token_ids` and `tokens` are token ids, the former as runs (id, how many). `inputs` holds the tensors that
    enter the vision tower, by what they hold. `logits` has of each step (token, value), the largest first. Of
    whole answers there is the `text`, and `boxes` with the words before each and its corners, by a third
    party whose processor reads them.
    """

    token_ids: tuple[tuple[int, int], ...]
    inputs: dict[str, Summary]
    embeddings: Summary | None
    logits: tuple[tuple[tuple[int, float], ...], ...]
    tokens: tuple[int, ...]
    text: str | None = None
    boxes: tuple[tuple[str, tuple[float, ...]], ...] | None = None


@dataclass(frozen=True)
class Distance:
    """How far two outputs are apart at one stage: a count for tokens, else a largest difference.

    `equal` says more than a value of 0, which is of samples: every bit is the same.
    """

    value: float
    equal: bool


def summarize(tensor: Array) -> Summary:
    """Shape, type, digest and evenly spaced samples of an array."""
    import numpy as np

    flat = np.ascontiguousarray(tensor).reshape(-1)
    places = np.unique(np.linspace(0, flat.size - 1, min(SAMPLES, flat.size)).round().astype(int))
    shape = list(tensor.shape)
    while len(shape) > 1 and shape[0] == 1:
        del shape[0]
    return Summary(
        shape=tuple(shape),
        dtype=str(tensor.dtype),
        sha256=hashlib.sha256(flat.tobytes()).hexdigest(),
        samples=tuple(float(f"{value:.9g}") for value in flat[places].tolist()),
    )


def runs(ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Token ids as runs (id, how many)."""
    return tuple((token, len(list(group))) for token, group in groupby(ids))


def distance(stage: Stage, left: Output, right: Output) -> Distance:
    """How far two outputs of one case are apart at one stage."""
    if stage is Stage.token_ids:
        return _sequences(_spelt(left.token_ids), _spelt(right.token_ids))
    if stage is Stage.tokens:
        return _sequences(left.tokens, right.tokens)
    if stage is Stage.answer:
        same = left.text == right.text and (None in (left.boxes, right.boxes) or left.boxes == right.boxes)
        return Distance(0 if same else math.inf, same)
    if stage is Stage.logits:
        return _logits(left.logits, right.logits)
    if stage is Stage.embeddings:
        pairs = [(left.embeddings, right.embeddings)]
    else:
        pairs = [(left.inputs.get(key), right.inputs.get(key)) for key in left.inputs.keys() | right.inputs]
    found = [_summaries(*pair) for pair in pairs]
    return Distance(max((each.value for each in found), default=0), all(each.equal for each in found))


def within(stage: Stage, found: Distance) -> bool:
    """Whether two right implementations may be so far apart. Where the tolerance is 0, every bit is equal."""
    return found.equal or 0 < TOLERANCE[stage] >= found.value


def _spelt(pairs: Sequence[tuple[int, int]]) -> list[int]:
    return [token for token, count in pairs for _ in range(count)]


def _sequences(left: Sequence[int], right: Sequence[int]) -> Distance:
    same = sum(a == b for a, b in zip(left, right, strict=False))
    apart = max(len(left), len(right)) - same
    return Distance(apart, not apart)


def _summaries(left: Summary | None, right: Summary | None) -> Distance:
    if left is None or right is None:
        return Distance(0 if left == right else math.inf, left == right)
    if (left.shape, left.dtype, len(left.samples)) != (right.shape, right.dtype, len(right.samples)):
        return Distance(math.inf, False)
    pairs = zip(left.samples, right.samples, strict=True)
    return Distance(max((_apart(a, b) for a, b in pairs), default=0), left == right)


def _logits(
    left: Sequence[Sequence[tuple[int, float]]], right: Sequence[Sequence[tuple[int, float]]]
) -> Distance:
    if left == right:
        return Distance(0, True)
    if len(left) != len(right):
        return Distance(math.inf, False)
    steps = list(zip(left, right, strict=True))
    apart = [far for one, other in [*steps, *((b, a) for a, b in steps)] for far in _differences(one, other)]
    return Distance(max(apart, default=0), False)


def _differences(one: Sequence[tuple[int, float]], other: Sequence[tuple[int, float]]) -> list[float]:
    """The distances of one step's logits. A token that the other lacks is at most the smallest there."""
    known = dict(other)
    smallest = min(known.values(), default=math.inf)
    return [_apart(value, known.get(token, smallest)) for token, value in one]


def _apart(left: float, right: float) -> float:
    """Their difference; without end where one of them is no number."""
    return 0 if left == right else math.inf if math.isnan(left - right) else abs(left - right)
