"""Scratch of a thread that takes points through trees: a stack, and candidates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import inlined
from bvh.simd import WIDTH, pointer, pointer_to
from bvh.traversal.singles import STACK

# Triangles that can wait to be measured.
CAPACITY = 256


class PointScratch(NamedTuple):
    """Scratch of one thread; pointers inside kernels."""

    stack: NDArray[np.int64]
    squares: NDArray[np.float64]  # of the stack's entries, where they are in float64
    spare: NDArray[np.float32]
    bounds: NDArray[np.float64]  # candidates: lower bounds of their distances, and their names
    names: NDArray[np.int64]
    lows: NDArray[np.float64]


def new_scratch(trees: int = 1) -> PointScratch:
    """Return the scratch of one thread; scenes need stacks for two trees, one below the other."""
    return PointScratch(
        aligned(trees * STACK, np.int64),
        aligned(trees * STACK, np.float64),
        aligned(2 * WIDTH, np.float32),
        aligned(CAPACITY + WIDTH, np.float64),
        aligned(CAPACITY + WIDTH, np.int64),
        aligned(CAPACITY + WIDTH, np.float64),
    )


@inlined
def pointed_scratch(scratch):
    """Return scratch with pointers in place of arrays."""
    return PointScratch(
        pointer(scratch.stack),
        pointer(scratch.squares),
        pointer(scratch.spare),
        pointer(scratch.bounds),
        pointer(scratch.names),
        pointer(scratch.lows),
    )


# Where the parts of a scratch begin in plain memory, in bytes, each on a cache line.
_SIZES = (8 * STACK, 8 * STACK, 8 * WIDTH, *[8 * (CAPACITY + WIDTH)] * 3)
_OFFSETS = [sum(-(-size // 64) * 64 for size in _SIZES[:part]) for part in range(len(_SIZES))]
SQUARES, SPARE, BOUNDS, NAMES, LOWS = _OFFSETS[1:]
SCRATCH_BYTES = LOWS + _SIZES[-1] + 64


@inlined
def scratch_at(memory):
    """Return scratch for a tree in SCRATCH_BYTES of memory, pointers in place of arrays."""
    at = memory + (-memory & 63)
    return PointScratch(
        pointer_to(at, np.int64(0)),
        pointer_to(at + SQUARES, 0.0),
        pointer_to(at + SPARE, np.float32(0.0)),
        pointer_to(at + BOUNDS, 0.0),
        pointer_to(at + NAMES, np.int64(0)),
        pointer_to(at + LOWS, 0.0),
    )
