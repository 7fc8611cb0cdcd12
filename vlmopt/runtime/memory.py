"""Memory for large tensors that are written once and soon gone."""

from __future__ import annotations

import math
import weakref

import numpy as np
import numpy.typing as npt
import torch

Bytes = npt.NDArray[np.uint8]

_ALIGNMENT = 64
"""Bytes, as torch aligns its own: kernels may sum in another order where memory begins elsewhere."""

_LARGE = 4 << 20
"""Bytes from which on memory is kept, and from which on numpy asks the kernel for huge pages."""

_MOST = 2
"""Pieces that are kept while no tensor lies in them: a batch of pictures, and its rows of patches."""

_kept: dict[int, Bytes] = {}
"""Pieces that are free, by their ids, the last used at the end. Any thread may give one back at any time."""


def empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`torch.empty`; where it is large and on a CPU, in memory of one that is gone, or else in huge pages.

    In pages of 4 KiB the page faults of a fresh batch can take longer than writing it.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or nbytes < _LARGE:
        return torch.empty(shape, dtype=dtype, device=device)
    memory = _take(nbytes + _ALIGNMENT)
    start = -memory.ctypes.data % _ALIGNMENT
    # torch holds the piece, and it alone, as long as any tensor lies in it.
    piece = memory[start : start + nbytes]
    when_gone = weakref.finalize(piece, _give_back, memory)
    when_gone.atexit = False  # type: ignore[misc]  # typeshed takes the property for a slot
    return torch.from_numpy(piece).view(dtype).view(shape)


def _take(nbytes: int) -> Bytes:
    """Memory of `nbytes` or up to twice that: what is much too large is left to fall out of use."""
    for key, memory in list(_kept.items()):
        if nbytes <= memory.nbytes <= 2 * nbytes and _kept.pop(key, None) is not None:
            return memory
    return np.empty(nbytes, np.uint8)


def _give_back(memory: Bytes) -> None:
    _kept[id(memory)] = memory
    for key in list(_kept)[:-_MOST]:
        _kept.pop(key, None)
