"""Fields: accessors of the numbers at fixed places of a record, made from place and type.

The module that defines a layout makes them, and others call them by its name, as in
`slots.end(memory, slot)`: with the memory, and the index at which the record begins. A *place* is
the index of a number, counted from there. Accessors are intrinsics, which Numba compiles as fast as
`peek` and a sum; functions would take five milliseconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bvh.runtime.compiler.code_types import Type, TypedCode
from bvh.runtime.compiler.lazy_modules import LazyModule, cgutils, ir, type_of_kind, types
from bvh.runtime.jit import literal_operation
from bvh.runtime.simd.cpu import WIDTH

if TYPE_CHECKING:
    from bvh.runtime.simd import memory as operations
    from bvh.runtime.simd import vectors
else:
    operations = LazyModule("bvh.runtime.simd.memory")
    vectors = LazyModule("bvh.runtime.simd.vectors")

Accessor = Callable[..., object]


def field(kind: type, *places: int) -> tuple[Accessor, Accessor]:
    """Return accessors read(memory, index) and write(memory, index, value) at a place of a record.

    For several places, values are tuples. `kind` is numpy's type of the numbers; int32 is read as
    int64, the type of all integers inside kernels.
    """

    @literal_operation
    def read(typingctx, memory, index):
        number = type_of_kind(kind)
        wide = types.int64 if number == types.int32 else number
        return _reads(operations.reading(memory, number), places, wide)

    @literal_operation
    def write(typingctx, memory, index, value):
        return _writes(operations.writing(memory, type_of_kind(kind)), places, value)

    return read, write


def rows(kind: type, *places: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return accessors (read, load, store) of rows of lanes that begin at places of a record.

    `kind` is the type of the lanes. read(memory, index) returns the number at the place, and
    load(memory, index, n) n lanes from there on. store(memory, index, value) stores a number or
    lanes there, narrowed to `kind` if they are wider. For several places, values are tuples.
    """
    read, _ = field(kind, *places)

    @literal_operation
    def load(typingctx, memory, index, n):
        operation = operations.loading(memory, n, type_of_kind(kind))
        return _reads(operation, places, operation[0].return_type)

    @literal_operation
    def store(typingctx, memory, index, value):
        stored = types.unliteral(value) if len(places) == 1 else value.dtype
        return _writes(operations.storing(memory, stored, type_of_kind(kind)), places, value)

    return read, load, store


def splat_rows(*places: int) -> Accessor:
    """Return an accessor of the float32 number at a place, times a stride, copied to all lanes.

    It is called with a tuple (memory, stride); for several places, it returns a tuple of vectors.
    """

    @literal_operation
    def read(typingctx, numbers):
        vec = vectors.Vec(types.float32, WIDTH)
        result = vec if len(places) == 1 else types.UniTuple(vec, len(places))

        def codegen(context, builder, sig, args):
            memory, stride = cgutils.unpack_tuple(builder, args[0], 2)
            found = []
            for place in places:
                index = builder.mul(stride, ir.Constant(vectors.LONG, place))
                number = builder.load(builder.gep(memory, [index]))
                found.append(vectors.spread(builder, number, WIDTH))
            return found[0] if len(found) == 1 else context.make_tuple(builder, result, found)

        return result(numbers), codegen

    accessor: Accessor = read
    return accessor


def _reads(operation: TypedCode, places: Sequence[int], kind: Type) -> TypedCode:
    """Return the operation that reads all places as values of type `kind`, one or a tuple.

    `operation` reads one number or row at an index.
    """
    signature, emit = operation
    result = kind if len(places) == 1 else types.UniTuple(kind, len(places))

    def codegen(context, builder, sig, args):
        found = []
        for place in places:
            index = builder.add(args[1], ir.Constant(vectors.LONG, place))
            found.append(emit(context, builder, signature, [args[0], index]))
        found = [context.cast(builder, value, signature.return_type, kind) for value in found]
        return found[0] if len(found) == 1 else context.make_tuple(builder, result, found)

    return result(*signature.args), codegen


def _writes(operation: TypedCode, places: Sequence[int], given: Type) -> TypedCode:
    """Return the operation that writes a value, a tuple of type `given` for several places.

    `operation` writes one number or row at an index.
    """
    signature, emit = operation
    given = types.unliteral(given)
    kinds = [given] if len(places) == 1 else given.types

    def codegen(context, builder, sig, args):
        values = args[2:] if len(places) == 1 else cgutils.unpack_tuple(builder, args[2])
        values = [
            context.cast(builder, value, kind, signature.args[2])
            for value, kind in zip(values, kinds, strict=True)
        ]
        for place, value in zip(places, values, strict=True):
            index = builder.add(args[1], ir.Constant(vectors.LONG, place))
            emit(context, builder, signature, [args[0], index, value])
        return context.get_dummy_value()

    return types.void(*signature.args[:2], given), codegen
