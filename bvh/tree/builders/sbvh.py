"""Builder with spatial splits (Stich, Friedrich and Dietrich 2009, "Spatial splits in bounding
volume hierarchies").

Where the halves of the cheapest split of a range overlap, planes of space are tried as well: a
triangle that crosses the plane goes to both sides, each time with the box of its part there. A
budget limits the number of pieces: every range has capacity for its share and divides it between
its halves, so that the tree does not depend on threads. Pieces in the same leaf become one again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import entry
from bvh.runtime.threads import Progress, Shelf, watch
from bvh.tree.builders.binned_sah import GROUP_COST, MAX_LEAF, put_leaf
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
    UPPER,
    WIDTH,
    half_area,
    lane4,
    lane_of,
    load,
    meet,
    overlaps,
    scales,
    store,
    store_bounds,
)
from bvh.tree.builders.space import SpacePlane, SplitSource, best_plane, fill_space, part
from bvh.tree.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    NODE,
    SIDE,
    deepest_level,
    may_choose,
    new_subtrees,
    no_nodes,
    put_together,
    run_batches,
    task_size,
)
from bvh.tree.builders.top_levels import bound_all
from bvh.tree.nodes import Nodes, is_leaf, link_inner, link_leaf
from bvh.tree.primitives import Triangles

# Pieces that may be added, as a share of the number of triangles.
BUDGET = 0.3
# Planes are tried if the surface of the halves' overlap is at least this share of the root's.
OVERLAP = 1e-3

# A range also has the end of its capacity.
LIMIT = 5
RANGE_WIDTH = 6


class SpatialScratch(NamedTuple):
    """Scratch memory of one thread: pending ranges, bins, and bins of space."""

    pending: NDArray[np.int64]
    boxes: NDArray[np.float32]
    halves: NDArray[np.float32]
    pieces: NDArray[np.float32]
    bins: NDArray[np.float32]
    counts: NDArray[np.int32]
    space: NDArray[np.float32]
    space_counts: NDArray[np.int32]
    costs: NDArray[np.float32]
    corners: NDArray[np.float64]


def new_scratch() -> SpatialScratch:
    """Return the scratch of one thread."""
    return SpatialScratch(
        np.empty((128, RANGE_WIDTH), np.int64), np.empty((2 * 128, WIDTH), np.float32),
        np.empty((4, WIDTH), np.float32), np.empty((2, WIDTH), np.float32),
        np.empty((6 * BINS, WIDTH), np.float32), np.empty(6 * BINS, np.int32),
        np.empty((3 * BINS + 1, WIDTH), np.float32), np.empty(6 * BINS, np.int32),
        np.empty(BINS, np.float32), np.empty((3, 3)),
    )  # fmt: skip


class Limits(NamedTuple):
    """Limits of a subtree."""

    grain: Any  # ranges of so many records are left as tasks
    deepest: Any  # depth of the tree
    overlap: Any  # half the surface of an overlap for which planes are tried


@entry
def _build(source, start, boxes, block, limits, left_over, state, scratch):
    """Build the subtree of one range, but leave small ranges as tasks.

    `left_over` is (tasks, boxes of tasks), `state` (cancel, done). Returns the numbers of nodes and
    of tasks.
    """
    records = source.records
    grain, deepest, min_overlap = limits
    tasks, task_boxes = left_over
    cancel, done = state
    half = len(records) >> 1
    group = 1 << GROUP_BITS
    bounds, links, order = block
    pending, waiting_boxes, halves, pieces, bins, counts, space, space_counts, costs, v = scratch
    base = 2 * start[BEGIN]
    used, waiting, task_count = 1, 1, 0
    for i in range(RANGE_WIDTH):
        pending[0, i] = start[i]
    pending[0, NODE] = base
    store(waiting_boxes, 0, load(boxes, 0))
    store(waiting_boxes, 1, load(boxes, 1))
    while waiting > 0 and cancel[0] == 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth, side, limit = (
            pending[waiting, DEPTH],
            pending[waiting, SIDE],
            pending[waiting, LIMIT],
        )
        count = end - begin
        shift = side * half
        box, centres = load(waiting_boxes, 2 * waiting), load(waiting_boxes, 2 * waiting + 1)
        store_bounds(bounds, node, box)
        if count <= grain:
            for i in range(RANGE_WIDTH):
                tasks[task_count, i] = pending[waiting, i]
            store(task_boxes, 2 * task_count, box)
            store(task_boxes, 2 * task_count + 1, centres)
            task_count += 1
            continue
        if count <= group:
            put_leaf(records, shift, begin, end, node, links, order)
            done[0] += count
            continue
        # Split by the cheapest bin or plane, or in half if there is none or it would go too deep.
        axis, last, lefts, cost = -1, 0, 0, np.float32(INF)
        plane_axis, plane_bin, plane_lefts, plane_rights = -1, 0, 0, 0
        bins_used = bins_for(count)
        scale = scales(centres, np.float32(bins_used))
        space_scale = scales(box, np.float32(BINS))
        if may_choose(count, depth, deepest):
            fill_bins(records, shift + begin, shift + end, centres, scale, bins_used, bins, counts)
            cost, axis, last, lefts = best_split(bins, counts, scale, bins_used, GROUP_BITS, costs)
            wanted = axis < 0
            if axis >= 0:
                bound_halves(bins, bins_used, axis, last, halves, 0)
                shared = meet(load(halves, LEFT), load(halves, RIGHT))
                wanted = overlaps(shared) and half_area(shared) > min_overlap
            if wanted and limit > end:
                fill_space(
                    source, shift + begin, shift + end, waiting_boxes[2 * waiting:], space_scale,
                    space, space_counts, v,
                )  # fmt: skip
                plane_cost, plane_axis, plane_bin, plane_lefts, plane_rights = best_plane(
                    space, space_counts, space_scale, limit - begin, GROUP_BITS, costs
                )
                if plane_cost < cost:
                    cost = plane_cost
                else:
                    plane_axis = -1
        if count <= MAX_LEAF:
            area = half_area(box)
            leaf_cost = np.float32(GROUP_COST) * area * groups(count, GROUP_BITS)
            if leaf_cost <= area + np.float32(GROUP_COST) * cost:
                put_leaf(records, shift, begin, end, node, links, order)
                done[0] += count
                continue
        other = (1 - side) * half
        rights = count - lefts
        if plane_axis >= 0:
            # Each side gets a share of the unused capacity.
            spare = limit - begin - plane_lefts - plane_rights
            middle = begin + plane_lefts + spare * plane_lefts // (plane_lefts + plane_rights)
            bound_halves(space, BINS, plane_axis, plane_bin, halves, 0)
            plane = SpacePlane(waiting_boxes[2 * waiting :], plane_axis, plane_bin, space_scale)
            lefts, rights = part(
                source, shift + begin, shift + end, plane, other + begin, other + middle,
                (plane_lefts, plane_rights), halves, pieces, v,
            )  # fmt: skip
            side = 1 - side
        elif axis >= 0:
            spare = limit - end
            middle = begin + lefts + spare * lefts // count
            low = -lane_of(waiting_boxes, 2 * waiting + 1, axis)
            split = BinSplit(axis, last, -low, lane4(scale, axis))
            move(
                records, shift + begin, shift + end, split, other + begin, other + middle, halves,
                LEFT_CENTRES,
            )  # fmt: skip
            side = 1 - side
        else:
            cut_in_half(records, shift + begin, shift + end, halves, 0)
            lefts = count >> 1
            rights = count - lefts
            middle = begin + lefts
        child = base + used
        used += 2
        link_inner(links, node, child)
        # The smaller half is built first, so that few ranges are pending.
        for k in range(2):
            right = (k == 0) == (lefts <= rights)
            pending[waiting, NODE] = child + np.int64(right)
            pending[waiting, BEGIN] = middle if right else begin
            pending[waiting, END] = middle + rights if right else begin + lefts
            pending[waiting, DEPTH] = depth + 1
            pending[waiting, SIDE] = side
            pending[waiting, LIMIT] = limit if right else middle
            store(waiting_boxes, 2 * waiting, load(halves, LEFT + np.int64(right)))
            store(waiting_boxes, 2 * waiting + 1, load(halves, LEFT_CENTRES + np.int64(right)))
            waiting += 1
    return used, task_count


@entry
def _merge(links, order, out):
    """Remove duplicates within leaves; return the number of ids that are left."""
    used = 0
    for node in range(len(links)):
        if not is_leaf(links, node):
            continue
        first = np.int64(links[node, 0])
        begin = used
        for i in range(first, first + links[node, 1]):
            duplicate = False
            for j in range(begin, used):
                duplicate = duplicate or out[j] == order[i]
            if not duplicate:
                out[used] = order[i]
                used += 1
        link_leaf(links, node, begin, used - begin)
    return used


def _merged(nodes: Nodes) -> Nodes:
    """Return the tree with the pieces of a triangle in one leaf merged."""
    order = np.empty_like(nodes.order)
    used = _merge(nodes.links, nodes.order, order)
    return Nodes(nodes.bounds, nodes.links, order[:used].copy())


def build(
    triangles: Triangles,
    records: NDArray[np.float32],
    count: int,
    frame: NDArray[np.float64],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Nodes:
    """Build a tree over triangles.

    Parameters
    ----------
    triangles : Triangles
    records : ndarray of float32, shape (2 m, 8)
        One record for each of `count` triangles; m is the capacity for pieces. Overwritten.
    count : int
        Number of valid triangles.
    frame : ndarray of float64, shape (2, 3)
        The local frame that the records are in.
    threads, progress
        As in `binned_sah.build`.

    Returns
    -------
    Nodes
    """
    capacity = len(records) // 2
    if progress is not None:
        progress(0, count)
    if count == 0:
        return no_nodes()
    deepest, grain = deepest_level(count), task_size(count)
    boxes = bound_all(records, count, threads)
    x, y, z = (boxes[0, UPPER : UPPER + 3] + boxes[0, :3]).tolist()
    overlap = np.float32(OVERLAP * (x * y + y * z + z * x))
    block, source = new_subtrees(capacity), SplitSource(triangles, frame, records)
    # On each level at most capacity / grain ranges are split, each into two.
    max_tasks = 2 * (capacity // grain + 1) * (deepest + 1)
    tasks = np.empty((max_tasks, RANGE_WIDTH), np.int64)
    task_boxes = np.empty((2 * max_tasks, WIDTH), np.float32)
    none = np.empty((0, RANGE_WIDTH), np.int64), np.empty((0, WIDTH), np.float32)
    shelf = Shelf(new_scratch)

    def work(start: Any, box: Any, grain: int, left: Any, cancel: Any, done: Any) -> Any:
        with shelf.scratch() as scratch:
            limits = Limits(grain, deepest, overlap)
            return _build(source, start, box, block, limits, left, (cancel, done), scratch)

    def whole() -> Any:
        root = np.array([0, 0, count, 0, 0, capacity], np.int64)
        return work(root, boxes, grain, (tasks, task_boxes), cancel, np.zeros(1, np.int64))

    def report(done: int, _: int) -> None:
        # `done` counts pieces.
        if progress is not None:
            progress(min(done, count), count)

    cancel = np.zeros(1, np.int32)
    [(top, task_count)] = watch([whole], 1, cancel)
    links = block.links[:top].copy()
    tasks = tasks[:task_count].copy()
    rows = np.zeros((task_count, 2), np.int64)

    def batch(begin: int, end: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> None:
        for i in range(begin, end):
            box = task_boxes[2 * i : 2 * i + 2]
            rows[i] = 2 * tasks[i, BEGIN], work(tasks[i], box, 0, none, cancel, done)[0]

    run_batches([(i, i + 1) for i in range(task_count)], tasks, batch, threads, report)
    return _merged(put_together(links, tasks, rows, block, threads))
