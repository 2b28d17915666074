"""Tuples of arrays and pointers inside kernels: as pointers, by reference, without counting.

Numba counts references to an array at every call of a function that is given it, alone or in a
tuple, with an atomic instruction; and it passes every member of a tuple as an argument of its own,
so that a function with twenty of them spends more on its call than on its work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from bvh.runtime.compiler.code_types import Builder, Context, Type, Value
from bvh.runtime.compiler.lazy_modules import cgutils, ir, types
from bvh.runtime.jit import by_type, emits, literal_operation, llvm_operation

Number = TypeVar("Number", bound=np.generic)
Function = TypeVar("Function", bound=Callable[..., object])


def _converted(
    context: Context, builder: Builder, kind: Type, value: Value,
    of_array: Callable[[Any], Value], new_kind: Callable[[Type], Type],
) -> Value:  # fmt: skip
    """Return `value`, of type `kind`, with of_array(array) in place of each array, also in tuples.

    new_kind(type of a tuple) is the type of the tuple returned for it. Other values are returned as
    they are, with one more reference, which belongs to the result.
    """
    if isinstance(kind, types.Array):
        return of_array(context.make_array(kind)(context, builder, value))
    if isinstance(kind, types.BaseTuple):
        members = [builder.extract_value(value, i) for i in range(len(kind))]
        parts = [
            _converted(context, builder, part, member, of_array, new_kind)
            for part, member in zip(kind, members, strict=True)
        ]
        return context.make_tuple(builder, new_kind(kind), parts)
    context.nrt.incref(builder, kind, value)
    return value


@llvm_operation
def all_pointers(typingctx, value):
    """Return a tuple, nested or not, with pointers to their first elements in place of arrays."""

    def result_type(kind: Type) -> Type:
        if isinstance(kind, types.Array):
            return types.CPointer(kind.dtype)
        if isinstance(kind, types.BaseTuple):
            parts = [result_type(part) for part in kind.types]
            return types.BaseTuple.from_types(parts, getattr(kind, "instance_class", None))
        return kind

    def codegen(context, builder, sig, args):
        return _converted(context, builder, value, args[0], lambda array: array.data, result_type)

    return result_type(value)(value), codegen


@llvm_operation
def refer(typingctx, value):
    """Store a tuple in the stack frame of the calling function; return the reference to it."""
    # The caller must outlive all uses: an inlined function may not return it.
    from bvh.runtime.simd.vectors import Reference

    return Reference(value)(value), emits(cgutils.alloca_once_value)


@llvm_operation
def follow(typingctx, reference):
    """Return the tuple that a reference made by `refer` leads to."""

    def codegen(context, builder, sig, args):
        value = builder.load(args[0])
        # The caller releases what is returned.
        context.nrt.incref(builder, reference.target, value)
        return value

    return reference.target(reference), codegen


@llvm_operation
def borrowed(typingctx, value):
    """Return an array, or a tuple of them, that counts no references; the owner must outlive it."""
    # Threads that count references to one array wait for each other.

    def codegen(context, builder, sig, args):
        def stripped(array):
            for field in ("meminfo", "parent"):
                setattr(array, field, cgutils.get_null_value(getattr(array, field).type))
            return array._getvalue()

        return _converted(context, builder, value, args[0], stripped, lambda kind: kind)

    return value(value), codegen


@literal_operation
def stack_memory(typingctx, size):
    """Return the address of `size` bytes in the stack frame of the caller, aligned to 8 bytes."""
    byte, count = ir.IntType(8), ir.Constant(ir.IntType(64), size.literal_value)

    def codegen(context, builder, sig, args):
        # Not Numba's own helper: it fills with zeros, and LLVM then spends a minute on storing
        # thousands of single bytes.
        with builder.goto_entry_block():
            memory = builder.alloca(byte, size=count)
            memory.align = 8
        return builder.ptrtoint(memory, ir.IntType(64))

    return types.int64(size), codegen


# For classes of tuples for which `all_pointers` is not enough: the function that makes pointers.
SPECIAL: dict[type, Callable[..., object]] = {}


class Pointer(Generic[Number]):
    """The address of numbers inside kernels (see `simd.memory`), for annotations of tuples."""


def makes_pointers_of(kind: type) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as `as_pointers` of NamedTuples `kind`."""

    def register(function: Function) -> Function:
        SPECIAL[kind] = function
        return function

    return register


@by_type(inline=True)
def as_pointers(arrays):
    """Return a NamedTuple with pointers in place of its arrays, nested tuples included.

    The caller of a kernel keeps the arrays alive. See `makes_pointers_of` for special classes.
    """
    return SPECIAL.get(arrays.instance_class, lambda arrays: all_pointers(arrays))
