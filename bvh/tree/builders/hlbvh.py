"""HLBVH builder: cells of the Morton order, with binned SAH above them (Pantaleoni and Luebke 2010,
"HLBVH: hierarchical LBVH construction for real-time ray tracing of dynamic geometry").

A key is a 32-bit code above a 32-bit row. Each bit of the code halves space across the longest
axis of the cell, so that cells are nearly cubes (Vinkler, Bittner and
Havran 2017, "Extended Morton codes for high performance bounding volume hierarchy construction").

A range of the order is cut where the highest differing bit of its codes changes, that is, in the
middle of its cell of space; equal codes are cut in half. This is fast, but ignores the sizes of
primitives, so it is used for cells of a few primitives only. A SAH tree is built over the cells as
if each were one primitive.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import aligned, discard
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.threads import Progress, Shelf, share
from bvh.tree.builders import binned_sah, subtrees
from bvh.tree.builders import records as record
from bvh.tree.builders.bins import GROUP_BITS
from bvh.tree.builders.grid import halved_axes
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, NODE, RANGE_WIDTH, SMALLEST_TASK
from bvh.tree.builders.top_levels import bound_all
from bvh.tree.nodes import Nodes, is_leaf, link_inner, link_leaf

# Primitives that a cell may have.
CELL_BITS = 5
CELL = 1 << CELL_BITS

CODE_BITS = 32
AXIS_BITS = 16
# Digits of the radix sort.
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
# Least number of keys for a thread.
CHUNK = 65536


def bit_tables(extents: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return tables that spread the bits of each axis, and the number of bits of each."""
    # Row 2 a of the tables spreads the low 8 of an axis's 16 bits, row 2 a + 1 the high 8.
    axes = halved_axes(extents, CODE_BITS, AXIS_BITS)
    tables, values = np.zeros((6, 256), np.uint32), np.arange(256)
    for axis in range(3):
        for bit, position in enumerate(CODE_BITS - 1 - np.flatnonzero(axes == axis)[::-1]):
            spread = ((values >> (bit % 8)) & 1).astype(np.uint32) << np.uint32(position)
            tables[2 * axis + bit // 8] |= spread
    return tables, np.bincount(axes, minlength=3)


# The row of a key's record.
row_of = inlined(lambda keys, i: np.int64(keys[i] & np.uint64(0xFFFFFFFF)))


@entry
def _make_keys(records, begin, end, boxes, tables, bits, keys):
    """Write the keys of a range of records; `keys` are those of all records."""
    box = record.load(boxes, 1)
    scale = record.scales(box, np.float32(1 << AXIS_BITS))
    shifts = AXIS_BITS - bits[0], AXIS_BITS - bits[1], AXIS_BITS - bits[2]
    for i in range(begin, end):
        centre = record.centre(record.load(records, i))
        x, y, z = record.bins_of(centre, box, scale, (1 << AXIS_BITS) - 1)
        x, y, z = x >> shifts[0], y >> shifts[1], z >> shifts[2]
        code = tables[0, x & 255] | tables[1, x >> 8]
        code |= tables[2, y & 255] | tables[3, y >> 8]
        code |= tables[4, z & 255] | tables[5, z >> 8]
        keys[i] = (np.uint64(code) << np.uint64(32)) | np.uint64(i)


@entry
def _count_digits(keys, begin, end, shift, counts):
    """Count how often each digit occurs in a range of keys."""
    counts[:] = 0
    for i in range(begin, end):
        counts[np.int64((keys[i] >> shift) & np.uint64(DIGITS - 1))] += 1


@entry
def _first_positions(counts):
    """Replace the counts of each chunk by the positions of its first key of each digit."""
    position = 0
    for digit in range(DIGITS):
        for chunk in range(len(counts)):
            count = counts[chunk, digit]
            counts[chunk, digit] = position
            position += count


@entry
def _scatter(keys, begin, end, shift, positions, out):
    """Move a range of keys to their positions."""
    for i in range(begin, end):
        digit = np.int64((keys[i] >> shift) & np.uint64(DIGITS - 1))
        out[positions[digit]] = keys[i]
        positions[digit] += 1


def in_chunks(
    count: int, smallest: int, threads: int, work: Callable[[int, int, int], object]
) -> int:
    """Call work(chunk, begin, end) for equal chunks, at most one a thread; return their number."""
    size = max(-(-count // threads), smallest)
    share(count, size, lambda begin, end: work(begin // size, begin, end), threads)
    return -(-count // size)


def sorted_keys(
    records: NDArray[np.float32], boxes: NDArray[np.float32], threads: int
) -> NDArray[np.uint64]:
    """Return the keys of the records in the first half of the array in ascending order."""
    # `boxes` are that of all records and that of their centres. The order does not depend on the
    # threads: equal codes keep the order of their rows.
    count = len(records) // 2
    extents = boxes[1, record.UPPER : record.UPPER + 3].astype(np.float64) + boxes[1, :3]
    tables, bits = bit_tables(extents)
    keys, other = aligned(count, np.uint64), aligned(count, np.uint64)
    in_chunks(
        count, CHUNK, threads,
        lambda _, begin, end: _make_keys(records, begin, end, boxes, tables, bits, keys),
    )  # fmt: skip
    for low in range(32, 32 + CODE_BITS, DIGIT_BITS):
        _sort_by_digit(keys, other, np.uint64(low), threads)
        keys, other = other, keys
    return keys


def _sort_by_digit(
    keys: NDArray[np.uint64], out: NDArray[np.uint64], shift: np.uint64, threads: int
) -> None:
    """Sort keys by the digit from bit `shift` on."""
    counts = np.empty((threads + 1, DIGITS), np.int64)

    def count_digits(chunk: int, begin: int, end: int) -> None:
        _count_digits(keys, begin, end, shift, counts[chunk])

    def scatter(chunk: int, begin: int, end: int) -> None:
        _scatter(keys, begin, end, shift, counts[chunk], out)

    chunks = in_chunks(len(keys), CHUNK, threads, count_digits)
    _first_positions(counts[:chunks])
    in_chunks(len(keys), CHUNK, threads, scatter)


@inlined
def _cut(keys, begin, end):
    """Return where the highest bit that differs in a range of codes becomes one."""
    first, last = keys[begin] >> np.uint64(32), keys[end - 1] >> np.uint64(32)
    if first == last:
        return begin + ((end - begin) >> 1)
    # Set all bits of the difference below its highest, and clear them in `last`: this is the lowest
    # code of the right side.
    ones = first ^ last
    ones |= ones >> np.uint64(1)
    ones |= ones >> np.uint64(2)
    ones |= ones >> np.uint64(4)
    ones |= ones >> np.uint64(8)
    ones |= ones >> np.uint64(16)
    limit = (last & ~(ones >> np.uint64(1))) << np.uint64(32)
    at, size = begin, end - begin
    while size > 0:
        half = size >> 1
        if keys[at + half] < limit:
            at += half + 1
            size -= half + 1
        else:
            size = half
    return at


@entry
def _cut_cells(keys, tasks, pending):
    """Cut the order into cells; return their number."""
    pending[0, 0], pending[0, 1] = 0, len(keys)
    waiting, cells = 1, 0
    while waiting > 0:
        waiting -= 1
        begin, end = pending[waiting, 0], pending[waiting, 1]
        if end - begin <= CELL:
            tasks[cells, BEGIN], tasks[cells, END] = begin, end
            cells += 1
            continue
        middle = _cut(keys, begin, end)
        # The left side comes first: cells are numbered in the order of their primitives.
        pending[waiting, 0], pending[waiting, 1] = middle, end
        pending[waiting + 1, 0], pending[waiting + 1, 1] = begin, middle
        waiting += 2
    return cells


@entry
def _gather(records, keys, tasks, begin, end, cells):
    """Sort the records of the cells begin..end, and write the records of the cells themselves."""
    half = len(keys)
    for cell in range(begin, end):
        box = record.nothing()
        for i in range(tasks[cell, BEGIN], tasks[cell, END]):
            r = record.load(records, row_of(keys, i))
            record.store(records, half + i, r)
            box = record.join(box, r)
        record.store(cells, cell, box)


@inlined
def _put_leaf(records, begin, end, node, block):
    """Make a node the leaf of a range of the order."""
    box = record.nothing()
    for i in range(begin, end):
        block.order[i] = record.id_of(records, len(block.order) + i)
        box = record.join(box, record.load(records, len(block.order) + i))
    record.store_bounds(block.bounds, node, box)
    link_leaf(block.links, node, begin, end - begin)


@kernel
def _build_cell(records, keys, start, base, deepest, block, pending):
    """Build the subtree of a cell; return the number of its nodes."""
    pending[0, NODE], pending[0, DEPTH] = base, start[DEPTH]
    pending[0, BEGIN], pending[0, END] = start[BEGIN], start[END]
    waiting, used = 1, 1
    while waiting > 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth = pending[waiting, DEPTH]
        if end - begin <= 1 << GROUP_BITS:
            _put_leaf(records, begin, end, node, block)
            continue
        middle = begin + ((end - begin) >> 1)
        if subtrees.may_choose(end - begin, depth, deepest):
            middle = _cut(keys, begin, end)
        if end - begin <= 2 << GROUP_BITS:
            # Two full leaves rather than three.
            middle = min(max(middle, end - (1 << GROUP_BITS)), begin + (1 << GROUP_BITS))
        link_inner(block.links, node, base + used)
        for child, low, high in ((used, begin, middle), (used + 1, middle, end)):
            pending[waiting, NODE], pending[waiting, DEPTH] = base + child, depth + 1
            pending[waiting, BEGIN], pending[waiting, END] = low, high
            waiting += 1
        used += 2
    for node in range(base + used - 1, base - 1, -1):
        if not is_leaf(block.links, node):
            subtrees.join_children(block.bounds, block.links, node)
    return used


@entry
def _build_cells(records, keys, tasks, begin, end, deepest, block, state, rows, pending):
    """Build the subtrees of the cells begin..end; return the number of nodes."""
    # `state` is (cancel, done).
    cancel, done = state
    base = 0
    for cell in range(begin, end):
        if cancel[0] != 0:
            break
        used = _build_cell(records, keys, tasks[cell], base, deepest, block, pending)
        rows[cell, 0], rows[cell, 1] = base, used
        base += used
        done[0] += tasks[cell, END] - tasks[cell, BEGIN]
    return base


@entry
def _attach_cells(top, tasks, depths):
    """Set the node and the depth of each cell to those of its leaf in the tree over the cells."""
    depths[0] = 0
    for node in range(len(top.links)):
        child = np.int64(top.links[node, 0])
        if is_leaf(top.links, node):
            cell = np.int64(top.order[child])
            tasks[cell, NODE], tasks[cell, DEPTH] = node, depths[node]
        else:
            depths[child] = depths[child + 1] = depths[node] + 1


def build(
    records: NDArray[np.float32], boxes: NDArray[np.float32] | None = None, *, threads: int = 1,
    progress: Progress | None = None,
) -> Nodes:  # fmt: skip
    """Build a tree; see `binned_sah.build` for the arguments."""
    count = len(records) // 2
    if count == 0:
        return subtrees.no_nodes()
    deepest = subtrees.deepest_level(count)
    boxes = bound_all(records, count, threads) if boxes is None else boxes
    keys = sorted_keys(records, boxes, threads)
    tasks = aligned(count * RANGE_WIDTH, np.int64).reshape(-1, RANGE_WIDTH)
    # Every bit of a code is cut at most once; equal codes are halved.
    cell_count = _cut_cells(keys, tasks, np.empty((128, 2), np.int64))
    tasks = tasks[:cell_count].copy()
    cells = np.empty((2 * cell_count, records.shape[1]), np.float32)
    in_chunks(
        cell_count, SMALLEST_TASK // CELL, threads,
        lambda _, begin, end: _gather(records, keys, tasks, begin, end, cells),
    )  # fmt: skip
    cells[:cell_count, record.ID].view(np.int32)[:] = np.arange(cell_count)
    # The remaining levels suffice to halve a cell.
    top = binned_sah.build(
        cells, threads=threads, group_bits=0, max_leaf=1, deepest=deepest - CELL_BITS
    )
    _attach_cells(top, tasks, np.empty(len(top.links), np.int64))
    order, rows = aligned(count, np.int32), np.zeros((cell_count, 2), np.int64)
    pieces = subtrees.Pieces(count)
    sizes = tasks[:, END] - tasks[:, BEGIN]
    batches = subtrees.batches_of(sizes, subtrees.task_size(count))
    largest = min(subtrees.task_size(count) + CELL, count)
    shelf = Shelf(
        lambda: (subtrees.new_subtrees(largest, order), np.empty((CELL + 1, RANGE_WIDTH), np.int64))
    )

    def batch(begin: int, end: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> None:
        with shelf.scratch() as (block, pending):
            used = _build_cells(
                records, keys, tasks, begin, end, deepest, block, (cancel, done), rows, pending
            )
            pieces.add(begin, end, block, int(used))

    subtrees.run_batches(batches, tasks, batch, threads, progress)
    discard(records)
    return subtrees.put_together(top.links, tasks, rows, pieces, order, threads)
