"""CPU resampling into windows (tiles, crops) with the very bytes of Pillow and of torchvision.

A window is a rectangle of the resized picture, given by its corner (y0, x0), that ends up as channel
planes with every byte mapped through a table. The resized picture itself is not stored on the way unless
the library's order of passes asks for it. The kernels are numba's, compiled on first use and kept on
disk; without numba the same functions call the libraries.

Pictures may be uint8 arrays [H, W, 3], or `Planar`, which saves the conversions of a chain of resizes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .resample import Filter, Library, check_axis, coefficients, resize_native, vertical_first

try:
    from . import resample_kernels as kernels

    # The kernels read four bytes as one little-endian word.
    HAVE_NUMBA = sys.byteorder == "little"
except ImportError:
    HAVE_NUMBA = False

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Planar:
    """A picture as channel planes: data is uint8 [3, height or more, width or more], the rest is padding."""

    data: Bytes
    height: int
    width: int

    @classmethod
    def empty(cls, height: int, width: int) -> Planar:
        if not HAVE_NUMBA:
            return cls(np.empty((3, height, width), np.uint8), height, width)
        rows = -(-height // kernels.PAD) * kernels.PAD
        return cls(np.empty((3, rows, width + kernels.PAD), np.uint8), height, width)

    @classmethod
    def of(cls, image: Bytes | Planar) -> Planar:
        """The planes of a uint8 picture [H, W, 3]; a Planar is returned as it is.

        Raises ValueError for another dtype or shape, or an empty picture.
        """
        if isinstance(image, Planar):
            return image
        _size(image)
        planes = cls.empty(image.shape[0], image.shape[1])
        if HAVE_NUMBA:
            kernels.to_planar()(np.ascontiguousarray(image), planes.data)
        else:
            planes.data[:] = image.transpose(2, 0, 1)
        return planes

    def interleaved(self) -> Bytes:
        """The picture as uint8 [height, width, 3], a new array."""
        out = np.empty((self.height, self.width, 3), np.uint8)
        if HAVE_NUMBA:
            kernels.to_interleaved(self.data, out)
        else:
            out[:] = self.data.transpose(1, 2, 0)
        return out


@dataclass(frozen=True, eq=False)
class _Axis:
    """Coefficients laid out for the kernels."""

    first: npt.NDArray[np.int32]
    weight: npt.NDArray[np.int32]  # [n_out, taps]
    shift: np.int32
    narrow: bool  # the weights fit in 16 bits

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.first, self.weight, self.shift, self.narrow


@lru_cache(maxsize=256)
def _axis(n_in: int, n_out: int, filter: Filter, library: Library) -> _Axis:
    axis = coefficients(n_in, n_out, filter, library)
    narrow = bool(np.abs(axis.weight).max() < 1 << 15)
    # Copies: numba compiles once more for read-only arrays.
    return _Axis(axis.first.copy(), axis.weight.copy(), np.int32(axis.shift), narrow)


@lru_cache(maxsize=256)
def _unchanged(n: int) -> _Axis:
    """An axis that keeps its size: no taps, which the kernels take as a copy."""
    return _Axis(np.arange(n, dtype=np.int32), np.empty((n, 0), np.int32), np.int32(1), True)


def _size(image: Bytes | Planar) -> tuple[int, int]:
    """(height, width). Raises ValueError for a picture of another dtype or shape, or an empty one."""
    if isinstance(image, Planar):
        return image.height, image.width
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ValueError(f"expected a uint8 picture [H, W, 3], got {image.dtype} {list(image.shape)}")
    return image.shape[0], image.shape[1]


def _horizontal(source: Bytes | Planar, width: int, filter: Filter, library: Library, rows: slice) -> Planar:
    height, width_in = _size(source)
    if width == width_in:
        return Planar.of(source)
    axis = _axis(width_in, width, filter, library)
    out = Planar.empty(height, width)
    if isinstance(source, Planar):
        kernels.horizontal(source.data, *axis.arguments, rows.start, rows.stop, out.data)
    else:
        picture = np.ascontiguousarray(source)
        kernels.horizontal_of_picture()(picture, *axis.arguments, rows.start, rows.stop, out.data)
    return out


def _vertical(source: Planar, height: int, filter: Filter, library: Library) -> Planar:
    if height == source.height:
        return source
    axis = _axis(source.height, height, filter, library)
    out = Planar.empty(height, source.width)
    kernels.vertical(source.data, *axis.arguments, source.width, out.data)
    return out


def resize_planar(image: Bytes | Planar, width: int, height: int, filter: Filter, library: Library) -> Planar:
    """Resize a picture, uint8 [H, W, 3] or planar, to planes; the library's bytes.

    Raises ValueError for a picture of another dtype or shape, a size below 1, or an unknown filter.
    """
    height_in, width_in = _size(image)
    check_axis(width_in, width, filter, library)
    check_axis(height_in, height, filter, library)
    if (width, height) == (width_in, height_in):
        return Planar.of(image)
    if not HAVE_NUMBA:
        pixels = torch.from_numpy(image.interleaved() if isinstance(image, Planar) else np.array(image))
        return Planar.of(resize_native(pixels, width, height, filter, library).numpy())
    if vertical_first(width_in, height_in, width, height, library):
        tall = _vertical(Planar.of(image), height, filter, library)
        return _horizontal(tall, width, filter, library, slice(0, height))
    wide = _horizontal(image, width, filter, library, slice(0, height_in))
    return _vertical(wide, height, filter, library)


def resize_hwc(image: Bytes, width: int, height: int, filter: Filter, library: Library) -> Bytes:
    """Resize a picture uint8 [H, W, 3] to a new array uint8 [height, width, 3]; the library's bytes.

    Raises ValueError for a picture of another dtype or shape, a size below 1, or an unknown filter.
    """
    return resize_planar(image, width, height, filter, library).interleaved()


def resize_windows(
    image: Bytes | Planar,
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
    """Resize a picture to width x height and write windows of the result as channel planes.

    image: uint8 [H, W, 3] or planar.
    windows: (y0, x0) of each window in the resized picture; a window may stick out of it, and there `fill`
    (0..255) stands for the missing pixels.
    table: [3, 256], what each byte of each channel becomes (uint8, uint16, uint32 or float32; bfloat16 and
    float16 as their uint16 bits), or None for the bytes themselves.
    out: C-contiguous [len(windows), 3, window_h, window_w] of the table's dtype.
    Raises ValueError where a shape or dtype is another, for a size below 1, or for an unknown filter.
    """
    height_in, width_in = _size(image)
    table = _checked_table(table, out, len(windows), window_h, window_w, fill)
    late = vertical_first(width_in, height_in, width, height, library)
    if not HAVE_NUMBA or late or height == height_in or not windows:
        resized = resize_planar(image, width, height, filter, library)
        _pack(resized, _unchanged(height), height, windows, table, out, fill)
        return
    axis = _axis(height_in, height, filter, library)
    top = min(max(min(y for y, _ in windows), 0), height - 1)
    bottom = min(max(max(y for y, _ in windows) + window_h - 1, top), height - 1)
    needed = slice(int(axis.first[top]), min(int(axis.first[bottom]) + axis.weight.shape[1], height_in))
    wide = _horizontal(image, width, filter, library, needed)
    _pack(wide, axis, height, windows, table, out, fill)


def pack_windows(
    image: Bytes | Planar,
    windows: Sequence[tuple[int, int]],
    window_h: int,
    window_w: int,
    table: npt.NDArray[Any] | None,
    out: npt.NDArray[Any],
    fill: int = 0,
) -> None:
    """Write windows of a picture as channel planes: `resize_windows` without the resize."""
    source = Planar.of(image)
    table = _checked_table(table, out, len(windows), window_h, window_w, fill)
    _pack(source, _unchanged(source.height), source.height, windows, table, out, fill)


def _checked_table(
    table: npt.NDArray[Any] | None, out: npt.NDArray[Any], n: int, window_h: int, window_w: int, fill: int
) -> npt.NDArray[Any]:
    if table is None:
        table = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    if table.shape != (3, 256) or table.dtype.itemsize not in (1, 2, 4):
        raise ValueError(
            f"expected a table [3, 256] of 1, 2 or 4 bytes, got {table.dtype} {list(table.shape)}"
        )
    expected = (n, 3, window_h, window_w)
    if out.shape != expected or out.dtype != table.dtype or not out.flags.c_contiguous:
        got = f"{out.dtype} {list(out.shape)}"
        raise ValueError(f"expected a C-contiguous output {table.dtype} {list(expected)}, got {got}")
    if not 0 <= fill <= 255:
        raise ValueError(f"fill is a byte, got {fill}")
    return table


def _pack(
    source: Planar,
    axis: _Axis,
    height: int,
    windows: Sequence[tuple[int, int]],
    table: npt.NDArray[Any],
    out: npt.NDArray[Any],
    fill: int,
) -> None:
    if not HAVE_NUMBA:
        _pack_without_numba(source, windows, table, out, fill)
        return
    bits = np.dtype(f"u{table.dtype.itemsize}")
    places = np.array(windows, np.int64).reshape(-1, 2)
    # A fresh copy: a read-only table would be another type to numba, and compile again.
    values = np.array(table, order="C").view(bits)
    kernels.windows(source.data, *axis.arguments, height, source.width, places, fill, values, out.view(bits))


def _pack_without_numba(
    source: Planar,
    windows: Sequence[tuple[int, int]],
    table: npt.NDArray[Any],
    out: npt.NDArray[Any],
    fill: int,
) -> None:
    window_h, window_w = out.shape[2:]
    for i, (y0, x0) in enumerate(windows):
        top, left = max(-y0, 0), max(-x0, 0)
        bottom, right = min(window_h, source.height - y0), min(window_w, source.width - x0)
        for c in range(3):
            out[i, c] = table[c, fill]
            if top < bottom and left < right:
                inside = source.data[c, y0 + top : y0 + bottom, x0 + left : x0 + right]
                out[i, c, top:bottom, left:right] = table[c][inside]


def write_patches(
    picture: npt.NDArray[Any], patch: int, merge: int, repeat: int, out: npt.NDArray[Any]
) -> None:
    """Write a picture as rows of patches, cells of one merged group next to each other.

    picture: C-contiguous [3, H, W] of 1, 2 or 4 bytes a value, H and W multiples of patch * merge.
    out: C-contiguous [H // patch * W // patch, 3 * repeat * patch * patch] of that dtype.
    Raises ValueError where a shape or dtype is another.
    """
    height, width = picture.shape[1:]
    expected = (height // patch * (width // patch), 3 * repeat * patch * patch)
    contiguous = picture.flags.c_contiguous and out.flags.c_contiguous
    if (
        out.shape != expected
        or out.dtype != picture.dtype
        or picture.shape[0] != 3
        or height % (patch * merge)
        or width % (patch * merge)
        or not contiguous
    ):
        got = f"{picture.dtype} {list(picture.shape)} and {out.dtype} {list(out.shape)}"
        raise ValueError(f"expected a picture and its patches {list(expected)}, got {got}")
    bits = np.dtype(f"u{picture.dtype.itemsize}")
    kernels.patches(picture.view(bits), patch, merge, repeat, out.view(bits))


def warm_up(*dtypes: npt.DTypeLike) -> None:
    """Compile the kernels, or load them from disk, for these dtypes of table (uint16 when none is named)."""
    if not HAVE_NUMBA:
        return
    image = np.zeros((3, 5, 3), np.uint8)
    resize_hwc(image, 8, 8, "bicubic", "pillow")
    resize_planar(Planar.of(image), 8, 8, "bicubic", "pillow")
    for dtype in dtypes or (np.uint16,):
        out = np.empty((1, 3, 4, 4), dtype)
        resize_windows(image, 8, 8, "bicubic", "pillow", [(0, 0)], 4, 4, np.zeros((3, 256), dtype), out)
        write_patches(out[0], 2, 2, 1, np.empty((4, 12), dtype))
