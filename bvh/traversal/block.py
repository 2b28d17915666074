"""A block of rays on its way through a tree: where its numbers lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned
from bvh.jit import inlined
from bvh.numerics import scale_by
from bvh.simd import WIDTH, peek, pointer

# Rays in a block: their lanes fit the first-level cache.
BLOCK = 256

# Rows of lanes. NEAR, FAR, INVERSE, ORIGIN, DIRECTION have one for each axis.
NEAR, FAR, INVERSE, ORIGIN, DIRECTION = 0, 3, 6, 9, 12
EDGE, T_ERROR, LOW, END, SURE_LOW, SURE_HIGH, SLACK, BEST_LOW = 15, 16, 17, 18, 19, 20, 21, 22
OCTANT, PRIM, T_PRIM = 23, 24, 25
# In a scene, the leaf of PRIM.
PRIM_LEAF = 26

# WIDTH rays lie side by side, their rows one below the other: a ray's numbers are near each other,
# and those of WIDTH rays make a vector. A ray is known by the index of its first number.
GROUP = 32 * WIDTH
SPARE = 30 * WIDTH

# Rows of doubles: the entry in two parts, the exact t of T_PRIM's hit, the shift.
ENTRY, ENTRY_REST, BEST_T, SHIFT = 0, 1, 2, 3
DOUBLE_ROWS = 4

# Vectors of doubles have as many bytes as those of float32.
HALF = max(WIDTH // 2, 2)

LANE_BITS = WIDTH.bit_length() - 1
GROUP_BITS = GROUP.bit_length() - 1
DOUBLE_BITS = LANE_BITS + DOUBLE_ROWS.bit_length() - 1


class Block(NamedTuple):
    """Scratch of one thread; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    which: NDArray[np.int64]  # the rays' places in the batch


def new_block() -> Block:
    """Return the scratch of one thread."""
    return Block(
        aligned(32 * BLOCK, np.float32),
        np.empty(DOUBLE_ROWS * BLOCK),
        np.empty(BLOCK, np.int64),
    )


@inlined
def place(i):
    """Return what ray i of a block is known by."""
    return ((i >> LANE_BITS) << GROUP_BITS) | (i & (WIDTH - 1))


@inlined
def place_of_double(r, row):
    """Return where a ray's double of some row is."""
    return ((r >> GROUP_BITS) << DOUBLE_BITS) + (r & (WIDTH - 1)) + row * WIDTH


@inlined
def number_of(r):
    """Return which ray of the block is known by r; r may be a vector."""
    return ((r >> GROUP_BITS) << LANE_BITS) | (r & (WIDTH - 1))


@inlined
def pointed_block(block):
    """Return a block with pointers in place of arrays."""
    return Block(pointer(block.lanes), pointer(block.doubles), pointer(block.which))


@inlined
def local_interval(block, r, t):
    """Return (low, high) in float32 around the tau of an exact hit distance t."""
    slack = np.float64(peek(block.lanes, r + SLACK * WIDTH))
    if slack == np.inf:
        # The ray has been given up: its tau may overflow, and all is decided exactly.
        return np.float32(-np.inf), np.float32(np.inf)
    doubles = block.doubles
    scaled = scale_by(t, int(peek(doubles, place_of_double(r, SHIFT))))
    tau = (scaled - peek(doubles, place_of_double(r, ENTRY))) - peek(
        doubles, place_of_double(r, ENTRY_REST)
    )
    return np.float32(tau - slack), np.float32(tau + slack)
