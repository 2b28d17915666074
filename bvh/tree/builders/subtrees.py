"""Subtrees that threads build in parallel, and the limit of depth; shared by all builders.

A builder splits the top of the tree until ranges of primitives are small enough to be tasks, which
threads take in runs. Each thread builds in `SubtreeNodes` of its own, of more rows than a run can
need, and copies the subtrees of each run, so threads share no counter and the tree does not depend
on them. A last pass joins top and subtrees without gaps. One thread alone builds in place.
"""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.memory import SPARSE, Shelf, aligned
from bvh.runtime.simd import field
from bvh.runtime.threads import Progress, share, watch
from bvh.tree.builders.records import join, load_bounds, store_bounds
from bvh.tree.nodes import Nodes, is_leaf, link_inner, link_leaf

# One thread builds runs of ranges of about a 64th of all primitives, which fit into a cache, and of
# at least SMALLEST_TASK.
SMALLEST_TASK = 4096
TASKS = 64
# Most primitives of a run, unless a 64th of all are more.
LARGEST_RUN = 1 << 18
# How many chunks a thread alone takes at a time: between them it can be interrupted.
ONE_THREAD = 32
# Ranges have up to an eighth of the primitives of a run, or SMALLEST_RANGE.
RANGES = 8
SMALLEST_RANGE = 1024
# Most parts of a tree that threads can share (see `Nodes`).
PARTS = 32

# Columns of a range of primitives: its node, begin, end, depth, the half of the records' array
# that it is in, and the end of its capacity for pieces.
NODE, BEGIN, END, DEPTH, SIDE, LIMIT = range(6)
RANGE_WIDTH = 6

# Accessors of all columns of a range, (node, begin, end, depth, side, limit), in a row of an array.
_read, _write = field(np.int64, *range(RANGE_WIDTH))
range_at = inlined(lambda ranges, row: _read(ranges, row * RANGE_WIDTH))
set_range = inlined(lambda ranges, row, columns: _write(ranges, row * RANGE_WIDTH, columns))


class SubtreeNodes(NamedTuple):
    """Nodes of subtrees, and the order of primitives."""

    bounds: NDArray[np.float32]  # (2 n, 6)
    links: NDArray[np.int32]  # (2 n, 2)
    order: NDArray[np.int32]  # ids of the whole tree's primitives, shared by all threads


def new_subtrees(count: int, order: NDArray[np.int32]) -> SubtreeNodes:
    """Return memory for subtrees of up to `count` primitives, whose ids are written to `order`."""
    # Subtrees use a small part of it.
    memory = aligned(16 * count, np.float32, SPARSE)
    bounds, links = memory[: 12 * count], memory[12 * count :].view(np.int32)
    return SubtreeNodes(bounds.reshape(-1, 6), links.reshape(-1, 2), order)


def no_nodes() -> Nodes:
    """Return the empty tree."""
    return Nodes(
        np.empty((0, 6), np.float32), np.empty((0, 2), np.int32), np.empty(0, np.int32),
        np.zeros(1, np.int64),
    )  # fmt: skip


def deepest_level(count: int) -> int:
    """Return the depth that no tree of `count` primitives exceeds: 2 log2 n + 8."""
    return math.floor(2 * math.log2(max(count, 1))) + 8


def task_size(count: int) -> int:
    """Return the number of primitives of a run of tasks; it does not depend on the threads."""
    return max(count // TASKS, SMALLEST_TASK)


def chunk_size(size: int, threads: int) -> int:
    """Return the size of chunks for `share`: `size`, or ONE_THREAD times as much on one thread."""
    return size if threads > 1 else size * ONE_THREAD


@inlined
def may_choose(count, depth, deepest):
    """Return whether a range of `count` primitives at a depth may be split anywhere."""
    # It may if, even with all but one primitive on one side, halving that side repeatedly stays
    # within the level `deepest`.
    levels = depth + 1
    while count > 1:
        count = (count + 1) >> 1
        levels += 1
    return levels <= deepest


@entry
def _copy_subtrees(from_bounds, from_links, roots, first, bounds, links):
    """Copy subtrees: their roots to the rows `roots`, in the top, other nodes from `first` on."""
    shift = first - len(roots)
    for i in range(len(from_links)):
        at = np.int64(roots[i]) if i < len(roots) else shift + i
        for lane in range(6):
            bounds[at, lane] = from_bounds[i, lane]
        if is_leaf(from_links, i):
            link_leaf(links, at, from_links[i, 0], from_links[i, 1])
        else:
            link_inner(links, at, from_links[i, 0] + shift)


@entry
def _bound_top(links, bounds, is_task):
    """Write the bounds of the nodes of the top, the last first: children come after parents."""
    # The roots of subtrees, where `is_task` is True, have bounds already.
    for node in range(len(is_task) - 1, -1, -1):
        if not is_task[node]:
            child = np.int64(links[node, 0])
            box = join(load_bounds(bounds, child), load_bounds(bounds, child + 1))
            store_bounds(bounds, node, box)


def batches_of(sizes: NDArray[np.integer], count: int) -> list[tuple[int, int]]:
    """Return runs (begin, end) of tasks whose `sizes` are about `count` in sum, or of one task."""
    ends = np.cumsum(sizes, dtype=np.int64)
    # A run ends where the sum passes a multiple of `count`.
    edges = np.flatnonzero(np.diff((ends - 1) // count)) + 1
    stops = [0, *edges.tolist(), len(sizes)]
    return list(itertools.pairwise(stops))


# Arrays of one number: whether all threads shall stop, and how many records are done.
BuildState: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64]]
BuildSubtrees: TypeAlias = Callable[[NDArray[np.int64], int, SubtreeNodes, BuildState], int]


def build_tasks(
    links: NDArray[np.int32], tasks: NDArray[np.int64],
    order: NDArray[np.int32], build: BuildSubtrees, threads: int, progress: Progress | None
) -> Nodes:  # fmt: skip
    """Return the tree whose top has the given links, with a subtree for each task below it.

    `tasks` (k, RANGE_WIDTH) are ranges; subtrees write the ids of their primitives to `order`.
    build(tasks, used, block, (cancel, done)) builds the subtrees of a run of tasks in a block of
    `SubtreeNodes`, of which it has `used` nodes, and returns how many it has then.
    """
    roots, sizes = tasks[:, NODE].copy(), tasks[:, END] - tasks[:, BEGIN]
    count = int(sizes.sum())
    runs = batches_of(sizes, max(task_size(count), min(count // (4 * threads), LARGEST_RUN)))
    room = tasks[:, LIMIT] - tasks[:, BEGIN]
    built: list[Any] = [None] * len(runs)
    largest = max(int(room[begin:end].sum()) for begin, end in runs)
    shelf = Shelf(lambda: new_subtrees(largest, order))
    # A cache line for each run's count.
    cancel, done = np.zeros(1, np.int32), np.zeros((len(runs), 8), np.int64)

    def work(i: int) -> None:
        begin, end = runs[i]
        with shelf.scratch() as block:
            # The first nodes are the roots.
            some = tasks[begin:end].copy()
            some[:, NODE] = np.arange(end - begin)
            used = build(some, end - begin, block, (cancel, done[i]))
            built[i] = block.bounds[:used].copy(), block.links[:used].copy()

    def report() -> None:
        if progress is not None:
            progress(int(done[:, 0].sum()), count)

    if count <= SMALLEST_TASK or (threads == 1 and progress is None):
        # In place: most trees have fewer nodes than a quarter of their primitives.
        used, first = len(links), list[int]()
        nodes = new_subtrees(used + count // 8 + largest, order)
        nodes.links[:used] = links
        for i, (begin, end) in enumerate(runs):
            first.append(used)
            needed = used + 2 * int(room[begin:end].sum())
            if needed > len(nodes.links):
                bounds, all_links, _ = nodes
                nodes = new_subtrees(needed, order)
                nodes.bounds[:used], nodes.links[:used] = bounds[:used], all_links[:used]
            used = build(tasks[begin:end], used, nodes, (cancel, done[i]))
        report()
        return _joined(nodes.bounds[:used], nodes.links[:used], order, roots, len(links), first)
    # Largest first, so that no thread ends with a large run alone.
    size_of = [int(sizes[begin:end].sum()) for begin, end in runs]
    largest_first = sorted(range(len(runs)), key=lambda i: -size_of[i])
    watch([partial(work, i) for i in largest_first], threads, cancel, report)
    return _put_together(links, roots, runs, built, order, threads)


def _put_together(
    links: NDArray[np.int32], roots: NDArray[np.int64], runs: list[tuple[int, int]],
    built: list[tuple[NDArray[np.float32], NDArray[np.int32]]], order: NDArray[np.int32],
    threads: int,
) -> Nodes:  # fmt: skip
    """Return the tree of a top and the subtrees below it.

    `links` are those of the top; built[i] is (bounds, links) of the subtrees whose roots are the
    nodes roots[begin:end] of the top, where (begin, end) is runs[i]. `order` has all primitives.
    """
    top = len(links)
    below = np.array([len(built[i][1]) - end + begin for i, (begin, end) in enumerate(runs)])
    first = np.cumsum(below) - below + top
    count = int(top + below.sum())
    bounds = aligned(6 * count, np.float32).reshape(-1, 6)
    all_links = aligned(2 * count, np.int32).reshape(-1, 2)
    all_links[:top] = links

    def copy(begin: int, end: int) -> None:
        for i in range(begin, end):
            some = roots[runs[i][0] : runs[i][1]]
            _copy_subtrees(*built[i], some, first[i], bounds, all_links)

    share(len(built), chunk_size(-(-len(built) // (2 * threads)), threads), copy, threads)
    return _joined(bounds, all_links, order, roots, top, first.tolist())


def _joined(
    bounds: NDArray[np.float32], links: NDArray[np.int32], order: NDArray[np.int32],
    roots: NDArray[np.int64], top: int, first: list[int],
) -> Nodes:  # fmt: skip
    """Return a tree whose first `top` nodes but for the roots of subtrees are still to be bounded.

    `first` has the first node of each run, apart from roots.
    """
    is_task = np.zeros(top, np.bool_)
    is_task[roots] = True
    _bound_top(links, bounds, is_task)
    # Parts of equally many runs: at most PARTS of them, and fewer in a small tree.
    step = len(first) // min(PARTS, 1 + len(links) // SMALLEST_TASK) + 1
    return Nodes(bounds, links, order, np.array([*first[::step], len(links)], np.int64))
