"""Triangulation of polygons by exact signs: fans of convex ones, ear clipping of others.

A polygon is projected along the axis nearest to its normal by Newell's sum. Dropping a coordinate
rounds nothing, so the signs of `orient2d` are exact: if the projection is simple, no two triangles
overlap. That an ear always exists is proven by Meisters 1975, "Polygons have ears".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.exact_sums import add_product, new_sum, take_sign
from bvh.geometry.arithmetic.predicates import orient2d
from bvh.io.heap_sort import sort_indices
from bvh.runtime.arguments import MAX_PRIMITIVES, kernel_input
from bvh.runtime.jit import entry, inlined, kernel, stay_outlined, warms
from bvh.runtime.threads import share

# Polygons that a thread takes at a time.
CHUNK = 1 << 14


@inlined
def _projected(points, vertex, axis):
    """Return the projection of a vertex along an axis."""
    return points[vertex, (axis + 1) % 3], points[vertex, (axis + 2) % 3]


@kernel
def _first_infinite(points, corners, first, count):
    """Return the first corner that is not finite, or -1."""
    for k in range(count):
        vertex = corners[first + k]
        for i in range(3):
            if not abs(points[vertex, i]) < np.inf:
                return k
    return -1


@kernel
def _axis_of(points, corners, first, count):
    """Return the axis nearest to a polygon's normal."""
    origin, size = corners[first], 0.0
    # Halves, so that no difference overflows; relative to the size, so that no product does.
    for k in range(1, count):
        for i in range(3):
            reach = abs(0.5 * points[corners[first + k], i] - 0.5 * points[origin, i])
            size = max(size, reach)
    if size == 0.0:
        return 2
    x, y, z = 0.0, 0.0, 0.0
    px, py, pz = 0.0, 0.0, 0.0
    for k in range(1, count):
        vertex = corners[first + k]
        qx = (0.5 * points[vertex, 0] - 0.5 * points[origin, 0]) / size
        qy = (0.5 * points[vertex, 1] - 0.5 * points[origin, 1]) / size
        qz = (0.5 * points[vertex, 2] - 0.5 * points[origin, 2]) / size
        x += py * qz - pz * qy
        y += pz * qx - px * qz
        z += px * qy - py * qx
        px, py, pz = qx, qy, qz
    x, y, z = abs(x), abs(y), abs(z)
    if z >= x and z >= y:
        return 2
    return 1 if y >= x else 0


@inlined
def _falls(p, q):
    """Return whether an edge points downward: into one half of all directions."""
    return q[1] < p[1] or (q[1] == p[1] and q[0] < p[0])


@kernel
def _is_convex(points, corners, first, count, axis):
    """Return whether a polygon turns in the same direction at every corner, and once in total."""
    turn, valleys = 0, 0
    a = _projected(points, corners[first + count - 1], axis)
    b = _projected(points, corners[first], axis)
    for k in range(count):
        c = _projected(points, corners[first + (k + 1) % count], axis)
        side = orient2d(a, b, c)
        if side == 0 or side == -turn:
            return False
        turn = side
        if _falls(a, b) and not _falls(b, c):
            valleys += 1
        a, b = b, c
    return valleys == 1


@kernel
def _area_sign(points, corners, first, count, axis):
    """Return the sign of a polygon's area."""
    stay_outlined()
    total = new_sum()
    a = _projected(points, corners[first + count - 1], axis)
    for k in range(count):
        b = _projected(points, corners[first + k], axis)
        add_product(total, 1.0, a[0], b[1], 1.0, 1.0)
        add_product(total, -1.0, b[0], a[1], 1.0, 1.0)
        a = b
    return take_sign(total)


@kernel
def _obstructs(points, corners, first, axis, turn, strict, ear, p, before, after):
    """Return whether corner p prevents a triangle from being an ear.

    A corner that coincides with one of the triangle's does not, unless the chain that it belongs to
    runs from there into the triangle. Unless `strict`, a corner on one of the two sides that are
    the polygon's own does not, either: polygons that touch themselves may have no other ear.
    """
    a, b, c = ear
    q = _projected(points, corners[first + p], axis)
    low, high = min(a[0], b[0], c[0]), max(a[0], b[0], c[0])
    if q[0] < low or q[0] > high or q[1] < min(a[1], b[1], c[1]) or q[1] > max(a[1], b[1], c[1]):
        return False
    if q == a or q == c:
        return False
    if q == b:
        for other in (before[p], after[p]):
            r = _projected(points, corners[first + other], axis)
            if turn * orient2d(a, b, r) > 0 and turn * orient2d(b, c, r) > 0:
                return True
        return False
    left, right = turn * orient2d(a, b, q), turn * orient2d(b, c, q)
    if left < 0 or right < 0 or turn * orient2d(c, a, q) < 0:
        return False
    return strict or (left > 0 and right > 0)


@kernel
def _is_ear(points, corners, first, axis, turn, leniency, at, around, along):
    """Return whether a corner can be cut off; a higher `leniency` (0 to 3) accepts more."""
    stay_outlined()
    if leniency > 2:
        return True
    before, after = around[0], around[1]
    a = _projected(points, corners[first + before[at]], axis)
    b = _projected(points, corners[first + at], axis)
    c = _projected(points, corners[first + after[at]], axis)
    side = turn * orient2d(a, b, c)
    if leniency == 2:
        return side >= 0
    if side <= 0:
        return False
    low, high = min(a[along], b[along], c[along]), max(a[along], b[along], c[along])
    for direction in range(3, 5):
        # Corners farther along are beside the triangle, too.
        p = around[direction, at]
        while p >= 0 and low <= _projected(points, corners[first + p], axis)[along] <= high:
            if _obstructs(
                points, corners, first, axis, turn, leniency == 0, (a, b, c), p, before, after
            ):
                return False
            p = around[direction, p]
    return True


@kernel
def _link_sorted(points, corners, first, count, axis, lower, higher, values, indices):
    """Link corners in the order of one of their coordinates; return which that is, 0 or 1."""
    stay_outlined()
    low = high = _projected(points, corners[first], axis)
    for k in range(1, count):
        p = _projected(points, corners[first + k], axis)
        low = min(low[0], p[0]), min(low[1], p[1])
        high = max(high[0], p[0]), max(high[1], p[1])
    # Halves, so that no difference overflows.
    wide, tall = 0.5 * high[0] - 0.5 * low[0], 0.5 * high[1] - 0.5 * low[1]
    along = 0 if wide >= tall else 1
    for k in range(count):
        values[k] = _projected(points, corners[first + k], axis)[along]
    sort_indices(values, count, indices)
    last = np.int64(-1)
    for i in range(count):
        k = indices[i]
        lower[k], higher[k] = last, -1
        if last >= 0:
            higher[last] = k
        last = k
    return along


@kernel
def _clip_ears(points, corners, first, count, axis, around, values, faces, row):
    """Write the triangles of a polygon from face `row` on, one ear after another.

    A corner that is no ear stays so until one of its neighbours is cut off: the corners of a simple
    polygon are tested three times on average, however many there are. Each test visits the
    remaining corners between the sides of the triangle along one coordinate.
    """
    stay_outlined()
    turn = _area_sign(points, corners, first, count, axis)
    if turn == 0:
        turn = 1
    before, after, known, lower, higher = around[0], around[1], around[2], around[3], around[4]
    along = _link_sorted(points, corners, first, count, axis, lower, higher, values, known)
    for k in range(count):
        before[k], after[k], known[k] = (k - 1) % count, (k + 1) % count, 0
    left, at, seen, leniency, tests = count, 0, 0, 0, 0
    while left > 2:
        ear = left == 3
        if not ear and known[at] == 0:
            ear = _is_ear(points, corners, first, axis, turn, leniency, at, around, along)
            known[at] = 1
            tests += 1
        if ear:
            p, q = before[at], after[at]
            faces[row, 0] = corners[first + p]
            faces[row, 1] = corners[first + at]
            faces[row, 2] = corners[first + q]
            row += 1
            after[p], before[q] = q, p
            if lower[at] >= 0:
                higher[lower[at]] = higher[at]
            if higher[at] >= 0:
                lower[higher[at]] = lower[at]
            known[p], known[q] = 0, 0
            left -= 1
            if leniency > 0:
                known[:count] = 0
            # After so many tests it crosses itself, and strictness does not help.
            seen, leniency = 0, 0 if tests < 16 * count else 2
            # Not the next corner: cutting every other one makes fewer slivers.
            at = after[q]
        else:
            at = after[at]
            seen += 1
            if seen == left:
                seen, leniency = 0, leniency + 1
                known[:count] = 0


@entry
def _fill(points, corners, offsets, rows, begin, end, faces, around, values):
    """Write the triangles of some polygons, each from its own row of `faces` on.

    `around` and `values` are scratch, as long as the longest polygon.
    """
    for k in range(begin, end):
        first, count, row = offsets[k], offsets[k + 1] - offsets[k], rows[k]
        if count < 3:
            continue
        centre = _first_infinite(points, corners, first, count) if count > 3 else 0
        if centre < 0:
            axis = _axis_of(points, corners, first, count)
            if not _is_convex(points, corners, first, count, axis):
                _clip_ears(points, corners, first, count, axis, around, values, faces, row)
                continue
            centre = 0
        for i in range(1, count - 1):
            faces[row, 0] = corners[first + centre]
            faces[row, 1] = corners[first + (centre + i) % count]
            faces[row, 2] = corners[first + (centre + i + 1) % count]
            row += 1


def corner_lists(
    name: str, faces: Any, vertex_count: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return polygons as (corners, offsets): those of polygon k at offsets[k] : offsets[k + 1].

    Parameters
    ----------
    name : str
        The argument's name, for messages.
    faces : array_like of int, shape (k, n), or sequence of array_like of int
        Polygons of n corners, or of any number of them.
    vertex_count : int

    Raises
    ------
    ValueError, TypeError
        If they are something else, or have an index out of range.
    """
    if isinstance(faces, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: fill or drop the masked rows first")
    try:
        array = np.asarray(faces)
        ragged = array.dtype == object
    except ValueError:
        ragged = True
    if ragged:
        return _ragged(name, faces, vertex_count)
    if array.shape == (0,):
        array = array.reshape(0, 3)
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (m, n), or be lists, got {array.shape}")
    count, width = array.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return checked_corners(name, array.reshape(-1), offsets, vertex_count), offsets


def _ragged(
    name: str, faces: Sequence[Any], vertex_count: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    try:
        lengths = np.fromiter(map(len, faces), np.int64, len(faces))
        flat = np.array(list(chain.from_iterable(faces)))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array, or lists of vertex indices: {error}") from None
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return checked_corners(name, flat, offsets, vertex_count), offsets


def checked_corners(
    name: str, corners: NDArray[Any], offsets: NDArray[np.int64], vertex_count: int
) -> NDArray[np.int32]:
    """Return corners as int32, after checking that they are lists of polygons."""
    if corners.dtype.kind not in "iu" and corners.size:
        raise TypeError(f"{name} must be integers, got an array of {corners.dtype}")
    if corners.ndim != 1:
        raise ValueError(f"{name} must be flat lists of vertex indices, got {corners.shape}")
    if offsets[0] != 0 or offsets[-1] != len(corners) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name} must have offsets that ascend from 0 to {len(corners)}")
    if corners.size and (corners.min() < 0 or corners.max() >= vertex_count):
        bad = int(((corners < 0) | (corners >= vertex_count)).argmax())
        row = int(np.searchsorted(offsets, bad, "right")) - 1
        wrong = corners[offsets[row] : offsets[row + 1]].tolist()
        raise ValueError(f"{name} must index the {vertex_count} vertices, got {wrong} in row {row}")
    return corners.astype(np.int32, copy=False)


def triangulated(
    points: NDArray[np.float64],
    corners: NDArray[np.int32],
    offsets: NDArray[np.int64],
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the triangles of polygons, with the same winding, and the polygon of each triangle.

    A polygon of n corners gives n - 2 triangles; repeated corners in a row count once. One that
    crosses itself, or has no area, gives some n - 2 triangles. One with a vertex that is not finite
    gives triangles that all contain it, and so are ignored by trees.

    Parameters
    ----------
    points : ndarray of float64, shape (n, 3)
    corners : ndarray of int32
    offsets : ndarray of int64, shape (k + 1,)
        As `corner_lists` returns them.
    threads : int

    Returns
    -------
    faces : ndarray of int32, shape (m, 3)
    polygon : ndarray of int32, shape (m,)
        Ascending.
    """
    corners, offsets = _distinct(corners, offsets)
    counts = np.maximum(np.diff(offsets) - 2, 0)
    total = int(counts.sum())
    if total > MAX_PRIMITIVES:
        raise ValueError(f"faces must make at most {MAX_PRIMITIVES} triangles, got {total}")
    faces = np.empty((total, 3), np.int32)
    given = [
        kernel_input(array) for array in (points, corners, offsets, np.cumsum(counts) - counts)
    ]

    def fill(begin: int, end: int) -> None:
        longest = int(np.diff(offsets[begin : end + 1]).max(initial=0))
        around, values = np.empty((5, longest), np.int64), np.empty(longest)
        _fill(*given, np.int64(begin), np.int64(end), faces, around, values)

    share(len(counts), CHUNK, fill, threads)
    return faces, np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _distinct(
    corners: NDArray[np.int32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Drop corners with the same vertex as the next one around their polygon."""
    if len(corners) == 0:
        return corners, offsets
    following = np.roll(corners, -1)
    filled = offsets[1:] > offsets[:-1]
    following[offsets[1:][filled] - 1] = corners[offsets[:-1][filled]]
    kept = corners != following
    if kept.all():
        return corners, offsets
    ends = np.concatenate([[0], np.cumsum(kept)])
    return corners[kept], ends[offsets]


@warms("polygons")
def _warm() -> None:
    """Compile the triangulation."""
    square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    triangulated(square, *corner_lists("faces", [[0, 1, 2, 3]], 4), 1)
