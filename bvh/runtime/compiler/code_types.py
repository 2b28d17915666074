"""Types of what intrinsics are written with, for annotations: Numba's and LLVM's."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder as Builder
    from llvmlite.ir import Value
    from numba.core.base import BaseContext as Context
    from numba.core.dispatcher import Dispatcher
    from numba.core.types import Type
    from numba.core.typing.context import BaseContext as TypingContext
    from numba.core.typing.templates import Signature
else:
    # Annotations alone do not import Numba.
    Builder = Value = Context = Dispatcher = Type = TypingContext = Signature = Any

__all__ = [
    "Builder", "CodeGenerator", "Context", "Dispatcher", "Operation", "Signature", "Type",
    "TypedCode", "TypingContext", "Value", "Values",
]  # fmt: skip

Values: TypeAlias = Sequence[Value]
CodeGenerator: TypeAlias = Callable[[Context, Builder, Signature, Values], Value]
# Result of an intrinsic for types of arguments; None for those that it does not take.
TypedCode: TypeAlias = tuple[Signature, CodeGenerator]
Operation: TypeAlias = TypedCode | None
