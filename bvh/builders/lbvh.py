"""Linear builder: cuts the Morton order of the primitives (Lauterbach et al. 2009, "Fast BVH
construction on GPUs").

A range of the order is cut where the highest bit that differs among its codes changes, that is,
in the middle of its cell of space. Equal codes, and ranges that would end too deep, are cut in
half. Boxes are joined from below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.builders.bins import GROUP
from bvh.builders.morton import sorted_keys
from bvh.builders.records import id_of, join, load, nothing, store_bounds
from bvh.builders.refit import join_children
from bvh.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    NODE,
    RANGE_WIDTH,
    SIDE,
    deepest_level,
    may_choose,
    new_block,
    no_nodes,
    put_together,
    run_tasks,
    task_size,
)
from bvh.builders.top_levels import bound_all
from bvh.jit import entry, inlined
from bvh.nodes import Nodes, is_leaf, link_inner, link_leaf
from bvh.workers import Progress


@inlined
def _cut(keys, begin, end):
    """Return where the highest bit that differs in a range of codes becomes one."""
    first, last = keys[begin] >> np.uint64(32), keys[end - 1] >> np.uint64(32)
    if first == last:
        return begin + ((end - begin) >> 1)
    # Below the highest bit of the difference, `last` is what no key of the left side reaches.
    low = first ^ last
    for step in (1, 2, 4, 8, 16):
        low |= low >> np.uint64(step)
    limit = (last & ~(low >> np.uint64(1))) << np.uint64(32)
    # Bisect.
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
def _split_top(keys, grain, deepest, links, tasks):
    """Cut the order until ranges have up to `grain` primitives; return (nodes, tasks)."""
    pending = np.empty((128, RANGE_WIDTH), np.int64)
    pending[0, NODE], pending[0, BEGIN], pending[0, END] = 0, 0, len(keys)
    pending[0, DEPTH], pending[0, SIDE] = 0, 0
    waiting, used, made = 1, 1, 0
    while waiting > 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth = pending[waiting, DEPTH]
        if end - begin <= grain:
            for i in range(RANGE_WIDTH):
                tasks[made, i] = pending[waiting, i]
            made += 1
            continue
        middle = begin + ((end - begin) >> 1)
        if may_choose(end - begin, depth, deepest):
            middle = _cut(keys, begin, end)
        link_inner(links, node, used)
        for k in range(2):
            pending[waiting, NODE] = used + k
            pending[waiting, BEGIN] = begin if k == 0 else middle
            pending[waiting, END] = middle if k == 0 else end
            pending[waiting, DEPTH] = depth + 1
            waiting += 1
        used += 2
    return used, made


@inlined
def _put_leaf(records, keys, begin, end, node, block):
    """Make a node the leaf of a range of the order."""
    box = nothing()
    for i in range(begin, end):
        row = np.int64(keys[i] & np.uint64(0xFFFFFFFF))
        block.order[i] = id_of(records, row)
        box = join(box, load(records, row))
    store_bounds(block.bounds, node, box)
    link_leaf(block.links, node, begin, end - begin)


@entry
def _build_subtree(records, keys, start, block, deepest, cancel, done):
    """Build the subtree of one range; return the number of its nodes."""
    pending = np.empty((128, RANGE_WIDTH), np.int64)
    for i in range(RANGE_WIDTH):
        pending[0, i] = start[i]
    base = 2 * start[BEGIN]
    pending[0, NODE] = base
    waiting, used = 1, 1
    while waiting > 0 and cancel[0] == 0:
        waiting -= 1
        node, begin, end = pending[waiting, NODE], pending[waiting, BEGIN], pending[waiting, END]
        depth = pending[waiting, DEPTH]
        if end - begin <= GROUP:
            _put_leaf(records, keys, begin, end, node, block)
            done[0] += end - begin
            continue
        middle = begin + ((end - begin) >> 1)
        if may_choose(end - begin, depth, deepest):
            middle = _cut(keys, begin, end)
        link_inner(block.links, node, base + used)
        for k in range(2):
            # The smaller half is built first, so that few ranges wait.
            right = (k == 0) == (middle - begin > end - middle)
            pending[waiting, NODE] = base + used + np.int64(right)
            pending[waiting, BEGIN] = middle if right else begin
            pending[waiting, END] = end if right else middle
            pending[waiting, DEPTH] = depth + 1
            waiting += 1
        used += 2
    for node in range(base + used - 1, base - 1, -1):
        if not is_leaf(block.links, node) and cancel[0] == 0:
            join_children(block.bounds, block.links, node)
    return used


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
    centres = np.ascontiguousarray(bound_all(records, count, threads)[1:])
    keys = sorted_keys(records, centres, threads)
    grain = task_size(count)
    # On each level at most count / grain ranges are cut, each into two.
    most = 2 * (count // grain + 1) * (deepest + 1)
    links, tasks = np.zeros((most, 2), np.int32), np.empty((most, RANGE_WIDTH), np.int64)
    top_count, made = _split_top(keys, grain, deepest, links, tasks)
    tasks, links = tasks[:made], links[:top_count]
    block = new_block(count)

    def subtree(task: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> Any:
        return _build_subtree(records, keys, tasks[task], block, deepest, cancel, done)

    used = run_tasks(tasks, subtree, block, threads, progress)
    bounds = np.empty((top_count, 6), np.float32)
    bounds[tasks[:, NODE]] = block.bounds[2 * tasks[:, BEGIN]]
    inner = np.setdiff1d(np.arange(top_count), tasks[:, NODE])
    for node in inner[::-1]:
        child = links[node, 0]
        bounds[node, :3] = bounds[child : child + 2, :3].min(axis=0)
        bounds[node, 3:] = bounds[child : child + 2, 3:].max(axis=0)
    return put_together((bounds, links), tasks, used, block, threads)
