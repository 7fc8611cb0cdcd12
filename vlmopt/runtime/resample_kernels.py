"""Compiled inner loops of resample_numba: integer resampling of planar uint8 pictures.

A planar picture is uint8 [3, H, W + PAD]: one plane per channel, rows padded so that four bytes can be
read at any pixel. Taps come in groups of four, padded with weight 0. Sums are int32, as in the libraries;
the intrinsics below keep them so, because numba itself widens every integer sum to 64 bits, which halves
the vector width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

PAD = 4

_I8, _I32 = ir.IntType(8), ir.IntType(32)


def _compiled(function: Callable[..., Any], signature: Any = None) -> Any:
    """njit, kept on disk where there is a place for it, so that only the first start of a server compiles."""
    try:
        return njit(signature, nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no folder to write to
        return njit(signature, nogil=True)(function)


@intrinsic
def _word(typingctx, row, index):  # type: ignore[no-untyped-def]
    """row[index : index + 4] as one int32, the first byte lowest; row is uint8, C-contiguous."""
    if not (isinstance(row, types.Array) and row.dtype == types.uint8 and row.layout == "C"):
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        array = cgutils.create_struct_proxy(row)(context, builder, value=args[0])
        place = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(place, _I32.as_pointer()))
        word.align = 1
        return word

    return types.int32(row, types.intp), codegen


@intrinsic
def _dot4(typingctx, acc, word, w0, w1, w2, w3):  # type: ignore[no-untyped-def]
    """acc + the four bytes of the word times the four weights, in int32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        total = args[0]
        for k in range(4):
            pixel = builder.and_(builder.lshr(args[1], _I32(8 * k)), _I32(255))
            total = builder.add(total, builder.mul(pixel, args[2 + k]))
        return total

    i32 = types.int32
    return i32(i32, i32, i32, i32, i32, i32), codegen


@intrinsic
def _mac(typingctx, acc, pixel, weight):  # type: ignore[no-untyped-def]
    """acc + pixel * weight in int32; pixel is uint8."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.add(args[0], builder.mul(builder.zext(args[1], _I32), args[2]))

    return types.int32(types.int32, types.uint8, types.int32), codegen


@intrinsic
def _to_byte(typingctx, acc, shift):  # type: ignore[no-untyped-def]
    """acc >> shift, clamped to 0..255, as uint8."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        value = builder.ashr(args[0], args[1])
        value = builder.select(builder.icmp_signed("<", value, _I32(0)), _I32(0), value)
        value = builder.select(builder.icmp_signed(">", value, _I32(255)), _I32(255), value)
        return builder.trunc(value, _I8)

    return types.uint8(types.int32, types.int32), codegen


@lru_cache(maxsize=1)
def to_planar():  # type: ignore[no-untyped-def]
    """Kernel (image uint8 [H, W, 3], planar out). Its signature takes read-only pictures too, as Pillow's are."""
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
def horizontal(source, first, weight, shift, y0, y1, out):  # type: ignore[no-untyped-def]
    """Resample rows y0..y1-1 , planar. first: int32 [n_out]; weight: int32 [4 * groups, n_out]."""
    n = first.size
    groups = weight.shape[0] // 4
    half = np.int32(1 << (shift - 1))
    acc, word = np.empty(n, np.int32), np.empty(n, np.int32)
    for c in range(3):
        for y in range(y0, y1):
            row = source[c, y]
            line = out[c, y]
            for g in range(0, 4 * groups, 4):
                for x in range(n):
                    word[x] = _word(row, first[x] + g)
                w0, w1, w2, w3 = weight[g], weight[g + 1], weight[g + 2], weight[g + 3]
                if groups == 1:
                    for x in range(n):
                        line[x] = _to_byte(_dot4(half, word[x], w0[x], w1[x], w2[x], w3[x]), shift)
                elif g == 0:
                    for x in range(n):
                        acc[x] = _dot4(half, word[x], w0[x], w1[x], w2[x], w3[x])
                elif g < 4 * (groups - 1):
                    for x in range(n):
                        acc[x] = _dot4(acc[x], word[x], w0[x], w1[x], w2[x], w3[x])
                else:
                    for x in range(n):
                        line[x] = _to_byte(_dot4(acc[x], word[x], w0[x], w1[x], w2[x], w3[x]), shift)


@_compiled
def vertical_line(plane, first, weight, shift, x0, n, acc, line):  # type: ignore[no-untyped-def]
    """One row of a vertical pass: line[:n] from columns x0.. of the plane. weight: int32 [4 * groups]."""
    last = plane.shape[0] - 1
    groups = weight.size // 4
    half = np.int32(1 << (shift - 1))
    for g in range(0, 4 * groups, 4):
        a, b = plane[first + g, x0 : x0 + n], plane[min(first + g + 1, last), x0 : x0 + n]
        c, d = plane[min(first + g + 2, last), x0 : x0 + n], plane[min(first + g + 3, last), x0 : x0 + n]
        w0, w1, w2, w3 = weight[g], weight[g + 1], weight[g + 2], weight[g + 3]
        if groups == 1:
            for x in range(n):
                line[x] = _to_byte(
                    _mac(_mac(_mac(_mac(half, a[x], w0), b[x], w1), c[x], w2), d[x], w3), shift
                )
        elif g == 0:
            for x in range(n):
                acc[x] = _mac(_mac(_mac(_mac(half, a[x], w0), b[x], w1), c[x], w2), d[x], w3)
        elif g < 4 * (groups - 1):
            for x in range(n):
                acc[x] = _mac(_mac(_mac(_mac(acc[x], a[x], w0), b[x], w1), c[x], w2), d[x], w3)
        else:
            for x in range(n):
                line[x] = _to_byte(
                    _mac(_mac(_mac(_mac(acc[x], a[x], w0), b[x], w1), c[x], w2), d[x], w3), shift
                )


@_compiled
def vertical(source, first, weight, shift, width, out):  # type: ignore[no-untyped-def]
    """Resample the columns of a planar picture. first: int32 [n_out]; weight: int32 [n_out, 4 * groups]."""
    acc = np.empty(width, np.int32)
    for c in range(3):
        for y in range(first.size):
            vertical_line(source[c], first[y], weight[y], shift, 0, width, acc, out[c, y])


@_compiled
def windows(source, first, weight, shift, height, width, places, fill, table, out):  # type: ignore[no-untyped-def]
    """The vertical pass of `vertical`, written window by window through the table.

    Weights with no taps mean that the source has its final height. places: int64 [n, 2], rows (y0, x0).
    """
    span = out.shape[3]
    line = np.empty(span, np.uint8)
    acc = np.empty(span, np.int32)
    for i in range(out.shape[0]):
        y0, x0 = places[i, 0], places[i, 1]
        left = min(max(-x0, 0), span)
        n = max(min(width - x0, span) - left, 0)
        for c in range(3):
            values = table[c]
            for y in range(out.shape[2]):
                target = out[i, c, y]
                row = y0 + y
                if row < 0 or row >= height:
                    target[:] = values[fill]
                    continue
                target[:left] = values[fill]
                target[left + n :] = values[fill]
                if weight.shape[1] == 0:
                    for x in range(n):
                        target[left + x] = values[source[c, row, x0 + left + x]]
                else:
                    vertical_line(source[c], first[row], weight[row], shift, x0 + left, n, acc, line)
                    for x in range(n):
                        target[left + x] = values[line[x]]
