"""Ray slots: memory layout of rays that are traced one by one, in a tree or in a scene.

A slot contains a ray with its numbers side by side, its closest hit so far, and its stack. All
slots are behind one pointer, integers as the bits of float32: with a pointer for each kind of
number, registers would not suffice. A slot is identified by the index of its first number.

In a scene, a slot has the numbers of its ray for the TLAS, or for the BLAS that the ray is in (see
`instanced_rays`); the ray block keeps the former. Distances: with tau' = t * 2**shift - entry in
the TLAS, tau = tau' * scale - entry' in a BLAS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, address, peek, peek_int, pointer_to, poke, poke_int
from bvh.traversal.rays.ray_block import (
    BLOCK,
    ENTRY,
    ENTRY_REST,
    SLACK,
    by_scene,
    local_interval,
    read_double,
)
from bvh.tree.instanced import code_of, is_mirrored

SLOTS, OCTANTS = 32, 8
# Depth never exceeds 2 * log2(n) + 8 <= 68; each level leaves up to WIDTH - 1 entries.
STACK = 70 * WIDTH

# What all slots share: for each that takes a step, where its ray enters the children, their order,
# and which are entered; then the slots whose next entry is a node, and those where it is a leaf.
ENTRIES = 0
ORDERS = ENTRIES + SLOTS * WIDTH
ENTERED = ORDERS + SLOTS * WIDTH
NODE_QUEUE = ENTERED + SLOTS
LEAF_QUEUE = NODE_QUEUE + SLOTS + 8
HEADER = LEAF_QUEUE + SLOTS + 8

# Rows of a slot. Up to BEST_LOW they are those of the ray block; then come bounds of the filter
# that only a BLAS has; the ray, the top of its stack, and its next entry.
EDGE_FLOOR, T_SLOPE, T_FLOOR = 23, 24, 25
RAY, TOP, CHILD = 28, 29, 30
# In a scene: the instance that the ray is in, or -1; where its stack begins; the near planes.
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

NO_PRIM, NO_EXACT = -1, -2

F = np.float32
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)


class Slots(NamedTuple):
    """Scratch of rays traced one by one; pointers inside kernels."""

    memory: NDArray[np.float32]
    bucket: NDArray[np.int64]
    spare: NDArray[np.int64]
    sizes: NDArray[np.int64]


def new_slots() -> Slots:
    """Return the scratch of one thread."""
    memory = aligned(HEADER + SLOTS * SLOT_SIZE, np.float32)
    bucket, spare = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    return Slots(memory, bucket, spare, np.empty(OCTANTS + 1, np.int64))


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


def current_arrays(tree, memory, slot):
    """Return (nodes, groups, ids) of the tree that a slot's ray is in."""


def _arrays_of_tree(tree, memory, slot):
    return tree.blocks, tree.groups, tree.ids


def _arrays_in_scene(tree, memory, slot):
    words = slot_integers(memory, slot)
    return (
        pointer_to(peek(words, NODES_ADDRESS), F4),
        pointer_to(peek(words, GROUPS_ADDRESS), F4),
        pointer_to(peek(words, IDS_ADDRESS), I4),
    )


by_scene(current_arrays, _arrays_of_tree, _arrays_in_scene)


def primitive_at(tree, memory, slot, row):
    """Return the primitive of the query in a row of the ids of the tree that a slot's ray is in."""


def _code_in_scene(tree, memory, slot, row):
    ids = pointer_to(peek(slot_integers(memory, slot), IDS_ADDRESS), I4)
    return code_of(instance_in(memory, slot), peek(ids, row))


by_scene(
    primitive_at, lambda tree, memory, slot, row: np.int64(peek(tree.ids, row)), _code_in_scene
)


def back_lanes(primitives, memory, slot, back):
    """Return the lanes whose back faces the ray in the world, from those in their tree."""


def _back_lanes_in_scene(primitives, memory, slot, back):
    # Bits of a group only: all of them are flipped.
    return ~back if is_mirrored(primitives, instance_in(memory, slot)) else back


by_scene(back_lanes, lambda primitives, memory, slot, back: back, _back_lanes_in_scene)


@inlined
def is_culled(cull, back, lane):
    """Return whether a lane's hit is culled; `back` has the lanes whose back faces the ray."""
    return cull != 0 and (cull > 0) == (back >> lane & 1 == 1)


@inlined
def tlas_distance(block, own, r, t):
    """Return t in units of the TLAS; t is far from what overflows there."""
    tau = t * peek(own, TLAS_SCALE)
    return (tau - read_double(block, r, ENTRY)) - read_double(block, r, ENTRY_REST)


def tau_interval(primitives, block, memory, slot, t):
    """Return (low, high) in float32 around the tau of an exact t, in units of the slot's tree."""


def _interval_in_scene(primitives, block, memory, slot, t):
    slack = np.float64(peek(memory, slot + SLACK))
    if slack == INF:
        return F(-INF), F(INF)
    own = slot_doubles(memory, slot)
    distance = tlas_distance(block, own, ray_of(memory, slot), t)
    tau = distance * peek(own, BLAS_SCALE) - peek(own, BLAS_ENTRY)
    return F(tau - slack), F(tau + slack)


by_scene(
    tau_interval,
    lambda primitives, block, memory, slot, t: local_interval(block, ray_of(memory, slot), t),
    _interval_in_scene,
)
