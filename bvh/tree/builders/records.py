"""Box records, the input of builders, and vector operations on them.

A record is eight float32: minus the lower corner, the primitive's id (its bits), the upper corner,
and an unused lane. Thus the union of two boxes is one vector maximum, and a record is all that a
builder needs of a primitive.
"""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
import numpy as np
from llvmlite import ir
from numba.core import cgutils

from bvh.runtime.jit import llvm_operation, types
from bvh.runtime.simd import FEATURES, Vec

# Lanes of a record: -x -y -z of the lower corner, id, x y z of the upper corner, unused.
WIDTH, ID, UPPER = 8, 3, 4

F32, I32, I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
V4, V8 = ir.VectorType(F32, 4), ir.VectorType(F32, 8)

# Numba's internals are untyped.
_function: Any = cgutils.get_or_insert_function
_tuple_type: Any = types.UniTuple

# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100


v4, v8 = Vec(types.float32, 4), Vec(types.float32, 8)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, row: Any) -> Any:
    """Return the address of row `row` of an (n, 8) array of float32 as that of a vector."""
    data = context.make_array(array_type)(context, builder, array).data
    at = builder.gep(data, [builder.mul(row, I64(WIDTH))])
    return builder.bitcast(at, V8.as_pointer())


def _constant(vector: Any, value: float) -> Any:
    return ir.Constant(vector, [float(value)] * vector.count)


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _halves(builder: Any, v: Any) -> tuple[Any, Any]:
    low, high = _shuffle(builder, v, v, [0, 1, 2, 3]), _shuffle(builder, v, v, [4, 5, 6, 7])
    return low, high


def _size(builder: Any, v: Any) -> Any:
    """Return the extents of a box: its upper corner plus minus its lower corner."""
    low, high = _halves(builder, v)
    return builder.fadd(high, low)


@llvm_operation
def load(typingctx: Any, array: Any, row: Any) -> Any:
    """Read a row of an (n, 8) array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _pointer(context, builder, signature.args[0], *args)
        return builder.load(at, align=4)

    return v8(array, types.int64), codegen


@llvm_operation
def store(typingctx: Any, array: Any, row: Any, value: Any) -> Any:
    """Write a row of an (n, 8) array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = _pointer(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], at, align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, v8), codegen


def _extreme(builder: Any, name: str, args: Any) -> Any:
    """Return the lane-wise "max" or "min" of two vectors without NaN.

    LLVM would turn a comparison and a select into a masked store, which is slow on some CPUs.
    """
    if FEATURES.get("avx"):
        name = f"llvm.x86.avx.{name}.ps.256"
    else:
        name = f"llvm.{name}num.v8f32"
    function = _function(builder.module, ir.FunctionType(V8, [V8, V8]), name)
    return builder.call(function, args)


@llvm_operation
def join(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the union of two boxes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _extreme(builder, "max", args)

    return v8(v8, v8), codegen


@llvm_operation
def meet(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the intersection of two boxes; lower > upper if it is empty."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _extreme(builder, "min", args)

    return v8(v8, v8), codegen


@llvm_operation
def overlaps(typingctx: Any, v: Any) -> Any:
    """Return whether the result of `meet` is not empty."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = _size(builder, args[0])
        x, y, z = (
            builder.fcmp_ordered(">=", builder.extract_element(size, I32(i)), F32(0.0))
            for i in range(3)
        )
        return builder.and_(builder.and_(x, y), z)

    return types.boolean(v8), codegen


@llvm_operation
def nothing(typingctx: Any) -> Any:
    """Return the empty box."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _constant(V8, -np.inf)

    return v8(), codegen


@llvm_operation
def only_if(typingctx: Any, condition: Any, v: Any) -> Any:
    """Return a box if the condition holds, the empty box if not."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = builder.insert_element(
            ir.Constant(ir.VectorType(ir.IntType(1), 8), ir.Undefined), args[0], I32(0)
        )
        mask = _shuffle(builder, mask, mask, [0] * 8)
        return builder.select(mask, args[1], _constant(V8, -np.inf))

    return v8(types.boolean, v8), codegen


@llvm_operation
def centre(typingctx: Any, v: Any) -> Any:
    """Return the box that is twice the centre of a box (a point)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high = _halves(builder, args[0])
        # Rounding is symmetric, so one half is exactly minus the other.
        return _shuffle(builder, builder.fsub(low, high), builder.fsub(high, low), list(range(8)))

    return v8(v8), codegen


@llvm_operation
def scales(typingctx: Any, box: Any, count: Any) -> Any:
    """Return the number of bins in a unit of each axis of a box; 0 for a narrow axis."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = _size(builder, args[0])
        lanes = builder.insert_element(ir.Constant(V4, ir.Undefined), args[1], I32(0))
        bins = _shuffle(builder, lanes, lanes, [0] * 4)
        wide = builder.fcmp_ordered(">", size, _constant(V4, NARROWEST))
        return builder.select(wide, builder.fdiv(bins, size), _constant(V4, 0.0))

    return v4(v8, types.float32), codegen


@llvm_operation
def bins_of(typingctx: Any, point: Any, box: Any, scale: Any, last: Any) -> Any:
    """Return on each axis the bin, from 0 to `last`, of a point (doubled, as a box) in a box."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, at = _halves(builder, args[0])
        low, _ = _halves(builder, args[1])
        ints = ir.VectorType(I32, 4)
        b = builder.fptosi(builder.fmul(builder.fadd(at, low), args[2]), ints)
        last = builder.insert_element(ir.Constant(ints, ir.Undefined), args[3], I32(0))
        last = _shuffle(builder, last, last, [0] * 4)
        b = builder.select(builder.icmp_signed("<", b, last), b, last)
        lanes = [builder.zext(builder.extract_element(b, I32(i)), I64) for i in range(3)]
        return context.make_tuple(builder, signature.return_type, lanes)

    return _tuple_type(types.int64, 3)(v8, v8, v4, types.int32), codegen


@llvm_operation
def half_area(typingctx: Any, v: Any) -> Any:
    """Return half the surface of a box that is not empty."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = _size(builder, args[0])
        product = builder.fmul(size, _shuffle(builder, size, size, [1, 2, 0, 3]))
        x, y, z = (builder.extract_element(product, I32(i)) for i in range(3))
        return builder.fadd(builder.fadd(x, y), z)

    return types.float32(v8), codegen


@llvm_operation
def lane4(typingctx: Any, v: Any, axis: Any) -> Any:
    """Return one lane of a vector of four."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], builder.trunc(args[1], I32))

    return types.float32(v4, types.int64), codegen


@llvm_operation
def record(typingctx: Any, x: Any, y: Any, z: Any, id: Any, u: Any, v: Any, w: Any) -> Any:
    """Return the record of the primitive `id` with the corners (x, y, z) and (u, v, w)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = [builder.fneg(a) for a in args[:3]]
        lanes += [builder.bitcast(args[3], F32), *args[4:], F32(0.0)]
        out = ir.Constant(V8, ir.Undefined)
        for i, lane in enumerate(lanes):
            out = builder.insert_element(out, lane, I32(i))
        return out

    f4 = types.float32
    return v8(f4, f4, f4, types.int32, f4, f4, f4), codegen


@llvm_operation
def with_id(typingctx: Any, v: Any, id: Any) -> Any:
    """Return a box as the record of the primitive `id`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.insert_element(args[0], builder.bitcast(args[1], F32), I32(ID))

    return v8(v8, types.int32), codegen


@llvm_operation
def outward(typingctx: Any, v: Any) -> Any:
    """Return a record with corners one float32 further out, as by `np.nextafter`.

    Minus the lower corner and the upper corner both step towards infinity: a positive number by
    adding one to its bits, a negative one by subtracting it; infinity stays.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ints = ir.VectorType(I32, 8)
        zero, one = ir.Constant(ints, [0] * 8), ir.Constant(ints, [1] * 8)
        infinity = ir.Constant(ints, [0x7F800000] * 8)
        b = builder.bitcast(args[0], ints)
        up = builder.select(builder.icmp_signed("<", b, infinity), builder.add(b, one), b)
        b = builder.select(builder.icmp_signed(">=", b, zero), up, builder.sub(b, one))
        # Below the smallest number is zero, and above either zero the smallest number.
        zeros = builder.fcmp_ordered("==", args[0], _constant(V8, 0.0))
        stepped = builder.bitcast(builder.select(zeros, one, b), V8)
        return _shuffle(builder, stepped, args[0], [0, 1, 2, 8 + ID, 4, 5, 6, 15])

    return v8(v8), codegen


@llvm_operation
def lane_of(typingctx: Any, array: Any, row: Any, lane: Any) -> Any:
    """Return one number of a row of an (n, 8) array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = builder.add(builder.mul(args[1], I64(WIDTH)), args[2])
        return builder.load(builder.gep(data, [at]))

    return types.float32(array, types.int64, types.int64), codegen


@llvm_operation
def id_of(typingctx: Any, array: Any, row: Any) -> Any:
    """Return the id of the record in a row of an (n, 8) array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        at = builder.gep(data, [builder.add(builder.mul(args[1], I64(WIDTH)), I64(ID))])
        return builder.load(builder.bitcast(at, I32.as_pointer()))

    return types.int32(array, types.int64), codegen


@llvm_operation
def store_bounds(typingctx: Any, bounds: Any, node: Any, v: Any) -> Any:
    """Write a box into row `node` of an (n, 6) array of lower and upper corners."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        row = builder.mul(args[1], I64(6))
        for lane, column in ((0, 0), (1, 1), (2, 2), (4, 3), (5, 4), (6, 5)):
            value = builder.extract_element(args[2], I32(lane))
            if column < 3:
                value = builder.fneg(value)
            builder.store(value, builder.gep(data, [builder.add(row, I64(column))]))
        return context.get_dummy_value()

    return types.void(bounds, types.int64, v8), codegen


@llvm_operation
def load_bounds(typingctx: Any, bounds: Any, node: Any) -> Any:
    """Read row `node` of an (n, 6) array of lower and upper corners as a box."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        row = builder.mul(args[1], I64(6))
        out = _constant(V8, 0.0)
        for lane, column in ((0, 0), (1, 1), (2, 2), (4, 3), (5, 4), (6, 5)):
            value = builder.load(builder.gep(data, [builder.add(row, I64(column))]))
            if column < 3:
                value = builder.fneg(value)
            out = builder.insert_element(out, value, I32(lane))
        return out

    return v8(bounds, types.int64), codegen
