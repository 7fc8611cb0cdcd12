"""Says where two outcomes differ: which stage, in few words, and how far apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any

import numpy as np

from vlmopt.engine.protocol import Answer, Answered, Batch, Error, Outcome, Placeholder, Prompt, Tensor


class Stage(StrEnum):
    """What is compared, in the order of a request's way."""

    errors = "errors"
    token_ids = "prompt token ids"
    ranges = "placeholder ranges"
    hashes = "cache keys"
    inputs = "vision tower inputs"
    embeddings = "image embeddings"
    tokens = "greedy tokens"
    logprobs = "log-probabilities"


@dataclass(frozen=True)
class Difference:
    """One thing that is not equal, bit by bit.

    `distance` is the largest absolute difference of two tensors of one shape and type, where their bytes were
    at hand; None where a distance has no meaning or is not known.
    """

    stage: Stage
    text: str
    distance: float | None = None

    def __str__(self) -> str:
        return f"{self.stage}: {self.text}"


@dataclass
class Comparison:
    """What was compared, by stage, and every difference; how many requests, and how many stock refused."""

    requests: int = 0
    refused: int = 0
    compared: Counter[Stage] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def request(self, stock: Error | None, fork: Error | None, where: str) -> bool:
        """Takes in one request and its errors; True when both sides answered it."""
        self.requests += 1
        self.refused += stock is not None
        self.add(Stage.errors, _errors(stock, fork, where))
        return stock is None and fork is None

    def add(self, stage: Stage, differences: Iterator[Difference], count: int = 1) -> None:
        """Counts `count` comparisons of a stage, and takes in what they found."""
        self.compared[stage] += count
        self.differences += differences


def differences(stock: Outcome, fork: Outcome) -> list[Difference]:
    """Everything that is not equal between two outcomes; empty when all of it is."""
    return compare_outcomes(stock, fork).differences


def compare_outcomes(stock: Outcome, fork: Outcome) -> Comparison:
    """Compares what the frontend made of each request, and each tensor that enters or leaves the tower.

    Of a request: token ids, placeholder ranges, hashes and errors; of a tensor: name, shape, type and bytes.
    """
    result = Comparison()
    for index, (left, right) in enumerate(zip(stock.prompts, fork.prompts, strict=True), 1):
        _compare_prompt(result, left, right, f"request {index}")
    result.add(Stage.errors, _errors(stock.error, fork.error, "batching"), 0)
    _compare_batches(result, stock.batches, fork.batches)
    return result


def compare_answers(stock: Answered, fork: Answered) -> Comparison:
    """Compares what two engines answered, and every batch that entered their vision towers."""
    result = Comparison()
    for index, (left, right) in enumerate(zip(stock.answers, fork.answers, strict=True), 1):
        where = f"request {index}"
        if not result.request(left.error, right.error, where):
            continue
        result.add(Stage.token_ids, _sequences(Stage.token_ids, left.prompt, right.prompt, where))
        result.add(Stage.tokens, _sequences(Stage.tokens, left.tokens, right.tokens, where))
        result.add(Stage.logprobs, _logprobs(left, right, where))
    _compare_batches(result, stock.batches, fork.batches)
    return result


def _compare_prompt(result: Comparison, stock: Prompt, fork: Prompt, where: str) -> None:
    if not result.request(stock.error, fork.error, where):
        return
    result.add(Stage.token_ids, _sequences(Stage.token_ids, stock.token_ids, fork.token_ids, where))
    result.add(Stage.ranges, _ranges(stock.placeholders, fork.placeholders, where))
    result.add(Stage.hashes, _values(Stage.hashes, stock.hashes, fork.hashes, where))


def _compare_batches(result: Comparison, stock: Sequence[Batch], fork: Sequence[Batch]) -> None:
    left_cut, right_cut = ([(batch.modality, batch.items) for batch in each] for each in (stock, fork))
    result.add(Stage.inputs, _values(Stage.inputs, left_cut, right_cut, "batches"), 0)
    if left_cut != right_cut:
        return
    for index, (left, right) in enumerate(zip(stock, fork, strict=True), 1):
        where = f"batch {index}"
        found = _tensors(Stage.inputs, left.tensors, right.tensors, where)
        result.add(Stage.inputs, found, len(left.tensors))
        if left.embeddings or right.embeddings:
            found = _tensors(Stage.embeddings, _named(left), _named(right), where)
            result.add(Stage.embeddings, found, len(left.embeddings))


def _named(batch: Batch) -> dict[str, Tensor]:
    return {f"image {index}": each for index, each in enumerate(batch.embeddings)}


def _errors(stock: Error | None, fork: Error | None, where: str) -> Iterator[Difference]:
    left, right = essence(stock), essence(fork)
    if left != right:
        yield Difference(
            Stage.errors, f"{where}: stock raised {left or 'nothing'}, the fork {right or 'nothing'}"
        )


def essence(error: Error | None) -> str:
    """Classes and messages, without addresses and without the dump of the data that vLLM adds to some."""
    if error is None:
        return ""
    message = re.sub(r" on data=.*", " on data", error.message, flags=re.DOTALL)
    message = re.sub(r"0x[0-9a-fA-F]+", "0x", message)
    return f"{error.kind}: {message}" + (f" from {essence(error.cause)}" if error.cause else "")


def _values(stage: Stage, stock: object, fork: object, where: str) -> Iterator[Difference]:
    if stock != fork:
        yield Difference(stage, f"{where}: stock {stock}, the fork {fork}")


def _ranges(stock: Sequence[Placeholder], fork: Sequence[Placeholder], where: str) -> Iterator[Difference]:
    if stock != fork:
        place = first_difference(stock, fork)
        left, right = ("; ".join(map(str, each[place : place + 1])) or "none" for each in (stock, fork))
        told = (
            f"stock {left}, the fork {right}" if left != right else f"other tokens of {left} are embeddings"
        )
        yield Difference(Stage.ranges, f"{where}: placeholder {place + 1}: {told}")


def _sequences(stage: Stage, stock: Sequence[int], fork: Sequence[int], where: str) -> Iterator[Difference]:
    if stock != fork:
        place = first_difference(stock, fork)
        yield Difference(
            stage,
            f"{where}: they differ from {place} on: stock {list(stock[place : place + 6])}, "
            f"the fork {list(fork[place : place + 6])}; lengths {len(stock)} and {len(fork)}",
        )


def _logprobs(stock: Answer, fork: Answer, where: str) -> Iterator[Difference]:
    if stock.logprobs == fork.logprobs:
        return
    apart = [
        abs(a - b)
        for left, right in zip(stock.logprobs, fork.logprobs, strict=False)
        for (token, a), (other, b) in zip(left, right, strict=False)
        if token == other
    ]
    place = first_difference(stock.logprobs, fork.logprobs)
    yield Difference(Stage.logprobs, f"{where}: they differ from step {place} on", max(apart, default=None))


def _tensors(
    stage: Stage, stock: Mapping[str, Tensor], fork: Mapping[str, Tensor], where: str
) -> Iterator[Difference]:
    if stock.keys() != fork.keys():
        missing, extra = stock.keys() - fork.keys(), fork.keys() - stock.keys()
        yield Difference(
            stage, f"{where}: only stock has {sorted(missing)}, only the fork has {sorted(extra)}"
        )
    for name in sorted(stock.keys() & fork.keys()):
        left, right = stock[name], fork[name]
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            yield Difference(
                stage,
                f"{where}: {name}: stock {left.dtype}{list(left.shape)}, "
                f"the fork {right.dtype}{list(right.shape)}",
            )
        elif left.digest != right.digest:
            text, distance = tensor_distance(left, right)
            yield Difference(stage, f"{where}: {name} {left.dtype}{list(left.shape)}: {text}", distance)


def tensor_distance(stock: Tensor, fork: Tensor) -> tuple[str, float | None]:
    """How far two tensors of one shape and type are apart: in words, and the largest absolute difference."""
    if stock.data is None or fork.data is None:
        return f"digests {stock.digest[:12]} and {fork.digest[:12]}", None
    left, right = numbers(stock), numbers(fork)
    apart = np.flatnonzero(left != right)
    if not len(apart):
        return "equal values, other bits (signed zeros or NaNs)", 0.0
    at = tuple(int(i) for i in np.unravel_index(apart[0], stock.shape))
    most = float(np.abs(left[apart].astype(float) - right[apart].astype(float)).max())
    return (
        f"{len(apart)} of {left.size} differ by up to {most:.6g}, "
        f"first at {at}: stock {left[apart[0]]}, the fork {right[apart[0]]}"
    ), most


def numbers(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The values of a tensor that carries its bytes, flat; bfloat16 as float32."""
    if tensor.data is None:
        raise ValueError("the tensor's bytes were not asked for")
    if tensor.dtype == "bfloat16":
        return (np.frombuffer(tensor.data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(tensor.data, {"bool": "?"}.get(tensor.dtype, tensor.dtype))


def first_difference(left: Sequence[object], right: Sequence[object]) -> int:
    """The first index at which two unequal sequences differ."""
    marker = object()
    return next(i for i, (a, b) in enumerate(zip_longest(left, right, fillvalue=marker)) if a != b)
