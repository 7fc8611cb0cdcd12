"""Innermost steps of the compiled kernels, in LLVM IR, for what numba's own loops do not become.

numba widens every integer sum to 64 bits, which halves a vector; here sums are int32, as in the libraries.
The IR is portable: LLVM cuts the vectors to what the processor has. Only the table look-up has a form of its
own for processors with AVX-512 VBMI, which permute bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

BLOCK = 64
"""Pixels that `vertical_block` makes at once."""
LANES = 16
"""The side of a block that is transposed."""

_I8, _I16, _I32 = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_BYTES, _INTS = ir.VectorType(_I8, LANES), ir.VectorType(_I32, LANES)

# The features that numba compiles for; they are also part of the key of its disk cache.
HAVE_VBMI = "+avx512vbmi," in cpu_target.target_context.codegen().magic_tuple()[2] + ","


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
    return builder.shuffle_vector(one, unset, ir.Constant(_INTS, [0] * LANES))


def _clamped(builder: Any, value: Any) -> Any:
    """min(max(value, 0), 255) of a vector of int32."""
    zero, most = (ir.Constant(_INTS, [bound] * LANES) for bound in (0, 255))
    value = builder.select(builder.icmp_signed("<", value, zero), zero, value)
    return builder.select(builder.icmp_signed(">", value, most), most, value)


def _rows(context: Any, builder: Any, kind: Any, value: Any, row: Any, byte: Any) -> Iterator[Any]:
    """Where the given byte of 16 rows lies, from a row on."""
    array = _array(context, builder, kind, value)
    stride = builder.extract_value(array.shape, 1)
    for dimension in range(2, kind.ndim):
        stride = builder.mul(stride, builder.extract_value(array.shape, dimension))
    place = builder.gep(array.data, [builder.add(builder.mul(row, stride), byte)])
    for _ in range(LANES):
        yield place
        place = builder.gep(place, [stride])


def _store_turned(builder: Any, rows: list[Any], places: Iterable[Any]) -> None:
    """16 rows of 16 bytes, written as columns."""
    low, high = (
        ir.Constant(ir.VectorType(_I32, LANES), [i // 2 + start + LANES * (i % 2) for i in range(LANES)])
        for start in (0, LANES // 2)
    )
    # Interleaving each row with the one half the block below, four times over, transposes 16 x 16.
    for _ in range(4):
        halves = zip(rows[: LANES // 2], rows[LANES // 2 :], strict=True)
        rows = [builder.shuffle_vector(a, b, order) for a, b in halves for order in (low, high)]
    for row, place in zip(rows, places, strict=True):
        _store(builder, row, place)


@intrinsic
def three_of_four_block(typingctx, words, at, target, to):  # type: ignore[no-untyped-def]
    """target[to:to + 48] = words[at:at + 64] without every fourth byte; both uint8 [.], C-contiguous."""
    if not (_is_bytes(words, 1) and _is_bytes(target, 1)):
        return None

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        source, place = (
            builder.gep(_array(context, builder, signature.args[i], args[i]).data, [args[i + 1]])
            for i in (0, 2)
        )
        block = ir.VectorType(_I8, 4 * LANES)
        kept = ir.Constant(ir.VectorType(_I32, 3 * LANES), [i for i in range(4 * LANES) if i % 4 < 3])
        value = _load(builder, source, block)
        _store(builder, builder.shuffle_vector(value, ir.Constant(block, ir.Undefined), kept), place)
        return context.get_dummy_value()

    return types.void(words, types.intp, target, types.intp), emit


@intrinsic
def transpose_block(typingctx, source, y, x, target, to_y, to_x):  # type: ignore[no-untyped-def]
    """target[to_y + j, to_x + i] = source[y + i, x + j] for i, j < 16; both uint8 [., .], C-contiguous."""
    if not (_is_bytes(source, 2) and _is_bytes(target, 2)):
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        places = _rows(context, builder, source, args[0], args[1], args[2])
        rows = [_load(builder, place, _BYTES) for place in places]
        _store_turned(builder, rows, _rows(context, builder, target, *args[3:]))
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, target, index, index), codegen


@intrinsic
def transpose_channel(  # type: ignore[no-untyped-def]
    typingctx, picture, y, x, channel, target, to_y, to_x
):
    """target[to_y + j, to_x + i] = picture[y + i, x + j, channel] for i, j < 16.

    picture: uint8 [., ., 3], read up to two bytes beyond the block; target: uint8 [., .]; C-contiguous.
    """
    if not (_is_bytes(picture, 3) and _is_bytes(target, 2)):
        return None
    block = ir.VectorType(_I8, 3 * LANES)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        column = builder.add(builder.mul(args[2], args[2].type(3)), args[3])
        third = ir.Constant(ir.VectorType(_I32, LANES), [3 * i for i in range(LANES)])
        rows = [
            builder.shuffle_vector(_load(builder, place, block), ir.Constant(block, ir.Undefined), third)
            for place in _rows(context, builder, picture, args[0], args[1], column)
        ]
        _store_turned(builder, rows, _rows(context, builder, target, *args[4:]))
        return context.get_dummy_value()

    index = types.intp
    return types.void(picture, index, index, index, target, index, index), codegen


@intrinsic
def vertical_block(  # type: ignore[no-untyped-def]
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
        sums = [cgutils.alloca_once(builder, _INTS) for _ in range(0, BLOCK, LANES)]
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
                    pixel = builder.zext(_load(builder, builder.gep(row, [_I32(LANES * j)]), _BYTES), _INTS)
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
            _store(builder, builder.trunc(value, _BYTES), builder.gep(target, [_I32(LANES * j)]))
        return context.get_dummy_value()

    signature = types.void(
        plane, types.intp, types.intp, weight, types.int32, types.boolean, line, types.intp
    )
    return signature, codegen


@intrinsic
def permute_block(typingctx, halves, line, at, target, to):  # type: ignore[no-untyped-def]
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
def copy_run(typingctx, source, at, target, to, n):  # type: ignore[no-untyped-def]
    """target[to : to + n] = source[at : at + n]; both one-dimensional, C-contiguous, of one type."""
    if source.dtype != target.dtype or not source.layout == target.layout == "C":
        return None

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place, value = (
            builder.gep(_array(context, builder, signature.args[i], args[i]).data, [args[i + 1]])
            for i in (2, 0)
        )
        cgutils.raw_memcpy(builder, place, value, args[4], source.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp, types.intp), codegen


@intrinsic
def look_up_block(typingctx, table, line, at, target, to):  # type: ignore[no-untyped-def]
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
