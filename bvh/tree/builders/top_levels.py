"""The top of a tree, built level by level; threads share the chunks of all ranges of a level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import entry
from bvh.runtime.threads import share
from bvh.tree.builders.bins import (
    BINS,
    LEFT,
    LEFT_CENTRES,
    RIGHT,
    RIGHT_CENTRES,
    BinSplit,
    best_split,
    bound,
    bound_halves,
    cut_in_half,
    fill_bins,
    move,
)
from bvh.tree.builders.records import (
    WIDTH,
    lane4,
    lane_of,
    load,
    scales,
)
from bvh.tree.builders.subtrees import (
    BEGIN,
    DEPTH,
    END,
    LIMIT,
    NODE,
    SIDE,
    may_choose,
    task_size,
)

# Records of a range that a thread takes at a time.
CHUNK = 16384

# A split: its axis (-1 for cut in half), its last bin on the left, the begin of the right half.
AXIS, LAST, MIDDLE = range(3)


@entry
def _bound_chunk(records, begin, end, boxes):
    """Write the box of a range of records and that of their centres."""
    bound(records, begin, end, boxes, 0, 1)


@entry
def _bin_chunk(records, begin, end, centres, bins, counts):
    """Fill the bins of one chunk of a range, whose centres have the box `centres`."""
    c = load(centres, 0)
    fill_bins(records, begin, end, c, scales(c, np.float32(BINS)), BINS, bins, counts)


@entry
def _choose(records, ranges, centres, bins, counts, limits, splits, halves, costs):
    """Split every range by its bins; `limits` are the deepest level and the bits of a group."""
    deepest, group_bits = limits
    half = len(records) >> 1
    for i in range(len(ranges)):
        begin, end = ranges[i, BEGIN], ranges[i, END]
        scale = scales(load(centres, i), np.float32(BINS))
        axis, last, lefts = -1, 0, (end - begin) >> 1
        if may_choose(end - begin, ranges[i, DEPTH], deepest):
            _, axis, last, lefts = best_split(bins[i], counts[i], scale, BINS, group_bits, costs)
        if axis < 0:
            lefts = (end - begin) >> 1
            shift = ranges[i, SIDE] * half
            cut_in_half(records, shift + begin, shift + end, halves, 4 * i)
        else:
            bound_halves(bins[i], BINS, axis, last, halves, 4 * i)
        splits[i, AXIS], splits[i, LAST], splits[i, MIDDLE] = axis, last, begin + lefts


@entry
def _move_chunk(records, begin, end, centres, split, targets, boxes):
    """Move the records of one chunk of a range that is split between bins."""
    axis = split[AXIS]
    scale = scales(load(centres, 0), np.float32(BINS))
    plan = BinSplit(axis, split[LAST], lane_of(centres, 0, axis), lane4(scale, axis))
    move(records, begin, end, plan, targets[0], targets[1], boxes, 0)


def split_top(
    records: NDArray[np.float32], deepest: int, group_bits: int, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:
    """Split all records into ranges that are small enough for one thread.

    Returns
    -------
    links : ndarray of int32, shape (t, 2)
        Links of the nodes above those ranges.
    tasks : ndarray of int64, shape (k, 6)
        The ranges (see `subtrees`).
    boxes : ndarray of float32, shape (k, 2, 8)
        The box of each range, and that of its centres, as records.
    """
    half = len(records) // 2
    grain = task_size(half)
    ranges = np.array([[0, 0, half, 0, 0, half]], np.int64)
    boxes = bound_all(records, half, threads)[None]
    parents = [np.empty(0, np.int64)]
    tasks, task_boxes = [], []
    used = 1
    while True:
        small = ranges[:, END] - ranges[:, BEGIN] <= grain
        tasks.append(ranges[small])
        task_boxes.append(boxes[small])
        ranges, boxes = ranges[~small], boxes[~small]
        if len(ranges) == 0:
            break
        splits, halves = _split_level(
            records, ranges, boxes[:, 1].copy(), deepest, group_bits, threads
        )
        child = used + 2 * np.arange(len(ranges))
        parents.append(ranges[:, NODE])
        boxes = halves[:, [[LEFT, LEFT_CENTRES], [RIGHT, RIGHT_CENTRES]]].reshape(-1, 2, WIDTH)
        ranges = _halves_of(ranges, splits, child)
        used += len(ranges)
    links = np.zeros((used, 2), np.int32)
    # Children were numbered pair by pair, in the order of their parents.
    inner = np.concatenate(parents)
    links[inner, 0] = 1 + 2 * np.arange(len(inner))
    return links, np.concatenate(tasks), np.concatenate(task_boxes)


def _halves_of(
    ranges: NDArray[np.int64], splits: NDArray[np.int64], child: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the ranges of both sides of each split."""
    out = np.repeat(ranges, 2, axis=0)
    out[0::2, NODE], out[1::2, NODE] = child, child + 1
    out[0::2, END] = out[1::2, BEGIN] = splits[:, MIDDLE]
    out[:, LIMIT] = out[:, END]
    out[:, DEPTH] += 1
    out[:, SIDE] ^= np.repeat(splits[:, AXIS] >= 0, 2)
    return out


def bound_all(records: NDArray[np.float32], count: int, threads: int) -> NDArray[np.float32]:
    """Return the box of all records and that of their centres."""
    boxes = np.empty((-(-count // CHUNK), 2, WIDTH), np.float32)

    def work(begin: int, end: int) -> None:
        _bound_chunk(records, begin, end, boxes[begin // CHUNK])

    share(count, CHUNK, work, threads)
    return np.asarray(boxes.max(axis=0))


def _split_level(
    records: NDArray[np.float32],
    ranges: NDArray[np.int64],
    centres: NDArray[np.float32],
    deepest: int,
    group_bits: int,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Split each range; return the splits and the boxes of their halves, shape (k, 4, 8)."""
    half = len(records) // 2
    begins = ranges[:, BEGIN] + half * ranges[:, SIDE]
    ends = begins + ranges[:, END] - ranges[:, BEGIN]
    runs = [range(begin, end, CHUNK) for begin, end in zip(begins, ends, strict=True)]
    owner = np.repeat(np.arange(len(ranges)), [len(run) for run in runs])
    starts = np.concatenate(runs)
    stops = np.minimum(starts + CHUNK, ends[owner])
    bins = np.empty((len(owner), 6 * BINS, WIDTH), np.float32)
    counts = np.empty((len(owner), 6 * BINS), np.int32)

    def fill(j: int, _: int) -> None:
        _bin_chunk(records, starts[j], stops[j], centres[owner[j]], bins[j], counts[j])

    share(len(owner), 1, fill, threads)
    # Chunks of a range follow one another.
    first = np.searchsorted(owner, np.arange(len(ranges)))
    splits, costs = np.empty((len(ranges), 3), np.int64), np.empty(BINS, np.float32)
    halves = np.empty((len(ranges), 4, WIDTH), np.float32)
    all_bins = np.maximum.reduceat(bins[:, : 3 * BINS], first, axis=0)
    all_counts = np.add.reduceat(counts[:, : 3 * BINS], first, axis=0, dtype=np.int32)
    _choose(
        records, ranges, centres, all_bins, all_counts, (deepest, group_bits), splits, halves, costs
    )
    # Records of a chunk go behind those of the chunks before it, on either side.
    column, (axis, last, _) = np.arange(6 * BINS), splits[owner].T[:, :, None]
    on_left = (column >= axis * BINS) & (column <= axis * BINS + last)
    lefts = np.where(on_left, counts, 0).sum(axis=1)
    sizes = np.stack([lefts, stops - starts - lefts], axis=1)
    before = np.cumsum(sizes, axis=0) - sizes
    into = np.stack([ranges[:, BEGIN], splits[:, MIDDLE]], axis=1) + half * (1 - ranges[:, [SIDE]])
    targets = (into - before[first])[owner] + before
    boxes = np.zeros((len(owner), 2, WIDTH), np.float32)

    def transfer(j: int, _: int) -> None:
        i = owner[j]
        if splits[i, AXIS] >= 0:
            _move_chunk(records, starts[j], stops[j], centres[i], splits[i], targets[j], boxes[j])

    share(len(owner), 1, transfer, threads)
    moved = splits[:, AXIS] >= 0
    halves[moved, LEFT_CENTRES:] = np.maximum.reduceat(boxes, first, axis=0)[moved]
    return splits, halves
