"""Ray blocks: the layout of BLOCK rays that one thread traces, and its accessors.

WIDTH rays lie side by side, their rows one below the other: a ray's numbers are near each other,
and a row of WIDTH rays is a vector. A ray is identified by its *lane index* r: the place of its
first number in `Block.lanes`, from which its other rows are WIDTH apart.

| rows | numbers of a ray |
|---|---|
| 0 to 25 | those of `ray_numbers` |
| OCTANT, PRIM | integers: the octant of the direction, the closest primitive so far |
| PRIM_INSTANCE | in a scene, the instanced tree of PRIM |
| PRIM_BEFORE, LEAF_BEFORE | of moved rays: PRIM and PRIM_INSTANCE when they entered the BLAS |

A block also has doubles: the entry, in two parts, and the shift of tau = t * 2**shift - entry.
Those of a ray begin at its `double_index`; an unused row makes their number a power of two.

Accessors are functions of (`lanes`, lane index), or of (`doubles`, double index). Those in the
singular read one ray's number, those in the plural load that of n rays; `set_` stores a number, or
those of several rays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, scale_by
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, Accessor, peek, rows, shifted
from bvh.traversal.rays import ray_numbers as numbers
from bvh.tree.instanced import by_scene, code_of, leaf_of, prim_of

# Rays in a block: their lanes fit the first-level cache.
BLOCK = 256

# Rows from the rays of one vector to those of the next, some of them unused, and their numbers.
ROWS = 32
GROUP = ROWS * WIDTH

# Octants of directions.
OCTANTS = 8

# Lanes of a vector of doubles, which has as many bytes as one of float32.
HALF = max(WIDTH // 2, 2)

# Rows of doubles, one of them unused.
DOUBLE_ROWS = 4

# Binary logarithms of WIDTH, of GROUP, and of the doubles of WIDTH rays.
_LANE_BITS = WIDTH.bit_length() - 1
_GROUP_BITS = GROUP.bit_length() - 1
_DOUBLE_BITS = _LANE_BITS + DOUBLE_ROWS.bit_length() - 1

F = np.float32


def _row(row: int, kind: type = np.float32) -> tuple[Accessor, Accessor, Accessor]:
    """Return (read, load, store) of a row of lanes, each called with memory and a lane index."""
    return rows(kind, row * WIDTH)


_, lows, _ = _row(numbers.LOW)
end, ends, set_end = _row(numbers.END)
_, sure_lows, set_sure_low = _row(numbers.SURE_LOW)
_, sure_highs, set_sure_high = _row(numbers.SURE_HIGH)
slack, slacks, _ = _row(numbers.SLACK)
best_low, _, set_best_low = _row(numbers.BEST_LOW)
octant, octants, set_octant = _row(numbers.ROWS, np.int32)
prim, _, set_prim = _row(numbers.ROWS + 1, np.int32)
prim_instance, _, set_prim_instance = _row(numbers.ROWS + 2, np.int32)
prim_before, _, set_prim_before = _row(numbers.ROWS + 3, np.int32)
leaf_before, _, set_leaf_before = _row(numbers.ROWS + 4, np.int32)

entry, entries, set_entry = rows(np.float64, 0)
entry_rest, entry_rests, set_entry_rest = rows(np.float64, WIDTH)
shift, shifts, set_shift = rows(np.float64, 2 * WIDTH)


class Block(NamedTuple):
    """The rays of a block; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    which: NDArray[np.int64]  # the number of each ray in the batch


def new_block() -> Block:
    """Return the memory of a ray block."""
    return Block(
        aligned(ROWS * BLOCK, np.float32),
        aligned(DOUBLE_ROWS * BLOCK, np.float64),
        np.empty(BLOCK, np.int64),
    )


# The lane index of the i-th ray of the block.
lane_index = inlined(lambda i: ((i >> _LANE_BITS) << _GROUP_BITS) | (i & (WIDTH - 1)))
# The i of the ray at lane index r; r may be a vector.
ray_number = inlined(lambda r: ((r >> _GROUP_BITS) << _LANE_BITS) | (r & (WIDTH - 1)))
# The number in the batch of the ray at r.
batch_index = inlined(lambda block, r: peek(block.which, ray_number(r)))
# The index of the first double of the ray at r.
double_index = inlined(lambda r: ((r >> _GROUP_BITS) << _DOUBLE_BITS) + (r & (WIDTH - 1)))
# The numbers, (pointer, stride), of the ray at r: see `ray_numbers`.
numbers_of = inlined(lambda lanes, r: (shifted(lanes, r), WIDTH))


@inlined
def since_entry(block, r, distance):
    """Return distance - entry: t * 2**shift of the ray at r, counted from where it enters the box.

    Both are in units of the tree's local frame.
    """
    place = double_index(r)
    return (distance - entry(block.doubles, place)) - entry_rest(block.doubles, place)


@inlined
def tau_around(block, r, t):
    """Return (low, high), float32, around the tau of the distance t of a hit of the ray at r.

    (-inf, inf) for a ray whose float32 tests are disabled: its tau may overflow.
    """
    error = np.float64(slack(block.lanes, r))
    if error == INF:
        return F(-INF), F(INF)
    tau = since_entry(block, r, scale_by(t, int(shift(block.doubles, double_index(r)))))
    return F(tau - error), F(tau + error)


def _closest_id(primitives, block, r):
    """Return the closest primitive of the ray at r so far, an id or a scene's code; -1 for none."""
    return prim(block.lanes, r)


def _closest_code(primitives, block, r):
    """Do as `_closest_id` in a scene, whose code has the instanced tree in the upper half."""
    best = prim(block.lanes, r)
    return best if best < 0 else code_of(prim_instance(block.lanes, r), best)


closest_primitive = by_scene(_closest_id, _closest_code)


def _set_closest_id(primitives, block, r, prim):
    """Write the closest primitive of the ray at r, an id or a scene's code; -1 for none."""
    set_prim(block.lanes, r, prim)


def _set_closest_code(primitives, block, r, prim):
    """Do as `_set_closest_id` in a scene."""
    # Both halves of -1, for no hit, are stored as -1.
    set_prim(block.lanes, r, prim_of(prim))
    set_prim_instance(block.lanes, r, leaf_of(prim))


set_closest_primitive = by_scene(_set_closest_id, _set_closest_code)
