"""Grid of cells: the top of a tree over many records, split between cells in two passes.

One pass counts and bounds the records of each cell, so that ranges of cells can be split between
any two layers of cells, by the surface area heuristic, without touching a record. A second pass
moves each record to its range. Level by level, each record would be counted and moved each time.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.threads import Shelf, share
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import bound, sweep
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, RANGE_WIDTH, SIDE
from bvh.tree.nodes import link_inner

# Fewer records are split level by level.
LEAST = 2 * subtrees.SMALLEST_TASK
# There are up to 2**MOST_BITS cells, that many that each has some 2**RECORD_BITS records.
MOST_BITS = 15
RECORD_BITS = 3
AXIS_BITS = 8
LAYERS = 1 << AXIS_BITS
# Records that a thread takes at a time.
CHUNK = 32768


def halved_axes(extents: NDArray[np.float64], count: int, most: int) -> NDArray[np.int64]:
    """Return the axes across which nearly cubic cells are halved, each `most` times at most."""
    sizes, left, axes = extents.tolist(), [most] * 3, []
    for _ in range(count):
        axis = max(range(3), key=lambda a: sizes[a] if left[a] else -1.0)
        sizes[axis] *= 0.5
        left[axis] -= 1
        axes.append(axis)
    return np.array(axes, np.int64)


@entry
def _fill_cells(records, begin, end, boxes, bits, cells, cell_boxes, counts):
    """Write the cell of each record of a range, and add them to the counts and boxes of cells."""
    box = record.load(boxes, 1)
    scale = record.scales(box, np.float32(LAYERS))
    shifts = AXIS_BITS - bits[0], AXIS_BITS - bits[1], AXIS_BITS - bits[2]
    for i in range(begin, end):
        r = record.load(records, i)
        x, y, z = record.bins_of(record.centre(r), box, scale, LAYERS - 1)
        cell = (x >> shifts[0] << bits[1] | y >> shifts[1]) << bits[2] | z >> shifts[2]
        cells[i] = cell
        counts[cell] += 1
        record.add(cell_boxes, cell, r)


@inlined
def _layer(cell, axis, bits):
    """Return the layer along an axis that a cell is in."""
    if axis == 0:
        return cell >> (bits[1] + bits[2])
    if axis == 1:
        return (cell >> bits[2]) & ((1 << bits[1]) - 1)
    return cell & ((1 << bits[2]) - 1)


@entry
def _split_cells(boxes, counts, bits, limits, links, ranges, range_of, scratch):
    """Split cells into ranges of up to `grain` records, or one cell; return (nodes, ranges)."""
    # `limits` are (grain, deepest level, group bits). `range_of` tells the range of each cell.
    grain, deepest, group_bits = limits
    order, pending, layers, layer_counts, costs = scratch
    used_cells, total = 0, 0
    for cell in range(len(counts)):
        if counts[cell] > 0:
            order[used_cells] = cell
            used_cells += 1
            total += counts[cell]
    pending[0, NODE], pending[0, BEGIN], pending[0, END], pending[0, DEPTH] = 0, 0, used_cells, 0
    pending[0, LIMIT] = total
    waiting, used, found = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth, total = pending[waiting, DEPTH], pending[waiting, LIMIT]
        best, best_axis, best_layer, best_count = np.float32(INF), -1, 0, 0
        if total > grain and end - begin > 1 and subtrees.may_choose(total, depth, deepest):
            for axis in range(3):
                size = 1 << bits[axis]
                for k in range(size):
                    layer_counts[k] = 0
                    record.store(layers, k, record.nothing())
                for i in range(begin, end):
                    cell = np.int64(order[i])
                    k = _layer(cell, axis, bits)
                    layer_counts[k] += counts[cell]
                    record.add(layers, k, record.load(boxes, cell))
                cost, k, count = sweep(layers, layer_counts, 0, size, group_bits, costs)
                if cost < best:
                    best, best_axis, best_layer, best_count = cost, axis, k, count
        if best_axis < 0:
            for i in range(begin, end):
                range_of[order[i]] = found
            ranges[found, NODE], ranges[found, DEPTH], ranges[found, END] = node, depth, total
            found += 1
            continue
        low, high = begin, end
        while low < high:
            cell = np.int64(order[low])
            if _layer(cell, best_axis, bits) <= best_layer:
                low += 1
            else:
                high -= 1
                order[low], order[high] = order[high], order[low]
        link_inner(links, node, used)
        # The left side is next.
        for k in range(2):
            at = waiting + 1 - k
            pending[at, NODE], pending[at, DEPTH] = used + k, depth + 1
            pending[at, BEGIN], pending[at, END] = (low, end) if k else (begin, low)
            pending[at, LIMIT] = total - best_count if k else best_count
        waiting += 2
        used += 2
    return used, found


@entry
def _count_ranges(cells, begin, end, range_of, counts):
    """Count the records of each range among the records begin..end."""
    counts[:] = 0
    for i in range(begin, end):
        counts[range_of[cells[i]]] += 1


@entry
def _move_to_ranges(records, cells, begin, end, range_of, rows):
    """Move the records begin..end to the next row of their range."""
    for i in range(begin, end):
        r = range_of[cells[i]]
        record.store(records, rows[r], record.load(records, i))
        rows[r] += 1


@entry
def _bound_ranges(records, ranges, begin, end, boxes):
    """Write the boxes of the centres of the ranges begin..end, and those of their records."""
    half = len(records) >> 1
    for i in range(begin, end):
        shift = ranges[i, SIDE] * half
        bound(records, shift + ranges[i, BEGIN], shift + ranges[i, END], boxes, 2 * i, 2 * i + 1)


def split_by_cells(
    records: NDArray[np.float32], boxes: NDArray[np.float32], limits: tuple[int, int, int],
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Split all records, whose box and that of their centres are `boxes`, into ranges."""
    # `limits` are the records of a range that need not be split, the deepest level and the bits of
    # a group. Returns the links of the nodes above the ranges, (t, 2), the ranges (see `subtrees`),
    # and the box of each and that of its centres, (k, 2, 8).
    half = len(records) // 2
    extents = boxes[1, record.UPPER : record.UPPER + 3].astype(np.float64) + boxes[1, :3]
    count_bits = min(half.bit_length() - RECORD_BITS, MOST_BITS)
    bits = np.bincount(halved_axes(extents, count_bits, AXIS_BITS), minlength=3)
    size = 1 << int(bits.sum())
    cells, shelf = aligned(half, np.uint16), Shelf(lambda: _new_cells(size))

    def fill(begin: int, end: int) -> None:
        with shelf.scratch() as (cell_boxes, counts):
            _fill_cells(records, begin, end, boxes, bits, cells, cell_boxes, counts)

    share(half, CHUNK, fill, threads)
    cell_boxes, cell_counts = _new_cells(size)
    for some_boxes, counts in shelf.pieces():
        np.maximum(cell_boxes, some_boxes, out=cell_boxes)
        cell_counts += counts
    # On each level fewer than half / grain ranges are split, each into two.
    most = min(2 * (half // limits[0] + 1) * (subtrees.deepest_level(half) + 1), 2 * size)
    links, ranges = np.zeros((most, 2), np.int32), np.zeros((most, RANGE_WIDTH), np.int64)
    range_of = np.empty(size, np.int32)
    scratch = (
        np.empty(size, np.int32), np.empty((128, RANGE_WIDTH), np.int64),
        np.empty((LAYERS, record.WIDTH), np.float32), np.empty(LAYERS, np.int64),
        np.empty(LAYERS, np.float32),
    )  # fmt: skip
    used, found = _split_cells(
        cell_boxes, cell_counts, bits, limits, links, ranges, range_of, scratch
    )
    ranges, range_boxes = ranges[:found], np.empty((2 * found, record.WIDTH), np.float32)
    ranges[:, END] = np.cumsum(ranges[:, END])
    ranges[1:, BEGIN] = ranges[:-1, END]
    ranges[:, LIMIT], ranges[:, SIDE] = ranges[:, END], 1
    rows = np.empty((-(-half // CHUNK), found), np.int64)

    def count(begin: int, end: int) -> None:
        _count_ranges(cells, begin, end, range_of, rows[begin // CHUNK])

    def move(begin: int, end: int) -> None:
        _move_to_ranges(records, cells, begin, end, range_of, rows[begin // CHUNK])

    share(half, CHUNK, count, threads)
    rows[:] = np.cumsum(rows, axis=0) - rows + half + ranges[:, BEGIN]
    share(half, CHUNK, move, threads)
    share(
        found, found // (4 * threads) + 1,
        lambda begin, end: _bound_ranges(records, ranges, begin, end, range_boxes), threads,
    )  # fmt: skip
    return links[:used], ranges, range_boxes.reshape(-1, 2, record.WIDTH)


def _new_cells(size: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the boxes and counts of cells without records."""
    return np.full((size, record.WIDTH), -np.inf, np.float32), np.zeros(size, np.int32)
