"""What a thread needs to take points through a tree: a stack, and candidates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import inlined
from bvh.simd import WIDTH, pointer
from bvh.traversal.singles import STACK

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
