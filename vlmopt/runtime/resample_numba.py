"""CPU resampling into windows (tiles, crops) with the very bytes of Pillow and of torchvision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .resample import Filter, Library, resize_native

try:
    import numba  # noqa: F401

    HAVE_NUMBA = True
except ImportError:
    HAVE_NUMBA = False

Image = npt.NDArray[np.uint8]


def resize_hwc(image: Image, width: int, height: int, filter: Filter, library: Library) -> Image:
    """image: uint8 [H, W, 3] -> uint8 [height, width, 3]."""
    return resize_native(torch.from_numpy(image), width, height, filter, library).numpy()


def resize_windows(
    image: Image,
    width: int,
    height: int,
    filter: Filter,
    library: Library,
    windows: Sequence[tuple[int, int]],
    window_h: int,
    window_w: int,
    table: npt.NDArray[Any] | None,
    out: npt.NDArray[Any],
    fill: int = 0,
) -> None:
    """Resize image to (height, width) and write each window (y0, x0) to out[i] as three planes."""
    resized = resize_hwc(image, width, height, filter, library)
    pack_windows(resized, windows, window_h, window_w, table, out, fill)


def pack_windows(
    image: Image,
    windows: Sequence[tuple[int, int]],
    window_h: int,
    window_w: int,
    table: npt.NDArray[Any] | None,
    out: npt.NDArray[Any],
    fill: int = 0,
) -> None:
    """Write each window (y0, x0) of the uint8 [H, W, 3] image to out[i], mapped through table [3, 256]."""
    height, width = image.shape[:2]
    for i, (y0, x0) in enumerate(windows):
        window = np.full((window_h, window_w, 3), fill, np.uint8)
        top, left = max(0, -y0), max(0, -x0)
        bottom, right = min(window_h, height - y0), min(window_w, width - x0)
        if bottom > top and right > left:
            window[top:bottom, left:right] = image[y0 + top : y0 + bottom, x0 + left : x0 + right]
        for c in range(3):
            plane = window[..., c]
            out[i, c] = plane if table is None else table[c][plane]


def warm_up() -> None:
    """Compile the kernels."""
