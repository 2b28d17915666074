"""Scratch memory of a thread for point queries: a stack, and candidates.

Candidates are triangles that may be the closest: names, and lower bounds of their distances.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import inlined
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, pointer_to
from bvh.tree.wide_nodes import STACK

# Capacity for candidates. Arrays have WIDTH more items, as candidates are stored by whole vectors.
CAPACITY = 256


class PointScratch(NamedTuple):
    """Scratch of one thread; pointers inside kernels."""

    stack: NDArray[np.int64]
    squares: NDArray[np.float64]  # of the stack's entries, where they are in float64
    spare: NDArray[np.float32]  # squares, then codes, of a node's children, while they are pushed
    # Of candidates: lower bounds of distances, in the tree's units or a scene's, and names.
    bounds: NDArray[np.float32] | NDArray[np.float64]
    names: NDArray[np.int32] | NDArray[np.int64]
    lows: NDArray[np.float64]  # lower bounds of candidates in float64, while they are measured
    closest: NDArray[np.int64]  # the name of the closest triangle, if searched in float64


def new_scratch(scene: bool = False) -> PointScratch:
    """Return new scratch of one thread: for a `scene`, with larger stacks and wider candidates."""
    # The stack of a scene is for two trees, the BLAS's above the TLAS's. Its candidates are
    # distances in the world, float64, and codes, int64, in place of float32 and int32.
    trees, real, whole = (2, np.float64, np.int64) if scene else (1, np.float32, np.int32)
    size = CAPACITY + WIDTH
    return PointScratch(
        stack=aligned(trees * STACK, np.int64), squares=aligned(trees * STACK, np.float64),
        spare=aligned(2 * WIDTH, np.float32), bounds=aligned(size, real),
        names=aligned(size, whole), lows=aligned(size, np.float64), closest=aligned(1, np.int64),
    )  # fmt: skip


# Where the parts of a scratch begin in plain memory, in bytes: each at a cache line of 64 bytes. So
# that the first can be moved to such a line, SCRATCH_BYTES has 64 bytes more than the parts.
_SIZES = (8 * STACK, 8 * STACK, 8 * WIDTH, *[n * (CAPACITY + WIDTH) for n in (4, 4, 8)], 8)
_OFFSETS = [sum(-(-size // 64) * 64 for size in _SIZES[:part]) for part in range(len(_SIZES))]
SQUARES, SPARE, BOUNDS, NAMES, LOWS, CLOSEST = _OFFSETS[1:]
SCRATCH_BYTES = CLOSEST + 8 + 64


@inlined
def scratch_at(memory):
    """Return scratch for a tree, as pointers into SCRATCH_BYTES at the address `memory`."""
    # Rounded up to a cache line.
    at = memory + (-memory & 63)
    return PointScratch(
        pointer_to(at, np.int64(0)), pointer_to(at + SQUARES, 0.0),
        pointer_to(at + SPARE, np.float32(0.0)), pointer_to(at + BOUNDS, np.float32(0.0)),
        pointer_to(at + NAMES, np.int32(0)), pointer_to(at + LOWS, 0.0),
        pointer_to(at + CLOSEST, np.int64(0)),
    )  # fmt: skip
