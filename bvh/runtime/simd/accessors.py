"""Fields: accessors of the numbers at fixed places of a record, made from place and type.

Whoever owns a layout makes them, and others call them by the name of its module, as in
`slots.end(memory, slot)`: with the memory, and the index at which the record begins. `fields` has
what they compile to.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from bvh.runtime.compiler.deferred import Deferred, at_activation

Accessor = Callable[..., object]


def field(kind: type, *places: int) -> tuple[Accessor, Accessor]:
    """Return functions that read and write a number of a type, or a tuple where places are more."""
    read, write = _made(2, "field", kind, *places)
    return read, write


def rows(kind: type, *places: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return functions that read a number, load n lanes, and store a number or lanes, narrowed."""
    # Where places are more than one, these are tuples.
    read, load, store = _made(3, "rows", kind, *places)
    return read, load, store


def splat_rows(*places: int) -> Accessor:
    """Return a function of (memory, stride) that copies a float32 into all lanes of a vector."""
    # Places are in strides; of more than one it returns a tuple.
    [accessor] = _made(1, "splat_rows", *places)
    return accessor


def _made(count: int, maker: str, *given: Any) -> list[Deferred]:
    @lru_cache(maxsize=1)
    def all_of_them() -> Any:
        return getattr(import_module("bvh.runtime.simd.fields"), maker)(*given)

    made = []
    for i in range(count):
        made.append(Deferred(all_of_them, partial(_chosen, i)))
        # Numba looks for all intrinsics before it compiles.
        at_activation(partial(getattr, made[i], "real"))
    return made


def _chosen(i: int, make: Callable[[], Any]) -> Any:
    return make()[i].real
