"""Vector operations on box records, as `records` names them; imported when one is compiled."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from bvh.runtime.compiler.code_generator import host_features
from bvh.runtime.compiler.code_types import Builder, Operation, Type, TypingContext, Value
from bvh.runtime.jit import llvm_operation
from bvh.runtime.simd.vectors import Vec, declare, indices, spread
from bvh.tree.builders.record_layout import COUNT, FIRST_ID, ID, NARROWEST, UPPER, WIDTH
from bvh.tree.nodes import SMALLEST_PLANE

F32, F64, I32, I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(32), ir.IntType(64)
V4, V8, INTS4, INTS8 = (ir.VectorType(kind, n) for kind in (F32, I32) for n in (4, 8))

f4, i4, i8 = types.float32, types.int32, types.int64
v4, v8, doubles4 = Vec(f4, 4), Vec(f4, 8), Vec(types.float64, 4)
# An argument of `operation` that is an array; its code is given the address of the first number.
ARRAY = None


def operation(
    result: Type, *kinds: Type | None
) -> Callable[[Callable[..., Value | None]], Callable[..., Value]]:
    """Make an intrinsic of the given types from a function that takes a builder and values."""

    def make(emit: Callable[..., Value | None]) -> Any:
        """Return the intrinsic that `emit` writes, with its name and parameters."""

        def declare(typingctx: TypingContext, *given: Type) -> Operation:
            chosen = [a if kind is ARRAY else kind for kind, a in zip(kinds, given, strict=True)]

            def codegen(context, builder, signature, args):
                values = [
                    context.make_array(a)(context, builder, value).data if kind is ARRAY else value
                    for kind, a, value in zip(kinds, signature.args, args, strict=True)
                ]
                out = emit(builder, *values)
                return context.get_dummy_value() if out is None else out

            return result(*chosen), codegen

        declare.__name__, declare.__doc__ = emit.__name__, emit.__doc__
        # Numba binds arguments by this signature.
        declare.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return llvm_operation(declare)

    return make


def _number(builder: Builder, array: Value, row: Value, lane: Value, width: int = WIDTH) -> Value:
    """Return the address of a number of an array with rows of `width`."""
    return builder.gep(array, [builder.add(builder.mul(row, I64(width)), lane)])


def _row(builder: Builder, array: Value, row: Value) -> Value:
    """Return the address of a record as that of a vector."""
    return builder.bitcast(_number(builder, array, row, I64(0)), V8.as_pointer())


def _constant(vector: Value, value: float) -> Value:
    return ir.Constant(vector, [value] * vector.count)


def _shuffle(builder: Builder, a: Value, b: Value, lanes: Iterable[int]) -> Value:
    return builder.shuffle_vector(a, b, indices(lanes))


def _lanes(builder: Builder, v: Value) -> list[Value]:
    """Return the first three lanes."""
    return [builder.extract_element(v, I32(i)) for i in range(3)]


def _halves(builder: Builder, v: Value) -> tuple[Value, Value]:
    return _shuffle(builder, v, v, range(4)), _shuffle(builder, v, v, range(4, 8))


def _from_id(builder: Builder, id: Value) -> Value:
    """Return the lane of a primitive's id."""
    return builder.bitcast(builder.add(id, I32(FIRST_ID)), F32)


def _to_id(builder: Builder, bits: Value) -> Value:
    """Return the id whose lane has these bits."""
    return builder.sub(bits, I32(FIRST_ID))


def _size(builder: Builder, v: Value) -> Value:
    """Return the extents of a box: its upper corner plus minus its lower corner."""
    low, high = _halves(builder, v)
    return builder.fadd(high, low)


@operation(v8, ARRAY, i8)
def load(builder: Builder, array: Value, row: Value) -> Value:
    """Read a row of an (n, 8) array."""
    return builder.load(_row(builder, array, row), align=4)


@operation(types.void, ARRAY, i8, v8)
def store(builder: Builder, array: Value, row: Value, value: Value) -> None:
    """Write a row of an (n, 8) array."""
    builder.store(value, _row(builder, array, row), align=4)


def _extreme(builder: Builder, name: str, *args: Value) -> Value:
    """Return the lane-wise "max" or "min" of two vectors without NaN."""
    # LLVM would turn a comparison and a select into a masked store, which is slow on some CPUs.
    name = f"llvm.x86.avx.{name}.ps.256" if host_features().get("avx") else f"llvm.{name}num.v8f32"
    return builder.call(declare(builder, name, [V8, V8], V8, plain=True), args)


@operation(v8, v8, v8)
def join(builder: Builder, a: Value, b: Value) -> Value:
    """Return the union of two boxes."""
    return _extreme(builder, "max", a, b)


def _with_count(builder: Builder, box: Value, count: Value) -> Value:
    """Return the bin of a box whose last lane is that of integers."""
    return _shuffle(builder, box, builder.bitcast(count, V8), [*range(COUNT), WIDTH + COUNT])


@operation(types.void, ARRAY, i8, v8)
def add(builder: Builder, array: Value, row: Value, value: Value) -> None:
    """Extend the bin in a row of an (n, 8) array to contain a box, which does not count."""
    at = _row(builder, array, row)
    bin = builder.load(at, align=4)
    box = _extreme(builder, "max", bin, value)
    builder.store(_with_count(builder, box, builder.bitcast(bin, INTS8)), at, align=4)


def _put(builder: Builder, address: Value, r: Value) -> None:
    """Extend the bin at an address to contain a record, and count it."""
    one = ir.Constant(INTS8, [0] * COUNT + [1])
    bin = builder.load(address, align=4)
    count = builder.add(builder.bitcast(bin, INTS8), one)
    box = _extreme(builder, "max", bin, r)
    builder.store(_with_count(builder, box, count), address, align=4)


@operation(types.void, ARRAY, i8, v8)
def put(builder: Builder, array: Value, row: Value, r: Value) -> None:
    """Extend the bin in a row of an (n, 8) array to contain a record, and count it."""
    _put(builder, _row(builder, array, row), r)


@operation(v8, v8, v8)
def join_bins(builder: Builder, a: Value, b: Value) -> Value:
    """Return the bin of the records of two bins."""
    count = builder.add(builder.bitcast(a, INTS8), builder.bitcast(b, INTS8))
    return _with_count(builder, _extreme(builder, "max", a, b), count)


@operation(v8)
def empty_bin(builder: Builder) -> Value:
    """Return the bin of no records."""
    return ir.Constant(V8, [-np.inf] * COUNT + [0.0])


@operation(i4, v8)
def count_of(builder: Builder, bin: Value) -> Value:
    """Return the number of records of a bin."""
    return builder.extract_element(builder.bitcast(bin, INTS8), I32(COUNT))


@operation(v8, v8, v8)
def meet(builder: Builder, a: Value, b: Value) -> Value:
    """Return the intersection of two boxes; lower > upper if it is empty."""
    return _extreme(builder, "min", a, b)


@operation(types.boolean, v8)
def overlaps(builder: Builder, v: Value) -> Value:
    """Return whether the result of `meet` is not empty."""
    x, y, z = (
        builder.fcmp_ordered(">=", extent, F32(0.0))
        for extent in _lanes(builder, _size(builder, v))
    )
    return builder.and_(builder.and_(x, y), z)


@operation(v8)
def nothing(builder: Builder) -> Value:
    """Return the empty box."""
    return _constant(V8, -np.inf)


def _centre(builder: Builder, v: Value) -> Value:
    low, high = _halves(builder, v)
    # Rounding is symmetric, so one half is exactly minus the other.
    return _shuffle(builder, builder.fsub(low, high), builder.fsub(high, low), range(8))


@operation(v8, v8)
def centre(builder: Builder, v: Value) -> Value:
    """Return the box that is twice the centre of a box (a point)."""
    return _centre(builder, v)


@operation(v4, v8, f4)
def scales(builder: Builder, box: Value, count: Value) -> Value:
    """Return the number of bins in a unit of each axis of a box; 0 for a narrow axis."""
    size = _size(builder, box)
    wide = builder.fcmp_ordered(">", size, _constant(V4, NARROWEST))
    scale = builder.fdiv(spread(builder, count, 4), size)
    return builder.select(wide, scale, _constant(V4, 0.0))


def _bins(builder: Builder, point: Value, box: Value, scale: Value, last: Value) -> Value:
    """Return what `bins_of` does, in lanes."""
    _, at = _halves(builder, point)
    low, _ = _halves(builder, box)
    b = builder.fptosi(builder.fmul(builder.fadd(at, low), scale), INTS4)
    last = spread(builder, last, 4)
    return builder.select(builder.icmp_signed("<", b, last), b, last)


@operation(types.void, ARRAY, i8, v8, v8, v4, i4, i4)
def drop(
    builder: Builder, bins: Value, first: Value, r: Value, box: Value, scale: Value, last: Value,
    stride: Value,
) -> None:  # fmt: skip
    """Put a record into its bin of each axis (see `bins_of`); bins of an axis are `stride` rows."""
    # Where the bins are is computed in lanes.
    b = _bins(builder, _centre(builder, r), box, scale, last)
    steps = builder.mul(ir.Constant(INTS4, [0, 1, 2, 0]), spread(builder, stride, 4))
    numbers = builder.shl(builder.add(b, steps), ir.Constant(INTS4, [WIDTH.bit_length() - 1] * 4))
    begin = _number(builder, bins, first, I64(0))
    for number in _lanes(builder, numbers):
        address = builder.gep(begin, [builder.zext(number, I64)])
        _put(builder, builder.bitcast(address, V8.as_pointer()), r)


@operation(types.UniTuple(i8, 3), v8, v8, v4, i4)
def bins_of(builder: Builder, point: Value, box: Value, scale: Value, last: Value) -> Value:
    """Return on each axis the bin, from 0 to `last`, of a point (doubled, as a box) in a box."""
    b = _bins(builder, point, box, scale, last)
    return cgutils.pack_array(builder, [builder.zext(bin, I64) for bin in _lanes(builder, b)])


@operation(types.UniTuple(i8, 6), v8, v8, v4, i4)
def spans_of(builder: Builder, r: Value, box: Value, scale: Value, last: Value) -> Value:
    """Return on each axis the first bin of a box, from 0 to `last`, that a record is in; the last.

    Bins of `scale` begin at the lower corner of the box. The last bin is not before the first one.
    """
    low, high = _halves(builder, r)
    begin, _ = _halves(builder, box)
    last, found = spread(builder, last, 4), []
    least = _constant(INTS4, 0)
    for at in (builder.fsub(begin, low), builder.fadd(begin, high)):
        b = builder.fptosi(builder.fmul(at, scale), INTS4)
        b = builder.select(builder.icmp_signed("<", b, least), least, b)
        least = builder.select(builder.icmp_signed("<", b, last), b, last)
        found += _lanes(builder, least)
    return cgutils.pack_array(builder, [builder.zext(bin, I64) for bin in found])


@operation(f4, v8)
def half_area(builder: Builder, v: Value) -> Value:
    """Return half the surface of a box that is not empty."""
    size = _size(builder, v)
    product = builder.fmul(size, _shuffle(builder, size, size, [1, 2, 0, 3]))
    x, y, z = _lanes(builder, product)
    return builder.fadd(builder.fadd(x, y), z)


@operation(f4, v4, i8)
def lane4(builder: Builder, v: Value, axis: Value) -> Value:
    """Return one lane of a vector of four."""
    return builder.extract_element(v, builder.trunc(axis, I32))


@operation(v8, v8, i8)
def spread_lane(builder: Builder, v: Value, lane: Value) -> Value:
    """Return a vector whose lanes all are one lane of another."""
    lane = builder.trunc(lane, I32)
    if host_features().get("avx2"):
        permute = declare(builder, "llvm.x86.avx2.permps", [V8, INTS8], V8, plain=True)
        return builder.call(permute, [v, spread(builder, lane, 8)])
    return spread(builder, builder.extract_element(v, lane), 8)


@operation(v8, f4, f4, f4, i4, f4, f4, f4)
def record(
    builder: Builder, x: Value, y: Value, z: Value, id: Value, u: Value, v: Value, w: Value
) -> Value:
    """Return the record of the primitive `id` with the corners (x, y, z) and (u, v, w)."""
    low = [builder.fneg(a) for a in (x, y, z)]
    out = ir.Constant(V8, ir.Undefined)
    for i, lane in enumerate([*low, _from_id(builder, id), u, v, w, F32(0.0)]):
        out = builder.insert_element(out, lane, I32(i))
    return out


@operation(doubles4, ARRAY, i8)
def corner(builder: Builder, points: Value, row: Value) -> Value:
    """Read a row of an (n, 3) array of doubles; the last lane is zero."""
    at = builder.gep(points, [builder.mul(row, I64(3))])
    pair = builder.load(builder.bitcast(at, ir.VectorType(F64, 2).as_pointer()), align=8)
    last = builder.load(builder.gep(at, [I64(2)]))
    none = _constant(pair.type, 0.0)
    return builder.insert_element(_shuffle(builder, pair, none, range(4)), last, I32(2))


@operation(v8, v4, v4, i4)
def box_record(builder: Builder, low: Value, high: Value, id: Value) -> Value:
    """Return the record of the primitive `id` with two corners, whose last lane is not used."""
    out = _shuffle(builder, builder.fneg(low), high, range(8))
    return builder.insert_element(out, _from_id(builder, id), I32(ID))


@operation(v8, v8)
def outward(builder: Builder, v: Value) -> Value:
    """Return a record with corners one float32 further out, as by `nodes.above`."""
    # Minus the lower corner and the upper corner both step towards infinity: a positive number by
    # adding one to its bits, a negative one by subtracting it; infinity stays.
    zero, one, infinity = (_constant(INTS8, bits) for bits in (0, 1, 0x7F800000))
    smallest = _constant(INTS8, int(np.float32(SMALLEST_PLANE).view(np.int32)))
    b = builder.bitcast(v, INTS8)
    size = builder.and_(b, _constant(INTS8, 0x7FFFFFFF))
    up = builder.select(builder.icmp_signed("<", b, infinity), builder.add(b, one), b)
    b = builder.select(builder.icmp_signed(">=", b, zero), up, builder.sub(b, one))
    # Values near either zero become the smallest plane.
    b = builder.select(builder.icmp_signed("<", size, smallest), smallest, b)
    stepped = builder.bitcast(b, V8)
    return _shuffle(builder, stepped, v, [0, 1, 2, 8 + ID, 4, 5, 6, 15])


@operation(f4, ARRAY, i8, i8)
def lane_of(builder: Builder, array: Value, row: Value, lane: Value) -> Value:
    """Return one number of a row of an (n, 8) array."""
    return builder.load(_number(builder, array, row, lane))


@operation(i4, ARRAY, i8)
def id_of(builder: Builder, array: Value, row: Value) -> Value:
    """Return the id of the record in a row of an (n, 8) array."""
    at = _number(builder, array, row, I64(ID))
    return _to_id(builder, builder.load(builder.bitcast(at, I32.as_pointer())))


# Lanes of a record, and the columns of bounds that they are.
_COLUMNS = ((0, 0), (1, 1), (2, 2), (4, 3), (5, 4), (6, 5))


@operation(types.void, ARRAY, i8, v8)
def store_bounds(builder: Builder, bounds: Value, node: Value, v: Value) -> None:
    """Write a box into row `node` of an (n, 6) array of lower and upper corners."""
    for lane, column in _COLUMNS:
        value = builder.extract_element(v, I32(lane))
        value = builder.fneg(value) if column < 3 else value
        builder.store(value, _number(builder, bounds, node, I64(column), 6))


@operation(i4, v8)
def id_in(builder: Builder, r: Value) -> Value:
    """Return the id of a record."""
    return _to_id(builder, builder.extract_element(builder.bitcast(r, INTS8), I32(ID)))


@operation(v8, i4, f4, f4)
def slab(builder: Builder, axis: Value, low: Value, high: Value) -> Value:
    """Return the box of the space between two planes across an axis, by minus the lower one."""
    out = _constant(V8, np.inf)
    out = builder.insert_element(out, low, axis)
    return builder.insert_element(out, high, builder.add(axis, I32(UPPER)))


@operation(v8, ARRAY, i8)
def load_bounds(builder: Builder, bounds: Value, node: Value) -> Value:
    """Read row `node` of an (n, 6) array of lower and upper corners as a box."""
    out = _constant(V8, 0.0)
    for lane, column in _COLUMNS:
        value = builder.load(_number(builder, bounds, node, I64(column), 6))
        value = builder.fneg(value) if column < 3 else value
        out = builder.insert_element(out, value, I32(lane))
    return out
