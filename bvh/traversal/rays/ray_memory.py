"""Ray memory: layouts of a block of BLOCK rays, and of the slots of rays traced one by one.

In a block WIDTH rays lie side by side, their rows one below the other: a ray's numbers are near
each other, and those of WIDTH rays make a vector. A ray is identified by its *lane index*: that of
its first number, from which its other rows are WIDTH apart.

| rows | numbers of a ray |
|---|---|
| NEAR, FAR, INVERSE (3 each) | of the slab test, by axis |
| ORIGIN, DIRECTION (3 each) | in the local frame, where the ray enters the root's box |
| EDGE, T_ERROR | bounds of the filter of triangles |
| LOW, END | the interval of tau; END is the upper bound of the closest hit so far |
| SURE_LOW, SURE_HIGH | the interval of tau that surely is within t_min..t_max |
| SLACK | error bound of tau; infinite where the float32 tests are disabled |
| BEST_LOW | the lower bound of the closest hit so far |
| OCTANT, PRIM | integers: the octant of the direction, the closest primitive so far |
| PRIM_INSTANCE | in a scene, the instanced tree of PRIM |

A slot contains the end of a ray, its closest hit so far, and its stack. All slots are behind one
pointer, integers as the bits of float32: with a pointer for each kind of number, registers would
not suffice. A slot is identified by the index of its first number.

In a scene, a slot also has the numbers of its ray, side by side, for the TLAS or for the BLAS that
the ray is in (see `instanced_rays`); the ray block keeps the former. Distances: with
tau' = t * 2**shift - entry in the TLAS, tau = tau' * scale - entry' in a BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, scale_by
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, address, peek, peek_int, pointer_to, poke, poke_int, shifted
from bvh.tree.instanced import Instanced, code_of, is_mirrored, leaf_of, prim_of
from bvh.tree.wide_nodes import all_planes, near_planes, octant_shift

# Rays in a block: their lanes fit the first-level cache.
BLOCK = 256

NEAR, FAR, INVERSE, ORIGIN, DIRECTION = 0, 3, 6, 9, 12
EDGE, T_ERROR, LOW, END, SURE_LOW, SURE_HIGH, SLACK, BEST_LOW = 15, 16, 17, 18, 19, 20, 21, 22
OCTANT, PRIM, PRIM_INSTANCE = 23, 24, 25

# From one vector of rays to the next; and free rows of the first vector, for two of scratch.
GROUP = 32 * WIDTH
SPARE = 30 * WIDTH

# Rows of doubles, a power of two: the entry in two parts, and the shift.
ENTRY, ENTRY_REST, SHIFT = 0, 1, 2
DOUBLE_ROWS = 4

# Lanes of a vector of doubles, which has as many bytes as one of float32.
HALF = max(WIDTH // 2, 2)

_LANE_BITS = WIDTH.bit_length() - 1
_GROUP_BITS = GROUP.bit_length() - 1
_DOUBLE_BITS = _LANE_BITS + DOUBLE_ROWS.bit_length() - 1

# Rays that are traced in turn, each in a slot; octants of directions.
SLOTS, OCTANTS = 16, 8
# Depth never exceeds 2 * log2(n) + 8 <= 68; each level leaves up to WIDTH - 1 entries.
STACK = 70 * WIDTH

# What all slots share: those whose next entry is a node, those where it is a leaf, and those whose
# ray is done; and what the filter has found, with the slot and group that it is of. HEADER is a
# multiple of 16.
NODE_QUEUE = 0
LEAF_QUEUE = NODE_QUEUE + SLOTS + 16
DONE_QUEUE = LEAF_QUEUE + SLOTS + 16
FOUND = DONE_QUEUE + SLOTS + 16
FOUND_SLOT, FOUND_GROUP, FOUND_BITS, FOUND_PASSES = 0, 1, 2, 3
FOUND_DEN, FOUND_NUMERATOR, FOUND_MARGIN = 16, 16 + WIDTH, 16 + 2 * WIDTH
FOUND_SIZE = 16 + 4 * WIDTH
HEADER = FOUND + 8 * SLOTS * FOUND_SIZE

# Rows of a slot. Up to BEST_LOW they are those of the ray block, of which a tree needs END and
# BEST_LOW; then come bounds of the filter that only a BLAS has; the ray, the top of its stack, and
# its next entry.
EDGE_FLOOR, T_SLOPE, T_FLOOR = 23, 24, 25
RAY, TOP, CHILD = 28, 29, 30
# The near planes of the ray's octant, and the shift of the order of children. In a scene: the
# instance that the ray is in, or -1; where its stack begins.
INSTANCE, BASE, PLANES, OCTANT_SHIFT = 32, 33, 34, 37
# Doubles and integers of 64 bits, counted from WORDS. BEST is the closest primitive so far, EXACT
# the one whose exact distance is EXACT_T.
WORDS = 38
BLAS_ENTRY, BLAS_SCALE, LOW_T, HIGH_T, EXACT_T = 0, 1, 2, 3, 4
BEST, EXACT, NODES_ADDRESS, GROUPS_ADDRESS, IDS_ADDRESS = 5, 6, 7, 8, 9
# What is the same for all instances, computed on the way into the first: origin and direction in
# the TLAS, the error of the former (negative before), and the scale of t there.
TLAS_ORIGIN, TLAS_DIRECTION, TLAS_ERROR, TLAS_SCALE = 10, 13, 16, 17
# The stack, of a TLAS and a BLAS: children, and where the ray enters them.
STACK_CHILDREN = 80
STACK_ENTRIES = STACK_CHILDREN + 2 * STACK + WIDTH
SLOT_SIZE = STACK_ENTRIES + 2 * STACK + WIDTH

# Rays of a packet, and the numbers of its vectors in a block.
PACKET_RAYS = 64
PACKET = PACKET_RAYS // WIDTH * GROUP

NO_PRIM, NO_EXACT = -1, -2

F = np.float32
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)


class Block(NamedTuple):
    """The rays of a block; pointers inside kernels."""

    lanes: NDArray[np.float32]
    doubles: NDArray[np.float64]
    which: NDArray[np.int64]  # the number of each ray in the batch


def new_block() -> Block:
    """Return the memory of a ray block."""
    return Block(
        aligned(32 * BLOCK, np.float32),
        np.empty(DOUBLE_ROWS * BLOCK),
        np.empty(BLOCK, np.int64),
    )


@inlined
def lane_index(i):
    """Return the lane index of ray i of the block."""
    return ((i >> _LANE_BITS) << _GROUP_BITS) | (i & (WIDTH - 1))


@inlined
def ray_number(r):
    """Return which ray of the block has lane index r; r may be a vector."""
    return ((r >> _GROUP_BITS) << _LANE_BITS) | (r & (WIDTH - 1))


@inlined
def batch_index(block, r):
    """Return the number in the batch of the ray at r."""
    return peek(block.which, ray_number(r))


@inlined
def double_index(r, row):
    """Return the index of a double of the ray at r."""
    return ((r >> _GROUP_BITS) << _DOUBLE_BITS) + (r & (WIDTH - 1)) + row * WIDTH


@inlined
def read_row(block, r, row):
    """Return a float32 of the ray at r."""
    return peek(block.lanes, r + row * WIDTH)


@inlined
def write_row(block, r, row, value):
    """Write a float32 of the ray at r."""
    poke(block.lanes, r + row * WIDTH, value)


@inlined
def read_int(block, r, row):
    """Return an integer of the ray at r."""
    return peek_int(block.lanes, r + row * WIDTH)


@inlined
def write_int(block, r, row, value):
    """Write an integer of the ray at r."""
    poke_int(block.lanes, r + row * WIDTH, np.int32(value))


@inlined
def read_double(block, r, row):
    """Return a double of the ray at r."""
    return peek(block.doubles, double_index(r, row))


@inlined
def local_interval(block, r, t):
    """Return (low, high) in float32 around the tau of an exact hit distance t."""
    slack = np.float64(read_row(block, r, SLACK))
    if slack == INF:
        # The tau of a ray whose float32 tests are disabled may overflow; all is decided exactly.
        return F(-INF), F(INF)
    scaled = scale_by(t, int(read_double(block, r, SHIFT)))
    tau = (scaled - read_double(block, r, ENTRY)) - read_double(block, r, ENTRY_REST)
    return F(tau - slack), F(tau + slack)


def primitives_class(tree: Any) -> type:
    """Return the class of a tree's primitives, from the type of the tree or of its primitives."""
    kinds = dict(zip(tree.fields, tree.types, strict=True))
    return kinds.get("primitives", tree).instance_class  # type: ignore[no-any-return]


def by_scene(in_tree: Callable[..., Any], in_scene: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a tree, or of its primitives, that compiles to one of two by type."""

    def function(tree: Any, *others: Any) -> Any: ...

    def choose(tree: Any, *_: Any) -> Any:
        return in_scene if primitives_class(tree) is Instanced else in_tree

    choose.__signature__ = signature(in_tree)  # type: ignore[attr-defined]
    by_type(function, inline=True)(choose)
    return function


def _closest_id(primitives, block, r):
    """Return the closest primitive of ray r of a block, an id or a scene's code; -1 for none."""
    return np.int64(read_int(block, r, PRIM))


def _closest_code(primitives, block, r):
    prim = np.int64(read_int(block, r, PRIM))
    return prim if prim < 0 else code_of(read_int(block, r, PRIM_INSTANCE), prim)


closest_primitive = by_scene(_closest_id, _closest_code)


def _set_closest_id(primitives, block, r, prim):
    """Write the closest primitive of ray r of a block."""
    write_int(block, r, PRIM, prim)


def _set_closest_code(primitives, block, r, prim):
    # The halves of -1 are -1.
    write_int(block, r, PRIM, prim_of(prim))
    write_int(block, r, PRIM_INSTANCE, leaf_of(prim))


set_closest_primitive = by_scene(_set_closest_id, _set_closest_code)


class Slots(NamedTuple):
    """Scratch of rays traced one by one; pointers inside kernels."""

    memory: NDArray[np.float32]
    spare: NDArray[np.int64]


def new_slots() -> Slots:
    """Return the scratch of one thread."""
    return Slots(aligned(HEADER + SLOTS * SLOT_SIZE, np.float32), np.empty(BLOCK, np.int64))


@inlined
def slot_doubles(memory, slot):
    """Return a slot's doubles."""
    return pointer_to(address(memory, slot + WORDS), F8)


@inlined
def slot_integers(memory, slot):
    """Return a slot's integers of 64 bits."""
    return pointer_to(address(memory, slot + WORDS), I8)


@inlined
def ray_of(memory, slot):
    """Return the lane index of a slot's ray in the ray block."""
    return np.int64(peek_int(memory, slot + RAY))


@inlined
def instance_in(memory, slot):
    """Return the instance that a slot's ray is in; -1 in the TLAS."""
    return np.int64(peek_int(memory, slot + INSTANCE))


@inlined
def reset_closest(memory, slot, r):
    """Give a slot to ray r, which has no hit so far."""
    words = slot_integers(memory, slot)
    poke_int(memory, slot + RAY, r)
    poke(words, BEST, np.int64(NO_PRIM))
    poke(words, EXACT, np.int64(NO_EXACT))


@inlined
def write_octant(memory, slot, octant):
    """Write the near planes, and the shift of the order of children, for a ray of an octant."""
    x, y, z = near_planes(octant)
    poke_int(memory, slot + PLANES, x)
    poke_int(memory, slot + PLANES + 1, y)
    poke_int(memory, slot + PLANES + 2, z)
    poke_int(memory, slot + OCTANT_SHIFT, octant_shift(octant))


@inlined
def child_planes(memory, slot):
    """Return (planes, shift) of a slot's ray: where in a node its near and far planes are."""
    nx = np.int64(peek_int(memory, slot + PLANES))
    ny = np.int64(peek_int(memory, slot + PLANES + 1))
    nz = np.int64(peek_int(memory, slot + PLANES + 2))
    return all_planes(nx, ny, nz), np.int32(peek_int(memory, slot + OCTANT_SHIFT))


def _ray_in_block(primitives, block, memory, slot):
    """Return where the numbers of a slot's ray are, END apart, and how many others between."""
    return shifted(block.lanes, ray_of(memory, slot)), WIDTH


def _ray_in_slot(primitives, block, memory, slot):
    return shifted(memory, slot), 1


ray_numbers = by_scene(_ray_in_block, _ray_in_slot)


def _arrays_of_tree(tree, memory, slot):
    """Return (nodes, groups, ids) of the tree that a slot's ray is in."""
    return tree.blocks, tree.groups, tree.ids


def _arrays_in_scene(tree, memory, slot):
    words = slot_integers(memory, slot)
    return (
        pointer_to(peek(words, NODES_ADDRESS), F4),
        pointer_to(peek(words, GROUPS_ADDRESS), F4),
        pointer_to(peek(words, IDS_ADDRESS), I4),
    )


current_arrays = by_scene(_arrays_of_tree, _arrays_in_scene)


def _id_in_tree(tree, memory, slot, row):
    """Return the primitive of the query in a row of the ids of the tree that a slot's ray is in."""
    return np.int64(peek(tree.ids, row))


def _code_in_scene(tree, memory, slot, row):
    ids = pointer_to(peek(slot_integers(memory, slot), IDS_ADDRESS), I4)
    return code_of(instance_in(memory, slot), peek(ids, row))


primitive_at = by_scene(_id_in_tree, _code_in_scene)


def _culled_in_tree(primitives, memory, slot, cull, back):
    """Return the lanes of a group whose hits are culled; the backs of `back` face the ray."""
    if cull == 0:
        return np.int64(0)
    return back if cull > 0 else ~back


def _culled_in_scene(primitives, memory, slot, cull, back):
    if cull == 0:
        return np.int64(0)
    # Bits of a group only: all of them are flipped.
    return back if (cull > 0) != is_mirrored(primitives, instance_in(memory, slot)) else ~back


culled_lanes = by_scene(_culled_in_tree, _culled_in_scene)


@inlined
def tlas_distance(block, own, r, t):
    """Return t in units of the TLAS; t is far from what overflows there."""
    tau = t * peek(own, TLAS_SCALE)
    return (tau - read_double(block, r, ENTRY)) - read_double(block, r, ENTRY_REST)


def _interval_in_tree(primitives, block, memory, slot, t):
    """Return (low, high) in float32 around the tau of an exact t, in units of the slot's tree."""
    return local_interval(block, ray_of(memory, slot), t)


def _interval_in_scene(primitives, block, memory, slot, t):
    slack = np.float64(peek(memory, slot + SLACK))
    if slack == INF:
        return F(-INF), F(INF)
    own = slot_doubles(memory, slot)
    distance = tlas_distance(block, own, ray_of(memory, slot), t)
    tau = distance * peek(own, BLAS_SCALE) - peek(own, BLAS_ENTRY)
    return F(tau - slack), F(tau + slack)


tau_interval = by_scene(_interval_in_tree, _interval_in_scene)
