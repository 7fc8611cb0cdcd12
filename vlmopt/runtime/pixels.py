"""A picture's pixels are read once a request, though two read them: its hash and its payload.

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
from PIL import Image


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
        return np.asarray(image)
    for at, (known, pixels) in enumerate(kept):
        if known is image:
            del kept[at]
            return pixels
    pixels = np.asarray(image)
    kept.append((image, pixels))
    return pixels
