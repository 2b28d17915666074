"""Fields: accessors of the numbers at fixed places of a record, made from place and type.

The module that defines a layout makes them, and others call them by its name, as in
`slots.end(memory, slot)`: with the memory, and the index at which the record begins. A *place* is
the index of a number, counted from there. Accessors are intrinsics, which Numba compiles as fast as
`peek` and a sum; functions would take five milliseconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bvh.runtime.compiler.code_types import (
    Builder,
    Context,
    Operation,
    Type,
    TypedCode,
    TypingContext,
    Value,
    Values,
)
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
    """Return accessors (read, write) of the number at a place of a record.

    They are called as read(memory, index) and write(memory, index, value); for several places,
    values are tuples. `kind` is numpy's type of the numbers; int32 is read as int64, the type of
    all integers inside kernels.
    """

    @literal_operation
    def read(typingctx: TypingContext, memory: Type, index: Type) -> Operation:
        number = type_of_kind(kind)
        wide = types.int64 if number == types.int32 else number
        if not operations.is_flat(memory):
            return None
        return _reads(operations.reading(memory, number), places, wide)

    @literal_operation
    def write(typingctx: TypingContext, memory: Type, index: Type, value: Type) -> Operation:
        if not operations.is_flat(memory):
            return None
        number = type_of_kind(kind)
        return _writes(operations.writing(memory, number), places, types.unliteral(value), number)

    return read, write


def rows(kind: type, *places: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return accessors (read, load, store) of rows of lanes that begin at places of a record.

    `kind` is the type of the lanes. read(memory, index) returns the number at the place, and
    load(memory, index, n) n lanes from there on. store(memory, index, value) stores a number or
    lanes there, narrowed to `kind` if they are wider. For several places, values are tuples.
    """
    read, _ = field(kind, *places)

    @literal_operation
    def load(typingctx: TypingContext, memory: Type, index: Type, n: Type) -> Operation:
        if not (operations.is_flat(memory) and isinstance(n, types.IntegerLiteral)):
            return None
        return _reads(operations.loading(memory, n, type_of_kind(kind)), places)

    @literal_operation
    def store(typingctx: TypingContext, memory: Type, index: Type, value: Type) -> Operation:
        if not operations.is_flat(memory):
            return None
        given = types.unliteral(value)
        stored = given if len(places) == 1 else given.dtype
        return _writes(operations.storing(memory, stored, type_of_kind(kind)), places, given)

    return read, load, store


def splat_rows(*places: int) -> Accessor:
    """Return an accessor of float32 numbers, called with a tuple (memory, stride).

    It returns a vector with the number at a place in all lanes; for several places, a tuple of
    vectors. The index of a number is its place times the stride.
    """

    @literal_operation
    def read(typingctx: TypingContext, numbers: Type) -> Operation:
        result = _value_type(vectors.Vec(types.float32, WIDTH), places)

        def codegen(context, builder, sig, args):
            memory, stride = cgutils.unpack_tuple(builder, args[0], 2)
            found = []
            for place in places:
                index = builder.mul(stride, ir.Constant(vectors.LONG, place))
                number = builder.load(builder.gep(memory, [index]))
                found.append(vectors.spread(builder, number, WIDTH))
            return _as_value(context, builder, result, found)

        return result(numbers), codegen

    accessor: Accessor = read
    return accessor


def _at_places(
    operation: TypedCode, places: Sequence[int], context: Context, builder: Builder, args: Values,
    values: Sequence[Value] = (),
) -> list[Value]:  # fmt: skip
    """Write the code of an operation at each place; return the results.

    `operation` is (signature, codegen) of a read, or of a write of one of `values` at each place;
    `args` begin with the memory and the index of the record.
    """
    signature, emit = operation
    results = []
    for i, place in enumerate(places):
        index = builder.add(args[1], ir.Constant(vectors.LONG, place))
        results.append(emit(context, builder, signature, [args[0], index, *values[i : i + 1]]))
    return results


def _value_type(kind: Type, places: Sequence[int]) -> Type:
    """Return the type of the values at some places: `kind`, or a tuple of it for several."""
    return kind if len(places) == 1 else types.UniTuple(kind, len(places))


def _as_value(context: Context, builder: Builder, kind: Type, results: list[Value]) -> Value:
    """Return the only one of `results`, or several of them as a tuple of type `kind`."""
    return results[0] if len(results) == 1 else context.make_tuple(builder, kind, results)


def _reads(operation: TypedCode, places: Sequence[int], wide: Type | None = None) -> TypedCode:
    """Return the operation that reads all places by `operation`, an operation for one number.

    Integers are extended to the type `wide`, if there is one.
    """
    signature, _ = operation
    result = _value_type(wide or signature.return_type, places)

    def codegen(context, builder, sig, args):
        found = _at_places(operation, places, context, builder, args)
        if wide not in (None, signature.return_type):
            found = [builder.sext(number, vectors.LONG) for number in found]
        return _as_value(context, builder, result, found)

    return result(*signature.args), codegen


def _writes(
    operation: TypedCode, places: Sequence[int], given: Type, kind: Type | None = None
) -> TypedCode:
    """Return the operation that writes all places by `operation`, an operation for one number.

    `given` is the type of the value, a tuple for several places. Numbers are cast to the type
    `kind`, if there is one.
    """
    alone = len(places) == 1

    def codegen(context, builder, sig, args):
        values = [args[2]] if alone else cgutils.unpack_tuple(builder, args[2], len(places))
        if kind is not None:
            value_types = [given] if alone else given.types
            values = [
                context.cast(builder, value, value_type, kind)
                for value, value_type in zip(values, value_types, strict=True)
            ]
        _at_places(operation, places, context, builder, args, values)
        return context.get_dummy_value()

    return types.void(*operation[0].args[:2], given), codegen
