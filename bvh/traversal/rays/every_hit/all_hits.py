"""All hits of each ray, or the first few, sorted by (t, id); or how many there are.

The hits of a block are grouped by ray, their details are computed side by side, and the hits of
each ray are sorted, without those that are repeated because a primitive is in several leaves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import peek, poke
from bvh.runtime.tuple_references import as_pointers, borrowed, makes_pointers_of
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.every_hit.visits import visit_all
from bvh.traversal.rays.hit_details import Columns, finish_pairs, write_details
from bvh.traversal.rays.leaf_hits import AllGoal, accepts, begin_block
from bvh.traversal.rays.ray_batch import Context, first_of, pick_rays
from bvh.traversal.rays.ray_setup import set_up_block
from bvh.traversal.rays.single_rays import trace
from bvh.tree.arrays import is_empty
from bvh.tree.instanced import Instanced, precedes, primitives_class

# Places in `state`: the next block, the hits written so far, and the hits of the last block,
# written or not.
NEXT, FILLED, SIZE = range(3)


class Pairs(NamedTuple):
    """Scratch for the hits of a block, ray by ray; pointers inside kernels."""

    which: NDArray[np.int64]  # numbers of rays in the batch
    columns: Columns  # details of the hits
    order: NDArray[np.int64]  # rows of the hits, sorted within each ray
    starts: NDArray[np.int64]  # the row at which the hits of each ray begin, and the end


class Wanted(NamedTuple):
    """Options of a query: which hits to return, and in which form."""

    accept: object  # a filter that the goal has not called, as in `FirstGoal`
    data: object  # what the filter is called with
    max_hits: int  # the most hits of a ray
    listed: bool  # the goal lists its hits; if not, only its counts are returned
    solved: bool  # compute t, u, v and front, for the hits written or for a filter
    kept: bool  # write the hits to `out`, not only their number to `counts`


class Gathered(NamedTuple):
    """Scratch and results of `gather_hits`."""

    pairs: Pairs  # scratch
    out: Columns  # the hits of all rays
    counts: NDArray[np.int64]  # hits of each ray of the batch
    state: NDArray[np.int64]  # NEXT, FILLED, SIZE


def new_columns(capacity: int, ids: DTypeLike) -> Columns:
    """Return `Columns` for `capacity` hits, whose ids have the type `ids`."""
    kinds = (np.float64, ids, np.float64, np.float64, np.uint8)
    return Columns(*(np.empty(capacity + HALF, kind) for kind in kinds))


def new_pairs(capacity: int, ids: DTypeLike) -> Pairs:
    """Return `Pairs`, scratch, for `capacity` hits of a block, whose ids have the type `ids`."""
    which, order = np.empty(capacity + HALF, np.int64), np.empty(capacity, np.int64)
    return Pairs(which, new_columns(capacity, ids), order, np.empty(BLOCK + 1, np.int64))


@makes_pointers_of(Wanted)
def _wanted_pointers(arrays):
    """Return a `Wanted` for kernels, with `data` borrowed: its references are not counted."""
    return Wanted(
        arrays.accept, borrowed(arrays.data), arrays.max_hits, arrays.listed, arrays.solved,
        arrays.kept,
    )  # fmt: skip


@entry
def gather_hits(
    tree_row, ray_arrays, ray_order, thread_scratch, goal, wanted, gathered, begin, end
):
    """Find the hits of the rays in the blocks begin..end of an order that is not sorted.

    The goal is an `AllGoal` or a `FirstGoal`, `wanted` a `Wanted`, `gathered` a `Gathered`, which
    gets the hits and their counts. Stops before a block whose hits do not fit into memory:
    `gathered.state` then has the number of that block, how many hits have been written, and how
    many that block has. For an empty tree nothing is written.
    """
    if is_empty(tree_row):
        return
    tree, rays, order = as_pointers(tree_row), as_pointers(ray_arrays), as_pointers(ray_order)
    scratch, ray_goal = as_pointers(thread_scratch), as_pointers(goal)
    options, results = as_pointers(wanted), as_pointers(gathered)
    pairs_capacity = np.int64(len(gathered.pairs.order))
    out_capacity = np.int64(len(gathered.out.t) - HALF)
    block, pairs, counts, state = scratch.block, results.pairs, results.counts, results.state
    columns = pairs.columns
    filled = np.int64(0)
    for b in range(begin, end):
        poke(state, NEXT, b)
        poke(state, FILLED, filled)
        size, ahead = pick_rays(order, b, block.which), first_of(order, b + 1)
        count = set_up_block(block, tree.frame, rays, size, scratch.active, order, ahead)
        begin_block(ray_goal)
        find_hits(tree, rays, scratch, count, ray_goal)
        if not options.listed:
            for i in range(size):
                poke(counts, peek(block.which, i), peek(ray_goal.hits.counts, i))
            continue
        found = np.int64(0)
        for i in range(size):
            found += peek(ray_goal.hits.counts, i)
        poke(state, SIZE, found)
        if found > pairs_capacity or (options.kept and filled + found > out_capacity):
            return
        group_by_ray(ray_goal, block, size, pairs)
        if options.solved:
            finish_pairs(tree, rays, pairs.which, columns.prim_id, found, ray_goal.cull, columns)
        else:
            # Equal t: sorted by primitive alone, hits that were found twice are neighbours.
            for j in range(found):
                poke(columns.t, j, 0.0)
        for i in range(size):
            hits = _pick(tree.primitives, options, pairs, i, results.out, filled)
            poke(counts, peek(block.which, i), hits)
            filled += hits if options.kept else 0
    poke(state, NEXT, end)
    poke(state, FILLED, filled)


@inlined
def _pick(primitives, wanted, pairs, i, out, row):
    """Return how many different hits of ray i of a block pass the filter, up to `wanted.max_hits`.

    If `wanted.kept`, these are written to `out`, sorted by (t, id), from row `row` on. `pairs` has
    the hits of the block by ray; `pairs.order` becomes their order.
    """
    hits, order, accept, data = pairs.columns, pairs.order, wanted.accept, wanted.data
    first, last = peek(pairs.starts, i), peek(pairs.starts, i + 1)
    for j in range(first, last):
        poke(order, j, j)
    _sort(primitives, hits.t, hits.prim_id, order, first, last)
    count = np.int64(0)
    before = np.int64(-1)
    for j in range(first, last):
        h = peek(order, j)
        prim = np.int64(peek(hits.prim_id, h))
        if prim == before:
            # The same primitive, from another leaf.
            continue
        before = prim
        t, u, v = peek(hits.t, h), peek(hits.u, h), peek(hits.v, h)
        if not accepts(accept, primitives, peek(pairs.which, h), prim, t, u, v, data):
            continue
        if wanted.kept:
            poke(out.prim_id, row + count, prim)
            write_details(out, row + count, (t, u, v, peek(hits.front, h)))
        count += 1
        if count == wanted.max_hits:
            break
    return count


@inlined
def _before(primitives, t, prims, a, b):
    """Return whether the hit in row a of the columns comes before the hit in row b, by (t, id)."""
    t_a, t_b = peek(t, a), peek(t, b)
    return t_a < t_b or (t_a == t_b and precedes(primitives, peek(prims, a), peek(prims, b)))


@kernel
def _sort(primitives, t, prims, order, first, last):
    """Sort the numbers order[first:last], rows of the columns `t` and `prims`, by (t, id)."""
    # Shell's sort with the gaps 1, 4, 13, 40, ...: insertion for a few rows, and never more than
    # O(n**1.5) steps (Knuth, TAOCP 3, 5.2.1). `h` is the row that is inserted among those `gap`
    # apart.
    gap = np.int64(1)
    while 3 * gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for j in range(first + gap, last):
            h = peek(order, j)
            k = j
            while k - gap >= first and _before(primitives, t, prims, h, peek(order, k - gap)):
                poke(order, k, peek(order, k - gap))
                k -= gap
            poke(order, k, h)
        gap //= 3


@by_type()
def find_hits(tree, rays, scratch, count, goal):
    """Find the hits of the rays `scratch.active[:count]` of a block, and record them in the goal.

    The goal is an `AllGoal` or a `FirstGoal`.
    """
    if goal.instance_class is AllGoal and primitives_class(tree) is not Instanced:
        return lambda tree, rays, scratch, count, goal: visit_all(tree, rays, scratch.block, goal)
    return lambda tree, rays, scratch, count, goal: trace(
        Context(tree, rays, scratch.block), scratch.slots.memory, scratch.active, count, goal
    )


def _group_found(goal, block, size, pairs):
    """Write the hits that an `AllGoal` found for the `size` rays of a block to `pairs`, by ray."""
    found, starts = goal.hits, pairs.starts
    # A counting sort: set `starts` to where the hits of each ray end, then fill downwards.
    end = np.int64(0)
    for i in range(size):
        end += peek(found.counts, i)
        poke(starts, i, end)
    poke(starts, size, end)
    for j in range(end - 1, -1, -1):
        i = peek(found.rays, j)
        row = peek(starts, i) - 1
        poke(starts, i, row)
        poke(pairs.which, row, peek(block.which, i))
        poke(pairs.columns.prim_id, row, peek(found.prims, j))


def _group_nearest(goal, block, size, pairs):
    """Write the hits that a `FirstGoal` found for the `size` rays of a block to `pairs`, by ray."""
    nearest, row = goal.hits, np.int64(0)
    for i in range(size):
        poke(pairs.starts, i, row)
        for j in range(peek(nearest.counts, i)):
            poke(pairs.which, row, peek(block.which, i))
            poke(pairs.columns.prim_id, row, peek(nearest.prims, i * goal.max_hits + j))
            row += 1
    poke(pairs.starts, size, row)


@by_type()
def group_by_ray(goal, block, size, pairs):
    """Write the hits of a goal for the `size` rays of a block to `pairs`, ray by ray.

    Only `pairs.which`, `pairs.starts` and `pairs.columns.prim_id` are written.
    """
    return _group_found if goal.instance_class is AllGoal else _group_nearest
