"""Ray blocks: the layout of BLOCK rays that one thread traces, and its accessors.

WIDTH rays lie side by side, their rows one below the other: a ray's numbers are near each other,
and a row of WIDTH rays is a vector. A ray is identified by its *lane index* r: the place of its
first number in `Block.lanes`, from which its other rows are WIDTH apart.

| rows | numbers of a ray |
|---|---|
| 0 to 25 | those of `ray_numbers` |
| OCTANT, PRIM | integers: the octant of the direction, the closest primitive so far |
| PRIM_INSTANCE | in a scene, the row of the instanced tree of PRIM |
| PRIM_BEFORE, LEAF_BEFORE | of moved rays: PRIM and PRIM_INSTANCE when the ray entered the BLAS |

A block also has doubles: the entry, in two parts, and the shift of tau = t * 2**shift - entry.
The doubles of a ray begin at its `double_index`. One row is unused, so that the number of rows is
a power of two.

Accessors are functions of (`lanes`, lane index), or of (`doubles`, double index). Accessors in the
singular read the number of one ray, those in the plural load the numbers of n rays as a vector;
`set_` stores either.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, scale_by
from bvh.runtime.jit import inlined
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, Accessor, peek, rows, shifted
from bvh.traversal.rays import ray_numbers as numbers
from bvh.tree.instanced import by_scene, code_of, leaf_of, prim_of

# Rays in a block: their lanes fit the first-level cache.
BLOCK = 256

# Rows of WIDTH rays, a power of two, of which some are unused; the numbers in all of these rows.
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


def _accessors(row: int, kind: type = np.float32) -> tuple[Accessor, Accessor, Accessor]:
    """Return accessors (read, load, store) of row `row` of `Block.lanes`, with type `kind`.

    read(lanes, r) returns the number of the ray at lane index r, load(lanes, r, n) a vector with
    the numbers of n rays from r on, and store(lanes, r, value) writes either.
    """
    return rows(kind, row * WIDTH)


_, lows, _ = _accessors(numbers.LOW)
end, ends, set_end = _accessors(numbers.END)
_, sure_lows, set_sure_low = _accessors(numbers.SURE_LOW)
_, sure_highs, set_sure_high = _accessors(numbers.SURE_HIGH)
slack, slacks, _ = _accessors(numbers.SLACK)
best_low, _, set_best_low = _accessors(numbers.BEST_LOW)
octant, octants, set_octant = _accessors(numbers.ROWS, np.int32)
prim, _, set_prim = _accessors(numbers.ROWS + 1, np.int32)
prim_instance, _, set_prim_instance = _accessors(numbers.ROWS + 2, np.int32)
prim_before, _, set_prim_before = _accessors(numbers.ROWS + 3, np.int32)
leaf_before, _, set_leaf_before = _accessors(numbers.ROWS + 4, np.int32)

entry, entries, set_entry = rows(np.float64, 0)
entry_rest, entry_rests, set_entry_rest = rows(np.float64, WIDTH)
shift, shifts, set_shift = rows(np.float64, 2 * WIDTH)


class Block(NamedTuple):
    """The memory of a block of BLOCK rays; pointers inside kernels."""

    lanes: NDArray[np.float32]  # ROWS numbers of each ray: see the table above
    doubles: NDArray[np.float64]  # entry, entry_rest and shift of each ray
    which: NDArray[np.int64]  # the number of each ray in the batch


def new_block() -> Block:
    """Return the memory of a ray block."""
    lanes, doubles = aligned(ROWS * BLOCK, np.float32), aligned(DOUBLE_ROWS * BLOCK, np.float64)
    return Block(lanes, doubles, np.empty(BLOCK, np.int64))


# The lane index of the i-th ray of the block.
lane_index = inlined(lambda i: ((i >> _LANE_BITS) << _GROUP_BITS) | (i & (WIDTH - 1)))
# The number i, in the block, of the ray at lane index r; r may be a vector.
ray_number = inlined(lambda r: ((r >> _GROUP_BITS) << _LANE_BITS) | (r & (WIDTH - 1)))
# The number in the batch of the ray at r.
batch_index = inlined(lambda block, r: peek(block.which, ray_number(r)))
# The index of the first double of the ray at r.
double_index = inlined(lambda r: ((r >> _GROUP_BITS) << _DOUBLE_BITS) + (r & (WIDTH - 1)))
# The numbers, (pointer, stride), of the ray at r: see `ray_numbers`.
numbers_of = inlined(lambda lanes, r: (shifted(lanes, r), WIDTH))


@inlined
def since_entry(block, r, distance):
    """Return a distance on the ray at lane index r, counted from where the ray enters the box.

    `distance` is t * 2**shift, counted from the ray's origin, in units of the tree's local frame.
    """
    at = double_index(r)
    # The entry is stored in two parts: their sum may need more than 53 bits.
    return (distance - entry(block.doubles, at)) - entry_rest(block.doubles, at)


@inlined
def tau_around(block, r, t):
    """Return float32 bounds (low, high) of the tau of a hit at t on the ray at lane index r.

    tau = t * 2**shift - entry is the distance from where the ray enters the root's box. The bounds
    are (-inf, inf) for a ray whose float32 tests are disabled, as its tau may overflow.
    """
    error = np.float64(slack(block.lanes, r))
    if error == INF:
        return F(-INF), F(INF)
    tau = since_entry(block, r, scale_by(t, int(shift(block.doubles, double_index(r)))))
    return F(tau - error), F(tau + error)


def _closest_id(primitives, block, r):
    """Return the id of the closest primitive so far of the ray at lane index r; -1 for none."""
    return prim(block.lanes, r)


def _closest_code(primitives, block, r):
    """Return a scene's code of the closest primitive of the ray at lane index r; -1 for none.

    The code is made of the row of an instanced tree and the primitive's id in that tree.
    `primitives` is unused: its type has selected this function, for scenes.
    """
    best = prim(block.lanes, r)
    return best if best < 0 else code_of(prim_instance(block.lanes, r), best)


def _set_closest_id(primitives, block, r, prim):
    """Write the id `prim`, -1 for none, as closest primitive of the ray at lane index r."""
    set_prim(block.lanes, r, prim)


def _set_closest_code(primitives, block, r, prim):
    """Write a scene's code `prim`, -1 for none, as closest primitive of the ray at lane index r.

    A code is made of two int32: the row of an instanced tree, and the id in that tree; both are -1
    for the code -1. `primitives` is unused: its type has selected this function, for scenes.
    """
    set_prim(block.lanes, r, prim_of(prim))
    set_prim_instance(block.lanes, r, leaf_of(prim))


closest_primitive = by_scene(_closest_id, _closest_code)
set_closest_primitive = by_scene(_set_closest_id, _set_closest_code)
