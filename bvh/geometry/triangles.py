"""The exact intersection of a ray with a triangle, and `ray_triangle`.

The ray (o, d) passes an edge (A, B) on the side given by the sign of d . ((A-o) x (B-o)), the
volume spanned by the ray and the edge. A triangle is hit when its three edges agree: all signs
>= 0 or all <= 0, and not all zero (then the ray lies in the plane, or the face has no area).
The signs are those of the real numbers, so two faces that share an edge, which run through it in
opposite directions, can neither both miss nor, off the edge, both hit a ray.

Plücker side test: Jones 2000, "Intersecting a ray and a triangle with Plücker coordinates";
floating-point filter: Shewchuk 1997, "Adaptive precision floating-point arithmetic".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import add_triple, divide, new_sum, triple_sign
from bvh.geometry.arithmetic.floats import DD_ERROR, INF, NAN
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import Cull, FloatResult, TruthResult, cull_code, points
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import by_type, entry, inlined, kernel, stay_outlined, warms

# The filters are used for coordinates between 2**-REACH and 2**REACH: others could over- or
# underflow in their products.
REACH = 500

# Rounding of `filtered_side`: three products and sums deep, seven roundings of 2**-53 each, and the
# rounding of the size itself; 9 covers (1 + 2**-53)**10 - 1 over 2**-53 many times.
SIDE_ERROR = 9.0 * 2.0**-53


@inlined
def scaled_ray(o, d, reach):
    """Return (d_scaled, floor, E, K) for the filters of `sides`, `distance` and `barycentrics`."""
    # `reach` bounds the coordinates of the triangles to come. With E the exponent of the largest
    # coordinate of all (origin included) and K that of d, differences of points stay below
    # 2**(E+2), so d * 2**(-K-2E) times two differences stays below 2**9: nothing overflows. What
    # underflows is bounded absolutely by `floor`: each product of two differences may lose
    # 2**-1075, six of them times abs(d') < 2**(2-2E); scaling d may lose 2**-1075 a component,
    # times cross products below 2**(2E+5); three last products lose 2**-1075. In sum less than
    # 2**(2*abs(E) - 1065). It is inf where the filters cannot be used and everything is decided
    # exactly.
    e = floats.exponent(max(floats.largest(o), reach))
    k = min(floats.exponent(floats.largest(d)), 1022)
    if e < -REACH or e > REACH:
        return d, INF, e, k
    s = floats.power_of_two(-k)
    q = floats.power_of_two(-2 * e)
    scaled = ((d[0] * s) * q, (d[1] * s) * q, (d[2] * s) * q)
    return scaled, floats.power_of_two(2 * abs(e) - 1064), e, k


@inlined
def filtered_side(o, d_scaled, floor, a, b):
    """Return the sign of d . ((a-o) x (b-o)), or 0 where rounding could have changed it."""
    # With the edge b-a instead of b-o, a far origin costs one factor of its distance, not two.
    p, q = minus(a, o), minus(b, a)
    value, size = dot(d_scaled, cross(p, q)), floats.dot_size(d_scaled, floats.cross_size(p, q))
    # A NaN or an infinite size fails this test and is left undecided, too.
    if abs(value) > SIDE_ERROR * size + floor:
        return 1 if value > 0.0 else -1
    return 0


@kernel
def _exact_side(o, d, a, b):
    """Return the exact sign of d . ((a-o) x (b-a)) where the filter cannot decide."""
    stay_outlined()
    # Common for axis-parallel rays: all six products have a factor that is exactly zero.
    # (A computed difference is zero only if the real one is.)
    zero = True
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if d[i] != 0.0 and ((a[j] != o[j] and b[k] != a[k]) or (a[k] != o[k] and b[j] != a[j])):
            zero = False
    return 0 if zero else triple_sign(o, d, a, b)


@inlined
def sides(o, d, d_scaled, floor, v0, v1, v2):
    """Return the side on which a ray passes a triangle: -1 or 1 for a hit, 0 for a miss."""
    # -1 is the front: the ray opposes the normal (v1-v0) x (v2-v0).

    # Two edges of opposite signs are a miss whatever the third is, so all are filtered first.
    s0 = filtered_side(o, d_scaled, floor, v0, v1)
    s1 = filtered_side(o, d_scaled, floor, v1, v2)
    if s0 * s1 < 0:
        return 0
    s2 = filtered_side(o, d_scaled, floor, v2, v0)
    if s0 * s2 < 0 or s1 * s2 < 0:
        return 0
    if s0 == 0:
        s0 = _exact_side(o, d, v0, v1)
        if s0 * s1 < 0 or s0 * s2 < 0:
            return 0
    if s1 == 0:
        s1 = _exact_side(o, d, v1, v2)
        if s1 * s0 < 0 or s1 * s2 < 0:
            return 0
    if s2 == 0:
        s2 = _exact_side(o, d, v2, v0)
        if s2 * s0 < 0 or s2 * s1 < 0:
            return 0
    return floats.sign(s0 + s1 + s2)


@inlined
def _scaled_vectors(o, d, e, k, v0, v1, v2):
    """Return v0-o, v1-v0, v2-v0 and d as vectors of double-doubles, scaled to at most about one."""
    # The differences are exact unless they underflow.
    a = floats.difference(v0, o, -e)
    p = floats.difference(v1, v0, -e)
    q = floats.difference(v2, v0, -e)
    s = floats.power_of_two(-k)
    return a, p, q, ((d[0] * s,), (d[1] * s,), (d[2] * s,))


@by_type(inline=True)
def _across(a, b):
    """Return the products of high with low parts; a number that is exact has no low one."""
    if len(a) == 1:
        return lambda a, b: a[0] * b[1]
    return (lambda a, b: a[1] * b[0]) if len(b) == 1 else lambda a, b: a[0] * b[1] + a[1] * b[0]


@inlined
def _minus(a, b):
    """Return the difference of two products of a double-double component, and its size."""
    # a and b are two of (high, low) or (high,) each. Low parts are at most 2**-53 of high ones, so
    # leaving out the product of two of them and rounding the other corrections lose less than
    # 10 * 2**-106 of the size.
    m, e = floats.two_product(a[0][0], a[1][0])
    n, f = floats.two_product(b[0][0], b[1][0])
    s, g = floats.two_sum(m, -n)
    return (s, g + ((e - f) + (_across(a[0], a[1]) - _across(b[0], b[1])))), abs(m) + abs(n)


@inlined
def _cross(a, b):
    """Return the cross product of two vectors of double-doubles, and the sizes of its terms."""
    x, sx = _minus((a[1], b[2]), (a[2], b[1]))
    y, sy = _minus((a[2], b[0]), (a[0], b[2]))
    z, sz = _minus((a[0], b[1]), (a[1], b[0]))
    return (x, y, z), (sx, sy, sz)


@inlined
def _dot(n, sizes, a):
    """Return the dot product of a cross product with a vector of double-doubles, and its size."""
    # Its error, that of the cross product included, is below 32 * 2**-106 of the size.
    x, ex = floats.two_product(n[0][0], a[0][0])
    y, ey = floats.two_product(n[1][0], a[1][0])
    z, ez = floats.two_product(n[2][0], a[2][0])
    xy, f = floats.two_sum(x, y)
    s, g = floats.two_sum(xy, z)
    low = (ex + _across(n[0], a[0])) + (ey + _across(n[1], a[1])) + (ez + _across(n[2], a[2]))
    size = sizes[0] * abs(a[0][0]) + sizes[1] * abs(a[1][0]) + sizes[2] * abs(a[2][0])
    return floats.fast_two_sum(s, low + (f + g)), size


@inlined
def solve_plane(a, p, q, r):
    """Return n.a and n.r with their sizes, n = p x q, of double-doubles, of numbers or lanes."""
    n, sizes = _cross(p, q)
    along, along_size = _dot(n, sizes, a)
    whole, whole_size = _dot(n, sizes, r)
    return along, along_size, whole, whole_size


@inlined
def solve_weights(a, p, q, r, whole, whole_size):
    """Return (decided, u, v) with relative errors of a few units in the last place."""
    # d.((v2-o) x (v0-o)) = -(d x (v0-o)).(v2-v0), likewise for v0, v1.
    m, sizes = _cross(r, a)
    of_v1, v1_size = _dot(m, sizes, q)
    of_v2, v2_size = _dot(m, sizes, p)
    # Relative errors below 2**-54: the rounding of the quotients is all that can be seen.
    decided = (
        (abs(whole[0]) > 2.0**54 * DD_ERROR * whole_size + 2.0**-700)
        & (abs(of_v1[0]) > 2.0**54 * DD_ERROR * v1_size + 2.0**-700)
        & (abs(of_v2[0]) > 2.0**54 * DD_ERROR * v2_size + 2.0**-700)
    )
    return decided, -of_v1[0] / whole[0], of_v2[0] / whole[0]


@kernel
def distance(o, d, e, k, v0, v1, v2):
    """Return t of a hit, the real quotient n.(v0-o) / n.d rounded to the nearest double."""
    # A t that is not zero never becomes zero, and never infinite (see `exact_sums.divide`).
    stay_outlined()
    if o == v0 or o == v1 or o == v2:
        return 0.0
    if -REACH <= e <= REACH:
        # Double-double first: one cross product and two dot products.
        a, p, q, r = _scaled_vectors(o, d, e, k, v0, v1, v2)
        decided, t = floats.round_quotient(*solve_plane(a, p, q, r))
        at = floats.exponent(t) + e - k
        if decided and -1020 < at < 1020:
            return floats.scale_by(t, e - k)
    n_sum, d_sum = new_sum(), new_sum()
    add_triple(n_sum, 1.0, v0, v1, v2)
    add_triple(n_sum, -1.0, o, v0, v1)
    add_triple(n_sum, -1.0, o, v1, v2)
    add_triple(n_sum, -1.0, o, v2, v0)
    add_triple(d_sum, 1.0, d, v0, v1)
    add_triple(d_sum, 1.0, d, v1, v2)
    add_triple(d_sum, 1.0, d, v2, v0)
    return divide(n_sum, d_sum)


@kernel
def _share(o, d, a, b, v0, v1, v2):
    """Return the share of edge (a, b)'s volume in the triangle's, exactly rounded."""
    stay_outlined()
    n_sum, d_sum = new_sum(), new_sum()
    add_triple(n_sum, 1.0, d, a, b)
    add_triple(n_sum, 1.0, d, o, a)
    add_triple(n_sum, -1.0, d, o, b)
    add_triple(d_sum, 1.0, d, v0, v1)
    add_triple(d_sum, 1.0, d, v1, v2)
    add_triple(d_sum, 1.0, d, v2, v0)
    return divide(n_sum, d_sum)


@kernel
def barycentrics(o, d, v0, v1, v2):
    """Return (u, v) of a hit, the weights of v1 and v2, good to a few units in the last place."""
    # A weight is exactly 0.0 when the ray meets the opposite edge. The scale depends on the ray and
    # the triangle alone, so the weights are the same in any tree.
    stay_outlined()
    _, _, e, k = scaled_ray(o, d, floats.reach_of(v0, v1, v2))
    if -REACH <= e <= REACH:
        a, p, q, r = _scaled_vectors(o, d, e, k, v0, v1, v2)
        _, _, whole, whole_size = solve_plane(a, p, q, r)
        decided, u, v = solve_weights(a, p, q, r, whole, whole_size)
        if decided:
            return u, v
    return _share(o, d, v2, v0, v0, v1, v2), _share(o, d, v0, v1, v0, v1, v2)


@entry
def _ray_triangle(rays, triangles, cull, hits):
    """Test each ray against its own triangle."""
    v0, v1, v2 = triangles
    hit, t, u, v = hits
    for i in range(len(hit)):
        o, d = floats.vector(rays.origins, i), floats.vector(rays.directions, i)
        a, b, c = floats.vector(v0, i), floats.vector(v1, i), floats.vector(v2, i)
        hit[i], t[i], u[i], v[i] = False, INF, NAN, NAN
        # A ray or a face that is not finite, or a ray without direction, misses.
        if not (
            floats.can_hit(o, d) and floats.finite(a) and floats.finite(b) and floats.finite(c)
        ):
            continue
        d_scaled, floor, e, k = scaled_ray(o, d, floats.reach_of(a, b, c))
        side = sides(o, d, d_scaled, floor, a, b, c)
        if side == 0 or side == cull:
            continue
        at = distance(o, d, e, k, a, b, c)
        if rays.t_min[i] <= at <= rays.t_max[i]:
            hit[i], t[i] = True, at
            u[i], v[i] = barycentrics(o, d, a, b, c)


class TriangleHit(NamedTuple):
    """Result of `ray_triangle`; each field has the leading shape of the arguments."""

    hit: TruthResult
    t: FloatResult
    u: FloatResult
    v: FloatResult


def ray_triangle(
    origins: ArrayLike, directions: ArrayLike, v0: ArrayLike, v1: ArrayLike, v2: ArrayLike,
    t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf, *, cull: Cull | None = None,
) -> TriangleHit:  # fmt: skip
    """Intersect rays with triangles, one to one after broadcasting.

    Hit or miss is decided exactly for the given doubles. Edges and vertices belong to the
    triangle; a ray in its plane misses; a triangle without area is never hit.

    Parameters
    ----------
    origins, directions, t_min, t_max
        As in `ray_plane`.
    v0, v1, v2 : array_like, shape (..., 3)
        Corners. The normal is (v1-v0) x (v2-v0).
    cull : {None, "back", "front"}
        Ignore triangles that are seen from behind, or from the front.

    Returns
    -------
    hit : bool or ndarray of bool, shape (...)
    t : float or ndarray, shape (...)
        In units of the direction's length, correctly rounded; +inf for a miss.
    u, v : float or ndarray, shape (...)
        Weights of v1 and v2: the hit is (1-u-v) v0 + u v1 + v v2. NaN for a miss.

    Raises
    ------
    ValueError, TypeError
        If an argument has the wrong shape or type; the message names it.

    Examples
    --------
    >>> import bvh
    >>> bvh.ray_triangle([0, 0, -2], [0, 0, 1], [-1, -1, 0], [1, -1, 0], [0, 1, 0])
    TriangleHit(hit=True, t=2.0, u=0.25, v=0.5)
    """
    if is_other(origins, directions, v0, v1, v2, t_min, t_max):
        return foreign_answer(ray_triangle, locals())
    side, rays = cull_code(cull), (origins, directions, t_min, t_max)
    corners = {"v0": points("v0", v0), "v1": points("v1", v1), "v2": points("v2", v2)}
    return intersect_each(_ray_triangle, TriangleHit, rays, corners, side)


warms("rays and triangles")(lambda: ray_triangle([5, 5, 5], [-1, -1, -1], *np.eye(3)))
