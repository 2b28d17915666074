"""Cells of a grid over a range of records, to split it several times in two passes.

One pass puts the records into the cells that their centres are in, so that ranges of cells can be
split between any two layers of cells, by the surface area heuristic, without touching a record. A
second pass moves each record to its range. Level by level, each record would be put into bins and
moved each time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.tree.builders import records as record
from bvh.tree.builders import subtrees
from bvh.tree.builders.bins import sweep
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, RANGE_WIDTH, SIDE
from bvh.tree.nodes import link_inner

# A grid has up to 2**MOST_BITS cells, in up to LAYERS layers across each axis.
MOST_BITS, AXIS_BITS = 15, 8
LAYERS = 1 << AXIS_BITS
# A thread splits ranges of more than LEAST records by a grid of its own, with about CELLS cells for
# each record, into ranges of up to GRAIN records, but not into more than MOST_RANGES.
LEAST, CELL_BITS, GRAIN, MOST_RANGES = 2048, 1, 128, 256
# Columns of pending ranges of cells besides those of `subtrees`: the lowest and the highest layers.
LOW, HIGH = RANGE_WIDTH, RANGE_WIDTH + 1


class Splitting(NamedTuple):
    """Scratch to split ranges of cells."""

    order: NDArray[np.int32]  # bins of cells; pending ranges are positions in it
    pending: NDArray[np.int64]
    layers: NDArray[np.float32]  # a bin for each layer across each axis
    costs: NDArray[np.float32]


class Grid(NamedTuple):
    """Scratch of a thread for grids of its own."""

    cells: NDArray[np.uint16]  # the bin of each record
    numbers: NDArray[np.uint16]  # one more than the bin of each cell; 0 for none
    codes: NDArray[np.uint16]  # the cell of each bin
    bins: NDArray[np.float32]
    ranges: NDArray[np.int64]
    range_of: NDArray[np.int32]  # of each bin
    splitting: Splitting


def new_splitting(cells: int) -> Splitting:
    """Return scratch to split up to `cells` cells."""
    return Splitting(
        np.empty(cells, np.int32), np.empty((128, RANGE_WIDTH + 2), np.int64),
        record.new(3 * LAYERS), np.empty(LAYERS, np.float32),
    )  # fmt: skip


def new_grid(count: int) -> Grid:
    """Return scratch for grids over up to `count` records."""
    count = count if count > LEAST else 0
    cells = min(count, 1 << MOST_BITS)
    return Grid(
        np.empty(count, np.uint16), np.empty(1 << MOST_BITS, np.uint16), np.empty(cells, np.uint16),
        record.new(cells), np.empty((MOST_RANGES, RANGE_WIDTH), np.int64),
        np.empty(cells, np.int32), new_splitting(cells),
    )  # fmt: skip


@inlined
def bits_of_axes(centres, count):
    """Return how often a box is halved across each axis for 2**count nearly cubic cells."""
    x, y, z = record.sizes(centres)
    a, b, c = 0, 0, 0
    for _ in range(count):
        if x >= y and x >= z:
            a, x = a + 1, x * np.float32(0.5) if a < AXIS_BITS - 1 else np.float32(-1.0)
        elif y >= z:
            b, y = b + 1, y * np.float32(0.5) if b < AXIS_BITS - 1 else np.float32(-1.0)
        else:
            c, z = c + 1, z * np.float32(0.5) if c < AXIS_BITS - 1 else np.float32(-1.0)
    return a, b, c


@inlined
def cell_of(r, centres, scale, shifts):
    """Return the cell of a record, with the layer across x in its highest bits."""
    x, y, z = record.bins_of(record.centre(r), centres, scale, np.int32(LAYERS - 1))
    return (x >> shifts[0] << shifts[1]) | (y >> shifts[2] << shifts[3]) | z >> shifts[4]


@inlined
def shifts_of(bits):
    """Return what `cell_of` shifts layers of LAYERS by."""
    return (
        AXIS_BITS - bits[0], bits[1] + bits[2], AXIS_BITS - bits[1], bits[2], AXIS_BITS - bits[2]
    )  # fmt: skip


@inlined
def _shift(axis, bits):
    """Return where the layer along an axis begins in the number of a cell."""
    return bits[1] + bits[2] if axis == 0 else (bits[2] if axis == 1 else 0)


# The layer along an axis that a cell is in.
_layer = inlined(lambda cell, axis, bits: cell >> _shift(axis, bits) & ((1 << bits[axis]) - 1))


@inlined
def _with_layer(cell, axis, bits, layer):
    """Return the cell in another layer along an axis."""
    return cell + ((layer - _layer(cell, axis, bits)) << _shift(axis, bits))


@inlined
def _add_to_layer(layers, k, bin):
    record.store(layers, k, record.join_bins(record.load(layers, k), bin))


@inlined
def _fill_layers(layers, bins, codes, order, begin, end, low, high, bits):
    """Join the bins of cells in each layer, of the layers from `low` to `high` across each axis."""
    for axis in range(3):
        first = axis * LAYERS
        lowest, highest = _layer(low, axis, bits), _layer(high, axis, bits)
        for k in range(first + lowest, first + highest + 1):
            record.store(layers, k, record.empty_bin())
    for i in range(begin, end):
        c = np.int64(order[i])
        code, bin = np.int64(codes[c]), record.load(bins, c)
        _add_to_layer(layers, _layer(code, 0, bits), bin)
        _add_to_layer(layers, LAYERS + _layer(code, 1, bits), bin)
        _add_to_layer(layers, 2 * LAYERS + _layer(code, 2, bits), bin)


@entry
def split_cells(cells, bits, limits, nodes, start, ranges, range_of, splitting):
    """Split cells into ranges of up to `grain` records, or one cell; return (nodes, ranges)."""
    # `cells` are (bins, codes, number of those in `order`), `limits` (grain, deepest level, group
    # bits), `nodes` (bounds, links), and `start` the root with its box, its depth, all records, and
    # the first row for nodes below. `ranges` get their number of records as END; there are no more
    # of them than rows. `range_of` gets the range of each bin.
    bins, codes, used_cells = cells
    grain, deepest, group_bits = limits
    bounds, links = nodes
    root, depth, total, used = start
    order, pending, layers, costs = splitting
    pending[0, NODE], pending[0, BEGIN], pending[0, END] = root, 0, used_cells
    pending[0, DEPTH], pending[0, LIMIT] = depth, total
    pending[0, LOW], pending[0, HIGH] = 0, (1 << (bits[0] + bits[1] + bits[2])) - 1
    waiting, n = 1, 0
    while waiting > 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth, total = pending[waiting, DEPTH], pending[waiting, LIMIT]
        low, high = pending[waiting, LOW], pending[waiting, HIGH]
        best, best_axis, best_layer, best_count = np.float32(INF), -1, 0, 0
        may_split = total > grain and end - begin > 1 and n + waiting + 2 <= len(ranges)
        if may_split and subtrees.may_choose(total, depth, deepest):
            _fill_layers(layers, bins, codes, order, begin, end, low, high, bits)
            for axis in range(3):
                lowest, highest = _layer(low, axis, bits), _layer(high, axis, bits)
                first = axis * LAYERS + lowest
                cost, k, count = sweep(layers, first, highest - lowest + 1, group_bits, costs)
                if cost < best:
                    best, best_axis, best_layer, best_count = cost, axis, lowest + k, count
        if best_axis < 0:
            for i in range(begin, end):
                range_of[order[i]] = n
            ranges[n, NODE], ranges[n, DEPTH], ranges[n, END] = node, depth, total
            n += 1
            continue
        left = begin
        shift, mask = _shift(best_axis, bits), (1 << bits[best_axis]) - 1
        for i in range(begin, end):
            cell = order[i]
            order[i], order[left] = order[left], cell
            left += np.int64((np.int64(codes[np.int64(cell)]) >> shift & mask) <= best_layer)
        link_inner(links, node, used)
        # The left side is next.
        for k in range(2):
            at = waiting + 1 - k
            pending[at, NODE], pending[at, DEPTH] = used + k, depth + 1
            pending[at, BEGIN], pending[at, END] = (left, end) if k else (begin, left)
            pending[at, LIMIT] = total - best_count if k else best_count
            pending[at, LOW] = _with_layer(low, best_axis, bits, best_layer + 1) if k else low
            pending[at, HIGH] = high if k else _with_layer(high, best_axis, bits, best_layer)
            box = record.nothing()
            first, last = _layer(pending[at, LOW], best_axis, bits), best_layer
            if k:
                last = _layer(high, best_axis, bits)
            for b in range(best_axis * LAYERS + first, best_axis * LAYERS + last + 1):
                box = record.join(box, record.load(layers, b))
            record.store_bounds(bounds, used + k, box)
        waiting += 2
        used += 2
    return used, n


@inlined
def _number_cells(records, begin, end, centres, bits, grid):
    """Put records into the bins of their cells, which are numbered as they occur."""
    cells, numbers, codes, bins, _, _, splitting = grid
    scale = record.scales(centres, np.float32(LAYERS))
    for cell in range(1 << (bits[0] + bits[1] + bits[2])):
        numbers[cell] = 0
    used, shifts = 0, shifts_of(bits)
    for i in range(begin, end):
        r = record.load(records, i)
        cell = cell_of(r, centres, scale, shifts)
        number = np.int64(numbers[cell])
        if number == 0:
            splitting.order[used] = used
            codes[used] = cell
            record.store(bins, used, record.empty_bin())
            used += 1
            numbers[cell] = number = used
        record.put(bins, number - 1, r)
        cells[i - begin] = number - 1
    return used


@kernel
def split_range(records, start, centres, nodes, used, limits, grid):
    """Split a range by a grid, and move its records to the other half; return (nodes, ranges).

    `start` has the columns of `subtrees`, and `centres` is the box of its centres. The ranges are
    in `grid`. Nothing moves if there is only one.
    """
    count, half = start[END] - start[BEGIN], len(records) >> 1
    here, there = start[SIDE] * half, (1 - start[SIDE]) * half
    cells, _, codes, bins, ranges, range_of, splitting = grid
    levels = 0
    while count >> levels > 0:
        levels += 1
    bits = bits_of_axes(centres, min(levels + CELL_BITS, MOST_BITS))
    begin, end = here + start[BEGIN], here + start[END]
    used_cells = _number_cells(records, begin, end, centres, bits, grid)
    root = start[NODE], start[DEPTH], count, used
    used, n = split_cells(
        (bins, codes, used_cells), bits, limits, nodes, root, ranges, range_of, splitting
    )
    if n == 1:
        return used, n
    row = start[BEGIN]
    for k in range(n):
        # LIMIT is the next row of the range while records move.
        ranges[k, BEGIN], ranges[k, LIMIT], ranges[k, SIDE] = row, there + row, 1 - start[SIDE]
        row += ranges[k, END]
        ranges[k, END] = row
    for i in range(begin, end):
        k = np.int64(range_of[np.int64(cells[i - begin])])
        record.store(records, ranges[k, LIMIT], record.load(records, i))
        ranges[k, LIMIT] += 1
    return used, n
