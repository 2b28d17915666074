"""Calls of kernels whose arguments stay in memory, for one ray or one point.

Numba unpacks fifty arrays in more time than one ray takes in a tree. So the row of what is searched
and the arrays of a thread are written to memory once, and a call hands over the addresses of the
two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.runtime.jit import address_of, entry, entry_point, signatures, types
from bvh.runtime.simd import peek, pointer_to, poke
from bvh.runtime.user_calls import call_stored, stored_words
from bvh.tree.primitives import Custom

I8 = np.int64(0)


class Kept:
    """Arguments of a kernel in memory, which the object keeps alive.

    Attributes
    ----------
    arguments : tuple
        What is in memory.
    address : int
        Where it is.
    """

    __slots__ = ("_words", "address", "arguments")

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self._words = np.array(stored_words(arguments), np.int64)
        self.address: int = self._words.ctypes.data


class Searched(Kept):
    """What queries search, in memory: the row of a tree or scene, and what else they need.

    Attributes
    ----------
    arrays : TreeArrays
        The tree, or the TLAS of the scene, whose row is the first of the arguments.
    kind : type
        The class of its primitives.
    castable : bool
        It has nodes, and no users' primitives, which are not in memory.
    """

    __slots__ = ("arrays", "castable", "kind")

    def __init__(self, arrays: Any, *more: Any) -> None:
        self.arrays, self.kind = arrays, type(arrays.primitives)
        own = self.kind is Custom
        super().__init__(*(() if own else ((arrays.row, *more),)))
        self.castable: bool = not own and arrays.nodes.data.size > 0


# `searched` is the address of the kernel's first argument, and `memory` that of an array of
# float64, which is filled here, and of all other arguments.


@entry
def call_for_point(kinds, kernel, searched, memory, x, y, z, limit):
    """Call a kernel for a point and the largest distance."""
    numbers = pointer_to(peek(pointer_to(memory, I8), 0), 0.0)
    poke(numbers, 0, x)
    poke(numbers, 1, y)
    poke(numbers, 2, z)
    poke(numbers, 3, limit)
    call_stored(kinds, kernel, searched, memory + SKIPPED)


@entry
def call_for_ray(kinds, kernel, searched, memory, ox, oy, oz, dx, dy, dz):
    """Call a kernel for a ray, whose range is in memory."""
    numbers = pointer_to(peek(pointer_to(memory, I8), 0), 0.0)
    poke(numbers, 0, ox)
    poke(numbers, 1, oy)
    poke(numbers, 2, oz)
    poke(numbers, 3, dx)
    poke(numbers, 4, dy)
    poke(numbers, 5, dz)
    call_stored(kinds, kernel, searched, memory + SKIPPED)


# Bytes of the array of float64 in memory: its address, shape and stride.
SKIPPED = 24

# How many numbers they take.
NUMBERS = {call_for_point: 4, call_for_ray: 6}

# The functions behind these entries, and the addresses of the kernels that they call, by the keys
# of `jit.signatures`; for the first ones None where there is no address.
calls: dict[tuple[Any, ...], Any] = {}


def kept_call(way: Any, key: tuple[Any, ...]) -> Any:
    """Return the function that makes calls of a kernel, and the kernel's address, or None.

    Batches have compiled the kernel, for whose types the function is compiled.
    """
    if key not in calls:
        compiled, signature = signatures[key]
        address = address_of(compiled, types.none(*signature))
        kinds = types.TypeRef(types.Tuple(signature))
        numbers = (types.float64,) * NUMBERS[way]
        run = entry_point(way, (kinds, *(types.int64,) * 3, *numbers))
        calls[key] = (run, address) if address else None
    return calls[key]
