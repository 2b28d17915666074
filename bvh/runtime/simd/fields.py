"""Code of the accessors of `accessors.py`.

They are intrinsics, which Numba compiles as fast as `peek` and a sum; each function would take five
milliseconds. A *place* is added to the index at which a record begins.
"""

from collections.abc import Sequence
from typing import Any

import numba  # noqa: F401 (whole before its parts: threads may import at once)
from llvmlite import ir
from numba import types
from numba.core import cgutils

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
from bvh.runtime.compiler.lazy_modules import type_of_kind
from bvh.runtime.jit import literal_operation
from bvh.runtime.simd.cpu import WIDTH
from bvh.runtime.simd.memory import is_flat, loading, reading, storing, writing
from bvh.runtime.simd.vectors import LONG, Vec, spread


def _each(
    operation: TypedCode, places: Sequence[int], context: Context, builder: Builder, args: Values,
    values: Sequence[Value] = (),
) -> list[Value]:  # fmt: skip
    """Write an operation for each place, with its value if there are any; return the results."""
    signature, write = operation
    results = []
    for i, place in enumerate(places):
        index = builder.add(args[1], ir.Constant(LONG, place))
        results.append(write(context, builder, signature, [args[0], index, *values[i : i + 1]]))
    return results


def _kind_of(kind: Type, places: Sequence[int]) -> Type:
    """Return the type of the values at some places: `kind`, or a tuple of it for several."""
    return kind if len(places) == 1 else types.UniTuple(kind, len(places))


def _together(context: Context, builder: Builder, kind: Type, results: list[Value]) -> Value:
    """Return a single result as it is, several as a tuple of type `kind`."""
    return results[0] if len(results) == 1 else context.make_tuple(builder, kind, results)


def _taking(operation: TypedCode, places: Sequence[int], wide: Type | None = None) -> TypedCode:
    """Return code that reads all places by an operation; integers are extended to type `wide`."""
    signature, _ = operation
    result = _kind_of(wide or signature.return_type, places)

    def codegen(context, builder, sig, args):
        found = _each(operation, places, context, builder, args)
        if wide not in (None, signature.return_type):
            found = [builder.sext(number, LONG) for number in found]
        return _together(context, builder, result, found)

    return result(*signature.args), codegen


def _putting(
    operation: TypedCode, places: Sequence[int], given: Type, kind: Type | None = None
) -> TypedCode:
    """Return code that writes a value, or a tuple `given` for several places, by an operation.

    Values are cast to the type `kind`, if there is one.
    """
    alone = len(places) == 1

    def codegen(context, builder, sig, args):
        values = [args[2]] if alone else cgutils.unpack_tuple(builder, args[2], len(places))
        if kind is not None:
            own = [given] if alone else given.types
            values = [
                context.cast(builder, value, its, kind)
                for value, its in zip(values, own, strict=True)
            ]
        _each(operation, places, context, builder, args, values)
        return context.get_dummy_value()

    return types.void(*operation[0].args[:2], given), codegen


def field(kind: Any, *places: int) -> tuple[Any, Any]:
    """Return functions that read and write a number; for several places, a tuple of numbers."""
    kind = type_of_kind(kind)
    # Numbers of int32 are read as int64, the type of all integers inside kernels.
    wide = types.int64 if kind == types.int32 else kind

    @literal_operation
    def read(typingctx: TypingContext, memory: Type, index: Type) -> Operation:
        return _taking(reading(memory, kind), places, wide) if is_flat(memory) else None

    @literal_operation
    def write(typingctx: TypingContext, memory: Type, index: Type, value: Type) -> Operation:
        if not is_flat(memory):
            return None
        return _putting(writing(memory, kind), places, types.unliteral(value), kind)

    return read, write


def rows(kind: Any, *places: int) -> tuple[Any, Any, Any]:
    """Return functions that read a number, load n lanes, and store a number or lanes."""
    read, _ = field(kind, *places)
    kind = type_of_kind(kind)

    @literal_operation
    def load(typingctx: TypingContext, memory: Type, index: Type, n: Type) -> Operation:
        if not (is_flat(memory) and isinstance(n, types.IntegerLiteral)):
            return None
        return _taking(loading(memory, n, kind), places)

    @literal_operation
    def store(typingctx: TypingContext, memory: Type, index: Type, value: Type) -> Operation:
        if not is_flat(memory):
            return None
        given = types.unliteral(value)
        stored = given if len(places) == 1 else given.dtype
        return _putting(storing(memory, stored, kind), places, given)

    return read, load, store


def splat_rows(*places: int) -> tuple[Any]:
    """Return a function of a tuple (memory, stride) that copies a float32 into all lanes."""
    result = _kind_of(Vec(types.float32, WIDTH), places)

    def read(typingctx: TypingContext, numbers: Type) -> Operation:
        def codegen(context, builder, sig, args):
            memory, stride = cgutils.unpack_tuple(builder, args[0], 2)
            found = []
            for place in places:
                index = builder.mul(stride, ir.Constant(LONG, place))
                found.append(spread(builder, builder.load(builder.gep(memory, [index])), WIDTH))
            return _together(context, builder, result, found)

        return result(numbers), codegen

    return (literal_operation(read),)
