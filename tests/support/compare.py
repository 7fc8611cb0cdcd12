"""Says where two outcomes differ, in few words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import torch

from tests.support.protocol import Error, Outcome, Prompt, Tensor


def differences(stock: Outcome, fork: Outcome) -> list[str]:
    """One line for each thing that is not equal, bit by bit; empty when all of it is.

    Compared: token ids, placeholder ranges, hashes, errors, the cut into batches, and the name, shape, type
    and bytes of every tensor. Where the outcomes carry the bytes, the line tells how far apart they are.
    """
    lines = [
        f"prompt {index}: {line}"
        for index, pair in enumerate(zip(stock.prompts, fork.prompts, strict=True))
        for line in _prompt(*pair)
    ]
    lines += _error(stock.error, fork.error)
    cut = [[(batch.modality, batch.items) for batch in outcome.batches] for outcome in (stock, fork)]
    if cut[0] != cut[1]:
        return [*lines, f"batches: stock {cut[0]}, fork {cut[1]}"]
    for index, (left, right) in enumerate(zip(stock.batches, fork.batches, strict=True)):
        lines += [f"batch {index}: {line}" for line in _tensors(left.tensors, right.tensors)]
    return lines


def _prompt(stock: Prompt, fork: Prompt) -> Iterator[str]:
    yield from _error(stock.error, fork.error)
    if stock.token_ids != fork.token_ids:
        place = first_difference(stock.token_ids, fork.token_ids)
        yield (
            f"token ids differ from {place} on: stock {stock.token_ids[place : place + 6]}, "
            f"fork {fork.token_ids[place : place + 6]}; lengths {len(stock.token_ids)}, {len(fork.token_ids)}"
        )
    if stock.placeholders != fork.placeholders:
        yield f"placeholders: stock {stock.placeholders}, fork {fork.placeholders}"
    if stock.hashes != fork.hashes:
        yield f"hashes: stock {stock.hashes}, fork {fork.hashes}"


def _error(stock: Error | None, fork: Error | None) -> Iterator[str]:
    left, right = _essence(stock), _essence(fork)
    if left != right:
        yield f"stock raised {left or 'nothing'}, fork raised {right or 'nothing'}"


def _essence(error: Error | None) -> str:
    """Classes and messages, without addresses and without the dump of the data that vLLM adds to some."""
    if error is None:
        return ""
    message = re.sub(r" on data=.*", " on data", error.message, flags=re.DOTALL)
    message = re.sub(r"0x[0-9a-fA-F]+", "0x", message)
    return f"{error.kind}: {message}" + (f" from {_essence(error.cause)}" if error.cause else "")


def _tensors(stock: Mapping[str, Tensor], fork: Mapping[str, Tensor]) -> Iterator[str]:
    if stock.keys() != fork.keys():
        missing, extra = stock.keys() - fork.keys(), fork.keys() - stock.keys()
        yield f"only stock has {sorted(missing)}, only the fork has {sorted(extra)}"
    for name in sorted(stock.keys() & fork.keys()):
        left, right = stock[name], fork[name]
        if (left.shape, left.dtype) != (right.shape, right.dtype):
            yield f"{name}: stock {left.dtype}{list(left.shape)}, fork {right.dtype}{list(right.shape)}"
        elif left.digest != right.digest:
            yield f"{name} {left.dtype}{list(left.shape)}: {_distance(left, right)}"


def _distance(stock: Tensor, fork: Tensor) -> str:
    if stock.data is None or fork.data is None:
        return f"sha256 {stock.digest[:12]} and {fork.digest[:12]}"
    left, right = (_values(tensor) for tensor in (stock, fork))
    apart = np.flatnonzero(left != right)
    if not len(apart):
        return "equal values, other bits (signed zeros or NaNs)"
    at = tuple(int(i) for i in np.unravel_index(apart[0], stock.shape))
    most = np.abs(left[apart].astype(float) - right[apart].astype(float)).max()
    return (
        f"{len(apart)} of {left.size} differ by up to {most:.6g}, "
        f"first at {at}: stock {left[apart[0]]}, fork {right[apart[0]]}"
    )


def _values(tensor: Tensor) -> np.ndarray[Any, Any]:
    flat = torch.frombuffer(bytearray(tensor.data or b""), dtype=getattr(torch, tensor.dtype))
    return flat.float().numpy() if flat.is_floating_point() else flat.numpy()


def first_difference(left: Sequence[object], right: Sequence[object]) -> int:
    """The first index at which two unequal sequences differ."""
    marker = object()
    return next(i for i, (a, b) in enumerate(zip_longest(left, right, fillvalue=marker)) if a != b)
