"""Top-down builder: binned surface area heuristic (Wald 2007, "On fast construction of SAH-based
bounding volume hierarchies").

A range of primitives is split where the estimated cost of the two halves is lowest, among the
borders of equal bins on each axis. A leaf costs one for each started group of primitives, because
leaves are tested by groups. If all centres coincide, or a split would make the tree too deep, the
range is cut in half instead.

The array of records has two halves, and a range is in one of them, its `side`. A split moves the
records to the same rows of the other half, those on the left from `begin` on and those on the right
from `middle` on; to cut a range in half moves nothing. Rows up to `limit` are free for the pieces
that spatial splits add.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.memory import Shelf, aligned
from bvh.runtime.threads import Progress
from bvh.tree.builders import bins as binning
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import BINS, GROUP_BITS, LEFT, LEFT_CENTRES, RIGHT
from bvh.tree.builders.grid import bound_all, split_top
from bvh.tree.builders.space import NO_PLANE, cheaper_plane, split_at_plane
from bvh.tree.builders.subtrees import RANGE_WIDTH, range_at, set_range
from bvh.tree.nodes import Nodes, link_inner, link_leaf

MAX_LEAF = 1 << GROUP_BITS
# Cost of testing a group in units of one node visit.
GROUP_COST = 1.0


class Limits(NamedTuple):
    """Limits of a subtree."""

    deepest: int  # depth of the tree
    group_bits: int  # leaves cost one for each started group of 1 << group_bits records
    max_leaf: int  # records in a leaf


def new_scratch() -> tuple[NDArray[np.generic], ...]:
    """Return the scratch of one thread: ranges and their boxes, halves, bins and sides."""
    # 128 ranges are more than are ever pending, about one for each level.
    return (
        np.empty((128, RANGE_WIDTH), np.int64), record.new(2 * 128), record.new(4),
        record.new(6 * BINS), binning.new_sides(BINS),
    )  # fmt: skip


@inlined
def _put_leaf(records, shift, begin, end, node, links, order):
    """Make a node the leaf of the primitives order[begin:end], and write their ids to `order`."""
    # Their records are in rows shift + begin to shift + end.
    for i in range(begin, end):
        order[i] = record.id_of(records, shift + i)
    link_leaf(links, node, begin, end - begin)


@inlined
def _leaf_is_cheaper(count, box, cost, limits):
    """Return whether a leaf of `count` records with a box costs no more than their best split."""
    # `cost` is that of the groups of both sides of the split. Up to one group is always a leaf.
    _, group_bits, max_leaf = limits
    if count > max_leaf:
        return False
    # Costs are weighted by half areas. A split costs a visit of the node, too: `area`.
    area = record.half_area(box)
    leaf_cost = np.float32(GROUP_COST) * area * binning.groups(count, group_bits)
    return count <= 1 << group_bits or leaf_cost <= area + np.float32(GROUP_COST) * cost


@entry
def build_subtrees(records, spatial, tasks, used, block, limits, state, scratch):
    """Build the subtrees of ranges into a block of nodes; return the number of its nodes.

    `tasks` (k, RANGE_WIDTH) are the ranges, with their roots; the other nodes are those from `used`
    on. `spatial` is `space.Spatial`, or None for a builder without spatial splits. `block` is
    `SubtreeNodes`.
    `state` is (cancel, done), arrays of one number: a cancel that is not 0 stops the build, and
    `done` counts the records in leaves. `scratch` is that of `new_scratch`.
    """
    deepest, group_bits, _ = limits
    cancel, done = state
    # Rows of each half of the array of records (see above), and records of a full group.
    half, group = len(records) >> 1, 1 << group_bits
    bounds, links, order = block
    # A stack of ranges; the boxes of each, and those of its centres, are two rows.
    pending, pending_boxes, halves, bins, sides = scratch
    begun, height = 0, 0
    while (height > 0 or begun < len(tasks)) and cancel[0] == 0:
        if height == 0:
            root, begin, end, depth, side, limit = range_at(tasks, begun)
            set_range(pending, 0, (root, begin, end, depth, side, limit))
            binning.bound(records, side * half + begin, side * half + end, pending_boxes, 0, 1)
            record.store_bounds(bounds, root, record.load(pending_boxes, 0))
            begun, height = begun + 1, 1
        height -= 1
        node, begin, end, depth, side, limit = range_at(pending, height)
        count, here, there = end - begin, side * half, (1 - side) * half
        first, last = here + begin, here + end
        box = record.load(pending_boxes, 2 * height)
        centres = record.load(pending_boxes, 2 * height + 1)
        # Find the cheapest split between bins, or at a plane; ranges that might become too deep are
        # cut in half instead.
        axis, bin, lefts, cost, plane = -1, 0, 0, np.float32(INF), NO_PLANE
        n = binning.bins_for(count)
        scale = record.scales(centres, np.float32(n))
        if count > group and subtrees.may_choose(count, depth, deepest):
            binning.fill_bins(records, first, last, centres, scale, n, bins)
            used_bins = binning.used_bins(scale, n)
            cost, axis, bin, lefts = binning.best_split(bins, BINS, used_bins, group_bits, sides)
            if axis >= 0:
                binning.bound_halves(bins, n, axis, bin, halves)
            if spatial is not None:
                if limit > end:
                    span = first, last, limit - begin
                    cost, plane = cheaper_plane(
                        spatial, records, span, box, halves, (cost, axis), sides
                    )
        if _leaf_is_cheaper(count, box, cost, limits):
            _put_leaf(records, here, begin, end, node, links, order)
            done[0] += count
            continue
        # Split. Each side gets a share of the unused capacity, the rows up to `limit`.
        if spatial is not None and plane[0] >= 0:
            lefts, rights = plane[2], plane[3]
            middle = begin + lefts + (limit - begin - lefts - rights) * lefts // (lefts + rights)
            rows = there + begin, there + middle
            lefts, rights = split_at_plane(spatial, records, first, last, plane, rows, box, halves)
            side = 1 - side
        elif axis >= 0:
            rights = count - lefts
            middle = begin + lefts + (limit - end) * lefts // count
            low = record.lane_of(pending_boxes, 2 * height + 1, axis)
            split = axis, bin, low, simd.lane(scale, np.int32(axis))
            binning.move(records, first, last, split, there + begin, there + middle, halves)
            side = 1 - side
        else:
            binning.cut_in_half(records, first, last, halves)
            lefts = count >> 1
            rights = count - lefts
            middle = begin + lefts
        child = used
        used += 2
        link_inner(links, node, child)
        record.store_bounds(bounds, child, record.load(halves, LEFT))
        record.store_bounds(bounds, child + 1, record.load(halves, RIGHT))
        # The smaller half is pushed last and so built first: few ranges are pending.
        for k in range(2):
            is_right = np.int64((k == 0) == (lefts <= rights))
            low, stop = (middle, limit) if is_right else (begin, middle)
            high = low + (rights if is_right else lefts)
            if high - low <= group:
                _put_leaf(records, side * half, low, high, child + is_right, links, order)
                done[0] += high - low
                continue
            set_range(pending, height, (child + is_right, low, high, depth + 1, side, stop))
            record.store(pending_boxes, 2 * height, record.load(halves, LEFT + is_right))
            centres = record.load(halves, LEFT_CENTRES + is_right)
            record.store(pending_boxes, 2 * height + 1, centres)
            height += 1
    return used


def subtree_builder(
    records: NDArray[np.float32], limits: Limits, new_spatial: Callable[[], object] = lambda: None
) -> subtrees.BuildSubtrees:
    """Return the function that builds a run of subtrees, as `subtrees.build_tasks` calls it."""
    # `new_spatial` makes the `space.Spatial` of a thread, or None for no spatial splits.
    shelf = Shelf(lambda: (new_spatial(), new_scratch()))

    def build(
        tasks: NDArray[np.int64], used: int, block: subtrees.SubtreeNodes,
        state: subtrees.BuildState,
    ) -> int:  # fmt: skip
        """Build the subtrees of tasks into a block of nodes; return the number of its nodes."""
        with shelf.scratch() as (spatial, scratch):
            arguments = records, spatial, tasks, used, block, limits, state, scratch
            return int(build_subtrees(*arguments))

    return build


def build(
    records: NDArray[np.float32], boxes: NDArray[np.float32] | None = None, *, threads: int = 1,
    progress: Progress | None = None, group_bits: int = GROUP_BITS, max_leaf: int = MAX_LEAF,
) -> Nodes:  # fmt: skip
    """Build a tree over the first half of `records`, (2 n, 8); both halves are overwritten.

    `boxes` (2, 8) are the box of all records and that of their doubled centres, if they are known.
    The tree does not depend on the number of threads. A leaf costs one for each started group of
    1 << group_bits records, and has at most `max_leaf`. `progress` gets (primitives done, all) up
    to twenty times a second.
    """
    count = len(records) // 2
    if count == 0:
        return subtrees.no_nodes()
    deepest = subtrees.deepest_level(count)
    boxes = bound_all(records, count, threads) if boxes is None else boxes
    links, tasks = split_top(records, boxes, deepest, group_bits, threads)
    order = aligned(count, np.int32)
    subtree = subtree_builder(records, Limits(deepest, group_bits, max_leaf))
    return subtrees.build_tasks(links, tasks, order, subtree, threads, progress)
