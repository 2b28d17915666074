"""References: a tuple of many pointers handed to a function as one.

A tuple's members are arguments each; a function with twenty of them, called for every hit, spends
more on its call than on its work.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils

from bvh.jit import literal_operation, llvm_operation, types

# Numba's inside is untyped.
_Model: Any = extending.models.PrimitiveModel
_keep: Any = cgutils.alloca_once_value
_nothing: Any = cgutils.get_null_value


class Reference(types.Type):  # type: ignore[misc]
    """The place of a tuple in the memory of a function that is still running."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")


@extending.register_model(Reference)
class _ReferenceModel(_Model):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        pointer = manager.lookup(kind.target).get_value_type().as_pointer()
        super().__init__(manager, kind, pointer)


@llvm_operation
def refer(typingctx: Any, value: Any) -> Any:
    """Keep a tuple in the memory of the calling function; return the reference to it.

    The caller must outlive all uses: a function that melts into another may not return it.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _keep(builder, args[0])

    return Reference(value)(value), codegen


@llvm_operation
def follow(typingctx: Any, reference: Any) -> Any:
    """Return the tuple that a reference stands for."""
    if not isinstance(reference, Reference):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(args[0])
        # The caller gives up what it is given.
        context.nrt.incref(builder, reference.target, value)
        return value

    return reference.target(reference), codegen


@llvm_operation
def borrowed(typingctx: Any, value: Any) -> Any:
    """Return an array, or a tuple of them, that counts no references; the owner must outlive it.

    Threads that count references to one array wait for each other.
    """

    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            for field in ("meminfo", "parent"):
                setattr(array, field, _nothing(getattr(array, field).type))
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            parts = [
                strip(context, builder, part, builder.extract_value(value, i))
                for i, part in enumerate(kind)
            ]
            return context.make_tuple(builder, kind, parts)
        context.nrt.incref(builder, kind, value)
        return value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return strip(context, builder, value, args[0])

    return value(value), codegen


@literal_operation
def stack_memory(typingctx: Any, size: Any) -> Any:
    """Return the address of some bytes that the calling function has until it ends."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    byte, count = ir.IntType(8), ir.Constant(ir.IntType(64), size.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Not Numba's own helper: it fills with zeros, and LLVM then spends a minute on storing
        # thousands of single bytes.
        with builder.goto_entry_block():
            memory = builder.alloca(byte, size=count)
        return builder.ptrtoint(memory, ir.IntType(64))

    return types.int64(size), codegen
