"""Triangulation of polygons by exact signs: fans of convex ones, ear clipping of others.

A polygon is projected along the axis nearest to its normal by Newell's sum. Dropping a coordinate
rounds nothing, so the signs of `orient2d` are exact: if the projection is simple, no two triangles
overlap. That an ear always exists is proven by Meisters 1975, "Polygons have ears".
"""

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.exact_sums import add_product, new_sum, take_sign
from bvh.geometry.arithmetic.floats import finite, largest, vector
from bvh.geometry.arithmetic.predicates import orient2d
from bvh.runtime.arguments import MAX_PRIMITIVES, is_masked, kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms
from bvh.runtime.threads import share

# Vertices of all polygons one after another: polygon i has corners[offsets[i] : offsets[i + 1]].
Corners = NDArray[np.int32]
Offsets = NDArray[np.int64]

# Polygons that a thread takes at a time.
CHUNK = 1 << 14


@inlined
def _at(plane, k):
    """Return corner k of a projected polygon: row k of `plane` (n, 2)."""
    return plane[k, 0], plane[k, 1]


@kernel
def _first_infinite(points, corners):
    """Return the first k for which the point ``points[corners[k]]`` is not finite, or -1."""
    for k in range(len(corners)):
        if not finite(vector(points, corners[k])):
            return k
    return -1


@inlined
def _half_edge(points, corners, k):
    """Return half of the vector from point corners[0] to point corners[k]; it cannot overflow."""
    a, b = vector(points, corners[0]), vector(points, corners[k])
    return 0.5 * b[0] - 0.5 * a[0], 0.5 * b[1] - 0.5 * a[1], 0.5 * b[2] - 0.5 * a[2]


@kernel
def _project(points, corners, plane):
    """Write points[corners], projected along the axis nearest to the normal, to rows of `plane`."""
    size = 0.0
    for k in range(1, len(corners)):
        size = max(size, largest(_half_edge(points, corners, k)))
    # The normal: the sum of the cross products p x q of successive corners, relative to the first.
    x, y, z = 0.0, 0.0, 0.0
    px, py, pz = 0.0, 0.0, 0.0
    for k in range(1, len(corners) if size > 0.0 else 0):
        # Divided by the size, so that no product overflows.
        q = _half_edge(points, corners, k)
        qx, qy, qz = q[0] / size, q[1] / size, q[2] / size
        x += py * qz - pz * qy
        y += pz * qx - px * qz
        z += px * qy - py * qx
        px, py, pz = qx, qy, qz
    x, y, z = abs(x), abs(y), abs(z)
    axis = 2 if z >= x and z >= y else (1 if y >= x else 0)
    for k in range(len(corners)):
        plane[k, 0] = points[corners[k], (axis + 1) % 3]
        plane[k, 1] = points[corners[k], (axis + 2) % 3]


@inlined
def _falls(p, q):
    """Return whether the edge from p to q points downward or, if level, to the left."""
    return q[1] < p[1] or (q[1] == p[1] and q[0] < p[0])


@kernel
def _is_convex(plane):
    """Return whether a polygon turns in the same direction at every corner, and once in total."""
    # A polygon that turns once has one valley: an edge that falls before one that does not.
    turn, valleys = 0, 0
    a, b = _at(plane, len(plane) - 1), _at(plane, 0)
    for k in range(len(plane)):
        c = _at(plane, (k + 1) % len(plane))
        side = orient2d(a, b, c)
        # Before the first corner, `turn` is 0.
        if side == 0 or side == -turn:
            return False
        turn = side
        if _falls(a, b) and not _falls(b, c):
            valleys += 1
        a, b = b, c
    return valleys == 1


@kernel
def _area_sign(plane):
    """Return the exact sign of a polygon's area: 1 if counterclockwise, -1 if clockwise, or 0."""
    stay_outlined()
    total = new_sum()
    a = _at(plane, len(plane) - 1)
    for k in range(len(plane)):
        b = _at(plane, k)
        # Cross products of neighbours; products have four factors, of which two are 1 here.
        add_product(total, 1.0, a[0], b[1], 1.0, 1.0)
        add_product(total, -1.0, b[0], a[1], 1.0, 1.0)
        a = b
    return take_sign(total)


@kernel
def _obstructs(plane, turn, strict, ear, corner, before, after):
    """Return whether another corner of a polygon prevents the triangle `ear` from being cut off.

    `ear` are the points (a, b, c) of three successive corners, `turn` is the sign of the polygon's
    area, and ``before[k]`` and ``after[k]`` are the neighbours of corner k. A `corner` inside or on
    the side c a prevents it; one at a or c does not; one at b does if an edge of it enters the
    triangle; one on a b or b c only if `strict`: in a polygon that touches itself, every ear may
    have one.
    """
    a, b, c = ear
    q = _at(plane, corner)
    low, high = min(a[0], b[0], c[0]), max(a[0], b[0], c[0])
    if q[0] < low or q[0] > high or q[1] < min(a[1], b[1], c[1]) or q[1] > max(a[1], b[1], c[1]):
        return False
    if q == a or q == c:
        return False
    if q == b:
        for other in (before[corner], after[corner]):
            r = _at(plane, other)
            if turn * orient2d(a, b, r) > 0 and turn * orient2d(b, c, r) > 0:
                return True
        return False
    left, right = turn * orient2d(a, b, q), turn * orient2d(b, c, q)
    if left < 0 or right < 0 or turn * orient2d(c, a, q) < 0:
        return False
    return strict or (left > 0 and right > 0)


@kernel
def _is_ear(plane, turn, leniency, corner, links, along):
    """Return whether a corner of a polygon can be cut off as an ear.

    `leniency` 0 and 1 test all other corners, strictly or not, as in `_obstructs`; 2 accepts any
    corner that does not turn against the polygon, and 3 any corner. The rows of `links` have for
    each corner those before and after it, and the next lower and next higher one in coordinate
    `along`; -1 for none.
    """
    stay_outlined()
    if leniency > 2:
        return True
    before, after = links[0], links[1]
    a, b, c = _at(plane, before[corner]), _at(plane, corner), _at(plane, after[corner])
    side = turn * orient2d(a, b, c)
    if leniency == 2:
        return side >= 0
    if side <= 0:
        return False
    low, high = min(a[along], b[along], c[along]), max(a[along], b[along], c[along])
    # To the next lower, then to the next higher corners.
    for direction in range(2, 4):
        other = links[direction, corner]
        # Corners beyond the first one outside the range are outside the triangle, too.
        while other >= 0 and low <= plane[other, along] <= high:
            if _obstructs(plane, turn, leniency == 0, (a, b, c), other, before, after):
                return False
            other = links[direction, other]
    return True


@kernel
def _sort(values, indices):
    """Write the indices that sort `values` (n,) in ascending order to `indices`, by heapsort.

    `np.argsort` would allocate memory, which can fail and must not in kernels.
    """
    count = len(values)
    for k in range(count):
        indices[k] = k
    for step in range(count // 2 - 1 + count):
        # The first count // 2 steps build a heap, from its end on. Each later step swaps the
        # largest value, at index 0, behind the shrinking heap. Then the root sinks to its place.
        root, end = count // 2 - 1 - step, count
        if root < 0:
            end, root = count + root, 0
            indices[0], indices[end] = indices[end], indices[0]
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and values[indices[child]] < values[indices[child + 1]]:
                child += 1
            if not values[indices[root]] < values[indices[child]]:
                break
            indices[root], indices[child] = indices[child], indices[root]
            root = child


@kernel
def _link_sorted(plane, lower, higher, indices):
    """Return the coordinate, 0 or 1, in which a polygon is longer; link corners in its order.

    Writes the next lower and next higher corner of each corner to `lower` and `higher`, -1 for
    none; `indices` is scratch.
    """
    stay_outlined()
    low = high = _at(plane, 0)
    for k in range(1, len(plane)):
        p = _at(plane, k)
        low = min(low[0], p[0]), min(low[1], p[1])
        high = max(high[0], p[0]), max(high[1], p[1])
    # Halves, so that no difference overflows.
    wide, tall = 0.5 * high[0] - 0.5 * low[0], 0.5 * high[1] - 0.5 * low[1]
    along = 0 if wide >= tall else 1
    _sort(plane[:, along], indices)
    last = np.int64(-1)
    for i in range(len(plane)):
        k = indices[i]
        lower[k], higher[k] = last, -1
        if last >= 0:
            higher[last] = k
        last = k
    return along


@kernel
def _clip_ears(plane, corners, links, checked, faces, row):
    """Write the triangles of a polygon to rows of `faces` from `row` on, ear by ear.

    `corners` (n,) are its vertex indices, and `plane` (n, 2) is its projection. `links` (4, n), see
    `_is_ear`, and `checked` (n,) are scratch.
    """
    # A corner that is no ear stays so until one of its neighbours is cut off: the corners of a
    # simple polygon are tested three times on average, however many there are. Each test visits the
    # remaining corners between the sides of the triangle along one coordinate. checked[k] is 1 for
    # a corner that was tested since its neighbours changed; first, the sort uses `checked`.
    stay_outlined()
    count, turn = len(corners), _area_sign(plane)
    if turn == 0:  # without an area, either direction serves
        turn = 1
    before, after, lower, higher = links[0], links[1], links[2], links[3]
    along = _link_sorted(plane, lower, higher, checked)
    for k in range(count):
        before[k], after[k], checked[k] = (k - 1) % count, (k + 1) % count, 0
    # Corners that are left, the current one, and how many were refused since the last ear: once all
    # were, `leniency` rises. `tests` counts calls of `_is_ear`.
    left, at, seen, leniency, tests = count, 0, 0, 0, 0
    while left > 2:
        ear = left == 3
        if not ear and checked[at] == 0:
            ear = _is_ear(plane, turn, leniency, at, links, along)
            checked[at] = 1
            tests += 1
        if ear:
            p, q = before[at], after[at]
            faces[row, 0], faces[row, 1], faces[row, 2] = corners[p], corners[at], corners[q]
            row += 1
            after[p], before[q] = q, p
            if lower[at] >= 0:
                higher[lower[at]] = higher[at]
            if higher[at] >= 0:
                lower[higher[at]] = lower[at]
            checked[p], checked[q] = 0, 0
            left -= 1
            if leniency > 0:
                checked[:count] = 0
            # Corners are tested strictly again, unless the polygon needed 16 tests a corner: then
            # it crosses itself, and strictness does not help.
            seen, leniency = 0, 0 if tests < 16 * count else 2
            # Skip the next corner: cutting every other one makes fewer slivers.
            at = after[q]
        else:
            at = after[at]
            seen += 1
            if seen == left:
                seen, leniency = 0, leniency + 1
                checked[:count] = 0


@entry
def _fill(points, corners, offsets, rows, begin, end, faces, scratch, plane):
    """Write the triangles of polygons k = begin..end - 1 to rows of `faces` from rows[k] on.

    The vertices of polygon k are ``points[corners[offsets[k] : offsets[k + 1]]]``. `scratch` (5, n)
    and `plane` (n, 2) are scratch for polygons of up to n corners.
    """
    # All triangles of a fan contain the corner `centre`: the first corner that is not finite, so
    # that trees ignore them all, or the first corner of a triangle or convex polygon.
    for k in range(begin, end):
        polygon, row = corners[offsets[k] : offsets[k + 1]], rows[k]
        count = len(polygon)
        if count < 3:
            continue
        centre = _first_infinite(points, polygon) if count > 3 else 0
        if centre < 0:
            _project(points, polygon, plane)
            if not _is_convex(plane[:count]):
                _clip_ears(plane[:count], polygon, scratch[:4], scratch[4], faces, row)
                continue
            centre = 0
        for i in range(1, count - 1):
            faces[row, 0] = polygon[centre]
            faces[row, 1] = polygon[(centre + i) % count]
            faces[row, 2] = polygon[(centre + i + 1) % count]
            row += 1


def corner_lists(faces: Any, vertex_count: int) -> tuple[Corners, Offsets]:
    """Return checked corners and offsets of polygons, as `triangulated` takes them.

    `faces` is an array (m, n) of the vertices of m polygons, or a list of vertices for each.
    """
    if is_masked(faces):
        raise TypeError("faces must not be a masked array: fill or drop the masked rows first")
    try:
        flat = np.asarray(faces)
        ragged = flat.dtype == object
    except ValueError:
        ragged = True
    if ragged:
        try:
            lengths = np.fromiter(map(len, faces), np.int64, len(faces))
            flat = np.array(list(chain.from_iterable(faces)))
        except (TypeError, ValueError) as error:
            what = f"faces must be an array, or lists of vertex indices: {error}"
            raise TypeError(what) from None
    elif flat.ndim == 2 or flat.shape == (0,):
        lengths, flat = np.full(len(flat), flat.shape[-1], np.int64), flat.reshape(-1)
    else:
        raise ValueError(f"faces must have shape (m, n), or be lists, got {flat.shape}")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return checked_corners(flat, offsets, vertex_count), offsets


def checked_corners(corners: NDArray[Any], offsets: Offsets, count: int) -> Corners:
    """Return `corners` as int32; raise if these and `offsets` are no polygons of `count` points."""
    if corners.dtype.kind not in "iu" and corners.size:
        raise TypeError(f"faces must be integers, got an array of {corners.dtype}")
    if corners.ndim != 1:
        raise ValueError(f"faces must be flat lists of vertex indices, got {corners.shape}")
    if offsets[0] != 0 or offsets[-1] != len(corners) or (np.diff(offsets) < 0).any():
        raise ValueError(f"faces must have offsets that ascend from 0 to {len(corners)}")
    if corners.size and (corners.min() < 0 or corners.max() >= count):
        bad = int(((corners < 0) | (corners >= count)).argmax())
        row = int(np.searchsorted(offsets, bad, "right")) - 1
        wrong = corners[offsets[row] : offsets[row + 1]].tolist()
        raise ValueError(f"faces must index the {count} vertices, got {wrong} in row {row}")
    return corners.astype(np.int32, copy=False)


def triangulated(
    points: NDArray[np.float64], corners: Corners, offsets: Offsets, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the triangles (m, 3) of polygons, with the same winding, and the polygon of each.

    Polygon i has the vertices ``corners[offsets[i] : offsets[i + 1]]``. A polygon of n corners
    gives n - 2 triangles; successive corners at one vertex count once. A polygon that crosses
    itself, or has no area, gives any n - 2 triangles of its corners. If a vertex is not finite, all
    triangles of its polygon contain it, so that trees ignore them.
    """
    corners, offsets = _distinct(corners, offsets)
    counts = np.maximum(np.diff(offsets) - 2, 0)
    total = int(counts.sum())
    if total > MAX_PRIMITIVES:
        raise ValueError(f"faces must make at most {MAX_PRIMITIVES} triangles, got {total}")
    faces = np.empty((total, 3), np.int32)
    first_rows = np.cumsum(counts) - counts
    given = [*map(kernel_input, (points, corners, offsets, first_rows))]

    def fill(begin: int, end: int) -> None:
        longest = int(np.diff(offsets[begin : end + 1]).max(initial=0))
        scratch, plane = np.empty((5, longest), np.int64), np.empty((longest, 2))
        _fill(*given, np.int64(begin), np.int64(end), faces, scratch, plane)

    share(len(counts), CHUNK, fill, threads)
    return faces, np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _distinct(corners: Corners, offsets: Offsets) -> tuple[Corners, Offsets]:
    """Return corners and offsets without corners that repeat the vertex of the next corner."""
    if len(corners) == 0:
        return corners, offsets
    following = np.roll(corners, -1)
    filled = offsets[1:] > offsets[:-1]
    # The first corner of a polygon follows its last one.
    following[offsets[1:][filled] - 1] = corners[offsets[:-1][filled]]
    distinct = corners != following
    if distinct.all():
        return corners, offsets
    return corners[distinct], np.concatenate([[0], np.cumsum(distinct)])[offsets]


@warms("polygons")
def _warm() -> None:
    square = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    triangulated(square, *corner_lists([[0, 1, 2, 3]], 4), 1)
