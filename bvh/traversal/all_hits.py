"""All hits of each ray, or the first few, in order; or how many there are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import by_type, entry, inlined, kernel
from bvh.references import borrowed
from bvh.simd import peek, pointer, poke
from bvh.traversal.accepting import accepts
from bvh.traversal.block import BLOCK, HALF
from bvh.traversal.choice import pointed_scratch, trace_block
from bvh.traversal.filling import fill
from bvh.traversal.finish import finish_pairs
from bvh.traversal.goals import Collected, pointed_goal
from bvh.traversal.order import ask_for_next, pick_rays, pointed_order
from bvh.traversal.query import pointed_rays, pointed_tree

# What `state` says: the block that comes next, the hits written so far, and those it found last.
NEXT, FILLED, SIZE = range(3)

# Shorter lists are sorted by insertion.
SHORT = 24


class Columns(NamedTuple):
    """Hits, as arrays; pointers inside kernels."""

    prim_id: Any  # int32, or int64 for the codes of a scene
    t: Any  # float64, as u and v
    u: Any
    v: Any
    front: Any  # uint8


class Pairs(NamedTuple):
    """Scratch for the hits of a block, ray by ray; pointers inside kernels."""

    which: NDArray[np.int64]  # the ray's place in the batch
    columns: Columns
    order: NDArray[np.int64]
    starts: NDArray[np.int64]  # where each ray's hits begin


def new_columns(room: int, ids: Any) -> Columns:
    """Return columns for `room` hits, with ids of a type."""
    kinds = (ids, np.float64, np.float64, np.float64, np.uint8)
    return Columns(*(np.empty(room + HALF, kind) for kind in kinds))


def new_pairs(room: int, ids: Any) -> Pairs:
    """Return scratch for `room` hits of a block."""
    which, order = np.empty(room + HALF, np.int64), np.empty(room, np.int64)
    return Pairs(which, new_columns(room, ids), order, np.empty(BLOCK + 1, np.int64))


class Out(NamedTuple):
    """Where the kernels for winners write; inside kernels."""

    t: Any
    u: Any
    v: Any
    front: Any


@inlined
def _pointed_columns(columns):
    return Columns(
        pointer(columns.prim_id), pointer(columns.t), pointer(columns.u), pointer(columns.v),
        pointer(columns.front),
    )  # fmt: skip


@entry
def gather_hits(
    tree, rays, order, scratch, goal, accept, data, most, whole, solve, keep, begin, end, pairs,
    out, counts, state,
):  # fmt: skip
    """Find the hits of the rays in the blocks begin..end of an order that is plain.

    Stops before a block for whose hits there is no room; `state` says where, and how many.

    Parameters
    ----------
    goal : Collected or Ranked
    accept, data
        What hits must pass that the goal has not asked already.
    most : int
        Hits of a ray to keep.
    whole : bool
        Without it only the goal's counts are wanted.
    solve : bool
        Find t, u and v: for hits that are kept, or that a filter is asked about.
    keep : bool
        Write the hits to `out`, and not only how many there are to `counts`.
    """
    if len(tree.nodes.blocks) > 0:
        columns = _pointed_columns(pairs.columns)
        _gather_hits(
            pointed_tree(tree), pointed_rays(rays), pointed_order(order),
            pointed_scratch(scratch), pointed_goal(goal), accept, borrowed(data), most,
            whole, solve, keep, begin, end,
            Pairs(pointer(pairs.which), columns, pointer(pairs.order), pointer(pairs.starts)),
            np.int64(len(pairs.order)), _pointed_columns(out), np.int64(len(out.t) - HALF),
            pointer(counts), pointer(state),
        )  # fmt: skip


@kernel
def _gather_hits(
    tree, rays, order, scratch, goal, accept, data, most, whole, solve, keep, begin, end, pairs,
    room, out, space, counts, state,
):  # fmt: skip
    block = scratch.block
    columns = pairs.columns
    filled = np.int64(0)
    for b in range(begin, end):
        poke(state, NEXT, b)
        poke(state, FILLED, filled)
        size = pick_rays(order, b, block.which)
        count = fill(block, tree.frame, rays, size, scratch.alive)
        ask_for_next(order, b, rays)
        trace_block(tree, rays, scratch, count, order.kernel, goal)
        if not whole:
            for i in range(size):
                poke(counts, peek(block.which, i), goal_count(goal, i))
            continue
        found = np.int64(0)
        for i in range(size):
            found += goal_count(goal, i)
        poke(state, SIZE, found)
        if found > room or (keep and filled + found > space):
            return
        by_ray(goal, block, size, pairs)
        if solve:
            finish_pairs(
                tree.primitives, tree, rays, pairs.which, columns.prim_id, found,
                Out(columns.t, columns.u, columns.v, columns.front),
            )  # fmt: skip
        else:
            # To tell a hit that was found twice, its primitive is enough.
            for j in range(found):
                poke(columns.t, j, 0.0)
        for i in range(size):
            kept = _pick(tree.primitives, pairs, i, accept, data, most, keep, out, filled)
            poke(counts, peek(block.which, i), kept)
            filled += kept if keep else 0
    poke(state, NEXT, end)
    poke(state, FILLED, filled)


@inlined
def _pick(primitives, pairs, i, accept, data, most, keep, out, at):
    """Write ray i's hits in order, from `at` on; return how many they are."""
    hits, order = pairs.columns, pairs.order
    first, last = peek(pairs.starts, i), peek(pairs.starts, i + 1)
    for j in range(first, last):
        poke(order, j, j)
    _sort(hits.t, hits.prim_id, order, first, last)
    kept = np.int64(0)
    before = np.int64(-1)
    for j in range(first, last):
        h = peek(order, j)
        prim = np.int64(peek(hits.prim_id, h))
        if prim == before:
            # It was in two leaves.
            continue
        before = prim
        t, u, v = peek(hits.t, h), peek(hits.u, h), peek(hits.v, h)
        if not accepts(accept, primitives, peek(pairs.which, h), np.int64(prim), t, u, v, data):
            continue
        if keep:
            poke(out.prim_id, at + kept, prim)
            poke(out.t, at + kept, t)
            poke(out.u, at + kept, u)
            poke(out.v, at + kept, v)
            poke(out.front, at + kept, peek(hits.front, h))
        kept += 1
        if kept == most:
            break
    return kept


@inlined
def _before(t, prims, a, b):
    """Tell whether hit a comes before hit b."""
    p, q = peek(t, a), peek(t, b)
    return p < q or (p == q and peek(prims, a) < peek(prims, b))


@kernel
def _sort(t, prims, order, first, last):
    """Sort hits by t and id: by insertion, or in a heap where they are many."""
    if last - first <= SHORT:
        for j in range(first + 1, last):
            h = peek(order, j)
            k = j
            while k > first and _before(t, prims, h, peek(order, k - 1)):
                poke(order, k, peek(order, k - 1))
                k -= 1
            poke(order, k, h)
        return
    n = last - first
    for root in range(n // 2 - 1, -1, -1):
        _sift(t, prims, order, first, root, n)
    for n in range(last - first - 1, 0, -1):
        h = peek(order, first)
        poke(order, first, peek(order, first + n))
        poke(order, first + n, h)
        _sift(t, prims, order, first, np.int64(0), n)


@inlined
def _sift(t, prims, order, first, root, n):
    """Let a hit sink in a heap of n whose largest is on top."""
    h = peek(order, first + root)
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and _before(
            t, prims, peek(order, first + child), peek(order, first + child + 1)
        ):
            child += 1
        if not _before(t, prims, h, peek(order, first + child)):
            break
        poke(order, first + root, peek(order, first + child))
        root = child
    poke(order, first + root, h)


def goal_count(goal, i):
    """Return how many hits of ray i of the block a goal has."""


@by_type(goal_count, inline=True)
def _choose_count(goal, i):
    if goal.instance_class is Collected:
        return lambda goal, i: peek(goal.found.counts, i)
    return lambda goal, i: peek(goal.kept.counts, i)


def by_ray(goal, block, size, pairs):
    """Write a goal's hits to `pairs`, those of each ray side by side."""


def _collected_by_ray(goal, block, size, pairs):
    found, starts = goal.found, pairs.starts
    # Count to where each ray's hits end, and fill from there downwards.
    end = np.int64(0)
    for i in range(size):
        end += peek(found.counts, i)
        poke(starts, i, end)
    poke(starts, size, end)
    for j in range(end - 1, -1, -1):
        i = peek(found.rays, j)
        at = peek(starts, i) - 1
        poke(starts, i, at)
        poke(pairs.which, at, peek(block.which, i))
        poke(pairs.columns.prim_id, at, peek(found.prims, j))


def _ranked_by_ray(goal, block, size, pairs):
    kept = goal.kept
    at = np.int64(0)
    for i in range(size):
        poke(pairs.starts, i, at)
        for j in range(peek(kept.counts, i)):
            poke(pairs.which, at, peek(block.which, i))
            poke(pairs.columns.prim_id, at, peek(kept.prims, i * goal.most + j))
            at += 1
    poke(pairs.starts, size, at)


@by_type(by_ray)
def _choose_by_ray(goal, block, size, pairs):
    return _collected_by_ray if goal.instance_class is Collected else _ranked_by_ray
