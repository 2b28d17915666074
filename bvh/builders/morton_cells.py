"""Fast builder: the top of the tree from the Morton order (Lauterbach et al. 2009, "Fast BVH
construction on GPUs"), small ranges below it by binned SAH.

A range of the order is cut where the highest bit that differs among its codes changes, that is,
in the middle of its cell of space. That costs next to nothing, and where primitives are many, it
is nearly as good as SAH. Below cells of a few dozen primitives it is not, and these fit into the
CPU's fastest memory. Equal codes, and ranges that would end too deep, are cut in half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.builders.binned_sah import build_tasks
from bvh.builders.bins import GROUP_BITS, bound
from bvh.builders.morton import in_chunks, row_of, sorted_keys
from bvh.builders.records import WIDTH, load, store
from bvh.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    NODE,
    RANGE_WIDTH,
    SIDE,
    SMALLEST_TASK,
    batches_of,
    deepest_level,
    may_choose,
    no_nodes,
    task_size,
)
from bvh.builders.top_levels import bound_all
from bvh.jit import entry, inlined
from bvh.nodes import Nodes, link_inner
from bvh.workers import Progress

# Primitives that a cell may have.
CELL = 8


@inlined
def _cut(keys, begin, end):
    """Return where the highest bit that differs in a range of codes becomes one."""
    first, last = keys[begin] >> np.uint64(32), keys[end - 1] >> np.uint64(32)
    if first == last:
        return begin + ((end - begin) >> 1)
    # Fill up the difference with ones: all but its highest bit are cleared in `last`, which gives
    # the lowest code of the right side.
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
def _cut_cells(keys, deepest, links, tasks):
    """Cut the order into cells; return the numbers of nodes and of cells."""
    pending = np.empty((128, RANGE_WIDTH), np.int64)
    pending[0, NODE], pending[0, BEGIN], pending[0, END] = 0, 0, len(keys)
    pending[0, DEPTH] = 0
    waiting, used, made = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth = pending[waiting, DEPTH]
        if end - begin <= CELL:
            tasks[made, NODE], tasks[made, BEGIN], tasks[made, END] = node, begin, end
            # The records will be in the second half of their array.
            tasks[made, DEPTH], tasks[made, SIDE] = depth, 1
            made += 1
            continue
        middle = begin + ((end - begin) >> 1)
        if may_choose(end - begin, depth, deepest):
            middle = _cut(keys, begin, end)
        link_inner(links, node, used)
        # The left side comes first: cells are numbered in the order of their primitives.
        for k in range(2):
            pending[waiting, NODE] = used + 1 - k
            pending[waiting, BEGIN] = begin if k == 1 else middle
            pending[waiting, END] = middle if k == 1 else end
            pending[waiting, DEPTH] = depth + 1
            waiting += 1
        used += 2
    return used, made


@entry
def _gather(records, keys, tasks, begin, end, boxes):
    """Bring the records of the cells begin..end in order, and bound them and their centres."""
    half = len(keys)
    for cell in range(begin, end):
        first, last = tasks[cell, BEGIN], tasks[cell, END]
        for i in range(first, last):
            store(records, half + i, load(records, row_of(keys, i)))
        bound(records, half + first, half + last, boxes, 2 * cell, 2 * cell + 1)


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
    # A cut leaves at least one primitive on either side.
    most = 2 * count
    links, tasks = np.empty((most, 2), np.int32), np.empty((most, RANGE_WIDTH), np.int64)
    top_count, made = _cut_cells(keys, deepest, links, tasks)
    links, tasks = links[:top_count].copy(), tasks[:made].copy()
    boxes = np.empty((made, 2, WIDTH), np.float32)

    def gather(_: int, begin: int, end: int) -> None:
        _gather(records, keys, tasks, begin, end, boxes.reshape(-1, WIDTH))

    in_chunks(made, SMALLEST_TASK // CELL, threads, gather)
    batches = batches_of(tasks, task_size(count))
    return build_tasks(
        records, (links, tasks, boxes, batches), deepest, GROUP_BITS, threads, progress
    )
