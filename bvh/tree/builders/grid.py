"""The top of a tree over many records, split between the cells of a grid; threads share the passes.

One pass counts and bounds the records of each cell, so that ranges of cells can be split between
any two layers of cells, by the surface area heuristic, without touching a record. A second pass
moves each record to its range. Level by level, each record would be counted and moved each time.
A cell with too many records for one thread gets a grid of its own.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import aligned
from bvh.runtime.calls.entries import entry
from bvh.runtime.threads import Shelf, share
from bvh.tree.builders import cells as grid_cells
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import bound
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, RANGE_WIDTH, SIDE

# There are up to 2**MOST_BITS cells, so that each has about 2**RECORD_BITS records.
RECORD_BITS = 3
# Records that a thread takes at a time.
CHUNK = 32768


@entry
def _bits_of_axes(boxes, count):
    """Return how often a grid with 2**count cells halves each axis; the second box is divided."""
    return grid_cells.bits_of_axes(record.load(boxes, 1), count)


@entry
def bound_chunk(records, begin, end, boxes):
    """Write the box of a range of records and that of their centres."""
    bound(records, begin, end, boxes, 0, 1)


def bound_all(records: NDArray[np.float32], count: int, threads: int) -> NDArray[np.float32]:
    """Return the box of all records and that of their centres."""
    boxes = np.empty((-(-count // CHUNK), 2, record.WIDTH), np.float32)
    share(
        count, CHUNK,
        lambda begin, end: bound_chunk(records, begin, end, boxes[begin // CHUNK]), threads,
    )  # fmt: skip
    return np.asarray(boxes.max(axis=0))


@entry
def _fill_cells(records, begin, end, boxes, bits, cells, bins):
    """Write the cell of each record of a range, and put it into the bin of the cell."""
    centres = record.load(boxes, 1)
    scale = record.scales(centres, np.float32(grid_cells.LAYERS))
    shifts = grid_cells.shifts_of(bits)
    for i in range(begin, end):
        r = record.load(records, i)
        cell = grid_cells.cell_of(r, centres, scale, shifts)
        cells[i] = cell
        record.put(bins, cell, r)


@entry
def _add_bins(bins, others, begin, end):
    """Add the records of other bins to the bins begin..end."""
    for i in range(begin, end):
        record.store(bins, i, record.join_bins(record.load(bins, i), record.load(others, i)))


@entry
def _list_used(bins, codes, order):
    """List the cells that have records in `order`; return their number. `codes` are all cells."""
    used = 0
    for cell in range(len(bins)):
        codes[cell] = cell
        if record.count_of(record.load(bins, cell)) > 0:
            order[used] = cell
            used += 1
    return used


@entry
def _count_ranges(cells, begin, end, range_of, counts):
    """Count the records of each range among the records begin..end."""
    counts[:] = 0
    for i in range(begin, end):
        counts[range_of[cells[i]]] += 1


@entry
def _move_to_ranges(records, cells, begin, end, range_of, rows, out):
    """Move the records begin..end to the next row of their range in `out`."""
    for i in range(begin, end):
        r = range_of[cells[i]]
        record.store(out, rows[r], record.load(records, i))
        rows[r] += 1


@entry
def _bound_ranges(records, ends, begin, end, boxes):
    """Write the boxes of the records of the ranges begin..end, and those of their centres."""
    for i in range(begin, end):
        bound(records, ends[i - 1] if i > 0 else 0, ends[i], boxes, 2 * i, 2 * i + 1)


def _split_by_cells(
    records: NDArray[np.float32], out: NDArray[np.float32], boxes: NDArray[np.float32],
    limits: tuple[int, int, int, int], threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]] | None:  # fmt: skip
    """Split records, whose box and that of their centres are `boxes`, and move them to `out`."""
    # Returns the links of nodes, of which 0 is the root; the ranges below them (see `subtrees`),
    # whose rows count from that of the first record; and the records of the box of each and that of
    # its centres. None, and nothing moves, if there is no split. For limits see `_split_cells`.
    n = len(records)
    bits = _bits_of_axes(boxes, min(n.bit_length() - RECORD_BITS, grid_cells.MOST_BITS))
    size = 1 << sum(bits)
    cells, shelf = aligned(n, np.uint16), Shelf(lambda: _new_cells(size))

    def fill(begin: int, end: int) -> None:
        with shelf.scratch() as bins:
            _fill_cells(records, begin, end, boxes, bits, cells, bins)

    def add(begin: int, end: int) -> None:
        for some in others:
            _add_bins(bins, some, begin, end)

    share(n, CHUNK, fill, threads)
    bins, others = _new_cells(size), shelf.pieces()
    share(size, CHUNK, add, threads)
    # On each level fewer than n / grain ranges are split, each into two.
    grain, depth, deepest, group_bits = limits
    most = min(2 * (n // grain + 1) * (deepest + 1), size)
    bounds, links = np.empty((2 * most, 6), np.float32), np.zeros((2 * most, 2), np.int32)
    columns, range_of = np.zeros((most, RANGE_WIDTH), np.int64), np.empty(size, np.int32)
    codes, splitting = np.empty(size, np.uint16), grid_cells.new_splitting(size)
    listed = bins, codes, _list_used(bins, codes, splitting.order)
    used, ranges = grid_cells.split_cells(
        listed, bits, (grain, deepest, group_bits), (bounds, links), (0, depth, n, 1), columns,
        range_of, splitting,
    )  # fmt: skip
    if ranges == 1:
        return None
    columns, range_boxes = columns[:ranges], np.empty((ranges, 2, record.WIDTH), np.float32)
    ends = np.cumsum(columns[:, END])
    columns[1:, BEGIN], columns[:, END] = ends[:-1], ends
    rows = np.empty((-(-n // CHUNK), ranges), np.int64)

    def count(begin: int, end: int) -> None:
        _count_ranges(cells, begin, end, range_of, rows[begin // CHUNK])

    def move(begin: int, end: int) -> None:
        _move_to_ranges(records, cells, begin, end, range_of, rows[begin // CHUNK], out)

    share(n, CHUNK, count, threads)
    rows[:] = np.cumsum(rows, axis=0) - rows + columns[:, BEGIN]
    share(n, CHUNK, move, threads)
    flat = range_boxes.reshape(-1, record.WIDTH)
    share(
        ranges, ranges // (4 * threads) + 1,
        lambda begin, end: _bound_ranges(out, ends, begin, end, flat), threads,
    )  # fmt: skip
    return links[:used], columns, range_boxes


def _new_cells(size: int) -> NDArray[np.float32]:
    """Return the bins of cells without records."""
    bins = record.new(size)
    bins[:, : record.COUNT], bins[:, record.COUNT] = -np.inf, 0.0
    return bins


def split_top(
    records: NDArray[np.float32], boxes: NDArray[np.float32], deepest: int, group_bits: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Split all records into ranges that are small enough for one thread."""
    # `boxes` are those of all records and of their centres. Returns the links of the nodes above
    # those ranges, (t, 2); the ranges as tasks (see `subtrees`); and the records of the box of each
    # and that of its centres, (k, 2, 8). Ranges that no grid splits stay large.
    half = len(records) // 2
    grain = subtrees.task_size(half)
    links, tasks, task_boxes = np.zeros((1, 2), np.int32), [], []
    waiting = [(np.array([0, 0, half, 0, 0, half], np.int64), boxes)]
    while waiting:
        task, boxes = waiting.pop()
        begin, end, side = task[BEGIN], task[END], task[SIDE]
        ranges = None
        if end - begin > grain:
            here, there = side * half, (1 - side) * half
            ranges = _split_by_cells(
                records[here + begin : here + end], records[there + begin : there + end], boxes,
                (grain, int(task[DEPTH]), deepest, group_bits), threads,
            )  # fmt: skip
        if ranges is None:
            tasks.append(task)
            task_boxes.append(boxes)
            continue
        # The root of the ranges is the node of the task; their other nodes come after all others.
        (range_links, columns, range_boxes), shift = ranges, len(links) - 1
        below = np.where(range_links > 0, range_links + shift, 0).astype(np.int32)
        links[task[NODE]] = below[0]
        links = np.concatenate([links, below[1:]])
        columns[:, NODE] += shift
        columns[:, [BEGIN, END]] += begin
        columns[:, LIMIT], columns[:, SIDE] = columns[:, END], 1 - side
        waiting.extend(zip(columns[::-1], range_boxes[::-1], strict=True))
    return links, np.array(tasks), np.array(task_boxes)
