"""Goals of a traversal: closest hit, any hit, first hits, all hits or their number.

The type of a goal selects, at compile time, how candidates are handled: see
`leaf_tests`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import peek, poke
from bvh.runtime.tuple_references import as_pointers, borrowed, pointers_of
from bvh.traversal.rays.ray_block import BLOCK, batch_index


class ClosestGoal(NamedTuple):
    """The closest hit, or with `any_hit` the first one found."""

    any_hit: Any
    cull: Any


class CountGoal(NamedTuple):
    """The closest hit, and its cost: nodes and primitives visited for each ray."""

    any_hit: Any
    cull: Any
    nodes: Any
    tests: Any


class FirstGoal(NamedTuple):
    """The `max_hits` closest hits that a filter accepts; with `any_hit` the first one found.

    `accept` and `data` are those of a `UserCall`.
    """

    any_hit: Any
    cull: Any
    once: Any
    max_hits: Any
    accept: Any
    data: Any
    nearest: Any


class AllGoal(NamedTuple):
    """All hits."""

    cull: Any
    once: Any
    found: Any


class NearestHits(NamedTuple):
    """Closest hits of each ray of a block, sorted, up to the same number; pointers in kernels."""

    t: Any
    prims: Any
    counts: Any  # how many each ray has


class FoundHits(NamedTuple):
    """Hits of a block in the order in which they were found; pointers inside kernels."""

    rays: Any  # which ray of the block
    prims: Any
    counts: Any  # how many each ray has
    size: Any  # how many there are in all, those beyond the capacity included
    capacity: Any


def new_nearest_hits(max_hits: int, ids: Any = np.int32) -> NearestHits:
    """Return memory for `max_hits` hits of each ray of a block."""
    size = BLOCK * max_hits
    return NearestHits(np.empty(size), np.empty(size, ids), np.empty(BLOCK, np.int64))


def new_found_hits(capacity: int, ids: Any = np.int32) -> FoundHits:
    """Return memory for `capacity` hits of a block."""
    rays, prims = np.empty(capacity, np.int64), np.empty(capacity, ids)
    return FoundHits(rays, prims, np.empty(BLOCK, np.int64), np.empty(1, np.int64), capacity)


@pointers_of(FirstGoal)
def _first_goal_pointers(arrays):
    nearest, data = as_pointers(arrays.nearest), borrowed(arrays.data)
    return FirstGoal(
        arrays.any_hit, arrays.cull, arrays.once, arrays.max_hits, arrays.accept, data, nearest
    )  # fmt: skip


def note_node(goal, block, r):
    """Count a node that ray r visits, if the goal counts."""


@inlined
def _count_node(goal, block, r):
    i = batch_index(block, r)
    poke(goal.nodes, i, peek(goal.nodes, i) + np.int32(1))


@by_type(note_node, inline=True)
def _choose_node_note(goal, block, r):
    if goal.instance_class is CountGoal:
        return lambda goal, block, r: _count_node(goal, block, r)
    return lambda goal, block, r: None


def note_leaf(goal, block, r, ids, begin, end):
    """Count the primitives `ids[begin:end]` that ray r is tested against, if the goal counts."""


@inlined
def _count_primitives(goal, block, r, ids, begin, end):
    i = batch_index(block, r)
    used = np.int32(0)
    for k in range(begin, end):
        used += np.int32(peek(ids, k) >= 0)
    poke(goal.tests, i, peek(goal.tests, i) + used)


@by_type(note_leaf, inline=True)
def _choose_leaf_note(goal, block, r, ids, begin, end):
    if goal.instance_class is CountGoal:
        return lambda goal, block, r, ids, begin, end: _count_primitives(
            goal, block, r, ids, begin, end
        )
    return lambda goal, block, r, ids, begin, end: None


def begin_block(goal):
    """Make a goal ready for a new block of rays."""


@inlined
def _forget_nearest(goal):
    for i in range(BLOCK):
        poke(goal.nearest.counts, i, 0)


@inlined
def _forget_found(goal):
    for i in range(BLOCK):
        poke(goal.found.counts, i, 0)
    poke(goal.found.size, 0, 0)


@by_type(begin_block)
def _choose_beginning(goal):
    if goal.instance_class is FirstGoal:
        return lambda goal: _forget_nearest(goal)
    if goal.instance_class is AllGoal:
        return lambda goal: _forget_found(goal)
    return lambda goal: None
