"""The top of a tree, built level by level; threads share the chunks of all ranges of a level."""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.entries import entry
from bvh.runtime.threads import share
from bvh.tree.builders import bins as binning
from bvh.tree.builders.bins import BINS, LEFT, LEFT_CENTRES, RIGHT, RIGHT_CENTRES
from bvh.tree.builders.grid import LEAST, split_by_cells
from bvh.tree.builders.records import WIDTH, add, lane4, lane_of, load, nothing, scales, store
from bvh.tree.builders.subtrees import BEGIN, DEPTH, END, LIMIT, NODE, SIDE, may_choose, task_size

# Records of a range that a thread takes at a time.
CHUNK = 16384

# A chunk: its range, its first and last row, and where its records go.
RANGE, FROM, TO, TO_LEFT, TO_RIGHT = range(5)
# A split: its axis (-1 for cut in half), its last bin on the left, the begin of the right half.
AXIS, LAST, MIDDLE = range(3)


@entry
def _bound_chunk(records, begin, end, boxes):
    """Write the box of a range of records and that of their centres."""
    binning.bound(records, begin, end, boxes, 0, 1)


@entry
def _bin_chunk(records, chunk, centres, bins, counts):
    """Fill the bins of one chunk of a range."""
    c = load(centres, chunk[RANGE])
    scale = scales(c, np.float32(BINS))
    binning.fill_bins(records, chunk[FROM], chunk[TO], c, scale, BINS, bins, counts)


@entry
def _choose(
    records, ranges, centres, chunks, chunk_bins, deepest, group_bits, splits, boxes, scratch
):
    """Split every range by the bins of its chunks, and set the rows that each chunk moves to."""
    # `chunk_bins` are (bins, counts) of the chunks, `scratch` those of a range and costs.
    bins, counts = chunk_bins
    all_bins, all_counts, costs = scratch
    half = len(records) >> 1
    first = 0
    for i in range(len(ranges)):
        begin, end = ranges[i, BEGIN], ranges[i, END]
        past = first
        for b in range(3 * BINS):
            store(all_bins, b, nothing())
            all_counts[b] = 0
        while past < len(chunks) and chunks[past, RANGE] == i:
            for b in range(3 * BINS):
                add(all_bins, b, load(bins, past * 6 * BINS + b))
                all_counts[b] += counts[past * 6 * BINS + b]
            past += 1
        scale = scales(load(centres, i), np.float32(BINS))
        axis, last, lefts = -1, 0, 0
        if may_choose(end - begin, ranges[i, DEPTH], deepest):
            _, axis, last, lefts = binning.best_split(
                all_bins, all_counts, scale, BINS, group_bits, costs
            )
        splits[i, AXIS], splits[i, LAST] = axis, last
        shift = ranges[i, SIDE] * half
        if axis < 0:
            splits[i, MIDDLE] = begin + ((end - begin) >> 1)
            binning.cut_in_half(records, shift + begin, shift + end, boxes, 4 * i)
        else:
            splits[i, MIDDLE] = begin + lefts
            binning.bound_halves(all_bins, BINS, axis, last, boxes, 4 * i)
            store(boxes, 4 * i + LEFT_CENTRES, nothing())
            store(boxes, 4 * i + RIGHT_CENTRES, nothing())
            left, right = half - shift + begin, half - shift + begin + lefts
            for j in range(first, past):
                chunks[j, TO_LEFT], chunks[j, TO_RIGHT] = left, right
                count = 0
                for b in range(axis * BINS, axis * BINS + last + 1):
                    count += counts[j * 6 * BINS + b]
                left += count
                right += chunks[j, TO] - chunks[j, FROM] - count
        first = past


@entry
def _move_chunk(records, chunk, centres, splits, boxes):
    """Move the records of one chunk of a range, unless the range is cut in half."""
    i = chunk[RANGE]
    axis = splits[i, AXIS]
    store(boxes, 0, nothing())
    store(boxes, 1, nothing())
    if axis >= 0:
        scale = scales(load(centres, i), np.float32(BINS))
        low, left, right = lane_of(centres, i, axis), chunk[TO_LEFT], chunk[TO_RIGHT]
        split = binning.BinSplit(axis, splits[i, LAST], low, lane4(scale, axis))
        binning.move(records, chunk[FROM], chunk[TO], split, left, right, boxes, 0)


@entry
def _join_chunks(chunks, chunk_boxes, boxes):
    """Join the boxes of the chunks' centres."""
    for j in range(len(chunks)):
        for k in range(2):
            row = 4 * chunks[j, RANGE] + LEFT_CENTRES + k
            add(boxes, row, load(chunk_boxes, 2 * j + k))


def split_top(
    records: NDArray[np.float32], boxes: NDArray[np.float32], deepest: int, group_bits: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Split all records into ranges that are small enough for one thread."""
    # `boxes` are the box of all and that of their centres. Returns the links of the nodes above
    # those ranges, (t, 2); the ranges as tasks (see `subtrees`); and the records of the box of each
    # and that of its centres, (k, 2, 8).
    half = len(records) // 2
    grain = task_size(half)
    top, ranges = np.zeros((1, 2), np.int32), np.array([[0, 0, half, 0, 0, half]], np.int64)
    boxes = boxes[None]
    if half >= LEAST:
        top, ranges, boxes = split_by_cells(
            records, boxes[0], (grain, deepest, group_bits), threads
        )
    parents = [np.empty(0, np.int64)]
    tasks, task_boxes = [], []
    used = len(top)
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
    links[: len(top)] = top
    # Children were numbered pair by pair, in the order of their parents.
    inner = np.concatenate(parents)
    links[inner, 0] = len(top) + 2 * np.arange(len(inner))
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


def _chunks_of(ranges: NDArray[np.int64], half: int) -> NDArray[np.int64]:
    """Cut ranges into chunks."""
    begins = ranges[:, BEGIN] + half * ranges[:, SIDE]
    ends = begins + ranges[:, END] - ranges[:, BEGIN]
    rows = [
        (i, at, min(at + CHUNK, int(end)), 0, 0)
        for i, (begin, end) in enumerate(zip(begins, ends, strict=True))
        for at in range(int(begin), int(end), CHUNK)
    ]
    return np.array(rows, np.int64)


def bound_all(records: NDArray[np.float32], count: int, threads: int) -> NDArray[np.float32]:
    """Return the box of all records and that of their centres."""
    boxes = np.empty((-(-count // CHUNK), 2, WIDTH), np.float32)
    share(
        count, CHUNK,
        lambda begin, end: _bound_chunk(records, begin, end, boxes[begin // CHUNK]), threads,
    )  # fmt: skip
    return np.asarray(boxes.max(axis=0))


def _split_level(
    records: NDArray[np.float32], ranges: NDArray[np.int64], centres: NDArray[np.float32],
    deepest: int, group_bits: int, threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:  # fmt: skip
    """Split each range; return the splits and the boxes of their halves, shape (k, 4, 8)."""
    half = len(records) // 2
    chunks = _chunks_of(ranges, half)
    bins = np.empty((len(chunks), 6 * BINS, WIDTH), np.float32)
    counts = np.empty((len(chunks), 6 * BINS), np.int32)
    splits = np.empty((len(ranges), 3), np.int64)
    halves = np.empty((len(ranges), 4, WIDTH), np.float32)
    chunk_boxes = np.empty((len(chunks), 2, WIDTH), np.float32)

    def fill(j: int, _: int) -> None:
        _bin_chunk(records, chunks[j], centres, bins[j], counts[j])

    def transfer(j: int, _: int) -> None:
        _move_chunk(records, chunks[j], centres, splits, chunk_boxes[j])

    share(len(chunks), 1, fill, threads)
    scratch = (
        np.empty((3 * BINS, WIDTH), np.float32), np.empty(3 * BINS, np.int32),
        np.empty(BINS, np.float32),
    )  # fmt: skip
    _choose(
        records, ranges, centres, chunks, (bins.reshape(-1, WIDTH), counts.reshape(-1)), deepest,
        group_bits, splits, halves.reshape(-1, WIDTH), scratch,
    )  # fmt: skip
    share(len(chunks), 1, transfer, threads)
    _join_chunks(chunks, chunk_boxes.reshape(-1, WIDTH), halves.reshape(-1, WIDTH))
    return splits, halves
