"""Top-down builder: binned surface area heuristic (Wald 2007, "On fast construction of SAH-based
bounding volume hierarchies").

A range of primitives is split where the estimated cost of the two halves is lowest, among the
borders of equal bins on each axis. A leaf costs one for each started group of primitives, because
leaves are tested by groups. If all centres coincide, or a split would make the tree too deep, the
range is cut in half instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import entry, inlined
from bvh.runtime.threads import Progress, Shelf
from bvh.tree.builders.bins import (
    BINS,
    GROUP_BITS,
    LEFT,
    LEFT_CENTRES,
    RIGHT,
    BinSplit,
    best_split,
    bins_for,
    bound_halves,
    cut_in_half,
    fill_bins,
    groups,
    move,
)
from bvh.tree.builders.records import (
    WIDTH,
    half_area,
    id_of,
    lane4,
    lane_of,
    load,
    load_bounds,
    scales,
    store,
    store_bounds,
)
from bvh.tree.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    NODE,
    RANGE_WIDTH,
    SIDE,
    deepest_level,
    may_choose,
    new_subtrees,
    no_nodes,
    put_together,
    run_batches,
)
from bvh.tree.builders.top_levels import split_top
from bvh.tree.nodes import Nodes, link_inner, link_leaf

MAX_LEAF = 2 << GROUP_BITS
# Cost of testing a group in units of one node visit.
GROUP_COST = 1.0


class SubtreeScratch(NamedTuple):
    """Scratch memory of one thread: pending ranges, and bins."""

    pending: NDArray[np.int64]
    centres: NDArray[np.float32]
    halves: NDArray[np.float32]
    bins: NDArray[np.float32]
    counts: NDArray[np.int32]
    costs: NDArray[np.float32]


def new_scratch() -> SubtreeScratch:
    """Return the scratch of one thread."""
    return SubtreeScratch(
        np.empty((128, RANGE_WIDTH), np.int64), np.empty((128, WIDTH), np.float32),
        np.empty((4, WIDTH), np.float32), np.empty((6 * BINS, WIDTH), np.float32),
        np.empty(6 * BINS, np.int32), np.empty(BINS, np.float32),
    )  # fmt: skip


@inlined
def put_leaf(records, shift, begin, end, node, links, order):
    """Make a node the leaf of a range, whose records are `shift` rows further on."""
    for i in range(begin, end):
        order[i] = id_of(records, shift + i)
    link_leaf(links, node, begin, end - begin)


@entry
def _build_subtree(
    records, start, boxes, block, deepest, group_bits, max_leaf, cancel, done, scratch
):  # fmt: skip
    """Build the subtree of one range; return the number of its nodes.

    `boxes` holds the box of the range and that of its centres.
    """
    half = len(records) >> 1
    group = 1 << group_bits
    bounds, links, order = block
    pending, waiting_centres, halves, bins, counts, costs = scratch
    base = 2 * start[BEGIN]
    used, waiting = 1, 1
    for i in range(RANGE_WIDTH):
        pending[0, i] = start[i]
    pending[0, NODE] = base
    store_bounds(bounds, base, load(boxes, 0))
    store(waiting_centres, 0, load(boxes, 1))
    if start[END] - start[BEGIN] <= group:
        put_leaf(records, start[SIDE] * half, start[BEGIN], start[END], base, links, order)
        done[0] += start[END] - start[BEGIN]
        return used
    while waiting > 0 and cancel[0] == 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth, side = pending[waiting, DEPTH], pending[waiting, SIDE]
        count = end - begin
        shift = side * half
        centres = load(waiting_centres, waiting)
        # Split by the cheapest bin, or in half when that is impossible or would go too deep.
        axis, last, lefts, cost = -1, 0, 0, np.float32(INF)
        bins_used = bins_for(count)
        scale = scales(centres, np.float32(bins_used))
        if may_choose(count, depth, deepest):
            fill_bins(records, shift + begin, shift + end, centres, scale, bins_used, bins, counts)
            cost, axis, last, lefts = best_split(bins, counts, scale, bins_used, group_bits, costs)
        if count <= max_leaf:
            area = half_area(load_bounds(bounds, node))
            leaf_cost = np.float32(GROUP_COST) * area * groups(count, group_bits)
            if leaf_cost <= area + np.float32(GROUP_COST) * cost:
                put_leaf(records, shift, begin, end, node, links, order)
                done[0] += count
                continue
        if axis >= 0:
            middle = begin + lefts
            bound_halves(bins, bins_used, axis, last, halves, 0)
            side = 1 - side
            other = side * half
            low = lane_of(waiting_centres, waiting, axis)
            split = BinSplit(axis, last, low, lane4(scale, axis))
            move(
                records, shift + begin, shift + end, split, other + begin, other + middle, halves,
                LEFT_CENTRES,
            )  # fmt: skip
            shift = other
        else:
            cut_in_half(records, shift + begin, shift + end, halves, 0)
            middle = begin + (count >> 1)
        child = base + used
        used += 2
        link_inner(links, node, child)
        store_bounds(bounds, child, load(halves, LEFT))
        store_bounds(bounds, child + 1, load(halves, RIGHT))
        # The smaller half is built first, so that few ranges are pending.
        for k in range(2):
            right = (k == 0) == (middle - begin <= end - middle)
            low, high = (middle, end) if right else (begin, middle)
            if high - low <= group:
                put_leaf(records, shift, low, high, child + np.int64(right), links, order)
                done[0] += high - low
                continue
            pending[waiting, NODE] = child + np.int64(right)
            pending[waiting, BEGIN] = low
            pending[waiting, END] = high
            pending[waiting, DEPTH] = depth + 1
            pending[waiting, SIDE] = side
            store(waiting_centres, waiting, load(halves, LEFT_CENTRES + np.int64(right)))
            waiting += 1
    return used


def build(
    records: NDArray[np.float32],
    *,
    threads: int = 1,
    progress: Progress | None = None,
    group_bits: int = GROUP_BITS,
    max_leaf: int = MAX_LEAF,
    deepest: int | None = None,
) -> Nodes:
    """Build a tree.

    Parameters
    ----------
    records : ndarray of float32, shape (2 n, 8)
        One record for each primitive (see `records`), and as many unused rows. Overwritten.
    threads : int
        Threads to use. The tree does not depend on their number.
    progress : callable, optional
        Called with (primitives done, all primitives) a few times a second.
    group_bits, max_leaf : int
        Leaves cost one for each started group of 1 << group_bits records, and have at most
        `max_leaf`.
    deepest : int, optional
        Largest depth of the tree; `subtrees.deepest_level` by default.

    Returns
    -------
    Nodes
    """
    count = len(records) // 2
    if progress is not None:
        progress(0, count)
    if count == 0:
        return no_nodes()
    deepest = deepest_level(count) if deepest is None else deepest
    links, tasks, boxes = split_top(records, deepest, group_bits, threads)
    block = new_subtrees(count)
    rows, shelf = np.zeros((len(tasks), 2), np.int64), Shelf(new_scratch)

    def batch(begin: int, end: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> None:
        with shelf.scratch() as scratch:
            for i in range(begin, end):
                rows[i, 0] = 2 * tasks[i, BEGIN]
                rows[i, 1] = _build_subtree(
                    records, tasks[i], boxes[i], block, deepest, group_bits, max_leaf, cancel,
                    done, scratch,
                )  # fmt: skip

    run_batches([(i, i + 1) for i in range(len(tasks))], tasks, batch, threads, progress)
    return put_together(links, tasks, rows, block, threads)
