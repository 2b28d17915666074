"""What a thread needs to take points through a tree: a stack, and candidates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import inlined
from bvh.simd import WIDTH, pointer, pointer_to
from bvh.traversal.scene_slots import STACK

# Triangles that wait to be measured.
ROOM = 256


class PointScratch(NamedTuple):
    """Scratch of one thread; pointers inside kernels."""

    stack: NDArray[np.int64]
    squares: NDArray[np.float64]
    spare: NDArray[np.float32]
    bounds: NDArray[np.float32]
    ids: NDArray[np.int32]
    lows: NDArray[np.float64]


def new_scratch() -> PointScratch:
    """Return the scratch of one thread."""
    return PointScratch(
        aligned(STACK, np.int64),
        aligned(STACK, np.float64),
        aligned(2 * WIDTH, np.float32),
        aligned(ROOM + WIDTH, np.float32),
        aligned(ROOM + WIDTH, np.int32),
        aligned(ROOM + WIDTH, np.float64),
    )


@inlined
def pointed_scratch(scratch):
    """Return scratch with pointers in place of arrays."""
    return PointScratch(
        pointer(scratch.stack),
        pointer(scratch.squares),
        pointer(scratch.spare),
        pointer(scratch.bounds),
        pointer(scratch.ids),
        pointer(scratch.lows),
    )


# Where the parts of a scratch begin in plain memory, in bytes, each on a cache line.
_SIZES = (8 * STACK, 8 * STACK, 8 * WIDTH, *(n * (ROOM + WIDTH) for n in (4, 4, 8)))
_PLACES = [sum(-(-size // 64) * 64 for size in _SIZES[:part]) for part in range(len(_SIZES))]
SQUARES, SPARE, BOUNDS, IDS, LOWS = _PLACES[1:]
SCRATCH_BYTES = LOWS + _SIZES[-1] + 64


@inlined
def scratch_at(memory):
    """Return scratch in SCRATCH_BYTES of memory, pointers in place of arrays."""
    at = memory + (-memory & 63)
    return PointScratch(
        pointer_to(at, np.int64(0)),
        pointer_to(at + SQUARES, 0.0),
        pointer_to(at + SPARE, np.float32(0.0)),
        pointer_to(at + BOUNDS, np.float32(0.0)),
        pointer_to(at + IDS, np.int32(0)),
        pointer_to(at + LOWS, 0.0),
    )
