"""Ray slots: memory layout of rays that are traced one by one, in a tree or in a scene.

A slot contains a ray with its numbers side by side, its closest hit so far, and its stack. All
slots are behind one pointer, integers as the bits of float32: with a pointer for each kind of
number, registers would not suffice. A slot is identified by the index of its first number.

In a scene, a slot has the numbers of its ray for the TLAS, or for the BLAS that the ray is in (see
`instanced_setup`); the ray block keeps the former. Distances: with tau' = t * 2**shift - entry in
the TLAS, tau = tau' * scale - entry' in a BLAS.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import WIDTH, address, peek, peek_int, pointer_to, poke, poke_int
from bvh.traversal.rays.ray_block import (
    BEST_LOW,
    END,
    ENTRY,
    ENTRY_REST,
    SLACK,
    read_double,
    read_row,
    write_row,
)
from bvh.tree.instanced import Instanced, leaf_of

SLOTS = 32
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


def primitives_class(tree):
    """Return the class of a tree's primitives, from the type of the tree."""
    return tree.types[tree.fields.index("primitives")].instance_class


def is_instanced(tree):
    """Return whether a tree is the TLAS of a scene, from its type."""
    return primitives_class(tree) is Instanced


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


@by_type(current_arrays, inline=True)
def _choose_arrays(tree, memory, slot):
    return _arrays_in_scene if is_instanced(tree) else _arrays_of_tree


@inlined
def _tlas_distance(block, own, r, t):
    """Return t in units of the TLAS; t is far from what overflows there."""
    tau = t * peek(own, TLAS_SCALE)
    return (tau - read_double(block, r, ENTRY)) - read_double(block, r, ENTRY_REST)


@inlined
def slot_interval(block, memory, slot, r, t):
    """Return (low, high) in float32 around an exact t, in units of the slot's BLAS."""
    slack = np.float64(peek(memory, slot + SLACK))
    if slack == INF:
        return F(-INF), F(INF)
    own = slot_doubles(memory, slot)
    tau = _tlas_distance(block, own, r, t) * peek(own, BLAS_SCALE) - peek(own, BLAS_ENTRY)
    return F(tau - slack), F(tau + slack)


@inlined
def _world_distance(block, memory, slot, r, tau):
    """Return the t of a distance in units of the slot's BLAS; its slack covers the rounding."""
    own = slot_doubles(memory, slot)
    top = (np.float64(tau) + peek(own, BLAS_ENTRY)) / peek(own, BLAS_SCALE)
    top = (top + read_double(block, r, ENTRY_REST)) + read_double(block, r, ENTRY)
    return top / peek(own, TLAS_SCALE)


@inlined
def _store_closest_interval(block, memory, slot, r):
    """Store the interval of t around the closest hit, which is in the BLAS that the ray leaves."""
    own, words = slot_doubles(memory, slot), slot_integers(memory, slot)
    if peek(words, EXACT) == peek(words, BEST):
        t = peek(own, EXACT_T)
        poke(own, LOW_T, t)
        poke(own, HIGH_T, t)
    else:
        poke(own, LOW_T, _world_distance(block, memory, slot, r, peek(memory, slot + BEST_LOW)))
        poke(own, HIGH_T, _world_distance(block, memory, slot, r, peek(memory, slot + END)))


@inlined
def leave_blas(block, memory, slot, r):
    """Store the end of a ray that leaves a BLAS in the ray block, in units of the TLAS."""
    words, own = slot_integers(memory, slot), slot_doubles(memory, slot)
    best, slack = peek(words, BEST), read_row(block, r, SLACK)
    if peek(memory, slot + END) == F(-INF):
        write_row(block, r, END, F(-INF))
    elif best >= 0 and leaf_of(best) == instance_in(memory, slot):
        _store_closest_interval(block, memory, slot, r)
        # Where t has no scale in the TLAS, its end stays what it was.
        if slack < F(INF) and peek(own, TLAS_SCALE) > 0.0:
            end = _tlas_distance(block, own, r, peek(own, HIGH_T)) + slack
            write_row(block, r, END, min(read_row(block, r, END), F(end)))
    poke_int(memory, slot + INSTANCE, -1)
