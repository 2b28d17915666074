"""Operations of `tuple_references`, which import Numba: references, and tuples of pointers."""

from __future__ import annotations

from collections.abc import Callable

import numba  # noqa: F401 (whole before its parts: threads may import at once)
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from bvh.runtime.compiler.code_types import Builder, Context, Operation, Type, TypingContext, Value
from bvh.runtime.jit import emits, literal_operation, llvm_operation


def _converted(
    context: Context, builder: Builder, kind: Type, value: Value,
    of_array: Callable[[cgutils._StructProxy], Value], new_kind: Callable[[Type], Type],
) -> Value:  # fmt: skip
    """Return a value, or nested tuple, with each array replaced by `of_array` of it.

    `new_kind` returns the type of a tuple with them. References to other members are counted.
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
def all_pointers(typingctx: TypingContext, value: Type) -> Operation:
    """Return a tuple with pointers in place of its arrays."""

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


class Reference(types.Type):
    """The address of a tuple in the memory of a function that is still running."""

    def __init__(self, target: Type) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")


@extending.register_model(Reference)
class _ReferenceModel(extending.models.PrimitiveModel):
    def __init__(self, manager: extending.models.DataModelManager, kind: Reference) -> None:
        pointer = manager.lookup(kind.target).get_value_type().as_pointer()
        super().__init__(manager, kind, pointer)


@llvm_operation
def refer(typingctx: TypingContext, value: Type) -> Operation:
    """Store a tuple in the stack frame of the calling function; return the reference to it."""
    # The caller must outlive all uses: an inlined function may not return it.

    return Reference(value)(value), emits(cgutils.alloca_once_value)


@llvm_operation
def follow(typingctx: TypingContext, reference: Type) -> Operation:
    """Return the tuple behind a reference."""
    if not isinstance(reference, Reference):
        return None

    def codegen(context, builder, sig, args):
        value = builder.load(args[0])
        # The caller releases what is returned.
        context.nrt.incref(builder, reference.target, value)
        return value

    return reference.target(reference), codegen


@llvm_operation
def borrowed(typingctx: TypingContext, value: Type) -> Operation:
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
def stack_memory(typingctx: TypingContext, size: Type) -> Operation:
    """Return the address of `size` bytes in the stack frame of the caller, aligned for numbers."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    byte, count = ir.IntType(8), ir.Constant(ir.IntType(64), size.literal_value)

    def codegen(context, builder, sig, args):
        # Not Numba's own helper: it fills with zeros, and LLVM then spends a minute on storing
        # thousands of single bytes.
        with builder.goto_entry_block():
            memory = builder.alloca(byte, size=count)
            memory.align = 8
        return builder.ptrtoint(memory, ir.IntType(64))

    return types.int64(size), codegen
