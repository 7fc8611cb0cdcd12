"""A picture's pixels are read once a request, though two read them: its hash and its payload.

They are read behind some room, so that a payload, which begins with a table, is made without a copy of them.

What was read for the first is kept for the second, in the thread that serves the request and no longer than
the request's pictures are worked on: no memory is held between requests, and a picture that was changed
between two requests is read anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from .pillow_memory import read_rgb

_ROOM = 4096
"""Bytes before the pixels: more than a table of 3 x 256 float32 values takes."""


class _Thread(threading.local):
    kept: list[tuple[Image.Image, npt.NDArray[Any]]] | None = None


_thread = _Thread()


@contextmanager
def read_once() -> Iterator[None]:
    """In this thread `read_pixels` remembers what it read for as long as the context lasts."""
    outer, _thread.kept = _thread.kept, []
    try:
        yield
    finally:
        _thread.kept = outer


def read_pixels(image: Image.Image) -> npt.NDArray[Any]:
    """`numpy.asarray` of an image; within `read_once` a second call for it returns the first one's array."""
    kept = _thread.kept
    if kept is None:
        return _read(image)
    for at, (known, pixels) in enumerate(kept):
        if known is image:
            del kept[at]
            return pixels
    pixels = _read(image)
    kept.append((image, pixels))
    return pixels


def _read(image: Image.Image) -> npt.NDArray[Any]:
    if image.mode != "RGB":
        return np.asarray(image)
    memory = np.empty(_ROOM + 3 * image.height * image.width, np.uint8)
    if not read_rgb(image, memory[_ROOM:]):
        return np.asarray(image)
    return memory[_ROOM:].reshape(image.height, image.width, 3)


def behind(head: npt.NDArray[np.uint8], pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    """`head`, then the pixels' bytes: uint8 `[n]`; in the memory of an array that is `read_pixels`'."""
    room, memory = _ROOM - len(head), pixels.base
    if room >= 0 and isinstance(memory, np.ndarray) and _is_all_of(pixels, memory):
        memory[room:_ROOM] = head
        return torch.from_numpy(memory[room:])
    payload = torch.empty(len(head) + pixels.nbytes, dtype=torch.uint8)
    buffer = payload.numpy()
    buffer[: len(head)] = head
    buffer[len(head) :].reshape(pixels.shape)[...] = pixels
    return payload


def _is_all_of(pixels: npt.NDArray[np.uint8], memory: npt.NDArray[np.uint8]) -> bool:
    """Whether the pixels are what `_read` left in this memory, in their order."""
    same_size = memory.shape == (_ROOM + pixels.nbytes,)
    return same_size and pixels.flags.c_contiguous and pixels.ctypes.data == memory.ctypes.data + _ROOM
