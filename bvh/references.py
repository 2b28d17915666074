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
_make_room: Any = cgutils.alloca_once


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
        return builder.load(args[0])

    return reference.target(reference), codegen


@literal_operation
def stack_memory(typingctx: Any, size: Any) -> Any:
    """Return the address of some bytes that the calling function has until it ends."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    kind = ir.ArrayType(ir.IntType(8), size.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(_make_room(builder, kind), ir.IntType(64))

    return types.int64(size), codegen
