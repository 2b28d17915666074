"""From primitives to the records that builders work on: local frame, bounds, float32 boxes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import kernel_input
from bvh.builders.records import WIDTH, outward, record, store
from bvh.jit import entry, inlined
from bvh.nodes import local_boxes, local_frame
from bvh.numerics import INF, finite, power_of_two
from bvh.primitives import Primitives, Triangles, corners, world_bounds
from bvh.workers import share

# Triangles that a thread takes at a time.
CHUNK = 16384


class Prepared(NamedTuple):
    """What a builder needs of primitives, and the frame that it is in.

    Attributes
    ----------
    records : ndarray of float32, shape (2 m, 8)
        One for each primitive that can be hit (see `builders.records`), then room to move them.
    used : int
        Primitives that can be hit; m or less.
    frame : ndarray of float64, shape (2, 3)
        The local frame (see `nodes.local_frame`).
    bounds : ndarray of float64, shape (2, 3)
        Lower and upper corner of all that can be hit; NaN if there is nothing.
    """

    records: NDArray[np.float32]
    used: int
    frame: NDArray[np.float64]
    bounds: NDArray[np.float64]


@inlined
def _is_valid(a, b, c):
    """Tell a triangle that can be hit from one with a vertex that is not finite."""
    return finite(a) and finite(b) and finite(c)


@entry
def _survey(triangles, begin, end, bounds):
    """Bound the valid triangles of a range; return how many there are."""
    low, high, count = (INF, INF, INF), (-INF, -INF, -INF), 0
    for i in range(begin, end):
        a, b, c = corners(triangles, i)
        if _is_valid(a, b, c):
            count += 1
            low = (
                min(low[0], min(a[0], min(b[0], c[0]))),
                min(low[1], min(a[1], min(b[1], c[1]))),
                min(low[2], min(a[2], min(b[2], c[2]))),
            )
            high = (
                max(high[0], max(a[0], max(b[0], c[0]))),
                max(high[1], max(a[1], max(b[1], c[1]))),
                max(high[2], max(a[2], max(b[2], c[2]))),
            )
    for axis in range(3):
        bounds[axis], bounds[axis + 3] = low[axis], high[axis]
    return count


@inlined
def _to_local(x, centre, s):
    """Round a coordinate to the float32 of the local frame, as `nodes.local_boxes` does."""
    return np.float32((x - centre) * s)


@entry
def _record_triangles(triangles, begin, end, frame, records, at):
    """Write the records of the valid triangles of a range from row `at` on."""
    s = power_of_two(int(frame[1, 0]))
    x, y, z = frame[0, 0], frame[0, 1], frame[0, 2]
    for i in range(begin, end):
        a, b, c = corners(triangles, i)
        if _is_valid(a, b, c):
            made = record(
                _to_local(min(a[0], min(b[0], c[0])), x, s),
                _to_local(min(a[1], min(b[1], c[1])), y, s),
                _to_local(min(a[2], min(b[2], c[2])), z, s),
                i,
                _to_local(max(a[0], max(b[0], c[0])), x, s),
                _to_local(max(a[1], max(b[1], c[1])), y, s),
                _to_local(max(a[2], max(b[2], c[2])), z, s),
            )
            store(records, at, outward(made))
            at += 1


@entry
def _record_boxes(boxes, ids, records):
    """Write the records of the boxes `ids`."""
    for i in range(len(ids)):
        p = np.int64(ids[i])
        made = record(
            boxes[p, 0], boxes[p, 1], boxes[p, 2], ids[i], boxes[p, 3], boxes[p, 4], boxes[p, 5]
        )
        store(records, i, made)


def records_of(boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the records of the primitives `ids`, whose local boxes are rows of `boxes`."""
    records = np.empty((2 * len(ids), WIDTH), np.float32)
    _record_boxes(kernel_input(boxes), kernel_input(ids), records)
    return records


def prepare(primitives: Primitives, threads: int = 1, spare: float = 0.0) -> Prepared:
    """Find the local frame of primitives, and the records of those that can be hit.

    The share `spare` of triangles is added to the room for them.
    """
    if isinstance(primitives, Triangles):
        return _prepare_triangles(primitives, threads, spare)
    lower, upper, valid = world_bounds(primitives)
    # By indices of numpy's own width: it converts others in a buffer, and goes on without it where
    # there is no memory.
    places = np.flatnonzero(valid)
    frame, bounds = local_frame(lower[places], upper[places])
    ids = places.astype(np.int32)
    return Prepared(records_of(local_boxes(lower, upper, frame), ids), len(ids), frame, bounds)


def survey(triangles: Triangles, threads: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Count the triangles that can be hit in each chunk; bound those of chunks that have any."""
    count = len(triangles.faces)
    chunks = -(-count // CHUNK)
    bounds, valid = np.empty((chunks, 6)), np.zeros(chunks, np.int64)

    def work(begin: int, end: int) -> None:
        chunk = begin // CHUNK
        valid[chunk] = _survey(triangles, begin, end, bounds[chunk])

    _in_chunks(count, work, threads)
    return valid, bounds[valid > 0]


def _prepare_triangles(triangles: Triangles, threads: int, spare: float) -> Prepared:
    """Prepare triangles in two passes over them, with nothing in between."""
    triangles = Triangles(*(kernel_input(array) for array in triangles))
    count = len(triangles.faces)
    valid, bounds = survey(triangles, threads)

    def write(begin: int, end: int) -> Any:
        _record_triangles(triangles, begin, end, frame, records, first[begin // CHUNK])

    frame, whole = local_frame(bounds[:, :3], bounds[:, 3:])
    frame = kernel_input(frame)
    made = int(valid.sum())
    records = np.empty((2 * (made + int(spare * made)), WIDTH), np.float32)
    first = (np.cumsum(valid) - valid).tolist()
    _in_chunks(count, write, threads)
    return Prepared(records, made, frame, whole)


def _in_chunks(count: int, work: Any, threads: int) -> None:
    if count:
        share(count, CHUNK, work, threads)
