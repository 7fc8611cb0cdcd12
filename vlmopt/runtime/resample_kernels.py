"""Compiled inner loops of resample_numba: integer resampling of planar uint8 pictures.

A planar picture is uint8 [3, H rounded up to PAD, W + PAD]: one plane per channel, padded so that whole
vectors can be read and written at any pixel. What the padding holds does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types

from .resample_vectors import BLOCK, LANES, map_line, map_table, transpose_block, vertical_block

PAD = BLOCK


def _compiled(function: Callable[..., Any], signature: Any = None) -> Any:
    """njit, kept on disk where there is a place for it, so that only the first start of a server compiles."""
    try:
        return njit(signature, nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no folder to write to
        return njit(signature, nogil=True)(function)


@lru_cache(maxsize=1)
def to_planar():  # type: ignore[no-untyped-def]
    """Kernel (image uint8 [H, W, 3], planar out). Its signature takes read-only pictures, as Pillow's are."""
    image = types.Array(types.uint8, 3, "C", readonly=True)
    return _compiled(_to_planar, types.void(image, types.uint8[:, :, ::1]))


def _to_planar(image, out):  # type: ignore[no-untyped-def]
    for y in range(image.shape[0]):
        for c in range(3):
            for x in range(image.shape[1]):
                out[c, y, x] = image[y, x, c]


@_compiled
def to_interleaved(planar, out):  # type: ignore[no-untyped-def]
    """planar -> uint8 [H, W, 3]."""
    for y in range(out.shape[0]):
        for c in range(3):
            for x in range(out.shape[1]):
                out[y, x, c] = planar[c, y, x]


@_compiled
def horizontal(source, first, weight, shift, narrow, y0, y1, out):  # type: ignore[no-untyped-def]
    """Resample rows y0..y1-1 of a planar picture. first: int32 [n_out]; weight: int32 [n_out, taps].

    Blocks of rows are turned, so that this pass too works on neighbours in memory, with one weight for all.
    """
    n_in, n_out = source.shape[2] - PAD, first.size
    turned = np.empty((n_in + LANES, BLOCK), np.uint8)
    result = np.empty((n_out + LANES, BLOCK), np.uint8)
    for c in range(3):
        plane, to = source[c], out[c]
        for y in range(y0 // BLOCK * BLOCK, y1, BLOCK):
            for x in range(0, n_in, LANES):
                for row in range(0, BLOCK, LANES):
                    transpose_block(plane, y + row, x, turned, x, row)
            for x in range(n_out):
                vertical_block(turned, first[x], 0, weight[x], shift, narrow, result[x], 0)
            for x in range(0, n_out, LANES):
                for row in range(0, BLOCK, LANES):
                    transpose_block(result, x, row, to, y + row, x)


@_compiled
def vertical(source, first, weight, shift, narrow, width, out):  # type: ignore[no-untyped-def]
    """Resample the columns of a planar picture. first: int32 [n_out]; weight: int32 [n_out, taps]."""
    for c in range(3):
        plane = source[c]
        for y in range(first.size):
            line, taps = out[c, y], weight[y]
            for x in range(0, width, BLOCK):
                vertical_block(plane, first[y], x, taps, shift, narrow, line, x)


@_compiled
def windows(  # type: ignore[no-untyped-def]
    source, first, weight, shift, narrow, height, width, places, fill, table, out
):
    """The vertical pass of `vertical`, written window by window through the table [3, 256].

    Weights with no taps mean that the source has its final height. places: int64 [n, 2], rows (y0, x0).
    """
    span = out.shape[3]
    line = np.empty(span + PAD, np.uint8)
    for c in range(3):
        plane, values = source[c], table[c]
        mapping = map_table(values)
        for i in range(out.shape[0]):
            y0, x0 = places[i, 0], places[i, 1]
            left = min(max(-x0, 0), span)
            n = max(min(width - x0, span) - left, 0)
            for y in range(out.shape[2]):
                target = out[i, c, y]
                row = y0 + y
                if row < 0 or row >= height:
                    target[:] = values[fill]
                    continue
                target[:left] = values[fill]
                target[left + n :] = values[fill]
                if weight.shape[1] == 0:
                    map_line(mapping, plane[row], x0 + left, target, left, n)
                else:
                    taps = weight[row]
                    for x in range(0, n, BLOCK):
                        vertical_block(plane, first[row], x0 + left + x, taps, shift, narrow, line, x)
                    map_line(mapping, line, 0, target, left, n)
