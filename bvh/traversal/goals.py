"""What a ray looks for: the nearest hit, the same with its cost counted, some hits, or all.

A goal is a tuple whose type chooses, when a traversal is compiled, what it does at a leaf: see
`leaf_tests`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.jit import by_type, inlined
from bvh.primitives import lanes_of
from bvh.references import borrowed
from bvh.simd import peek, pointer, poke
from bvh.traversal.block import BLOCK, number_of


class Nearest(NamedTuple):
    """The nearest hit, or any."""

    any_hit: Any
    cull: Any


class Counted(NamedTuple):
    """The nearest hit, and what it takes to find it: nodes and primitives of each ray."""

    any_hit: Any
    cull: Any
    nodes: Any
    tests: Any


class Ranked(NamedTuple):
    """The `most` nearest hits that a filter accepts; with `any_hit` the first one found.

    `accept` and `data` are those of a `UserCall`; `kept` has `most` places for each ray of a block.
    """

    any_hit: Any
    cull: Any
    once: Any
    most: Any
    accept: Any
    data: Any
    kept: Any


class Collected(NamedTuple):
    """All hits; `found` is where they go."""

    cull: Any
    once: Any
    found: Any


class Kept(NamedTuple):
    """The nearest hits of each ray of a block, sorted; pointers inside kernels."""

    t: Any
    prims: Any
    counts: Any  # how many each ray has


class Found(NamedTuple):
    """Hits of a block in the order in which they were found; pointers inside kernels."""

    rays: Any  # which ray of the block
    prims: Any
    counts: Any  # how many each ray has
    size: Any  # how many there are in all, those that found no room included
    room: Any  # how many can be kept


def new_kept(most: int, ids: Any = np.int32) -> Kept:
    """Return room for the `most` nearest hits of each ray of a block."""
    places = BLOCK * most
    return Kept(np.empty(places), np.empty(places, ids), np.empty(BLOCK, np.int64))


def new_found(room: int, ids: Any = np.int32) -> Found:
    """Return room for `room` hits of a block."""
    rays, prims = np.empty(room, np.int64), np.empty(room, ids)
    return Found(rays, prims, np.empty(BLOCK, np.int64), np.empty(1, np.int64), room)


def pointed_goal(goal):
    """Return a goal with pointers in place of arrays."""


@by_type(pointed_goal)
def _choose_pointed(goal):
    return POINTED[goal.instance_class]


def _pointed_nearest(goal):
    return goal


def _pointed_counted(goal):
    return Counted(goal.any_hit, goal.cull, pointer(goal.nodes), pointer(goal.tests))


def _pointed_ranked(goal):
    kept = Kept(pointer(goal.kept.t), pointer(goal.kept.prims), pointer(goal.kept.counts))
    data = borrowed(goal.data)
    return Ranked(goal.any_hit, goal.cull, goal.once, goal.most, goal.accept, data, kept)


def _pointed_collected(goal):
    found = goal.found
    pointed = Found(
        pointer(found.rays), pointer(found.prims), pointer(found.counts), pointer(found.size),
        np.int64(found.room),
    )  # fmt: skip
    return Collected(goal.cull, goal.once, pointed)


POINTED = {
    Nearest: _pointed_nearest,
    Counted: _pointed_counted,
    Ranked: _pointed_ranked,
    Collected: _pointed_collected,
}


def note_node(goal, block, r):
    """Take note that ray r comes to a node."""


def note_leaf(goal, tree, block, r, first, count):
    """Take note that ray r is tested against what `count` rows of ids from the first on hold."""


def begin_block(goal):
    """Make a goal ready for a new block of rays."""


@inlined
def _note_node(goal, block, r):
    i = peek(block.which, number_of(r))
    poke(goal.nodes, i, peek(goal.nodes, i) + np.int32(1))


@inlined
def _note_leaf(goal, tree, block, r, first, count):
    i = peek(block.which, number_of(r))
    lanes = lanes_of(tree.primitives)
    used = np.int32(0)
    for k in range(first * lanes, (first + count) * lanes):
        used += np.int32(peek(tree.ids, k) >= 0)
    poke(goal.tests, i, peek(goal.tests, i) + used)


@by_type(note_node, inline=True)
def _choose_node_note(goal, block, r):
    if goal.instance_class is Counted:
        return lambda goal, block, r: _note_node(goal, block, r)
    return lambda goal, block, r: None


@by_type(note_leaf, inline=True)
def _choose_leaf_note(goal, tree, block, r, first, count):
    if goal.instance_class is Counted:
        return lambda goal, tree, block, r, first, count: _note_leaf(
            goal, tree, block, r, first, count
        )
    return lambda goal, tree, block, r, first, count: None


@inlined
def _forget_ranks(goal):
    for i in range(BLOCK):
        poke(goal.kept.counts, i, 0)


@inlined
def _forget_finds(goal):
    for i in range(BLOCK):
        poke(goal.found.counts, i, 0)
    poke(goal.found.size, 0, 0)


@by_type(begin_block)
def _choose_beginning(goal):
    if goal.instance_class is Ranked:
        return lambda goal: _forget_ranks(goal)
    if goal.instance_class is Collected:
        return lambda goal: _forget_finds(goal)
    return lambda goal: None
