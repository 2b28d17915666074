"""What all builders share: the bound on depth, and subtrees that threads fill side by side.

A builder splits the top of the tree until ranges of primitives are small enough to be tasks. A
task over the primitives begin..end of the order owns the rows 2 * begin..2 * end of a block of
nodes, more than it can need, so threads share no counter and the tree does not depend on them. A
last pass puts top and subtrees together without gaps.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined
from bvh.nodes import Nodes, is_leaf, link_inner, link_leaf
from bvh.workers import Progress, watch

# Ranges up to a 16th of all primitives (and at least this many) are left to single threads.
SMALLEST_TASK = 4096
TASKS = 16

# What is known of a range of primitives: its node, begin, end, depth, and which of the two arrays
# of records it is in.
NODE, BEGIN, END, DEPTH, SIDE = range(5)
RANGE_WIDTH = 5


class Block(NamedTuple):
    """Nodes of subtrees before they are put together, and the order of the primitives."""

    bounds: NDArray[np.float32]  # (2 n, 6)
    links: NDArray[np.int32]  # (2 n, 2)
    order: NDArray[np.int32]  # (n,)


def new_block(count: int) -> Block:
    """Return a block for `count` primitives; what is never written takes no memory."""
    return Block(
        np.empty((2 * count, 6), np.float32),
        np.empty((2 * count, 2), np.int32),
        np.empty(count, np.int32),
    )


def no_nodes() -> Nodes:
    """Return the tree over nothing."""
    return Nodes(np.empty((0, 6), np.float32), np.empty((0, 2), np.int32), np.empty(0, np.int32))


def deepest_level(count: int) -> int:
    """Return the depth that no tree of `count` primitives exceeds: 2 log2 n + 8."""
    return math.floor(2 * math.log2(max(count, 1))) + 8


def task_size(count: int) -> int:
    """Return how many primitives a task may have; it does not depend on the threads."""
    return max(count // TASKS, SMALLEST_TASK)


@inlined
def may_choose(count, depth, deepest):
    """Tell whether a range may be split anywhere: halving would still end above `deepest`."""
    levels = depth + 1
    while count > 1:
        count = (count + 1) >> 1
        levels += 1
    return levels <= deepest


@entry
def _place(block, base, used, bounds, links, root, first):
    """Copy a subtree: its root to row `root`, the other nodes to the rows from `first` on."""
    for i in range(used):
        at = root if i == 0 else first + i - 1
        for lane in range(6):
            bounds[at, lane] = block.bounds[base + i, lane]
        if is_leaf(block.links, base + i):
            link_leaf(links, at, block.links[base + i, 0], block.links[base + i, 1])
        else:
            link_inner(links, at, block.links[base + i, 0] - base - 1 + first)


def run_tasks(
    tasks: NDArray[np.int64],
    subtree: Any,
    block: Block,
    threads: int,
    progress: Progress | None,
) -> list[int]:
    """Call subtree(task, cancel, done) for each task; return how many nodes each has made.

    `subtree` adds the primitives it has put into leaves to `done[0]`, and stops when `cancel[0]`
    is set.
    """
    count = len(block.order)
    cancel = np.zeros(1, np.int32)
    done = np.zeros((len(tasks), 8), np.int64)

    def report() -> None:
        if progress is not None:
            progress(int(done[:, 0].sum()), count)

    if count <= SMALLEST_TASK and progress is None:
        return [subtree(0, cancel, done[0])]
    # Largest first, so that no thread is left alone with a big one at the end.
    order = np.argsort(tasks[:, BEGIN] - tasks[:, END], kind="stable").tolist()
    calls = [partial(subtree, task, cancel, done[task]) for task in order]
    made = watch(calls, threads, cancel, report)
    return [made[order.index(task)] for task in range(len(tasks))]


def put_together(
    top: tuple[NDArray[np.float32], NDArray[np.int32]],
    tasks: NDArray[np.int64],
    used: list[int],
    block: Block,
    threads: int,
) -> Nodes:
    """Return the tree of the `top` nodes with the subtrees of the tasks in their places."""
    first = len(top[0]) + np.concatenate([[0], np.cumsum(np.array(used, np.int64) - 1)])
    out = Nodes(
        np.empty((first[-1], 6), np.float32), np.empty((first[-1], 2), np.int32), block.order
    )
    out.bounds[: len(top[0])], out.links[: len(top[1])] = top

    def place(task: int) -> None:
        node, begin = int(tasks[task, NODE]), int(tasks[task, BEGIN])
        _place(block, 2 * begin, used[task], out.bounds, out.links, node, int(first[task]))

    if len(tasks) == 1:
        place(0)
    else:
        calls = [partial(place, task) for task in range(len(tasks))]
        watch(calls, threads, np.zeros(1, np.int32))
    return out
