"""The top of a tree over many records, split between the cells of a grid; threads share the passes.

One pass counts and bounds the records of each cell, so that ranges of cells can be split between
any two layers of cells, by the surface area heuristic, without touching a record. A second pass
moves each record to its range, where splits level by level would move it on each level.
A cell with too many records for one thread gets a grid of its own.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.memory import Shelf, aligned
from bvh.runtime.threads import share
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import best_split, bound, new_sides
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, RANGE_WIDTH, SIDE
from bvh.tree.nodes import link_inner

AXIS_BITS = 8
LAYERS = 1 << AXIS_BITS
# Records, and cells, that a thread takes at a time.
CHUNK = 32768
CELLS = 4096


def _cell_bits(count: int) -> int:
    """Return the bits of the numbers of cells of a grid for `count` records."""
    # There is about one cell for 4 records; from 2**15 cells on for 16 records. At most 16 bits.
    bits = count.bit_length()
    return min(bits - 2, max(15, bits - 4), 16)


def _bits_of_axes(box: NDArray[np.float32], total: int) -> NDArray[np.int64]:
    """Return bits (3,) of a grid of 2**total nearly cubic cells that divides `box`, a record."""
    # The grid has 1 << bits[k] layers across axis k.
    sizes = (box[record.UPPER : record.UPPER + 3].astype(np.float64) + box[:3]).tolist()
    bits = [0] * 3
    for _ in range(total):
        # Halve the cells on their longest axis.
        axis = max(range(3), key=lambda a: sizes[a] if bits[a] < AXIS_BITS else -1.0)
        sizes[axis] *= 0.5
        bits[axis] += 1
    return np.array(bits, np.int64)


@entry
def _bound_chunk(records, begin, end, boxes):
    """Write the box of records begin..end to boxes[0], and that of their centres to boxes[1]."""
    bound(records, begin, end, boxes, 0, 1)


def bound_all(records: NDArray[np.float32], count: int, threads: int) -> NDArray[np.float32]:
    """Return the box of the first `count` records, and that of their doubled centres, (2, 8)."""
    boxes = np.empty((-(-count // CHUNK), 2, record.WIDTH), np.float32)
    share(
        count, CHUNK,
        lambda begin, end: _bound_chunk(records, begin, end, boxes[begin // CHUNK]), threads,
    )  # fmt: skip
    return np.asarray(boxes.max(axis=0))


@entry
def _fill_cells(records, begin, end, boxes, bits, cells, cell_bins):
    """Write the cell of each record in begin..end to `cells`, and put it into the cell's bin.

    The grid divides boxes[1], the box of the centres of all records, into 1 << bits[k] layers
    across axis k. The number of a cell has the bits of its layer on x first, then those on y and z.
    """
    box = record.load(boxes, 1)
    scale = record.scales(box, np.float32(LAYERS))
    shifts = AXIS_BITS - bits[0], AXIS_BITS - bits[1], AXIS_BITS - bits[2]
    for i in range(begin, end):
        r = record.load(records, i)
        x, y, z = record.bins_of(record.centre(r), box, scale)
        cell = (x >> shifts[0] << bits[1] | y >> shifts[1]) << bits[2] | z >> shifts[2]
        cells[i] = cell
        record.put(cell_bins, cell, r)


@inlined
def _layer(cell, axis, bits):
    """Return the layer across an axis of a cell, whose bits are those of its x, y and z layers."""
    if axis == 0:
        return cell >> (bits[1] + bits[2])
    if axis == 1:
        return (cell >> bits[2]) & ((1 << bits[1]) - 1)
    return cell & ((1 << bits[2]) - 1)


@entry
def _split_cells(cell_bins, bits, limits, links, ranges, range_of, scratch):
    """Split cells into ranges of up to `grain` records, or of one cell.

    Returns the number of nodes, whose `links` are written down to the ranges, and that of ranges.
    `limits` are (grain, depth of the root, deepest level, group bits). `ranges` gets the columns
    NODE and DEPTH of each range, and in END its number of records; `range_of` the range of each
    cell. A range that might become too deep is not split further.
    """
    # Pending ranges: BEGIN..END are positions in `order`, a list of all cells that have records,
    # and LIMIT is the number of records.
    grain, level, deepest, group_bits = limits
    order, pending, layers, sides = scratch
    used_cells, total = 0, 0
    for cell in range(len(cell_bins)):
        count = record.count_of(record.load(cell_bins, cell))
        if count > 0:
            order[used_cells] = cell
            used_cells += 1
            total += count
    subtrees.set_range(pending, 0, (0, 0, used_cells, level, 0, total))
    waiting, used, n = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        node, begin, end, depth, _, total = subtrees.range_at(pending, waiting)
        best_axis, best_layer, best_count = -1, 0, 0
        if total > grain and end - begin > 1 and subtrees.may_choose(total, depth, deepest):
            for axis in range(3):
                for k in range(axis * LAYERS, axis * LAYERS + (1 << bits[axis])):
                    record.store(layers, k, record.empty_bin())
            for i in range(begin, end):
                cell = np.int64(order[i])
                bin = record.load(cell_bins, cell)
                for axis in range(3):
                    k = axis * LAYERS + _layer(cell, axis, bits)
                    record.store(layers, k, record.join_bins(record.load(layers, k), bin))
            used_layers = 1 << bits[0], 1 << bits[1], 1 << bits[2]
            _, best_axis, best_layer, best_count = best_split(
                layers, LAYERS, used_layers, group_bits, sides
            )
        if best_axis < 0:
            for i in range(begin, end):
                range_of[order[i]] = n
            ranges[n, NODE], ranges[n, DEPTH], ranges[n, END] = node, depth, total
            n += 1
            continue
        # Partition the cells: those on the left side first.
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
        subtrees.set_range(pending, waiting, (used + 1, low, end, depth + 1, 0, total - best_count))
        subtrees.set_range(pending, waiting + 1, (used, begin, low, depth + 1, 0, best_count))
        waiting += 2
        used += 2
    return used, n


@entry
def _move_to_ranges(records, cells, begin, end, range_of, rows, out):
    """Move each of the records begin..end to `out`, to the next row of its range."""
    # `rows` has the next row of each range, and is advanced.
    for i in range(begin, end):
        k = range_of[cells[i]]
        record.store(out, rows[k], record.load(records, i))
        rows[k] += 1


def _split_by_cells(
    records: NDArray[np.float32], out: NDArray[np.float32], boxes: NDArray[np.float32],
    limits: tuple[int, int, int, int], threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:  # fmt: skip
    """Split records by the cells of a grid, and move them to `out`; return None if nothing splits.

    `boxes` are the box of all and that of their centres; `limits` are as in `_split_cells`. Returns
    the links of nodes, the root first, and the ranges below them (see `subtrees`), whose rows count
    from the first record.
    """
    n = len(records)
    bits = _bits_of_axes(boxes[1], _cell_bits(n))
    size = 1 << int(bits.sum())
    cells, shelf = aligned(n, np.uint16), Shelf(lambda: _new_cells(size))

    def fill(begin: int, end: int) -> None:
        with shelf.scratch() as cell_bins:
            _fill_cells(records, begin, end, boxes, bits, cells, cell_bins)

    share(n, subtrees.chunk_size(CHUNK, threads), fill, threads)
    cell_bins, *others = shelf.pieces()

    def add(begin: int, end: int) -> None:
        joined = cell_bins[begin:end]
        for bins in others:
            counts = record.counts(joined) + record.counts(bins[begin:end])
            np.maximum(joined, bins[begin:end], out=joined)
            record.counts(joined)[:] = counts

    share(size, CELLS, add, threads)
    # On each level fewer than n / grain ranges are split, each into two.
    most = min(2 * (n // limits[0] + 1) * (limits[2] + 1), 2 * size)
    links, columns = np.zeros((most, 2), np.int32), np.zeros((most, RANGE_WIDTH), np.int64)
    range_of = np.empty(size, np.int32)
    scratch = (
        np.empty(size, np.int32), np.empty((128, RANGE_WIDTH), np.int64),
        record.new(3 * LAYERS), new_sides(LAYERS),
    )  # fmt: skip
    used, ranges = _split_cells(cell_bins, bits, limits, links, columns, range_of, scratch)
    if ranges == 1:
        return None
    columns = columns[:ranges]
    ends = np.cumsum(columns[:, END])
    columns[1:, BEGIN], columns[:, END] = ends[:-1], ends
    # The chunks that threads move, and the row of each range for the first of a chunk's records.
    size = n if threads == 1 else CHUNK
    rows = np.empty((-(-n // size), ranges), np.int64)

    def count(begin: int, end: int) -> None:
        found = range_of.take(cells[begin:end])
        rows[begin // size] = np.bincount(found, minlength=ranges)

    def move(begin: int, end: int) -> None:
        _move_to_ranges(records, cells, begin, end, range_of, rows[begin // size], out)

    if len(rows) == 1:
        rows[0] = columns[:, BEGIN]
    else:
        share(n, size, count, threads)
        rows[:] = np.cumsum(rows, axis=0) - rows + columns[:, BEGIN]
    share(n, size, move, threads)
    return links[:used], columns


def _new_cells(size: int) -> NDArray[np.float32]:
    """Return the bins of cells without records."""
    bins = record.new(size)
    bins[:] = -np.inf
    bins[:, record.COUNT] = 0.0
    return bins


def split_top(
    records: NDArray[np.float32], boxes: NDArray[np.float32], deepest: int, group_bits: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:  # fmt: skip
    """Split all records into ranges that are small enough for one thread.

    The first half of `records` holds them; a split moves a range to the other half. `boxes` (2, 8)
    are the box of all and that of their centres. Returns the links of the nodes above the ranges,
    (t, 2), and the ranges as tasks (see `subtrees`). Ranges that no grid splits stay large.
    `deepest` is the deepest level that a tree may have; a side of a split costs its half area for
    each started group of 1 << group_bits records.
    """
    half = len(records) // 2
    run = subtrees.task_size(half)
    grain = max(run // subtrees.RANGES, subtrees.SMALLEST_RANGE)
    links = np.zeros((1, 2), np.int32)
    tasks, waiting = list[NDArray[np.int64]](), [np.array([0, 0, half, 0, 0, half], np.int64)]
    while waiting:
        task = waiting.pop()
        begin, end, side = task[BEGIN], task[END], task[SIDE]
        ranges = None
        if end - begin > run:
            here, there = side * half, (1 - side) * half
            some, out = records[here + begin : here + end], records[there + begin : there + end]
            # The boxes of all records are known.
            if end - begin < half:
                boxes = bound_all(some, len(some), threads)
            ranges = _split_by_cells(
                some, out, boxes, (grain, int(task[DEPTH]), deepest, group_bits), threads,
            )  # fmt: skip
        if ranges is None:
            tasks.append(task[None])
            continue
        # Append the new nodes, but for their root, which is the node of the task.
        (range_links, columns), shift = ranges, len(links) - 1
        below = np.where(range_links > 0, range_links + shift, 0).astype(np.int32)
        links[task[NODE]] = below[0]
        links = np.concatenate([links, below[1:]])
        columns[:, NODE] += shift
        columns[:, [BEGIN, END]] += begin
        columns[:, LIMIT], columns[:, SIDE] = columns[:, END], 1 - side
        is_large = columns[:, END] - columns[:, BEGIN] > run
        tasks.append(columns[~is_large])
        waiting.extend(columns[is_large])
    return links, np.concatenate(tasks)
