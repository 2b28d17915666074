"""Top-down builder: binned surface area heuristic (Wald 2007, "On fast construction of SAH-based
bounding volume hierarchies").

A range of primitives is split where the estimated cost of traversing the two halves is least,
among 16 bins on each axis. Where all centroids coincide, or where a split would let the tree grow
too deep, the range is cut in half instead.

The children of the node that splits its range at `middle` live at 2 * middle - 1 and 2 * middle.
No other node splits there, so threads build subtrees side by side without sharing a counter, and
the result does not depend on them. A last pass closes the gaps.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined, kernel
from bvh.nodes import Nodes, is_leaf, link_inner, link_leaf
from bvh.numerics import INF
from bvh.workers import Progress, watch

BINS = 16
MAX_LEAF = 16
# Cost of one primitive test in units of one node visit, measured for scalar kernels.
PRIMITIVE_COST = 1.0
# Ranges up to a 16th of all primitives (and at least this many) are left to single threads.
SMALLEST_TASK = 4096
TASKS = 16

# What a pending range needs: node, begin, end, depth.
RANGE_WIDTH = 4

# Rows of the scratch boxes: of a range, of its centres, of a sweep over bins.
BOX, CENTROIDS, SWEEP = 0, 1, 2


@inlined
def _half_area(boxes, i):
    """Return half the surface of box i (lower, upper), 0 for an empty one."""
    x, y, z = boxes[i, 3] - boxes[i, 0], boxes[i, 4] - boxes[i, 1], boxes[i, 5] - boxes[i, 2]
    if x < 0.0:
        return 0.0
    return x * y + y * z + z * x


@inlined
def _clear(boxes, i):
    """Make box i empty."""
    for axis in range(3):
        boxes[i, axis] = INF
        boxes[i, axis + 3] = -INF


@inlined
def _grow(boxes, i, others, j):
    """Enlarge box i so that it holds box j of the others."""
    for axis in range(3):
        boxes[i, axis] = min(boxes[i, axis], others[j, axis])
        boxes[i, axis + 3] = max(boxes[i, axis + 3], others[j, axis + 3])


@inlined
def _centroid(boxes, i, axis):
    """Return twice the centre of box i."""
    return np.float64(boxes[i, axis]) + np.float64(boxes[i, axis + 3])


@inlined
def _bin_of(boxes, i, axis, low, scale):
    """Return the bin that the centre of box i falls into."""
    # The same double arithmetic decides when bins are filled and when primitives are moved.
    return min(int((_centroid(boxes, i, axis) - low) * scale), BINS - 1)


@kernel
def _bound_range(boxes, order, begin, end, scratch):
    """Compute the box of a range and the box of its centres (times two)."""
    _clear(scratch, BOX)
    _clear(scratch, CENTROIDS)
    for i in range(begin, end):
        _grow(scratch, BOX, boxes, order[i])
        for axis in range(3):
            c = _centroid(boxes, order[i], axis)
            scratch[CENTROIDS, axis] = min(scratch[CENTROIDS, axis], c)
            scratch[CENTROIDS, axis + 3] = max(scratch[CENTROIDS, axis + 3], c)


@kernel
def _fill_bins(boxes, order, begin, end, scratch, scales, bins, counts):
    """Count the primitives of each bin of each axis, and bound them."""
    for b in range(3 * BINS):
        _clear(bins, b)
        counts[b] = 0
    for i in range(begin, end):
        for axis in range(3):
            low = scratch[CENTROIDS, axis]
            b = axis * BINS + _bin_of(boxes, order[i], axis, low, scales[axis])
            counts[b] += 1
            _grow(bins, b, boxes, order[i])


@kernel
def _best_split(bins, counts, scales, right_cost, scratch):
    """Return (cost, axis, bin) of the cheapest split; axis -1 if there is none.

    No side is ever empty: the lowest centre is in the first bin and the highest in the last.
    """
    best, best_axis, best_bin = INF, -1, 0
    for axis in range(3):
        if scales[axis] == 0.0:
            continue
        # Sweep from the right, then from the left, and add both sides' costs.
        _clear(scratch, SWEEP)
        count = 0
        for b in range(BINS - 1, 0, -1):
            _grow(scratch, SWEEP, bins, axis * BINS + b)
            count += counts[axis * BINS + b]
            right_cost[b] = _half_area(scratch, SWEEP) * ((count + 7) >> 3)
        _clear(scratch, SWEEP)
        count = 0
        for b in range(BINS - 1):
            _grow(scratch, SWEEP, bins, axis * BINS + b)
            count += counts[axis * BINS + b]
            cost = _half_area(scratch, SWEEP) * ((count + 7) >> 3) + right_cost[b + 1]
            if cost < best:
                best, best_axis, best_bin = cost, axis, b
    return best, best_axis, best_bin


@kernel
def _partition(boxes, order, begin, end, axis, last_bin, low, scale):
    """Move the primitives of bins up to `last_bin` to the front; return where the others begin."""
    i, j = begin, end - 1
    while True:
        while i <= j and _bin_of(boxes, order[i], axis, low, scale) <= last_bin:
            i += 1
        while i <= j and _bin_of(boxes, order[j], axis, low, scale) > last_bin:
            j -= 1
        if i >= j:
            return i
        order[i], order[j] = order[j], order[i]


@inlined
def _levels(count):
    """Return the depth of a tree that halves `count` primitives down to single ones."""
    levels = 0
    while (1 << levels) < count:
        levels += 1
    return levels


@entry
def _build(boxes, order, bounds, links, start, grain, deepest, tasks, cancel, done):
    """Build the subtree of one range; leave ranges of up to `grain` primitives as tasks.

    Returns the number of tasks. `done` counts primitives that are in leaves.
    """
    pending = np.empty((128, RANGE_WIDTH), np.int64)
    for i in range(RANGE_WIDTH):
        pending[0, i] = start[i]
    waiting = 1
    left_over = 0
    scratch, scales, right_cost = np.empty((3, 6)), np.empty(3), np.empty(BINS)
    bins, counts = np.empty((3 * BINS, 6)), np.empty(3 * BINS, np.int64)
    while waiting > 0 and cancel[0] == 0:
        waiting -= 1
        node, begin, end, depth = (
            pending[waiting, 0],
            pending[waiting, 1],
            pending[waiting, 2],
            pending[waiting, 3],
        )
        count = end - begin
        if count <= grain:
            for i in range(RANGE_WIDTH):
                tasks[left_over, i] = pending[waiting, i]
            left_over += 1
            continue
        _bound_range(boxes, order, begin, end, scratch)
        for i in range(6):
            bounds[node, i] = scratch[BOX, i]
        if count == 1:
            link_leaf(links, node, begin, count)
            done[0] += count
            continue
        # Split by the cheapest bin, or in half when that is impossible or would go too deep.
        for axis in range(3):
            extent = scratch[CENTROIDS, axis + 3] - scratch[CENTROIDS, axis]
            scales[axis] = BINS / extent if extent > 0.0 else 0.0
        middle = begin + count // 2
        may_choose = depth + 1 + _levels(count) <= deepest
        if may_choose or count <= MAX_LEAF:
            area = _half_area(scratch, BOX)
            _fill_bins(boxes, order, begin, end, scratch, scales, bins, counts)
            cost, axis, last_bin = _best_split(bins, counts, scales, right_cost, scratch)
            split_cost = area + PRIMITIVE_COST * cost
            if count <= MAX_LEAF and (axis < 0 or PRIMITIVE_COST * area * ((count + 7) >> 3) <= split_cost):
                link_leaf(links, node, begin, count)
                done[0] += count
                continue
            if may_choose and axis >= 0:
                low, scale = scratch[CENTROIDS, axis], scales[axis]
                middle = _partition(boxes, order, begin, end, axis, last_bin, low, scale)
        child = 2 * middle - 1
        link_inner(links, node, child)
        # The smaller half is built first, so that few ranges wait.
        for side in range(2):
            first = (side == 0) == (middle - begin > end - middle)
            pending[waiting, 0] = child if first else child + 1
            pending[waiting, 1] = begin if first else middle
            pending[waiting, 2] = middle if first else end
            pending[waiting, 3] = depth + 1
            waiting += 1
    return left_over


@entry
def _compact(bounds, links, out_bounds, out_links, count_only):
    """Copy the nodes in depth-first order, siblings side by side; return how many there are."""
    pending = np.empty((128, 2), np.int64)
    pending[0, 0], pending[0, 1] = 0, 0
    waiting, used = 1, 1
    while waiting > 0:
        waiting -= 1
        node, at = pending[waiting, 0], pending[waiting, 1]
        child = np.int64(links[node, 0])
        leaf = is_leaf(links, node)
        if not count_only:
            for i in range(6):
                out_bounds[at, i] = bounds[node, i]
            if leaf:
                link_leaf(out_links, at, links[node, 0], links[node, 1])
            else:
                link_inner(out_links, at, used)
        if not leaf:
            for side in range(1, -1, -1):
                pending[waiting, 0], pending[waiting, 1] = child + side, used + side
                waiting += 1
            used += 2
    return used


def deepest_level(count: int) -> int:
    """Return the depth that no tree of `count` primitives exceeds: 2 log2 n + 8."""
    return math.floor(2 * math.log2(max(count, 1))) + 8


def build(
    boxes: NDArray[np.float32],
    ids: NDArray[np.int32],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Nodes:
    """Build a tree over boxes.

    Parameters
    ----------
    boxes : ndarray of float32, shape (n, 6)
        Lower and upper corner of each primitive, finite.
    ids : ndarray of int32, shape (m,)
        Rows of `boxes` that take part; overwritten with their order in the leaves.
    threads : int
        Threads to use. The tree is the same for any number of them.
    progress : callable, optional
        Called with (primitives done, all primitives) a few times a second.

    Returns
    -------
    Nodes
    """
    count = len(ids)
    if count == 0:
        if progress is not None:
            progress(0, 0)
        return Nodes(np.empty((0, 6), np.float32), np.empty((0, 2), np.int32), ids)
    bounds = np.empty((2 * count - 1, 6), np.float32)
    links = np.empty((2 * count - 1, 2), np.int32)
    cancel = np.zeros(1, np.int32)
    deepest = deepest_level(count)
    grain = max(count // TASKS, SMALLEST_TASK) if count > 2 * SMALLEST_TASK else 0
    # On each level at most count / grain <= TASKS + 1 ranges are split, each into two.
    tasks = np.empty((2 * (TASKS + 1) * (deepest + 1), RANGE_WIDTH), np.int64)
    done = np.zeros((len(tasks) + 1, 1), np.int64)

    def report() -> None:
        if progress is not None:
            progress(int(done.sum()), count)

    def subtree(start: NDArray[np.int64], grain: int, row: int) -> Any:
        return _build(boxes, ids, bounds, links, start, grain, deepest, tasks, cancel, done[row])

    root = np.array([0, 0, count, 0], np.int64)
    [left_over] = watch([partial(subtree, root, grain, len(tasks))], 1, cancel, report)
    # Largest first, so that no thread is left alone with a big one at the end.
    sizes = tasks[:left_over, 2] - tasks[:left_over, 1]
    largest_first = np.argsort(-sizes, kind="stable")
    starts = [(tasks[i].copy(), int(i)) for i in largest_first]
    watch([partial(subtree, start, 0, row) for start, row in starts], threads, cancel, report)

    used = _compact(bounds, links, bounds, links, True)
    out = Nodes(np.empty((used, 6), np.float32), np.empty((used, 2), np.int32), ids)
    _compact(bounds, links, out.bounds, out.links, False)
    return out
