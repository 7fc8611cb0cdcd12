"""Compiled inner loops: integer resampling of planar uint8 pictures, and reading the words of Pillow's.

A planar picture is uint8 [3, H rounded up to PAD, W + PAD]: one plane per channel, padded so that whole
vectors can be read and written at any pixel. What the padding holds does not matter.

The innermost steps are LLVM IR, for what numba's own loops do not become: numba widens every integer sum
to 64 bits, which halves a vector; here sums are int32, as in the libraries. The IR is portable: LLVM cuts
the vectors to what the processor has. Only the table look-up has a form of its own for processors with
AVX-512 VBMI, which permute bytes.

All of it is one file because the disk cache watches only the file that a kernel stands in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from .kernel_cache import keep_on_disk

BLOCK = 64  # pixels that _vertical_block makes at once
PAD = BLOCK
_LANES = 16  # side of _transpose_block

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BYTES, _INTS = ir.VectorType(_I8, _LANES), ir.VectorType(_I32, _LANES)

# The features that numba compiles for; they are also part of the key of its disk cache.
_HAVE_VBMI = "+avx512vbmi," in cpu_target.target_context.codegen().magic_tuple()[2] + ","


def _is_bytes(array: Any, ndim: int) -> bool:
    return (
        isinstance(array, types.Array)
        and array.dtype == types.uint8
        and array.layout == "C"
        and array.ndim == ndim
    )


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return cgutils.create_struct_proxy(kind)(context, builder, value=value)


def _load(builder: Any, place: Any, kind: ir.Type) -> Any:
    """A load of any alignment."""
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    value.align = 1
    return value


def _store(builder: Any, value: Any, place: Any) -> None:
    builder.store(value, builder.bitcast(place, value.type.as_pointer())).align = 1


def _splat(builder: Any, scalar: Any) -> Any:
    """The int32 in every lane."""
    unset = ir.Constant(_INTS, ir.Undefined)
    one = builder.insert_element(unset, scalar, _I32(0))
    return builder.shuffle_vector(one, unset, ir.Constant(_INTS, [0] * _LANES))


def _clamped(builder: Any, value: Any) -> Any:
    """min(max(value, 0), 255) of a vector of int32."""
    zero, most = (ir.Constant(_INTS, [bound] * _LANES) for bound in (0, 255))
    value = builder.select(builder.icmp_signed("<", value, zero), zero, value)
    return builder.select(builder.icmp_signed(">", value, most), most, value)


@intrinsic
def _three_of_four(typingctx, words, at, target, to):  # type: ignore[no-untyped-def]
    """target[to:to + 48] = words[at:at + 64] without every fourth byte; both uint8 [.], C-contiguous."""
    if not (_is_bytes(words, 1) and _is_bytes(target, 1)):
        return None

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        source, place = (
            builder.gep(_array(context, builder, signature.args[i], args[i]).data, [args[i + 1]])
            for i in (0, 2)
        )
        block = ir.VectorType(_I8, 4 * _LANES)
        kept = ir.Constant(ir.VectorType(_I32, 3 * _LANES), [i for i in range(4 * _LANES) if i % 4 < 3])
        value = _load(builder, source, block)
        _store(builder, builder.shuffle_vector(value, ir.Constant(block, ir.Undefined), kept), place)
        return context.get_dummy_value()

    return types.void(words, types.intp, target, types.intp), emit


@intrinsic
def _transpose_block(typingctx, source, y, x, target, to_y, to_x):  # type: ignore[no-untyped-def]
    """target[to_y + j, to_x + i] = source[y + i, x + j] for i, j < 16; both uint8 [., .], C-contiguous."""
    if not (_is_bytes(source, 2) and _is_bytes(target, 2)):
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        def places(kind, value, row, column):  # type: ignore[no-untyped-def]
            array = _array(context, builder, kind, value)
            stride = builder.extract_value(array.shape, 1)
            place = builder.gep(array.data, [builder.add(builder.mul(row, stride), column)])
            for _ in range(_LANES):
                yield place
                place = builder.gep(place, [stride])

        rows = [_load(builder, place, _BYTES) for place in places(source, *args[:3])]
        low, high = (
            ir.Constant(
                ir.VectorType(_I32, _LANES), [i // 2 + start + _LANES * (i % 2) for i in range(_LANES)]
            )
            for start in (0, _LANES // 2)
        )
        # Interleaving each row with the one half the block below, four times over, transposes 16 x 16.
        for _ in range(4):
            halves = zip(rows[: _LANES // 2], rows[_LANES // 2 :], strict=True)
            rows = [builder.shuffle_vector(a, b, order) for a, b in halves for order in (low, high)]
        for row, place in zip(rows, places(target, *args[3:]), strict=True):
            _store(builder, row, place)
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, target, index, index), codegen


@intrinsic
def _vertical_block(  # type: ignore[no-untyped-def]
    typingctx, plane, first, x, weight, shift, narrow, line, at
):
    """line[at : at + BLOCK] = the weighted sum of plane[first + k, x : x + BLOCK], rounded and clamped.

    plane: uint8 [H, W], line: uint8 [n], weight: int32 [taps], all C-contiguous. narrow: the weights fit in
    16 bits, so that a multiplication of 16-bit pairs, faster on x86, may do the work.
    """
    if not (_is_bytes(plane, 2) and _is_bytes(line, 1)):
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        pixels = _array(context, builder, plane, args[0])
        weights = _array(context, builder, weight, args[3])
        stride = builder.extract_value(pixels.shape, 1)
        taps = builder.extract_value(weights.shape, 0)
        start = builder.gep(pixels.data, [builder.add(builder.mul(args[1], stride), args[2])])
        half = builder.shl(_I32(1), builder.sub(args[4], _I32(1)))
        sums = [cgutils.alloca_once(builder, _INTS) for _ in range(0, BLOCK, _LANES)]
        for place in sums:
            builder.store(_splat(builder, half), place)

        def accumulate(short: bool) -> None:
            with cgutils.for_range(builder, taps) as loop:
                row = builder.gep(start, [builder.mul(loop.index, stride)])
                factor = builder.load(builder.gep(weights.data, [loop.index]))
                if short:
                    factor = builder.sext(builder.trunc(factor, _I16), _I32)
                factors = _splat(builder, factor)
                for j, place in enumerate(sums):
                    pixel = builder.zext(_load(builder, builder.gep(row, [_I32(_LANES * j)]), _BYTES), _INTS)
                    builder.store(builder.add(builder.load(place), builder.mul(pixel, factors)), place)

        with builder.if_else(builder.trunc(args[5], ir.IntType(1))) as (then, otherwise):
            with then:
                accumulate(short=True)
            with otherwise:
                accumulate(short=False)
        target = builder.gep(_array(context, builder, line, args[6]).data, [args[7]])
        shifts = _splat(builder, args[4])
        for j, place in enumerate(sums):
            value = _clamped(builder, builder.ashr(builder.load(place), shifts))
            _store(builder, builder.trunc(value, _BYTES), builder.gep(target, [_I32(_LANES * j)]))
        return context.get_dummy_value()

    signature = types.void(
        plane, types.intp, types.intp, weight, types.int32, types.boolean, line, types.intp
    )
    return signature, codegen


@intrinsic
def _permute_block(typingctx, halves, line, at, target, to):  # type: ignore[no-untyped-def]
    """target[to : to + 64] = table[line[at : at + 64]] of uint16, by byte permutations of AVX-512 VBMI.

    halves: uint8 [2, 256], the low and the high bytes of the table.
    """
    if not (_is_bytes(halves, 2) and _is_bytes(line, 1)):
        return None
    wide = ir.VectorType(_I8, 64)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data = _array(context, builder, halves, args[0]).data
        index = _load(builder, builder.gep(_array(context, builder, line, args[1]).data, [args[2]]), wide)
        kind = ir.FunctionType(wide, [wide, wide, wide])
        permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.vpermi2var.qi.512")
        upper = builder.icmp_signed("<", index, ir.Constant(wide, [0] * 64))
        found = []
        for half in range(2):
            quarter = [_load(builder, builder.gep(data, [_I32(256 * half + 64 * q)]), wide) for q in range(4)]
            low = builder.call(permute, [quarter[0], index, quarter[1]])
            high = builder.call(permute, [quarter[2], index, quarter[3]])
            found.append(builder.select(upper, high, low))
        order = [part * 64 + i for i in range(64) for part in range(2)]
        mask = ir.Constant(ir.VectorType(_I32, 128), order)
        both = builder.shuffle_vector(found[0], found[1], mask)
        place = builder.gep(_array(context, builder, target, args[3]).data, [args[4]])
        _store(builder, both, place)
        return context.get_dummy_value()

    return types.void(halves, line, types.intp, target, types.intp), codegen


@intrinsic
def _look_up_block(typingctx, table, line, at, target, to):  # type: ignore[no-untyped-def]
    """target[to : to + 8] = table[line[at : at + 8]]; one read of the bytes, one write of what they become.

    table: [256] and target: [n] of one integer type, line: uint8 [n], all C-contiguous.
    """
    if not _is_bytes(line, 1) or table.dtype != target.dtype:
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values = _array(context, builder, table, args[0]).data
        word = ir.IntType(64)
        indices = _load(builder, builder.gep(_array(context, builder, line, args[1]).data, [args[2]]), word)
        found = ir.Constant(ir.VectorType(context.get_data_type(table.dtype), 8), ir.Undefined)
        for lane in range(8):
            index = builder.and_(builder.lshr(indices, word(8 * lane)), word(255))
            value = builder.load(builder.gep(values, [index]))
            found = builder.insert_element(found, value, _I32(lane))
        _store(builder, found, builder.gep(_array(context, builder, target, args[3]).data, [args[4]]))
        return context.get_dummy_value()

    return types.void(table, line, types.intp, target, types.intp), codegen


def _map_table(values: Any) -> Any:
    """What _map_line takes for the table values [256]; called from kernels."""
    raise NotImplementedError("compiled code only")


def _map_line(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> None:
    """target[to : to + n] = table[line[at : at + n]]; called from kernels."""
    raise NotImplementedError("compiled code only")


@overload(_map_table)  # type: ignore[misc]
def _choose_table(values: Any) -> Any:
    if _HAVE_VBMI and values.dtype == types.uint16:

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
                _permute_block(mapping, line, at + x, target, to + x)
            for x in range(n // 64 * 64, n):
                byte = line[at + x]
                target[to + x] = mapping[0, byte] | np.uint16(mapping[1, byte]) << 8

        return permuted

    def looked_up(mapping: Any, line: Any, at: Any, target: Any, to: Any, n: Any) -> None:
        for x in range(0, n - 7, 8):
            _look_up_block(mapping, line, at + x, target, to + x)
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
    whole = words.size // (4 * _LANES)
    for block in range(whole):
        _three_of_four(words, 4 * _LANES * block, out, 3 * _LANES * block)
    for x in range(_LANES * whole, words.size // 4):
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
    turned = np.empty((n_in + _LANES, BLOCK), np.uint8)
    result = np.empty((n_out + _LANES, BLOCK), np.uint8)
    for c in range(3):
        plane, to = source[c], out[c]
        for y in range(y0 // BLOCK * BLOCK, y1, BLOCK):
            for x in range(0, n_in, _LANES):
                for row in range(0, BLOCK, _LANES):
                    _transpose_block(plane, y + row, x, turned, x, row)
            for x in range(n_out):
                _vertical_block(turned, first[x], 0, weight[x], shift, narrow, result[x], 0)
            for x in range(0, n_out, _LANES):
                for row in range(0, BLOCK, _LANES):
                    _transpose_block(result, x, row, to, y + row, x)


@_compiled
def vertical(source, first, weight, shift, narrow, width, out):  # type: ignore[no-untyped-def]
    """Resample the columns of a planar picture. first: int32 [n_out]; weight: int32 [n_out, taps]."""
    for c in range(3):
        plane = source[c]
        for y in range(first.size):
            line, taps = out[c, y], weight[y]
            for x in range(0, width, BLOCK):
                _vertical_block(plane, first[y], x, taps, shift, narrow, line, x)


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
                        _vertical_block(plane, first[row], x0 + left + x, taps, shift, narrow, line, x)
                    _map_line(mapping, line, 0, target, left, n)
