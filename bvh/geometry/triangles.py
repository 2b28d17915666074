"""The exact intersection of a ray with a triangle, and `ray_triangle`.

The ray (o, d) passes an edge (A, B) on the side given by the sign of d . ((A-o) x (B-o)), the
volume spanned by the ray and the edge. A triangle is hit when its three edges agree: all signs
>= 0 or all <= 0, and not all zero (then the ray lies in the plane, or the face has no area).
The signs are those of the real numbers, so two faces that share an edge, which run through it in
opposite directions, can neither both miss nor, off the edge, both hit a ray.

With a = v0 - o, p = v1 - v0, q = v2 - v0 and the normal n = p x q, the hit is at t = n.a / n.d,
with the weights u = -(d x a).q / n.d of v1 and v = (d x a).p / n.d of v2.

Plücker side test: Jones 2000, "Intersecting a ray and a triangle with Plücker coordinates";
floating-point filter: Shewchuk 1997, "Adaptive precision floating-point arithmetic".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic import edge_sides, floats
from bvh.geometry.arithmetic.edge_sides import NO_VERTEX, REACH, sides, turned
from bvh.geometry.arithmetic.exact_sums import add_triple, divide, leading, new_sum
from bvh.geometry.arithmetic.floats import DD_ERROR, INF, NAN
from bvh.geometry.arithmetic.predicates import integer_volume
from bvh.geometry.arithmetic.vectors import scaled
from bvh.geometry.planes import double_quotient
from bvh.geometry.ray_shapes import intersect_each
from bvh.runtime.arguments import Cull, FloatResult, TruthResult, cull_code, points
from bvh.runtime.calls.entries import entry
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

MANTISSA = 2**52 - 1  # the bits of a double after its exponent
ORIGIN = (0.0, 0.0, 0.0)  # the pair of points (d, ORIGIN) stands for the vector d


@inlined
def scaled_ray(o, d, reach):
    """Return (d_scaled, floor, E, K) for the filters of `sides`, `distance` and `exact_details`.

    `reach` bounds the absolute coordinates of all triangles that the ray (o, d) is tested with.
    `floor` bounds what underflows in side tests with d_scaled, inf where filters cannot be used.
    2**E is about the largest coordinate, and 2**K the largest component of d.
    """
    # With E the exponent of the largest coordinate of all (origin included) and K that of d,
    # differences of points stay below 2**(E+2), so d * 2**(-K-2E) times two differences stays below
    # 2**9: nothing overflows. What underflows is bounded absolutely by `floor`: each product of two
    # differences may lose 2**-1075, six of them times |d_scaled| < 2**(2-2E); scaling d may lose
    # 2**-1075 a component, times cross products below 2**(2E+5); three last products lose 2**-1075.
    # In sum less than 2**(2*abs(E) - 1065).
    e = floats.exponent(max(floats.largest(o), reach))
    k = min(floats.exponent(floats.largest(d)), 1022)
    if e < -REACH or e > REACH:
        return d, INF, e, k
    d_scaled = scaled(scaled(d, floats.power_of_two(-k)), floats.power_of_two(-2 * e))
    return d_scaled, floats.power_of_two(2 * abs(e) - 1064), e, k


@inlined
def solve_plane(a, p, q, r):
    """Return (n.a, its size, n.r, its size), n = p x q, in double-doubles; t is n.a / n.r.

    a = v0 - o, p = v1 - v0, q = v2 - v0 and the direction r are vectors of double-doubles, of
    numbers or SIMD lanes. A size is the sum of absolute terms.
    """
    n, sizes = floats.sized_cross(p, q)
    along, along_size = floats.sized_dot(n, sizes, a)
    den, den_size = floats.sized_dot(n, sizes, r)
    return along, along_size, den, den_size


@inlined
def solve_volumes(a, p, q, r):
    """Return ((u n.r, its size), (v n.r, its size)), n = p x q: two double-doubles and their sizes.

    u and v are the weights of v1 and v2 in the hit; the arguments are those of `solve_plane`. A
    size is the sum of absolute terms.
    """
    m, sizes = floats.sized_cross(r, a)
    (high, low), size = floats.sized_dot(m, sizes, q)
    return ((-high, -low), size), floats.sized_dot(m, sizes, p)


@inlined
def solve_weights(of_u, of_v, den, den_size):
    """Return (decided, u, v): if decided, the weights to a few units in the last place.

    `of_u` and `of_v`, the results of `solve_volumes`, are divided by `den`, n.r of `solve_plane`,
    of size `den_size`.
    """
    # The relative errors of all three numbers are below 2**-54, less than a rounding of quotients.
    (u, u_size), (v, v_size) = of_u, of_v
    decided = (
        (abs(den[0]) > 2.0**54 * DD_ERROR * den_size + 2.0**-700)
        & (abs(u[0]) > 2.0**54 * DD_ERROR * u_size + 2.0**-700)
        & (abs(v[0]) > 2.0**54 * DD_ERROR * v_size + 2.0**-700)
    )
    return decided, u[0] / den[0], v[0] / den[0]


@inlined
def _distance_to_vertex(o, d, v):
    """Return (decided, t) of a ray through a vertex v; if decided, t is correctly rounded."""
    # On the axis of d's largest component, t is a quotient of two doubles if the difference is one.
    x, y, z = abs(d[0]), abs(d[1]), abs(d[2])
    a, b, q = (v[0], o[0], d[0]) if x >= y else (v[1], o[1], d[1])
    a, b, q = (a, b, q) if max(x, y) >= z else (v[2], o[2], d[2])
    p, rest = floats.two_sum(a, -b)
    t = p / q
    # If q is a power of two, the division is exact, and only the difference is rounded.
    exact = rest == 0.0 or floats.bits(q) & MANTISSA == 0
    return exact and (p == 0.0 or 2.0**-1000 < abs(t) < 2.0**1000), t if p != 0.0 else 0.0


@kernel
def _solve(o, d, e, k, corners):
    """Return (decided, t, (a, p, q, d), n.d, its size) of a ray and a triangle in double-doubles.

    The vectors, a to q times 2**-e and d times 2**-k of `scaled_ray`, are at most about one; n.d is
    of these. If decided, t is correctly rounded. A size of 0 tells that lengths are out of range: t
    and n.d may then be wrong.
    """
    # The differences are exact unless they underflow.
    (v0, v1, v2), s = corners, floats.power_of_two(-k)
    a, p = floats.difference(v0, o, -e), floats.difference(v1, v0, -e)
    vectors = a, p, floats.difference(v2, v0, -e), ((d[0] * s,), (d[1] * s,), (d[2] * s,))
    along, along_size, den, den_size = solve_plane(*vectors)
    decided, t = double_quotient(along, along_size, den, den_size, e - k)
    den_size = den_size if -REACH <= e <= REACH else 0.0
    return decided and den_size > 0.0, t, vectors, den, den_size


@kernel
def distance(o, d, e, k, corners, vertex):
    """Return t at which a ray (o, d) hits a triangle, rounded to the nearest double.

    2**e is about the largest coordinate, and 2**k the largest component of d (by `scaled_ray`);
    `vertex`, from `sides`, is the index of a corner on the ray, or NO_VERTEX.
    """
    stay_outlined()
    if vertex != NO_VERTEX:
        decided, t = _distance_to_vertex(o, d, turned(corners, vertex)[0])
        if decided:
            return t
    # Double-doubles first: one cross product and two dot products.
    decided, t, _, den, den_size = _solve(o, d, e, k, corners)
    if decided:
        return t
    v0, v1, v2 = corners
    volume = (v1, v0), (v2, v0), (v0, o)
    return _exact_quotient(volume, d, corners, den, den_size, 2 * e + k)


@kernel
def _exact_quotient(volume, d, corners, den, den_size, e):
    """Return r . (p x q) / n.d, correctly rounded, by exact arithmetic.

    `volume` has the vectors p, q and r, each as a pair of points (end, start). n is the normal of
    the triangle; the double-double `den`, of size `den_size`, times 2**e is about n.d. A quotient
    that is not zero never becomes zero, and never infinite.
    """
    stay_outlined()
    (v0, v1, v2), (p, q, r) = corners, volume
    # First by integers, which are accurate however small the volume is relative to its terms.
    known, value, f = integer_volume(
        floats.difference(*p, 0), floats.difference(*q, 0), floats.difference(*r, 0)
    )
    if known and value[0] == 0.0:
        return 0.0
    decided, t = double_quotient(value, abs(value[0]), den, den_size, f - e)
    if known and decided:
        return t
    # r . (p x q), expanded: triple products of an end or a start of each vector, negative for odd
    # numbers of starts.
    numerator, denominator = new_sum(), new_sum()
    for i in range(2):
        for j in range(2):
            for m in range(2):
                sign = 1.0 if (i + j + m) % 2 == 0 else -1.0
                add_triple(numerator, sign, p[i], q[j], r[m])
    # The leading digits of the sum, to 2**-63 of it, suffice nearly always. Their error is DD_ERROR
    # times the size that `double_quotient` gets.
    digits, f = leading(numerator)
    size = 2.0**-63 / DD_ERROR * abs(digits[0])
    decided, t = double_quotient(digits, size, den, den_size, f - e)
    if decided or digits[0] == 0.0:
        return t if decided else 0.0
    # n.d, as n = v0 x v1 + v1 x v2 + v2 x v0.
    add_triple(denominator, 1.0, d, v0, v1)
    add_triple(denominator, 1.0, d, v1, v2)
    add_triple(denominator, 1.0, d, v2, v0)
    # `leading` has made the numerator positive.
    return floats.sign(digits[0]) * divide(numerator, denominator)


@kernel
def details_at_edge(o, d, corners, volumes, den, den_size, e, timed, t):
    """Return (timed, t, u, v) of a hit whose weights `solve_weights` does not decide.

    u and v are rounded correctly. `volumes` is the result of `solve_volumes`; its numbers and
    `den`, n.d, of size `den_size`, are to be multiplied by 2**e. `timed` tells whether t is known.
    If it is not, but the hit is a vertex, it may become known here.
    """
    stay_outlined()
    v0, v1, v2 = corners
    (of_u, u_size), (of_v, v_size) = volumes
    u_decided, u = floats.round_quotient(of_u, u_size, den, den_size)
    v_decided, v = floats.round_quotient(of_v, v_size, den, den_size)
    # The vertex near the hit, if any. A weight that is not decided is about 0: the vertex is v0 if
    # neither is decided, or that of the other weight, if this is about 1.
    vertex = 0 if not (u_decided or v_decided) else NO_VERTEX
    if u_decided != v_decided and abs((u if u_decided else v) - 1.0) < 2.0**-40:
        vertex = 1 if u_decided else 2
    if vertex != NO_VERTEX and edge_sides.passes_through(o, d, turned(corners, vertex)[0]):
        if not timed:
            timed, t = _distance_to_vertex(o, d, turned(corners, vertex)[0])
        return timed, t, 1.0 if vertex == 1 else 0.0, 1.0 if vertex == 2 else 0.0
    if not u_decided:
        volume = (v0, o), (v0, v2), (d, ORIGIN)
        u = _exact_quotient(volume, d, corners, den, den_size, e)
    if not v_decided:
        volume = (v0, o), (v1, v0), (d, ORIGIN)
        v = _exact_quotient(volume, d, corners, den, den_size, e)
    return timed, t, u, v


@kernel
def exact_details(o, d, v0, v1, v2):
    """Return (t, u, v, front) of a ray that hits the triangle.

    t is correctly rounded. The weights u of v1 and v of v2 are good to a few units in the last
    place, and exactly 0.0 where the ray meets the edge opposite to v1 or v2. `front` tells whether
    the ray meets the front, which the normal (v1-v0) x (v2-v0) points out of.
    """
    # The scale depends on the ray and the triangle alone, so the weights are the same in any tree.
    stay_outlined()
    corners = v0, v1, v2
    d_scaled, floor, e, k = scaled_ray(o, d, floats.reach_of(v0, v1, v2))
    timed, t, vectors, den, den_size = _solve(o, d, e, k, corners)
    side = den[0]
    if not (den_size > 0.0 and abs(side) > DD_ERROR * den_size + 2.0**-700):
        # The exact sign of n.d = d . ((v1-v0) x (v2-v1)).
        side = float(edge_sides.exact_side(v0, d, d_scaled, floor, v1, v2))
    # The exponent of volumes, products of two lengths and the direction.
    f, volumes = 2 * e + k, solve_volumes(*vectors)
    decided, u, v = solve_weights(*volumes, den, den_size)
    if not (decided and den_size > 0.0):
        timed, t, u, v = details_at_edge(o, d, corners, volumes, den, den_size, f, timed, t)
    if not timed:
        volume = (v1, v0), (v2, v0), (v0, o)
        t = _exact_quotient(volume, d, corners, den, den_size, f)
    return t, u, v, side < 0.0


@entry
def _ray_triangle(rays, triangles, cull, hits):
    """Write to `hits`, a `TriangleHit` of arrays, the result of each ray and its own triangle.

    `cull` is the side that is missed: 1 for the back, -1 for the front, 0 for none.
    """
    (origins, directions, t_min, t_max), (v0, v1, v2), (hit, t, u, v) = rays, triangles, hits
    for i in range(len(hit)):
        o, d = floats.vector(origins, i), floats.vector(directions, i)
        a, b, c = floats.vector(v0, i), floats.vector(v1, i), floats.vector(v2, i)
        hit[i], t[i], u[i], v[i] = False, INF, NAN, NAN
        # A ray or a face that is not finite, or a ray without direction, misses.
        if not (
            floats.can_hit(o, d) and floats.finite(a) and floats.finite(b) and floats.finite(c)
        ):
            continue
        d_scaled, floor, _, _ = scaled_ray(o, d, floats.reach_of(a, b, c))
        side, _ = sides(o, d, d_scaled, floor, (a, b, c))
        if side == 0 or side == cull:
            continue
        at, x, y, _ = exact_details(o, d, a, b, c)
        if t_min[i] <= at <= t_max[i]:
            hit[i], t[i], u[i], v[i] = True, at, x, y


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


def unit_normals(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return normals of length 1 of triangles (n, 3, 3); NaN for those without area."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    with np.errstate(all="ignore"):
        return np.asarray(normal / np.sqrt((normal**2).sum(axis=1, keepdims=True)))
