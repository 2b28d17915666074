"""HLBVH builder: cells of the Morton order, with binned SAH above them (Pantaleoni and Luebke 2010,
"HLBVH: hierarchical LBVH construction for real-time ray tracing of dynamic geometry").

A range of the order is cut where the highest differing bit of its codes changes, that is, in the
middle of its cell of space; equal codes are cut in half. This is fast, but ignores the sizes of
primitives, so it is used for cells of a few primitives only. A SAH tree is built over the cells as
if each were one primitive.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import entry, inlined, kernel
from bvh.runtime.threads import Progress, reserve_call_memory
from bvh.tree.builders import binned_sah
from bvh.tree.builders.bins import GROUP_BITS
from bvh.tree.builders.morton import in_chunks, row_of, sorted_keys
from bvh.tree.builders.records import id_of, join, load, nothing, store, store_bounds, with_id
from bvh.tree.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    NODE,
    RANGE_WIDTH,
    SMALLEST_TASK,
    batches_of,
    deepest_level,
    join_children,
    may_choose,
    new_subtrees,
    no_nodes,
    put_together,
    run_batches,
    task_size,
)
from bvh.tree.builders.top_levels import bound_all
from bvh.tree.nodes import Nodes, is_leaf, link_inner, link_leaf

# Primitives that a cell may have.
CELL_BITS = 5
CELL = 1 << CELL_BITS


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
        box = nothing()
        for i in range(tasks[cell, BEGIN], tasks[cell, END]):
            r = load(records, row_of(keys, i))
            store(records, half + i, r)
            box = join(box, r)
        store(cells, cell, with_id(box, cell))


@inlined
def _put_leaf(records, begin, end, node, block):
    """Make a node the leaf of a range of the order."""
    box = nothing()
    for i in range(begin, end):
        block.order[i] = id_of(records, len(block.order) + i)
        box = join(box, load(records, len(block.order) + i))
    store_bounds(block.bounds, node, box)
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
        if may_choose(end - begin, depth, deepest):
            middle = _cut(keys, begin, end)
        if end - begin <= 2 << GROUP_BITS:
            # Two full leaves rather than three.
            middle = min(max(middle, end - (1 << GROUP_BITS)), begin + (1 << GROUP_BITS))
        link_inner(block.links, node, base + used)
        for k in range(2):
            pending[waiting, NODE] = base + used + k
            pending[waiting, BEGIN] = begin if k == 0 else middle
            pending[waiting, END] = middle if k == 0 else end
            pending[waiting, DEPTH] = depth + 1
            waiting += 1
        used += 2
    for node in range(base + used - 1, base - 1, -1):
        if not is_leaf(block.links, node):
            join_children(block.bounds, block.links, node)
    return used


@entry
def _build_cells(records, keys, tasks, begin, end, deepest, block, state, rows, pending):
    """Build the subtrees of the cells begin..end; `state` is (cancel, done)."""
    cancel, done = state
    base = 2 * tasks[begin, BEGIN]
    for cell in range(begin, end):
        if cancel[0] != 0:
            return
        rows[cell, 0] = base
        rows[cell, 1] = _build_cell(records, keys, tasks[cell], base, deepest, block, pending)
        base += rows[cell, 1]
        done[0] += tasks[cell, END] - tasks[cell, BEGIN]


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
    records: NDArray[np.float32], *, threads: int = 1, progress: Progress | None = None
) -> Nodes:
    """Build a tree; see `binned_sah.build` for the arguments."""
    count = len(records) // 2
    if progress is not None:
        progress(0, count)
    if count == 0:
        return no_nodes()
    deepest = deepest_level(count)
    keys = sorted_keys(records, bound_all(records, count, threads), threads)
    tasks = np.empty((count, RANGE_WIDTH), np.int64)
    # Every bit of a code is cut at most once; equal codes are halved.
    cell_count = _cut_cells(keys, tasks, np.empty((128, 2), np.int64))
    tasks = tasks[:cell_count].copy()
    cells = np.empty((2 * cell_count, records.shape[1]), np.float32)

    def gather(_: int, begin: int, end: int) -> None:
        _gather(records, keys, tasks, begin, end, cells)

    in_chunks(cell_count, SMALLEST_TASK // CELL, threads, gather)
    # The remaining levels suffice to halve a cell.
    top = binned_sah.build(
        cells, threads=threads, group_bits=0, max_leaf=1, deepest=deepest - CELL_BITS
    )
    reserve_call_memory()
    _attach_cells(top, tasks, np.empty(len(top.links), np.int64))
    block, rows = new_subtrees(count), np.zeros((cell_count, 2), np.int64)

    def batch(begin: int, end: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> None:
        pending = np.empty((CELL + 1, RANGE_WIDTH), np.int64)
        _build_cells(
            records, keys, tasks, begin, end, deepest, block, (cancel, done), rows, pending
        )

    run_batches(batches_of(tasks, task_size(count)), tasks, batch, threads, progress)
    return put_together(top.links, tasks, rows, block, threads)
