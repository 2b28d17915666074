"""Tuples of arrays and pointers inside kernels: as pointers, by reference, without counting.

Numba counts references to an array at every call of a function that is given it, alone or in a
tuple, with an atomic instruction; and it passes every member of a tuple as an argument of its own,
so that a function with twenty of them spends more on its call than on its work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from bvh.runtime.compiler.deferred import names_of
from bvh.runtime.jit import by_type

Number = TypeVar("Number", bound=np.generic)
Function = TypeVar("Function", bound=Callable[..., object])

_OPERATIONS = "all_pointers borrowed follow refer stack_memory"
__getattr__ = names_of("bvh.runtime.simd.references", _OPERATIONS)
all_pointers = __getattr__("all_pointers")

# For classes of tuples for which `all_pointers` is not enough: the function that makes pointers.
SPECIAL: dict[type, Callable[..., object]] = {}


class Pointer(Generic[Number]):
    """The address of numbers inside kernels (see `simd.memory`), for annotations of tuples."""


def pointers_of(kind: type) -> Callable[[Function], Function]:
    """Register the function (arrays) that `as_pointers` compiles to for a class of NamedTuples."""

    def register(function: Function) -> Function:
        SPECIAL[kind] = function
        return function

    return register


@by_type(inline=True)
def as_pointers(arrays):
    """Return a NamedTuple with pointers in place of its arrays, nested tuples included.

    The caller of a kernel keeps the arrays alive. Classes that need more than pointers have a
    function of their own: see `pointers_of`.
    """
    return SPECIAL.get(arrays.instance_class, lambda arrays: all_pointers(arrays))
