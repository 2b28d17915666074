"""Fields: accessors of the numbers at fixed places of a record, made from place and type.

The module that defines a layout makes them, and others call them by its name, as in
`slots.end(memory, slot)`: with the memory, and the index at which the record begins. A *place* is
the index of a number, counted from there. `fields` has the code that accessors compile to.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from bvh.runtime.compiler.deferred import Deferred, at_activation

Accessor = Callable[..., object]


def field(kind: type, *places: int) -> tuple[Accessor, Accessor]:
    """Return functions that read and write a number; for several places, a tuple of numbers."""
    read, write = _made(2, "field", kind, *places)
    return read, write


def rows(kind: type, *places: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return functions that read a number, load n lanes, and store a number or lanes."""
    # For several places, these are tuples. Stored values are converted to the type, if it is
    # narrower than theirs.
    read, load, store = _made(3, "rows", kind, *places)
    return read, load, store


def splat_rows(*places: int) -> Accessor:
    """Return a function of a tuple (memory, stride) that copies a float32 into all lanes."""
    # The index of the number is its place times the stride. For several places, the function
    # returns a tuple of vectors.
    [accessor] = _made(1, "splat_rows", *places)
    return accessor


def _made(count: int, maker: str, *given: Any) -> list[Deferred]:
    """Return `count` deferred intrinsics, which the function `maker` of `fields` makes."""

    @lru_cache(maxsize=1)
    def all_of_them() -> Any:
        return getattr(import_module("bvh.runtime.simd.fields"), maker)(*given)

    made = []
    for i in range(count):
        made.append(Deferred(all_of_them, partial(_chosen, i)))
        # Numba looks for new intrinsics before it compiles, so all are made at the activation.
        at_activation(partial(getattr, made[i], "real"))
    return made


def _chosen(i: int, make: Callable[[], Any]) -> Any:
    """Return one of the intrinsics that `make` returns together."""
    return make()[i].real
