"""Rays of a chunk, made and cast in blocks that stay in the caches of a CPU."""

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.merging import Column
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.tree_handles import Searched
from bvh.runtime.cpus import task_threads

Maker = Callable[..., tuple[ArrayLike, ArrayLike]]
Slices = tuple[slice, ...]

# Rays of a block: 6 MB of directions, and as much of results. Chunks of millions, made and cast as
# a whole, take half as long again: each array is fresh memory, cleared first and never cached.
BLOCK = 1 << 18

all_of = slice(None)


class RayBlocks:
    """Rays of a chunk, a place in the shape of its source, which are made when asked for."""

    def __init__(self, function: Maker, args: tuple[object, ...], place: Slices) -> None:
        self._function, self._args, self.place = function, args, place
        self.shape = tuple(axis.stop - axis.start for axis in place)

    def cast(
        self, target: Searched, verb: str, options: dict[str, object], bounds: dict[str, Column]
    ) -> Iterator[tuple[Slices, Slices, object]]:
        """Yield the results of blocks of rays: where each is in the chunk, and in the source."""
        # `bounds` are arguments that are arrays, such as `t_min`, and broadcast with the chunk.
        # Along axes of length 1, a block is everything in the chunk, as results may be longer
        # there.
        # Each block would visit all parts. A filter is given the row of a ray in its chunk.
        whole = isinstance(target, Parts) or options.get("filter") is not None
        most = prod(self.shape) if whole else BLOCK
        sizes = block_shape(self.shape, most)
        begins = [range(0, max(n, 1), size) for n, size in zip(self.shape, sizes, strict=True)]
        for begin in product(*begins):
            block = [slice(b, min(b + k, n))
                     for b, k, n in zip(begin, sizes, self.shape, strict=True)]  # fmt: skip
            within = [all_of if n == 1 else s for s, n in zip(block, self.shape, strict=True)]
            place = [slice(axis.start + s.start, axis.start + s.stop)
                     for s, axis in zip(block, self.place, strict=True)]  # fmt: skip
            with task_threads(1):
                origins, directions = map(np.asarray, self._function(*place, *self._args))
            shape = tuple(axis.stop - axis.start for axis in place)
            rays = _shared(origins, shape), np.broadcast_to(directions, (*shape, 3))
            some = {name: _part_of(array, within) for name, array in bounds.items()}
            found = getattr(target, verb)(*rays, **some, **options)
            yield tuple(within), tuple(place), found


def block_shape(shape: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the shape of blocks of at most so many rays, about as long along all axes."""
    sizes = [max(size, 1) for size in shape]
    while prod(sizes) > max(most, 1):
        longest = sizes.index(max(sizes))
        sizes[longest] = -(-sizes[longest] // 2)
    return tuple(sizes)


def _part_of(array: Column, within: list[slice]) -> Column:
    """Return the part of an array that broadcasts with a block."""
    axes = zip(array.shape[::-1], reversed(within), strict=False)
    # Axes before those of the rays are not divided.
    return array[(..., *[all_of if size == 1 else some for size, some in axes][::-1])]


def _shared(origins: Column, shape: tuple[int, ...]) -> Column:
    """Return origins of rays of a shape: one point where all share it, which saves a copy."""
    if origins.size and not any(origins.strides[:-1]):
        one: Column = origins[(0,) * (origins.ndim - 1)]
        return one
    return np.broadcast_to(origins, (*shape, 3))
