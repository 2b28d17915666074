"""A ray's slot on its way through a scene: where its numbers lie, and its two measures of t.

A slot is as in `singles`, and holds one ray at a time: on the top level with its numbers for that
frame, within a leaf with those for the leaf's tree (see `scene_entrance`). The block keeps the
former. Local distances: with tau' = t * 2**shift - entry on the top level,
tau = tau' * scale - entry' within a leaf.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined
from bvh.numerics import INF
from bvh.simd import WIDTH, address, peek, peek_int, pointer_to, poke, poke_int
from bvh.traversal.block import (
    BEST_LOW,
    END,
    ENTRY,
    ENTRY_REST,
    SLACK,
    place_of_double,
)
from bvh.traversal.singles import AT_LEAF, SLOTS

# Beyond the rows of a ray: bounds of the filter that only leaves have, then what `singles` keeps.
EDGE_FLOOR, T_SLOPE, T_FLOOR = 23, 24, 25
RAY, TOP, CODE = 28, 29, 30
# The leaf that the ray is in, or -1; where its stack begins; the rows of near planes in a node.
LEAF, BASE, PLANES, OCTANT_SHIFT = 32, 33, 34, 37
# Doubles and integers of 64 bits, by their place among those.
WORDS = 38
ENTRY_IN_LEAF, SCALE, LOW_T, HIGH_T, EXACT_T = 0, 1, 2, 3, 4
BEST, EXACT, AT_BLOCKS, AT_GROUPS, AT_IDS = 5, 6, 7, 8, 9
# What is the same for all leaves, found on the way into the first: origin and direction on the top
# level, the error of the former (negative before), and the scale of t there.
START, COURSE, START_ERROR, TOP_SCALE = 10, 13, 16, 17
STACK_CODES = 80
# A top level and a tree.
STACK = 2 * 70 * WIDTH
STACK_ENTRIES = STACK_CODES + STACK + WIDTH
SLOT_SIZE = STACK_ENTRIES + STACK + WIDTH
HEADER = AT_LEAF + SLOTS + 8

F = np.float32
F4, F8, I8 = np.float32(0.0), 0.0, np.int64(0)


@inlined
def doubles_of(memory, slot):
    """Return a slot's doubles."""
    return pointer_to(address(memory, slot + WORDS), F8)


@inlined
def words_of(memory, slot):
    """Return a slot's integers of 64 bits."""
    return pointer_to(address(memory, slot + WORDS), I8)


@inlined
def blocks_of(memory, slot):
    """Return the nodes of the tree that a slot's ray is in."""
    return pointer_to(peek(words_of(memory, slot), AT_BLOCKS), F4)


@inlined
def planes_of(memory, slot):
    """Return the places of near and far planes in a node."""
    nx = np.int64(peek_int(memory, slot + PLANES))
    ny = np.int64(peek_int(memory, slot + PLANES + 1))
    nz = np.int64(peek_int(memory, slot + PLANES + 2))
    return nx, ny, nz, 3 * WIDTH - nx, 5 * WIDTH - ny, 7 * WIDTH - nz


@inlined
def top_parameter(block, own, r, t):
    """Return t as the top level counts it; t is far from what overflows there."""
    doubles = block.doubles
    return (t * peek(own, TOP_SCALE) - peek(doubles, place_of_double(r, ENTRY))) - peek(
        doubles, place_of_double(r, ENTRY_REST)
    )


@inlined
def slot_interval(block, memory, slot, r, t):
    """Return (low, high) in float32 around an exact t as the slot's tree counts it."""
    slack = np.float64(peek(memory, slot + SLACK))
    if slack == INF:
        return F(-INF), F(INF)
    own = doubles_of(memory, slot)
    tau = top_parameter(block, own, r, t) * peek(own, SCALE) - peek(own, ENTRY_IN_LEAF)
    return F(tau - slack), F(tau + slack)


@inlined
def _t_of(block, memory, slot, r, tau):
    """Return what the slot's tree counts as tau; its slack covers the rounding."""
    own, doubles = doubles_of(memory, slot), block.doubles
    top = (np.float64(tau) + peek(own, ENTRY_IN_LEAF)) / peek(own, SCALE)
    top = (top + peek(doubles, place_of_double(r, ENTRY_REST))) + peek(
        doubles, place_of_double(r, ENTRY)
    )
    return top / peek(own, TOP_SCALE)


@inlined
def keep_best(block, memory, slot, r):
    """Keep in which interval of t the best hit lies, when a ray leaves the leaf that it is in."""
    own, words = doubles_of(memory, slot), words_of(memory, slot)
    if peek(words, EXACT) == peek(words, BEST):
        t = peek(own, EXACT_T)
        poke(own, LOW_T, t)
        poke(own, HIGH_T, t)
    else:
        poke(own, LOW_T, _t_of(block, memory, slot, r, peek(memory, slot + BEST_LOW)))
        poke(own, HIGH_T, _t_of(block, memory, slot, r, peek(memory, slot + END)))


@inlined
def return_to_top(block, memory, slot, r):
    """Give a slot the numbers of its ray on the top level, with the end that it has now."""
    lanes = block.lanes
    words, own = words_of(memory, slot), doubles_of(memory, slot)
    leaf = np.int64(peek_int(memory, slot + LEAF))
    done = peek(memory, slot + END) == F(-INF)
    slack = peek(lanes, r + SLACK * WIDTH)
    if done:
        poke(lanes, r + END * WIDTH, F(-INF))
    elif peek(words, BEST) >= 0 and peek(words, BEST) >> 32 == leaf:
        keep_best(block, memory, slot, r)
        # Where t has no measure on the top level, its end stays what it was.
        if slack < F(INF) and peek(own, TOP_SCALE) > 0.0:
            end = top_parameter(block, own, r, peek(own, HIGH_T)) + slack
            poke(lanes, r + END * WIDTH, min(peek(lanes, r + END * WIDTH), F(end)))
    poke_int(memory, slot + LEAF, -1)
