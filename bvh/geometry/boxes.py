"""The exact slab test of a ray against an axis-aligned box, and `ray_box`.

A box is the intersection of three slabs, one an axis, and a ray is in a slab between two crossings
(b - o) / d of its bounds b, near and far chosen by the sign of d. It meets the box if the latest
entry is not after the earliest exit. Here the crossings are the real quotients, rounded to nearest.
Rounding is monotonic, so entries and exits that differ as doubles are decided, and only equal ones
are compared exactly.

Slab test: Kay and Kajiya 1986, "Ray tracing complex scenes"; near and far by sign: Smits 1998,
"Efficiency issues for ray tracing"; 1/d at the edges: Williams et al. 2005, "An efficient and
robust ray-box intersection algorithm".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.floats import INF, vector
from bvh.geometry.planes import crossed_later, hardware_quotient, plane_crossing
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import FloatResult, TruthResult, points
from bvh.runtime.calls.entries import entry
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# The planes of an axis-aligned box in the form that `planes.crossed_later` takes.
UNIT_ROWS = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))


@kernel
def slab_crossing(o, d, b):
    """Return t where o + t d = b, on one axis, correctly rounded, for d != 0.

    The result is zero only if b = o, and infinite only if b is.
    """
    stay_outlined()
    # b - o = n + tail. The tail is NaN if the difference overflows or `b` is infinite.
    n, tail = floats.two_sum(b, -o)
    if tail == 0.0:
        return hardware_quotient(n, d)
    # Correct q = n / d by the remainder. As n - q d is a double, only the sum with the tail and the
    # division round. If a change of the correction by 2**-50 of itself does not change t, then t is
    # the nearest double (Ziv's test), provided that nothing underflows or overflows.
    q = n / d
    p, e = floats.two_product(q, d)
    correction = (((n - p) - e) + tail) / d
    margin = 2.0**-50 * abs(correction)
    t = q + (correction + margin)
    if t == q + (correction - margin) and min(abs(n), abs(q)) > 2.0**-900 and abs(q) < 2.0**900:
        return t
    # By double-doubles or exact sums.
    return plane_crossing((o, 0.0, 0.0), (d, 0.0, 0.0), UNIT_ROWS[0], b)


@inlined
def _rough_crossing(o, d, b):
    """Return bounds (below, above) of the exact (b - o) / d, NaN or infinite if unknown.

    o, d and the bound b of a slab are numbers of one axis; d may be zero.
    """
    t = (b - o) / d
    # Two roundings of 2**-53 each, or of half the smallest denormal.
    margin = 2.0**-51 * abs(t) + 2.0**-1072
    return t - margin, t + margin


@inlined
def rough_interval(near, far):
    """Return (latest, earliest): bounds of a ray's latest entry and earliest exit of three slabs.

    `near` and `far` are bounds (below, above) of where the ray enters and leaves each slab; those
    that are NaN, unknown, have no effect. `latest` bounds from below, `earliest` from above.
    """
    latest = floats.lose_nan_max(floats.lose_nan_max(-INF, near[0][0]), near[1][0])
    earliest = floats.lose_nan_min(floats.lose_nan_min(INF, far[0][1]), far[1][1])
    return floats.lose_nan_max(latest, near[2][0]), floats.lose_nan_min(earliest, far[2][1])


@inlined
def is_box(lower, upper):
    """Return whether the corners are those of a box that is neither inverted nor NaN."""
    return lower[0] <= upper[0] and lower[1] <= upper[1] and lower[2] <= upper[2]


@inlined
def _by_sign(slopes, a, b):
    """Return a 3-tuple of the components of a where slopes are positive, of b elsewhere."""
    return (
        a[0] if slopes[0] > 0.0 else b[0], a[1] if slopes[1] > 0.0 else b[1],
        a[2] if slopes[2] > 0.0 else b[2],
    )  # fmt: skip


@inlined
def entered_and_left(slopes, lower, upper):
    """Return (first, last): the bounds of a box at which a ray enters and leaves each slab.

    `slopes` are three numbers with the signs of the ray's direction across the slabs: it enters at
    the lower bound where they are positive.
    """
    return _by_sign(slopes, lower, upper), _by_sign(slopes, upper, lower)


@kernel
def common_interval(o, d, rows, first, last, near, far):
    """Return (hit, near, far): the interval of t of a ray in three slabs, or (False, inf, -inf).

    `rows` are the coefficients w of the slabs' planes w . p + w3 = level. The arguments `first` and
    `last` are the levels at which the ray enters and leaves each slab, `near` and `far` the
    correctly rounded t of these crossings, -inf and inf where a slab does not limit the result.
    """
    stay_outlined()
    start = max(near[0], max(near[1], near[2]))
    end = min(far[0], min(far[1], far[2]))
    if start < end:
        return True, start, end
    # An infinite bound alone (equal ends at infinity) encloses no point.
    if start > end or abs(start) == INF:
        return False, INF, -INF
    # An entry and an exit round to the same double: compare the real numbers.
    for i in range(3):
        for j in range(3):
            # The two planes of one slab are in order by the choice of first and last.
            if i != j and near[i] == start and far[j] == start:
                if crossed_later(o, d, rows[i], first[i], rows[j], last[j]):
                    return False, INF, -INF
    return True, start, end


# (lower, upper) of box i of an (n, 6) array.
read_box = inlined(lambda records, i: (vector(records, 2 * i), vector(records, 2 * i + 1)))


@kernel
def box_interval(o, d, lower, upper):
    """Return (hit, near, far) of the line of a finite ray in a closed box, for t of any sign.

    A hit is decided exactly; a miss is (False, inf, -inf). Both ends are correctly rounded: a
    non-zero end never becomes 0, a finite one never infinite. An infinite bound does not limit the
    box; inverted or NaN bounds make an empty one.
    """
    if not is_box(lower, upper):
        return False, INF, -INF
    # A ray parallel to a slab is inside for all t, or never.
    if (
        (d[0] == 0.0 and not lower[0] <= o[0] <= upper[0])
        or (d[1] == 0.0 and not lower[1] <= o[1] <= upper[1])
        or (d[2] == 0.0 and not lower[2] <= o[2] <= upper[2])
    ):
        return False, INF, -INF
    first, last = entered_and_left(d, lower, upper)
    # Most misses are decided by bounds, in which the 0/0 or 1/0 of a parallel slab has no effect.
    near0 = _rough_crossing(o[0], d[0], first[0])
    near1 = _rough_crossing(o[1], d[1], first[1])
    near2 = _rough_crossing(o[2], d[2], first[2])
    far0 = _rough_crossing(o[0], d[0], last[0])
    far1 = _rough_crossing(o[1], d[1], last[1])
    far2 = _rough_crossing(o[2], d[2], last[2])
    latest, earliest = rough_interval((near0, near1, near2), (far0, far1, far2))
    if latest > earliest:
        return False, INF, -INF
    # Leave out slabs that cannot have the latest entry or the earliest exit, and parallel ones;
    # "not <", so that unknown bounds, NaN, leave none out.
    near = (
        slab_crossing(o[0], d[0], first[0]) if d[0] != 0.0 and not near0[1] < latest else -INF,
        slab_crossing(o[1], d[1], first[1]) if d[1] != 0.0 and not near1[1] < latest else -INF,
        slab_crossing(o[2], d[2], first[2]) if d[2] != 0.0 and not near2[1] < latest else -INF,
    )
    far = (
        slab_crossing(o[0], d[0], last[0]) if d[0] != 0.0 and not far0[0] > earliest else INF,
        slab_crossing(o[1], d[1], last[1]) if d[1] != 0.0 and not far1[0] > earliest else INF,
        slab_crossing(o[2], d[2], last[2]) if d[2] != 0.0 and not far2[0] > earliest else INF,
    )
    return common_interval(o, d, UNIT_ROWS, first, last, near, far)


@inlined
def clipped(interval, t_min, t_max):
    """Return the part of an interval (hit, near, far) that lies in t_min..t_max, or a miss."""
    hit, near, far = interval
    if hit and near <= t_max and far >= t_min and t_min <= t_max:
        return True, max(near, t_min), min(far, t_max)
    return False, INF, -INF


@entry
def _ray_box(rays, boxes, hits):
    """Write to `hits`, a `BoxHit` of arrays, the result of each ray and its own box."""
    (origins, directions, t_min, t_max), (lower, upper), (hit, t_near, t_far) = rays, boxes, hits
    for i in range(len(hit)):
        o, d = vector(origins, i), vector(directions, i)
        interval = False, INF, -INF
        # A ray that is not finite, or has a zero direction, misses.
        if floats.can_hit(o, d):
            interval = box_interval(o, d, vector(lower, i), vector(upper, i))
        hit[i], t_near[i], t_far[i] = clipped(interval, t_min[i], t_max[i])


class BoxHit(NamedTuple):
    """Result of `ray_box` and `ray_obb`; each field has the leading shape of the arguments."""

    hit: TruthResult
    t_near: FloatResult
    t_far: FloatResult


def ray_box(
    origins: ArrayLike, directions: ArrayLike, lower: ArrayLike, upper: ArrayLike,
    t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf,
) -> BoxHit:  # fmt: skip
    """Intersect rays with axis-aligned boxes, one to one after broadcasting.

    Boxes are solid and closed: a ray in the plane of a face, along an edge or through a corner
    hits, and a ray that starts inside hits at the start of its range. Hit or miss is decided
    exactly for the given doubles.

    Parameters
    ----------
    origins, directions : array_like, shape (..., 3)
        Rays o + t d. Directions need not be normalised.
    lower, upper : array_like, shape (..., 3)
        Corners. An infinite bound does not limit the box; a box with lower > upper or NaN on any
        axis is empty.
    t_min, t_max : array_like, shape (...)
        Range of t, both ends included. It is compared with the rounded t_near and t_far.

    Returns
    -------
    hit : bool or ndarray of bool, shape (...)
    t_near, t_far : float or ndarray, shape (...)
        The interval of the ray in the box, clipped to the range, in units of the direction's
        length and correctly rounded. +inf and -inf for a miss. A ray that is not finite, has a
        zero direction or an empty range misses.

    Raises
    ------
    ValueError, TypeError
        If an argument has the wrong shape or type; the message names it.

    Notes
    -----
    The slab test of Kay and Kajiya 1986, "Ray tracing complex scenes".

    Examples
    --------
    >>> import bvh
    >>> bvh.ray_box([-1, 0, 0], [2, 0, 0], lower=[0, 0, 0], upper=[3, 1, 1])
    BoxHit(hit=True, t_near=0.5, t_far=2.0)
    >>> bvh.ray_box([1, 0, 0], [2, 0, 0], lower=[0, 0, 0], upper=[3, 1, 1])  # from inside
    BoxHit(hit=True, t_near=0.0, t_far=1.0)
    """
    if is_other(origins, directions, lower, upper, t_min, t_max):
        return foreign_answer(ray_box, locals())
    rays = origins, directions, t_min, t_max
    corners = {"lower": points("lower", lower), "upper": points("upper", upper)}
    return intersect_each(_ray_box, BoxHit, rays, corners)


warms("rays and boxes")(lambda: ray_box([0, 0, 5], [0, 0, -1], [-1, -1, -1], [1, 1, 1]))
