"""Subtrees that threads build in parallel, and the limit of depth; shared by all builders.

A builder splits the top of the tree until ranges of primitives are small enough to be tasks. Each
thread builds in `SubtreeNodes` of its own, of more rows than a task can need, and copies what it
has built, so threads share no counter and the tree does not depend on them. A last pass joins top
and subtrees without gaps.
"""

import itertools
import math
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import aligned, discard
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.threads import Progress, Shelf, share, watch
from bvh.tree.builders.records import join, load_bounds, store_bounds
from bvh.tree.nodes import Nodes, is_leaf, link_inner, link_leaf

# One thread builds ranges up to a 64th of all primitives, which fit into a cache, and of at least
# SMALLEST_TASK.
SMALLEST_TASK = 4096
TASKS = 64
# Most parts of a tree that threads can share (see `Nodes`).
PARTS = 32
# Numbers in an array that pieces are copied to, side by side.
SLAB = 1 << 20

# Columns of a range of primitives: its node, begin, end, depth, the half of the records' array
# that it is in, and the end of its capacity for pieces.
NODE, BEGIN, END, DEPTH, SIDE, LIMIT = range(6)
RANGE_WIDTH = 6


class SubtreeNodes(NamedTuple):
    """Nodes of subtrees before they are joined, and the order of the primitives."""

    bounds: NDArray[np.float32]  # (2 n, 6)
    links: NDArray[np.int32]  # (2 n, 2)
    order: NDArray[np.int32]  # (n,)


def new_subtrees(count: int, order: NDArray[np.int32]) -> SubtreeNodes:
    """Return memory for subtrees of `count` primitives, which they write to `order`."""
    return SubtreeNodes(
        aligned(12 * count, np.float32).reshape(-1, 6),
        aligned(4 * count, np.int32).reshape(-1, 2),
        order,
    )


class Piece(NamedTuple):
    """The nodes of the subtrees of some tasks, begin..end."""

    begin: int
    end: int
    bounds: NDArray[np.float32]
    links: NDArray[np.int32]


class Pieces(list[Piece]):
    """Copies of what threads have built, side by side in large arrays."""

    def __init__(self, count: int) -> None:
        """For subtrees of `count` primitives in all."""
        super().__init__()
        self._lock, self._slab = threading.Lock(), aligned(0, np.float32)
        self._size = min(SLAB, 8 * count)

    def add(self, begin: int, end: int, block: SubtreeNodes, used: int) -> None:
        """Copy the first `used` rows of a block, which are the subtrees of the tasks begin..end."""
        with self._lock:
            if len(self._slab) < 8 * used:
                self._slab = aligned(max(self._size, 8 * used), np.float32)
            part, self._slab = self._slab[: 8 * used], self._slab[8 * used :]
        bounds, links = part[: 6 * used].reshape(-1, 6), part[6 * used :].view(np.int32)
        piece = Piece(begin, end, bounds, links.reshape(-1, 2))
        piece.bounds[:], piece.links[:] = block.bounds[:used], block.links[:used]
        self.append(piece)


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
    """Return the largest number of primitives of a task; it does not depend on the threads."""
    return max(count // TASKS, SMALLEST_TASK)


@inlined
def may_choose(count, depth, deepest):
    """Return whether a range may be split anywhere: halving it then ends above `deepest`."""
    levels = depth + 1
    while count > 1:
        count = (count + 1) >> 1
        levels += 1
    return levels <= deepest


@entry
def _copy_subtrees(from_bounds, from_links, tasks, rows, first, begin, end, bounds, links):
    """Copy the subtrees of the tasks begin..end below the top, and their roots into it."""
    # `rows` has the first row of each in its piece, and its number of nodes; `first` where those
    # below its root go.
    for task in range(begin, end):
        base = rows[task, 0]
        shift = first[task] - 1
        for i in range(rows[task, 1]):
            at = tasks[task, NODE] if i == 0 else shift + i
            for lane in range(6):
                bounds[at, lane] = from_bounds[base + i, lane]
            if is_leaf(from_links, base + i):
                link_leaf(links, at, from_links[base + i, 0], from_links[base + i, 1])
            else:
                link_inner(links, at, from_links[base + i, 0] - base + shift)


@inlined
def join_children(bounds, links, node):
    """Set the box of an inner node to that of its children."""
    child = np.int64(links[node, 0])
    store_bounds(bounds, node, join(load_bounds(bounds, child), load_bounds(bounds, child + 1)))


@entry
def _bound_top(links, bounds, is_task):
    """Bound the nodes of the top above the tasks, whose own nodes are bounded."""
    for node in range(len(is_task) - 1, -1, -1):
        if not is_task[node]:
            join_children(bounds, links, node)


def batches_of(sizes: NDArray[np.integer], count: int) -> list[tuple[int, int]]:
    """Cut a list of tasks of the given sizes into runs of about `count` in sum, or single tasks."""
    ends = np.cumsum(sizes, dtype=np.int64)
    edges = np.flatnonzero(np.diff((ends - 1) // count)) + 1
    stops = [0, *edges.tolist(), len(sizes)]
    return list(itertools.pairwise(stops))


def run_batches(
    batches: list[tuple[int, int]], tasks: NDArray[np.int64],
    build: Callable[[int, int, NDArray[np.int32], NDArray[np.int64]], object], threads: int,
    progress: Progress | None,
) -> None:  # fmt: skip
    """Call build(first task, last task, cancel, primitives done) for each batch of tasks."""
    cancel = np.zeros(1, np.int32)
    # A cache line for each thread's count.
    done = np.zeros((len(batches), 8), np.int64)
    sizes = [int((tasks[i:j, END] - tasks[i:j, BEGIN]).sum()) for i, j in batches]
    count = sum(sizes)

    def report() -> None:
        if progress is not None:
            progress(int(done[:, 0].sum()), count)

    if count <= SMALLEST_TASK:
        build(0, len(tasks), cancel, done[0])
        report()
        return
    # Largest first, so that no thread ends with a large batch alone.
    order = sorted(range(len(batches)), key=lambda i: -sizes[i])
    watch([partial(build, *batches[i], cancel, done[i]) for i in order], threads, cancel, report)


# Arrays of one number: whether all threads shall stop, and how many records are done.
BuildState: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64]]
BuildSubtree: TypeAlias = Callable[
    [NDArray[np.int64], NDArray[np.float32], SubtreeNodes, BuildState], tuple[int, int]
]


def build_tasks(
    links: NDArray[np.int32], tasks: NDArray[np.int64], boxes: NDArray[np.float32],
    order: NDArray[np.int32], records: NDArray[np.float32], build: BuildSubtree, threads: int,
    progress: Progress | None,
) -> Nodes:  # fmt: skip
    """Return the tree whose top has the given links, with a subtree for each task below it."""
    # build(task, its boxes, block, (cancel, done)) builds one in a block and returns (number of
    # nodes, number of tasks left over). The records are discarded when all are built.
    rows, pieces = np.zeros((len(tasks), 2), np.int64), Pieces(len(order))
    largest = int((tasks[:, LIMIT] - tasks[:, BEGIN]).max())
    shelf = Shelf(lambda: new_subtrees(largest, order))

    def batch(begin: int, end: int, cancel: NDArray[np.int32], done: NDArray[np.int64]) -> None:
        for i in range(begin, end):
            with shelf.scratch() as block:
                rows[i, 1], _ = build(tasks[i], boxes[i], block, (cancel, done))
                pieces.add(i, i + 1, block, int(rows[i, 1]))

    run_batches([(i, i + 1) for i in range(len(tasks))], tasks, batch, threads, progress)
    discard(records)
    return put_together(links, tasks, rows, pieces, order, threads)


def put_together(
    links: NDArray[np.int32], tasks: NDArray[np.int64], rows: NDArray[np.int64],
    pieces: Pieces, order: NDArray[np.int32], threads: int,
) -> Nodes:  # fmt: skip
    """Return the tree of a top and of subtrees; `rows` has the first row and size of each."""
    top, used = len(links), rows[:, 1]
    first = np.cumsum(used - 1) - (used - 1) + top
    count = int(top + (used - 1).sum())
    bounds = aligned(6 * count, np.float32).reshape(-1, 6)
    all_links = aligned(2 * count, np.int32).reshape(-1, 2)
    all_links[:top] = links

    def copy(begin: int, end: int) -> None:
        for some in pieces[begin:end]:
            _copy_subtrees(
                some.bounds, some.links, tasks, rows, first, some.begin, some.end, bounds, all_links
            )

    share(len(pieces), -(-len(pieces) // (2 * threads)), copy, threads)
    is_task = np.zeros(top, np.bool_)
    is_task[tasks[:, NODE]] = True
    _bound_top(all_links, bounds, is_task)
    # At most PARTS runs of subtrees.
    parts = np.append(first[:: len(tasks) // min(PARTS, 1 + count // SMALLEST_TASK) + 1], count)
    return Nodes(bounds, all_links, order, parts)
