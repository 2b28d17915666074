"""The exact intersection of a ray with a plane, and `ray_plane`.

A plane (w, b) is the set of points p with w0 x + w1 y + w2 z + w3 = b: four coefficients and a
level, so that the two parallel planes of a slab share their coefficients. The ray (o, d) crosses it
at t = N / D with the height N = b - w3 - (w0, w1, w2) . o and the slope D = (w0, w1, w2) . d. Both
are sums of products of the given doubles: double-doubles find t, and exact sums where those cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_dot, add_product, divide, new_sum, take_sign
from bvh.geometry.arithmetic.floats import INF, LARGEST, NAN, SMALLEST
from bvh.geometry.arithmetic.vectors import dot, scaled
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import Cull, FloatResult, TruthResult, cull_code, points, reals
from bvh.runtime.calls.entries import entry
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# A sum of four products and a level in plain float64: no term is rounded more than five times, by
# 2**-53 of its size; the sixth covers the rounding of the size. Products that underflow are below
# FLOOR.
SUM_ERROR = 6.0 * 2.0**-53
FLOOR = 2.0**-1070


@inlined
def hardware_quotient(n, d):
    """Return n / d of doubles, d != 0, rounded to nearest, but 0 only for n = 0, and never inf."""
    q = n / d
    if n == 0.0:
        return 0.0
    if q == 0.0:
        return SMALLEST if (n > 0.0) == (d > 0.0) else -SMALLEST
    return max(min(q, LARGEST), -LARGEST)


@inlined
def double_quotient(n, n_size, d, d_size, k):
    """Return (decided, n / d * 2**k) of double-doubles: correctly rounded if decided, else 0.

    `n_size` and `d_size` are the sums of the absolute terms of n and d (`floats.round_quotient`).
    """
    # Nothing is decided where the quotient or the result could under- or overflow: below 2**-900
    # the last bits of the division itself would be lost.
    decided, q = floats.round_quotient(n, n_size, d, d_size)
    e = floats.exponent(q)
    if decided and -900 < e < 900 and -1020 < e + k < 1020:
        return True, floats.scale_by(q, k)
    return False, 0.0


@kernel
def slope_sign(w, d):
    """Return the exact sign of (w0, w1, w2) . d: 1 if a ray runs along the normal of plane w."""
    stay_outlined()
    sign = floats.sign_beyond(dot(w, d), SUM_ERROR * floats.dot_size(w, d) + FLOOR)
    if sign != 0:
        return sign
    # Axis-aligned planes and rays: every product has a zero factor.
    if (
        (w[0] == 0.0 or d[0] == 0.0)
        and (w[1] == 0.0 or d[1] == 0.0)
        and (w[2] == 0.0 or d[2] == 0.0)
    ):
        return 0
    total = new_sum()
    add_dot(total, 1.0, w, d)
    return take_sign(total)


@kernel
def _add_height(total, factor, o, w, b, x, y):
    """Add factor * (b - w3 - w . o) * x * y to an exact sum, for factor +1.0 or -1.0.

    In parentheses is the height of the plane (w, b) over the origin o; w . o is without w3.
    """
    add_product(total, factor, b, x, y, 1.0)
    add_product(total, -factor, w[3], x, y, 1.0)
    for i in range(3):
        add_product(total, -factor, w[i], o[i], x, y)


@kernel
def height_sign(o, w, b):
    """Return the exact sign of b - w3 - w . o for a point o and the plane w . p + w3 = b.

    It is 1 if o is below the plane, -1 if above, on the side that w points to, and 0 if in it.
    """
    stay_outlined()
    value = (w[0] * o[0] + w[1] * o[1] + w[2] * o[2] + w[3]) - b
    if abs(value) > SUM_ERROR * (floats.dot_size(w, o) + abs(w[3]) + abs(b)) + FLOOR:
        return -1 if value > 0.0 else 1
    if abs(b) == INF:
        return 1 if b > 0.0 else -1
    total = new_sum()
    _add_height(total, 1.0, o, w, b, 1.0, 1.0)
    return take_sign(total)


@kernel
def plane_crossing(o, d, w, b):
    """Return t where the ray (o, d) meets the plane w . p + w3 = b, rounded to the nearest double.

    The slope w . d must not be zero. A t that is not zero never becomes zero, nor infinite unless b
    is.
    """
    stay_outlined()
    if abs(b) == INF:
        return b * slope_sign(w, d)
    # Sums of exact products: three additions of double-doubles lose 9 * 2**-106 of the size.
    # Scaling the direction by 2**-k to about one keeps its products from underflow, but may itself
    # lose 2**-1075 of a component: `slope_size` must be too large for that to matter.
    k = min(floats.exponent(floats.largest(d)), 1022)
    r = scaled(d, floats.power_of_two(-k))
    height = floats.dd_add(
        floats.dd_add(floats.two_product(-w[0], o[0]), floats.two_product(-w[1], o[1])),
        floats.dd_add(floats.two_product(-w[2], o[2]), floats.two_sum(b, -w[3])),
    )
    slope = floats.dd_add(
        floats.dd_add(floats.two_product(w[0], r[0]), floats.two_product(w[1], r[1])),
        floats.two_product(w[2], r[2]),
    )
    height_size, slope_size = floats.dot_size(w, o) + abs(w[3]) + abs(b), floats.dot_size(w, r)
    decided, t = double_quotient(height, height_size, slope, slope_size, -k)
    if decided and slope_size > 2.0**-960 * floats.largest(w):
        return t
    n_sum, d_sum = new_sum(), new_sum()
    _add_height(n_sum, 1.0, o, w, b, 1.0, 1.0)
    add_dot(d_sum, 1.0, w, d)
    return divide(n_sum, d_sum)


@kernel
def crossed_later(o, d, w, b, v, c):
    """Return whether a ray (o, d) crosses a plane (w, b) strictly later than (v, c), exactly.

    The planes are w . p + w3 = b and v . p + v3 = c. Both levels b and c are finite, and neither
    slope, w . d or v . d, is zero.
    """
    # Multiplied by both slopes, the difference of the two crossings is a sum of products of four
    # doubles.
    stay_outlined()
    total = new_sum()
    for i in range(3):
        if v[i] != 0.0:
            _add_height(total, 1.0, o, w, b, v[i], d[i])
        if w[i] != 0.0:
            _add_height(total, -1.0, o, v, c, w[i], d[i])
    return take_sign(total) * slope_sign(w, d) * slope_sign(v, d) > 0


@entry
def _ray_plane(rays, planes, cull, hits):
    """Write to `hits`, a `PlaneHit` of arrays, the result of each ray and its own plane.

    `cull` is the side that is missed: 1 for the back, -1 for the front, 0 for none.
    """
    (origins, directions, lowest, highest), (normal, offset), (hit, t) = rays, planes, hits
    for i in range(len(hit)):
        o, d = floats.vector(origins, i), floats.vector(directions, i)
        n, c = floats.vector(normal, i), offset[i, 0]
        t_min, t_max = lowest[i], highest[i]
        hit[i], t[i] = False, INF
        # A ray or plane that is not finite, a zero direction or normal, or an empty range: a miss.
        # c - c is 0 only if c is finite.
        valid = (
            floats.can_hit(o, d) and floats.finite(n) and c - c == 0.0 and floats.largest(n) > 0.0
        )
        if not (valid and t_min <= t_max):
            continue
        w = *n, c
        side = slope_sign(w, d)
        if side == 0:
            # Parallel to the plane: a miss, with t = NaN in it.
            if height_sign(o, w, 0.0) == 0:
                t[i] = NAN
        elif side != cull:
            at = plane_crossing(o, d, w, 0.0)
            if t_min <= at <= t_max:
                hit[i], t[i] = True, at


class PlaneHit(NamedTuple):
    """Result of `ray_plane`; each field has the leading shape of the arguments."""

    hit: TruthResult
    t: FloatResult


def ray_plane(
    origins: ArrayLike, directions: ArrayLike, normal: ArrayLike, offset: ArrayLike,
    t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf, *, cull: Cull | None = None,
) -> PlaneHit:  # fmt: skip
    """Intersect rays with planes, one to one after broadcasting.

    The plane is {p : normal . p + offset = 0}, hit from both sides by default. Whether a ray is
    parallel to the plane, or in it, is decided exactly for the given doubles, without a tolerance.

    Parameters
    ----------
    origins, directions
        As in `ray_box`.
    normal : array_like, shape (..., 3)
        Need not be normalised.
    offset : array_like, shape (...)
        In units of the normal's length: minus the normal's dot product with a point of the plane.
    t_min, t_max : array_like, shape (...)
        Range of t, both ends included.
    cull : {None, "back", "front"}
        Ignore planes that are seen from behind (the ray runs along the normal), or from the front.

    Returns
    -------
    hit : bool or ndarray of bool, shape (...)
    t : float or ndarray, shape (...)
        In units of the direction's length, correctly rounded. +inf for a miss; NaN, and no hit,
        if the ray is in the plane. A zero normal, or a plane or ray that is not finite, is a miss.

    Notes
    -----
    t = -(n.o + c) / (n.d); see Ericson 2005, "Real-Time Collision Detection", section 5.3.1, whose
    test has tolerances and, for triangles, a single side.

    Examples
    --------
    >>> import bvh
    >>> bvh.ray_plane([0, 0, 3], [0, 0, -2], normal=[0, 0, 1], offset=-1)
    PlaneHit(hit=True, t=1.0)
    >>> bvh.ray_plane([0, 0, 1], [1, 0, 0], normal=[0, 0, 1], offset=-1)  # in the plane
    PlaneHit(hit=False, t=nan)
    """
    if is_other(origins, directions, normal, offset, t_min, t_max):
        return foreign_answer(ray_plane, locals())
    side, rays = cull_code(cull), (origins, directions, t_min, t_max)
    planes = {"normal": points("normal", normal), "offset": reals("offset", offset)[..., None]}
    return intersect_each(_ray_plane, PlaneHit, rays, planes, side)


warms("rays and planes")(lambda: ray_plane([0, 0, 5], [0, 0, -1], [0, 0, 1], 0))
