"""Build records: the local frame of primitives, their bounds, and the boxes builders work on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, finite, lower_of, upper_of
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import entry, inlined
from bvh.runtime.simd import lane
from bvh.runtime.threads import share
from bvh.tree.builders.records import WIDTH, outward, record, store
from bvh.tree.frame import centre, local_frame, scale
from bvh.tree.nodes import local_boxes
from bvh.tree.primitives import Primitives, Triangles, corners, world_bounds

# Triangles that a thread takes at a time.
CHUNK = 16384


class Prepared(NamedTuple):
    """Input of a builder, and the local frame that it is in.

    Attributes
    ----------
    records : ndarray of float32, shape (2 m, 8)
        One for each primitive that can be hit (see `builders.records`), then as many unused rows.
    used : int
        Primitives that can be hit; m or less.
    frame : ndarray of float64, shape (2, 3)
        The local frame (see `frame.local_frame`).
    bounds : ndarray of float64, shape (2, 3)
        Lower and upper corner of all primitives that can be hit; NaN if there are none.
    """

    records: NDArray[np.float32]
    used: int
    frame: NDArray[np.float64]
    bounds: NDArray[np.float64]


@inlined
def _is_valid(a, b, c):
    """Return whether all vertices of a triangle are finite."""
    return finite(a) and finite(b) and finite(c)


@entry
def _survey(triangles, begin, end, bounds):
    """Bound the valid triangles of a range; return their number."""
    low, high, count = (INF, INF, INF), (-INF, -INF, -INF), 0
    for i in range(begin, end):
        a, b, c = corners(triangles, i)
        if _is_valid(a, b, c):
            count += 1
            lower, upper = _corners_of_box(a, b, c)
            low, high = lower_of(low, lower), upper_of(high, upper)
    for axis in range(3):
        bounds[axis], bounds[axis + 3] = low[axis], high[axis]
    return count


@inlined
def local_record(low, high, prim, middle, s):
    """Return the record of a box in a local frame, rounded outward as by `nodes.local_boxes`."""
    return outward(
        record(
            np.float32((low[0] - middle[0]) * s),
            np.float32((low[1] - middle[1]) * s),
            np.float32((low[2] - middle[2]) * s),
            prim,
            np.float32((high[0] - middle[0]) * s),
            np.float32((high[1] - middle[1]) * s),
            np.float32((high[2] - middle[2]) * s),
        )
    )


@inlined
def local_box(low, high, middle, s):
    """Bring a box to a local frame, rounded outward as `nodes.local_boxes` does it.

    Rounding keeps the order of numbers: the local box of a union is the union of local boxes.
    """
    r = local_record(low, high, np.int32(0), middle, s)
    return (
        (-lane(r, np.int32(0)), -lane(r, np.int32(1)), -lane(r, np.int32(2))),
        (lane(r, np.int32(4)), lane(r, np.int32(5)), lane(r, np.int32(6))),
    )


@inlined
def _corners_of_box(a, b, c):
    """Return the lower and upper corner of a triangle's box."""
    return lower_of(a, lower_of(b, c)), upper_of(a, upper_of(b, c))


@entry
def _record_triangles(triangles, begin, end, frame, records, at):
    """Write the records of the valid triangles of a range from row `at` on."""
    middle, s = centre(frame), scale(frame)
    for i in range(begin, end):
        a, b, c = corners(triangles, i)
        if _is_valid(a, b, c):
            low, high = _corners_of_box(a, b, c)
            store(records, at, local_record(low, high, i, middle, s))
            at += 1


@entry
def _record_boxes(boxes, ids, records):
    """Write the records of the boxes `ids`."""
    for i in range(len(ids)):
        p = np.int64(ids[i])
        r = record(
            boxes[p, 0], boxes[p, 1], boxes[p, 2], ids[i], boxes[p, 3], boxes[p, 4], boxes[p, 5]
        )
        store(records, i, r)


def records_of(boxes: NDArray[np.float32], ids: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the records of the primitives `ids`, whose local boxes are rows of `boxes`."""
    records = np.empty((2 * len(ids), WIDTH), np.float32)
    _record_boxes(kernel_input(boxes), kernel_input(ids), records)
    return records


def prepare(primitives: Primitives, threads: int = 1, spare: float = 0.0) -> Prepared:
    """Find the local frame of primitives, and the records of those that can be hit.

    With `spare`, the records have room for that share of triangles more.
    """
    if isinstance(primitives, Triangles):
        return _prepare_triangles(primitives, threads, spare)
    lower, upper, valid = world_bounds(primitives)
    # NumPy converts other indices than its own in a buffer, and ignores that it has no memory.
    rows = np.flatnonzero(valid)
    frame, bounds = local_frame(lower[rows], upper[rows])
    ids = rows.astype(np.int32)
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
    """Prepare triangles in two passes, without an array of their boxes."""
    triangles = Triangles(*(kernel_input(array) for array in triangles))
    count = len(triangles.faces)
    valid, bounds = survey(triangles, threads)

    def write(begin: int, end: int) -> Any:
        _record_triangles(triangles, begin, end, frame, records, first[begin // CHUNK])

    frame, whole = local_frame(bounds[:, :3], bounds[:, 3:])
    frame = kernel_input(frame)
    used = int(valid.sum())
    records = np.empty((2 * (used + int(spare * used)), WIDTH), np.float32)
    first = (np.cumsum(valid) - valid).tolist()
    _in_chunks(count, write, threads)
    return Prepared(records, used, frame, whole)


def _in_chunks(count: int, work: Any, threads: int) -> None:
    if count:
        share(count, CHUNK, work, threads)
