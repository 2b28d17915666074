"""Fields: accessors of the numbers at fixed places of a record, made from place and type.

Whoever owns a layout makes them, and others call them by the name of its module, as in
`slots.end(memory, slot)`: with the memory, and the index at which the record begins. They are
intrinsics, which take Numba no longer than `peek` and a sum; a function takes it five milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils

from bvh.runtime.jit import literal_operation, types
from bvh.runtime.simd.cpu import WIDTH
from bvh.runtime.simd.memory import is_flat, loading, reading, storing, writing
from bvh.runtime.simd.vectors import LONG, Vec, spread

Accessor = Callable[..., object]


def _each(access, places, context, builder, signature, args, values=None):
    """Write one access for each place, which is added to the index; return what they return."""
    results = []
    for i, place in enumerate(places):
        value = [] if values is None else [values[i]]
        index = builder.add(args[1], ir.Constant(LONG, place))
        results.append(access(context, builder, signature, [args[0], index, *value]))
    return results


def _values(builder, places, args):
    return [args[2]] if len(places) == 1 else cgutils.unpack_tuple(builder, args[2], len(places))


def _result(context, builder, kind, results):
    return context.make_tuple(builder, kind, results) if len(results) > 1 else results[0]


def _many(kind, places):
    return kind if len(places) == 1 else types.UniTuple(kind, len(places))


def _one(value):
    return value.dtype if isinstance(value, types.UniTuple) else types.unliteral(value)


def field(kind: types.Number, *places: int) -> tuple[Accessor, Accessor]:
    """Return functions that read and write a number of a type, or a tuple where places are more.

    Those of int32 are read as int64, as all integers inside kernels.
    """

    @literal_operation
    def read(typingctx, memory, index):
        if not is_flat(memory):
            return None
        one, access = reading(memory, kind)
        wide = types.int64 if kind == types.int32 else kind
        result = _many(wide, places)

        def codegen(context, builder, signature, args):
            found = _each(access, places, context, builder, one, args)
            if wide != kind:
                found = [builder.sext(number, LONG) for number in found]
            return _result(context, builder, result, found)

        return result(memory, types.intp), codegen

    @literal_operation
    def write(typingctx, memory, index, value):
        if not is_flat(memory):
            return None
        one, access = writing(memory, kind)
        given = types.unliteral(value)
        kinds = [given] if len(places) == 1 else given.types

        def codegen(context, builder, signature, args):
            values = _values(builder, places, args)
            values = [
                context.cast(builder, number, own, kind)
                for number, own in zip(values, kinds, strict=True)
            ]
            _each(access, places, context, builder, one, args, values)
            return context.get_dummy_value()

        return types.void(memory, types.intp, given), codegen

    return read, write


def rows(kind: types.Number, *places: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return functions that read a number, load n lanes, and store a number or lanes, narrowed.

    Where places are more than one, these are tuples.
    """
    read, _ = field(kind, *places)

    @literal_operation
    def load(typingctx, memory, index, n):
        if not (is_flat(memory) and isinstance(n, types.IntegerLiteral)):
            return None
        one, access = loading(memory, n, kind)
        result = _many(one.return_type, places)

        def codegen(context, builder, signature, args):
            # The number of lanes is part of the type.
            found = _each(access, places, context, builder, one, args)
            return _result(context, builder, result, found)

        return result(memory, types.intp, n), codegen

    @literal_operation
    def store(typingctx, memory, index, value):
        if not is_flat(memory):
            return None
        one, access = storing(memory, _one(value), kind)

        def codegen(context, builder, signature, args):
            _each(access, places, context, builder, one, args, _values(builder, places, args))
            return context.get_dummy_value()

        return types.void(memory, types.intp, types.unliteral(value)), codegen

    return read, load, store


def splat_rows(*places: int) -> Accessor:
    """Return a function of (memory, stride) that copies a float32 into all lanes of a vector.

    The float32 is that of a row, whose place is in strides; rows give a tuple of vectors.
    """
    vec = Vec(types.float32, WIDTH)

    @literal_operation
    def read(typingctx, numbers):
        result = _many(vec, places)

        def codegen(context, builder, signature, args):
            memory, stride = (builder.extract_value(args[0], i) for i in range(2))
            found = []
            for place in places:
                index = builder.mul(stride, ir.Constant(LONG, place))
                found.append(spread(builder, builder.load(builder.gep(memory, [index])), WIDTH))
            return _result(context, builder, result, found)

        return result(numbers), codegen

    return read
