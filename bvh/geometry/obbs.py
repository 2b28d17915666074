"""The exact interval of a ray in an oriented box, and `ray_obb`.

The box {A x + T : lower <= x <= upper} is defined here by the inverse transform: it is the set of
points p whose local coordinates w_i . p + w_i3 lie in lower_i..upper_i, where the rows (w_i, w_i3)
are the entries of the true inverse, each correctly rounded to float64, once. All decisions are
exact for these rows. Where the inverse has a float64 form (translations of few bits, permutations
of axes, powers of two) this is the given box itself; elsewhere it differs from it by less than the
rounding of the rows.

Instead of a transformed ray, which rounding would bend, the box's planes are used in world
coordinates: w_i . p = b - w_i3 is crossed at t = (b - w_i3 - w_i . o) / (w_i . d).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry import boxes, planes, transforms
from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.floats import INF, LARGEST, vector
from bvh.geometry.boxes import BoxHit
from bvh.geometry.planes import FLOOR, SUM_ERROR, height_sign, plane_crossing
from bvh.geometry.ray_shapes import intersect_each
from bvh.geometry.transforms import EXPECTED, column_of, inverse_entry, refuse, rows_of
from bvh.runtime.arguments import kernel_input, points
from bvh.runtime.calls.entries import entry
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# Status of an inverse.
INVERTED, SINGULAR, OVERFLOWN = 0, 1, 2


@kernel
def _inverse_row(a, b, c, t):
    """Return the first row of the inverse of the affine map with columns a, b, c and shift t.

    Its four numbers are rounded correctly; a number that overflows becomes the largest double. The
    determinant must not be zero.
    """
    # The row is (b x c, -t . (b x c)) / (a . (b x c)).
    stay_outlined()
    # Double-doubles of columns scaled to about one, by 2**-i to 2**-k, and of the shift by 2**-m:
    # see `floats.DD_ERROR` for their error. In the quotients the scales of b and c cancel.
    i = min(floats.exponent(floats.largest(a)), 1022)
    j = min(floats.exponent(floats.largest(b)), 1022)
    k = min(floats.exponent(floats.largest(c)), 1022)
    m = min(floats.exponent(floats.largest(t)), 1022)
    u, v = floats.unrounded(a, i), floats.unrounded(b, j)
    w, s = floats.unrounded(c, k), floats.unrounded(t, m)
    n = floats.dd_cross(v, w)
    n_size = floats.cross_size(floats.high(v), floats.high(w))
    det, det_size = floats.dd_dot(n, u), floats.dot_size(n_size, floats.high(u))
    shift = floats.dd_dot(n, s)
    ok0, x = planes.double_quotient(n[0], n_size[0], det, det_size, -i)
    ok1, y = planes.double_quotient(n[1], n_size[1], det, det_size, -i)
    ok2, z = planes.double_quotient(n[2], n_size[2], det, det_size, -i)
    h_size = floats.dot_size(n_size, floats.high(s))
    ok3, h = planes.double_quotient(shift, h_size, det, det_size, m - i)
    return (
        x if ok0 else inverse_entry(a, b, c, t, np.int64(0)),
        y if ok1 else inverse_entry(a, b, c, t, np.int64(1)),
        z if ok2 else inverse_entry(a, b, c, t, np.int64(2)),
        -h if ok3 else inverse_entry(a, b, c, t, np.int64(3)),
    )


@entry
def _invert(matrices, rows, status):
    """Write the inverses of affine maps (n, 3, 4) to `rows`, of that shape, and each one's status.

    The status is INVERTED, SINGULAR (no rows are written) or OVERFLOWN.
    """
    for i in range(len(matrices)):
        a, b, c = column_of(matrices, i, 0), column_of(matrices, i, 1), column_of(matrices, i, 2)
        shift = column_of(matrices, i, 3)
        status[i] = INVERTED
        if transforms.determinant_sign(a, b, c) == 0:
            status[i] = SINGULAR
            continue
        # Cyclic permutations of the columns move the inverse's other rows to its first one.
        for j in range(3):
            row = _inverse_row(a, b, c, shift)
            a, b, c = b, c, a
            for k in range(4):
                rows[i, j, k] = row[k]
                # Values that overflow are rounded to the largest double.
                if abs(row[k]) == LARGEST:
                    status[i] = OVERFLOWN


def inverses(maps: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Return (rows, status): correctly rounded inverses of affine maps (n, 3, 4), of that shape.

    The status (n,) is INVERTED. For maps without a finite inverse it is SINGULAR or OVERFLOWN, and
    their rows are no inverse.
    """
    rows, status = np.zeros(maps.shape), np.empty(len(maps), np.int8)
    _invert(kernel_input(maps), rows, status)
    return rows, status


def local_frames(name: str, transform: ArrayLike) -> NDArray[np.float64]:
    """Return the rows (..., 3, 4) of the inverses of matrices (..., 4, 4) from local to world.

    Raises a ValueError, with the argument's `name`, if a matrix is not affine, not finite,
    singular, or so close to singular that its inverse, or the inverse of that, is not finite.
    """
    matrices = transforms.square_matrices(name, transform)
    shape = matrices.shape[:-2]
    flat = matrices.reshape(-1, 4, 4)
    refuse(name, shape, ~np.isfinite(flat).all(axis=(1, 2)), EXPECTED[transforms.INFINITE])
    not_affine = np.not_equal(flat[:, 3], [0.0, 0.0, 0.0, 1.0]).any(axis=1)
    refuse(name, shape, not_affine, EXPECTED[transforms.NOT_AFFINE])
    rows, status = inverses(flat[:, :3])
    refuse(name, shape, status == SINGULAR, EXPECTED[transforms.SINGULAR])
    refuse(name, shape, status == OVERFLOWN, EXPECTED[transforms.EXTREME])
    refuse(name, shape, inverses(rows)[1] != INVERTED, EXPECTED[transforms.EXTREME])
    return rows.reshape(*shape, 3, 4)


def obb_bounds(
    lower: NDArray[np.float64], upper: NDArray[np.float64], rows: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (low, high), the corners (n, 3) of axis-aligned boxes that contain oriented boxes.

    Oriented boxes have local corners lower <= upper (n, 3), and `rows` (n, 3, 4), maps from the
    world to local coordinates.
    """
    # The rows' true inverse takes local y to p = V y + v; `inverses` has each entry of it within
    # 2**-53 of its size (or half a denormal). A coordinate of p is a sum of four terms, so it is
    # bounded by the sum of the terms' bounds. The errors of entries and products (2**-53 each), of
    # the sum (3 * 2**-53) and of adding the pad (2**-53) are at most about 6 * 2**-53 of the sum of
    # the terms' sizes; the pad has 8. `floor` covers underflow: denormal entries are off by up to
    # 2**-1075, times a coordinate of y, and denormal products by as much.
    inverse, _ = inverses(rows)
    linear, shift = inverse[:, :, :3], inverse[:, :, 3]
    with np.errstate(over="ignore", invalid="ignore"):
        ends = linear * lower[:, None, :], linear * upper[:, None, :]
        reach = np.maximum(np.abs(lower), np.abs(upper))
        size = np.maximum(np.abs(ends[0]), np.abs(ends[1])).sum(axis=2) + np.abs(shift)
        floor = 2.0**-1072 * (1.0 + reach.sum(axis=1, keepdims=True))
        pad = 8.0 * 2.0**-53 * size + floor
        low, high = np.minimum(*ends).sum(axis=2), np.maximum(*ends).sum(axis=2)
        return low + shift - pad, high + shift + pad


@inlined
def _rough_crossing(level, at, size, slope, slope_error):
    """Return bounds (below, above) of the exact t at which a ray crosses the plane of a level.

    The plane is w . p + w3 = level. For the ray (o, d), `at` is w . o + w3, and `size` the sum of
    its absolute terms. `slope` is w . d, off by at most `slope_error`; the caller has checked that
    it is more than twice this error.
    """
    # With N and D the height and slope in plain float64 and E, F their error bounds, N/D is wrong
    # by at most (E + |N/D| F) / (|D| - F) and its own rounding, where |D| - F is above |D| / 2.
    t = (level - at) / slope
    error = SUM_ERROR * (size + abs(level)) + FLOOR + abs(t) * slope_error
    margin = 2.1 * (error / abs(slope)) + 2.0**-51 * abs(t) + FLOOR
    return t - margin, t + margin


@inlined
def _rough_slab(o, d, w, lower, upper):
    """Return (sign of the slope, near, far) of a ray in the slab between two planes.

    `near` and `far` are pairs (below, above) around the exact t at which the ray enters and leaves
    the slab lower <= (w0, w1, w2) . p + w3 <= upper, for a row w of the inverse.
    """
    slope = w[0] * d[0] + w[1] * d[1] + w[2] * d[2]
    slope_error = SUM_ERROR * floats.dot_size(w, d) + FLOOR
    if not abs(slope) > 2.0 * slope_error:
        # Too flat, or NaN, for bounds: any t is possible.
        return planes.slope_sign(w, d), (-INF, INF), (-INF, INF)
    at = w[0] * o[0] + w[1] * o[1] + w[2] * o[2] + w[3]
    size = floats.dot_size(w, o) + abs(w[3])
    first, last = (lower, upper) if slope > 0.0 else (upper, lower)
    return (
        1 if slope > 0.0 else -1,
        _rough_crossing(first, at, size, slope, slope_error),
        _rough_crossing(last, at, size, slope, slope_error),
    )


@inlined
def read_obb(records, i):
    """Return (lower, upper, rows of the inverse transform) of oriented box i of (n, 18) numbers."""
    return vector(records, 6 * i), vector(records, 6 * i + 1), rows_of(records, 18 * i + 6)


@kernel
def obb_interval(o, d, lower, upper, rows):
    """Return the `boxes.box_interval` of an oriented box with local corners `lower` and `upper`.

    `rows`, three of four numbers, map the world to local coordinates.
    """
    if not boxes.is_box(lower, upper):
        return False, INF, -INF
    u, v, w = rows
    s0, near0, far0 = _rough_slab(o, d, u, lower[0], upper[0])
    s1, near1, far1 = _rough_slab(o, d, v, lower[1], upper[1])
    s2, near2, far2 = _rough_slab(o, d, w, lower[2], upper[2])
    latest, earliest = boxes.rough_interval((near0, near1, near2), (far0, far1, far2))
    if latest > earliest:
        return False, INF, -INF
    # A ray parallel to a slab is inside for all t, or never.
    if (
        (s0 == 0 and (height_sign(o, u, lower[0]) > 0 or height_sign(o, u, upper[0]) < 0))
        or (s1 == 0 and (height_sign(o, v, lower[1]) > 0 or height_sign(o, v, upper[1]) < 0))
        or (s2 == 0 and (height_sign(o, w, lower[2]) > 0 or height_sign(o, w, upper[2]) < 0))
    ):
        return False, INF, -INF
    first, last = boxes.entered_and_left((s0, s1, s2), lower, upper)
    # Leave out slabs that cannot have the latest entry or the earliest exit, and parallel ones;
    # "not <", so that unknown bounds, NaN, leave none out.
    near = (
        plane_crossing(o, d, u, first[0]) if s0 != 0 and not near0[1] < latest else -INF,
        plane_crossing(o, d, v, first[1]) if s1 != 0 and not near1[1] < latest else -INF,
        plane_crossing(o, d, w, first[2]) if s2 != 0 and not near2[1] < latest else -INF,
    )
    far = (
        plane_crossing(o, d, u, last[0]) if s0 != 0 and not far0[0] > earliest else INF,
        plane_crossing(o, d, v, last[1]) if s1 != 0 and not far1[0] > earliest else INF,
        plane_crossing(o, d, w, last[2]) if s2 != 0 and not far2[0] > earliest else INF,
    )
    return boxes.common_interval(o, d, rows, first, last, near, far)


@entry
def _ray_obb(rays, obbs, hits):
    """Write to `hits`, a `BoxHit` of arrays, the result of each ray and its own oriented box.

    `obbs` are lower and upper local corners (n, 3), and maps to local coordinates (n, 12).
    """
    (origins, directions, t_min, t_max), (lower, upper, rows) = rays, obbs
    hit, t_near, t_far = hits
    for i in range(len(hit)):
        o, d = vector(origins, i), vector(directions, i)
        interval = False, INF, -INF
        if floats.can_hit(o, d):
            interval = obb_interval(o, d, vector(lower, i), vector(upper, i), rows_of(rows, 12 * i))
        hit[i], t_near[i], t_far[i] = boxes.clipped(interval, t_min[i], t_max[i])


def ray_obb(
    origins: ArrayLike, directions: ArrayLike, lower: ArrayLike, upper: ArrayLike,
    transform: ArrayLike, t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf,
) -> BoxHit:  # fmt: skip
    """Intersect rays with oriented boxes, one to one after broadcasting.

    An oriented box is an axis-aligned box in local coordinates, taken to world coordinates by an
    affine matrix: rotation, scale, shear, reflection. It is solid and closed. Hit or miss is
    decided exactly for the box whose planes are given by the inverse matrix, correctly rounded to
    float64.

    Parameters
    ----------
    origins, directions, t_min, t_max
        As in `ray_box`; in world coordinates.
    lower, upper : array_like, shape (..., 3)
        Corners in local coordinates; infinite, inverted and NaN ones as in `ray_box`.
    transform : array_like, shape (..., 4, 4)
        From local to world coordinates, invertible; the last row is (0, 0, 0, 1).

    Returns
    -------
    hit, t_near, t_far
        As in `ray_box`.

    Notes
    -----
    The slab test in the planes of the box: Ericson 2005, "Real-Time Collision Detection",
    section 5.3.3.

    Examples
    --------
    >>> import bvh
    >>> turned = [[0, -1, 0, 5], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    >>> bvh.ray_obb([5, -1, 0], [0, 1, 0], [0, 0, 0], [2, 1, 1], transform=turned)
    BoxHit(hit=True, t_near=1.0, t_far=3.0)
    """
    if is_other(origins, directions, lower, upper, transform, t_min, t_max):
        return foreign_answer(ray_obb, locals())
    frames = local_frames("transform", transform)
    rays = origins, directions, t_min, t_max
    obbs = {
        "lower": points("lower", lower),
        "upper": points("upper", upper),
        "transform": frames.reshape(*frames.shape[:-2], 12),
    }
    return intersect_each(_ray_obb, BoxHit, rays, obbs)


warms("rays and oriented boxes")(lambda: ray_obb([5] * 3, [-1] * 3, [0] * 3, [1] * 3, np.eye(4)))
