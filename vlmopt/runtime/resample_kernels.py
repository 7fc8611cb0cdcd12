"""Compiled inner loops: integer resampling of uint8 pictures, their patches, and the words of Pillow's.

A planar picture is uint8 [3, H rounded up to PAD, W + PAD]: one plane per channel, padded so that whole
vectors can be read and written at any pixel. What the padding holds does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from . import resample_vectors
from .kernel_cache import keep_on_disk
from .resample_vectors import (
    BLOCK,
    HAVE_VBMI,
    LANES,
    copy_run,
    look_up_block,
    permute_block,
    three_of_four_block,
    transpose_block,
    transpose_channel,
    vertical_block,
)

PAD = BLOCK
KERNEL_SOURCES = (resample_vectors.__file__,)
"""What the kernels are made of beside this file, for `kernel_cache`."""


def _map_table(values: Any) -> Any:
    """What _map_line takes for the table values [256]; called from kernels."""
    raise NotImplementedError("compiled code only")


def _map_line(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> None:
    """target[to : to + n] = table[line[at : at + n]]; called from kernels."""
    raise NotImplementedError("compiled code only")


@overload(_map_table)  # type: ignore[misc]
def _choose_table(values: Any) -> Any:
    if HAVE_VBMI and values.dtype == types.uint16:

        def halves(values: Any) -> Any:
            out = np.empty((2, 256), np.uint8)
            for i in range(256):
                out[0, i] = values[i] & 255
                out[1, i] = values[i] >> 8
            return out

        return halves

    def itself(values: Any) -> Any:
        return values

    return itself


@overload(_map_line)  # type: ignore[misc]
def _choose_line(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> Any:
    if mapping.ndim == 2:

        def permuted(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> None:
            for x in range(0, n - 63, 64):
                permute_block(mapping, line, at + x, target, to + x)
            for x in range(n // 64 * 64, n):
                byte = line[at + x]
                target[to + x] = mapping[0, byte] | np.uint16(mapping[1, byte]) << 8

        return permuted

    def looked_up(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> None:
        for x in range(0, n - 7, 8):
            look_up_block(mapping, line, at + x, target, to + x)
        for x in range(n // 8 * 8, n):
            target[to + x] = mapping[line[at + x]]

    return looked_up


def _compiled(function: Callable[..., Any], signature: Any = None) -> Any:
    """njit, kept on disk where there is a place for it, so that only the first start of a server compiles."""
    kernel = keep_on_disk(njit(nogil=True)(function))
    if signature is not None:
        kernel.compile(signature)
        kernel.disable_compile()
    return kernel


@_compiled
def three_of_four(words, out):  # type: ignore[no-untyped-def]
    """Pixels of four bytes, uint8 [4 n], without their fourth: uint8 [3 n]."""
    whole = words.size // (4 * LANES)
    for block in range(whole):
        three_of_four_block(words, 4 * LANES * block, out, 3 * LANES * block)
    for x in range(LANES * whole, words.size // 4):
        for c in range(3):
            out[3 * x + c] = words[4 * x + c]


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
            _resample_turned(turned, first, weight, shift, narrow, result, to, y)


@njit(nogil=True)
def _resample_turned(turned, first, weight, shift, narrow, result, to, y):  # type: ignore[no-untyped-def]
    for x in range(first.size):
        vertical_block(turned, first[x], 0, weight[x], shift, narrow, result[x], 0)
    for x in range(0, first.size, LANES):
        for row in range(0, BLOCK, LANES):
            transpose_block(result, x, row, to, y + row, x)


@njit(nogil=True)
def _turn_channel(picture, y, channel, n_in, turned):  # type: ignore[no-untyped-def]
    for x in range(0, n_in, LANES):
        for row in range(0, BLOCK, LANES):
            transpose_channel(picture, y + row, x, channel, turned, x, row)


@lru_cache(maxsize=1)
def horizontal_of_picture():  # type: ignore[no-untyped-def]
    """Kernel (image uint8 [H, W, 3], and all else as `horizontal`): the planes of the picture are never made.

    Its signature takes read-only pictures, as Pillow's are.
    """
    image = types.Array(types.uint8, 3, "C", readonly=True)
    axis = types.int32[::1], types.int32[:, ::1], types.int32, types.boolean
    return _compiled(
        _horizontal_of_picture, types.void(image, *axis, types.intp, types.intp, types.uint8[:, :, ::1])
    )


def _horizontal_of_picture(image, first, weight, shift, narrow, y0, y1, out):  # type: ignore[no-untyped-def]
    height, n_in = image.shape[0], image.shape[1]
    turned = np.empty((n_in + LANES, BLOCK), np.uint8)
    result = np.empty((first.size + LANES, BLOCK), np.uint8)
    # A block is read up to LANES pixels beyond its last row; where so many do not follow, from a copy.
    last = np.empty((BLOCK, n_in + 2 * LANES, 3), np.uint8)
    for y in range(y0 // BLOCK * BLOCK, y1, BLOCK):
        whole = (height - y - BLOCK) * n_in >= LANES
        if not whole:
            last[: min(height - y, BLOCK), :n_in] = image[y : y + BLOCK]
        for c in range(3):
            if whole:
                _turn_channel(image, y, c, n_in, turned)
            else:
                _turn_channel(last, 0, c, n_in, turned)
            _resample_turned(turned, first, weight, shift, narrow, result, out[c], y)


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
        mapping = _map_table(values)
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
                    _map_line(mapping, plane[row], x0 + left, target, left, n)
                else:
                    taps = weight[row]
                    for x in range(0, n, BLOCK):
                        vertical_block(plane, first[row], x0 + left + x, taps, shift, narrow, line, x)
                    _map_line(mapping, line, 0, target, left, n)


@_compiled
def patches(picture, patch, merge, repeat, out):  # type: ignore[no-untyped-def]
    """A picture as rows of patches, cells of one merged group next to each other, `repeat` times a channel.

    picture: [3, H, W] with H and W multiples of patch * merge. out: [cells, 3 * repeat * patch * patch].
    """
    cell, area = 0, patch * patch
    for top in range(0, picture.shape[1], patch * merge):
        for left in range(0, picture.shape[2], patch * merge):
            for y0 in range(top, top + patch * merge, patch):
                for x0 in range(left, left + patch * merge, patch):
                    row, at = out[cell], 0
                    cell += 1
                    for c in range(3):
                        for y in range(patch):
                            copy_run(picture[c, y0 + y], x0, row, at + y * patch, patch)
                        for again in range(1, repeat):
                            copy_run(row, at, row, at + again * area, area)
                        at += repeat * area


@_compiled
def rows_of_patches(pictures, height, width, out):  # type: ignore[no-untyped-def]
    """Pictures [n, C, H, W] as rows of patches [n * (H // height) * (W // width), C * height * width].

    Each line of a picture is read from end to end; it goes into as many rows as there are patches in it.
    """
    beside = pictures.shape[3] // width
    first = 0
    for i in range(pictures.shape[0]):
        for top in range(0, pictures.shape[2] - height + 1, height):
            at = 0
            for c in range(pictures.shape[1]):
                for y in range(top, top + height):
                    line = pictures[i, c, y]
                    for x in range(beside):
                        copy_run(line, x * width, out[first + x], at, width)
                    at += width
            first += beside
