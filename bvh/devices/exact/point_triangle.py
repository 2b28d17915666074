"""Distance from a point to a triangle on a device: that of `geometry.point_triangle`, bit for bit.

By exact differences as double-doubles, rounded once at the end. Where these do not suffice, for
points on a face or an edge or next to them, exact volumes decide, as exact sums do on CPUs. Flat
faces, and numbers of extreme sizes, are left to the CPU.
"""

from typing import Any

import warp as wp

from bvh.devices.exact.arithmetic import (
    LARGEST,
    ONE,
    SMALLEST,
    TWO,
    ZERO,
    cross,
    cross_size,
    dd_cross,
    dd_div,
    dd_dot,
    dd_mul,
    difference,
    dot,
    dot_size,
    exponent,
    f8,
    i8,
    largest,
    power_of_two,
    scale_by,
    two_product,
)
from bvh.devices.exact.volumes import LOWEST, exact_sum
from bvh.geometry import point_triangle
from bvh.geometry.arithmetic import feature_distances

GREAT, UNDERFLOW = f8(feature_distances.GREAT), f8(feature_distances.UNDERFLOW)
KEPT = f8(feature_distances.KEPT)
DOUBT, FLAT, NEAR = (
    f8(x) for x in (point_triangle.DOUBT, point_triangle.FLAT, point_triangle.NEAR)
)
UNLIKE, SLENDER = f8(point_triangle.UNLIKE), f8(point_triangle.SLENDER)
SIDE_ERROR = f8(point_triangle.SIDE_ERROR)
NONE, HALF_SCALE, TWICE = i8(0), f8(0.25), i8(2)
MOST, LEAST_EXPONENT, THRICE = i8(1022), i8(-1022), i8(3)


@wp.struct
class Measured:
    """A distance, times 2**exponent, and the weights of the nearest point, if they are `sure`."""

    distance: wp.float64
    exponent: wp.int64
    u: wp.float64
    v: wp.float64
    sure: wp.bool


@wp.func
def _root_of(x: wp.vec2d):
    """Return the square root of a double-double, rounded to a double."""
    r = wp.sqrt(x[0])
    if r == ZERO:
        return r
    p, e = two_product(r, r)
    return r + (((x[0] - p) - e) + x[1]) / (TWO * r)


@wp.func
def _square_of(v: wp.vec3d, low: wp.vec3d):
    """Return (square, e) with |v + low|**2 = 2**(2 e) square; `square` is a double-double."""
    # The vector is divided by 2**e, e the exponent of its largest component, against overflow.
    e = exponent(largest(v))
    s = power_of_two(-e)
    w, w_low = v * s, low * s
    return dd_dot(w, w_low, w, w_low), e


@wp.func
def _off(p: wp.vec3d, q: wp.vec3d):
    """Return (v, low, e): p - q is (v + low) * 2**e, v about 1 or 0, as `offset` on CPUs."""
    v, low = difference(p, q, NONE)
    e = i8(0)
    if not largest(v) < GREAT:
        v, low = difference(p * HALF_SCALE, q * HALF_SCALE, NONE)
        e = i8(2)
    k = wp.min(wp.max(exponent(largest(v)), LEAST_EXPONENT), MOST)
    s = power_of_two(-k)
    return v * s, low * s, e + k


@wp.func
def _exact_cross(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d):
    """Return (decided, high, low, e): (p - a) x (b - a) is 2**e times that (see `exact_cross`)."""
    v, v_low = difference(p, a, NONE)
    w, w_low = difference(b, a, NONE)
    high, low, shifts = wp.vec3d(), wp.vec3d(), wp.vec3l()
    sure, axes, most = bool(True), int(3), wp.int64(LOWEST)
    for axis in range(axes):
        along = wp.vec3d()
        along[axis] = ONE
        fits, value, e = exact_sum(v, v_low, w, w_low, along, wp.vec3d(), True)
        high[axis] = value[0]
        low[axis] = value[1]
        shifts[axis] = e
        most = wp.max(most, e)
        sure = sure and fits
    for axis in range(axes):
        s = power_of_two(shifts[axis] - most)
        high[axis] = high[axis] * s
        low[axis] = low[axis] * s
    return sure, high, low, most


@wp.func
def _to_corner(p: wp.vec3d, corner: wp.vec3d, k: wp.int64):
    """Return the distance to a corner, by differences that are multiplied by 2**k."""
    nearest = Measured()
    v, low = difference(p, corner, k)
    square, scale = _square_of(v, low)
    nearest.distance = _root_of(square)
    nearest.exponent = scale - k
    nearest.sure = True
    return nearest


@wp.func
def _double_area(v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: wp.int64):
    """Return (high, low, sizes) of the normal of a face, multiplied by 2**(2 k)."""
    ab, ab_low = difference(v1, v0, k)
    ac, ac_low = difference(v2, v0, k)
    n, n_low = dd_cross(ab, ab_low, ac, ac_low)
    return n, n_low, cross_size(ab, ac)


@wp.func
def _side_of_edge(
    n: wp.vec3d, n_low: wp.vec3d, e: wp.vec3d, e_low: wp.vec3d, a: wp.vec3d, a_low: wp.vec3d
):  # fmt: skip
    """Return (sign, value) of n . (e x a); sign 0 if double-doubles do not decide it."""
    size = dot_size(n, cross_size(e, a))
    c, c_low = dd_cross(e, e_low, a, a_low)
    exact = dd_dot(n, n_low, c, c_low)[0]
    side = int(0)
    if wp.abs(exact) > DOUBT * size:
        side = wp.where(exact > ZERO, 1, -1)
    return side, exact


@wp.func
def _sure_side(n: wp.vec3d, sizes: wp.vec3d, e: wp.vec3d, a: wp.vec3d):
    """Return (sign, value) of n . (e x a); sign 0 if doubles do not decide it."""
    value = dot(n, cross(e, a))
    side = int(0)
    if wp.abs(value) > SIDE_ERROR * dot_size(sizes, cross_size(e, a)):
        side = wp.where(value > ZERO, 1, -1)
    return side, value


@wp.func
def _sure_corner(off: wp.vec3d, e: wp.vec3d, f: wp.vec3d):
    """Return whether a point, `off` from the corner of edges e and f, is surely beyond it."""
    margin = SIDE_ERROR * largest(off)
    return dot(e, off) < -margin * largest(e) and dot(f, off) < -margin * largest(f)


@wp.func
def _has_below(v: wp.vec3d, least: wp.float64):
    """Return whether a component is not 0, but smaller than `least`."""
    below = bool(False)
    for i in range(3):
        x = wp.abs(v[i])
        below = below or (x > ZERO and x < least)
    return below


@wp.func
def _chosen(i: int, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """Return one of three points, by its number."""
    return wp.where(i == 0, a, wp.where(i == 1, b, c))


@wp.func
def _close_sides(
    p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: wp.int64, n: wp.vec3d,
    n_low: wp.vec3d, n_size: wp.vec3d,
):  # fmt: skip
    """Return the sides of three edges that p is on, and the weights of the vertices."""
    # The signs are 0, and so are weights, where double-doubles do not decide.
    s0, s1, s2, w0, w1, w2 = int(0), int(0), int(0), f8(0.0), f8(0.0), f8(0.0)
    if largest(n) > FLAT * largest(n_size):
        a, a_low = difference(p, v0, k)
        b, b_low = difference(p, v1, k)
        c, c_low = difference(p, v2, k)
        e, e_low = difference(v1, v0, k)
        s0, w2 = _side_of_edge(n, n_low, e, e_low, a, a_low)
        f, f_low = difference(v2, v1, k)
        s1, w0 = _side_of_edge(n, n_low, f, f_low, b, b_low)
        g, g_low = difference(v0, v2, k)
        s2, w1 = _side_of_edge(n, n_low, g, g_low, c, c_low)
    return s0, s1, s2, w0, w1, w2


@wp.func
def _with_weights(nearest: Measured, u: wp.float64, v: wp.float64):
    nearest.u = u
    nearest.v = v
    return nearest


@wp.func
def _nearer(best: Measured, other: Measured, u: wp.float64, v: wp.float64):
    """Return the nearer of two, the first of equal ones; u and v are the weights of `other`."""
    if scale_by(other.distance, other.exponent - best.exponent) < best.distance:
        other.sure = other.sure and best.sure
        return _with_weights(other, u, v)
    best.sure = best.sure and other.sure
    return best


def _nearest_on(by_sums: bool) -> Any:
    """Return the function of a point and a triangle that uses exact sums, or leaves them open."""

    @wp.func
    def _to_edge(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d):
        """Return the distance to an edge; `u` is the weight of b at the nearest point."""
        nearest = Measured()
        nearest.sure = True
        pa, pa_low, i = _off(p, a)
        pb, pb_low, j = _off(p, b)
        e, e_low, k = _off(b, a)
        at_a, at_b = dot(pa, e), dot(pb, e)
        if at_a <= ZERO or at_b >= ZERO:
            near, low, shift = pa, pa_low, i
            nearest.u = ZERO
            if at_a > ZERO:
                near, low, shift = pb, pb_low, j
                nearest.u = ONE
            square, scale = _square_of(near, low)
            nearest.distance = _root_of(square)
            nearest.exponent = scale + shift
            return nearest
        nearest.u = wp.min(scale_by(at_a / dot(e, e), i - k), ONE)
        across, low = dd_cross(pa, pa_low, e, e_low)
        shift = i + k
        if largest(across) < KEPT * largest(cross_size(pa, e)) + UNDERFLOW:
            # A point on the line, or next to it.
            nearest.sure = by_sums
            if by_sums:
                fits, across, low, shift = _exact_cross(p, a, b)
                nearest.sure = fits
                if largest(across) == ZERO:
                    return nearest
        square, scale = _square_of(across, low)
        length, e_scale = _square_of(e, e_low)
        nearest.distance = _root_of(dd_div(square, length))
        nearest.exponent = scale - e_scale + shift - k
        return nearest

    @wp.func
    def _to_plane(
        p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: wp.int64, n: wp.vec3d,
        n_low: wp.vec3d, n_size: wp.vec3d,
    ):  # fmt: skip
        """Return the distance to the plane of a face, whose normal is that of `_double_area`."""
        nearest = Measured()
        a, a_low = difference(p, v0, k)
        volume = dd_dot(n, n_low, a, a_low)
        e, f = -THRICE * k, -TWICE * k
        nearest.sure = not (largest(n) < KEPT * largest(n_size))
        if wp.abs(volume[0]) < KEPT * dot_size(n_size, a):
            # A point in the plane, or next to it.
            fits = by_sums
            if by_sums:
                b, b_low = difference(v1, v0, NONE)
                c, c_low = difference(v2, v0, NONE)
                a, a_low = difference(p, v0, NONE)
                fits, volume, e = exact_sum(b, b_low, c, c_low, a, a_low, True)
            nearest.sure = nearest.sure and fits
        if volume[0] == ZERO:
            return nearest
        shift = exponent(wp.abs(volume[0]))
        volume = volume * power_of_two(-shift)
        square, scale = _square_of(n, n_low)
        nearest.distance = _root_of(dd_div(dd_mul(volume, volume), square))
        nearest.exponent = shift + e - scale - f
        return nearest

    @wp.func
    def _by_region(
        p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: wp.int64, s: wp.float64
    ):  # fmt: skip
        """Return the nearest point, by the Voronoi region of the triangle that p is in.

        All differences are multiplied by s = 2**k, which makes the largest about 1. Regions that
        doubles do not surely decide are decided by double-doubles, or the nearest of edges is.
        """
        a, b, c = (p - v0) * s, (p - v1) * s, (p - v2) * s
        ab, bc, ca = (v1 - v0) * s, (v2 - v1) * s, (v0 - v2) * s
        # Of a sure corner, its number.
        corner, u, v = int(-1), wp.float64(0.0), wp.float64(0.0)
        if _sure_corner(a, ab, -ca):
            corner = 0
        elif _sure_corner(b, bc, -ab):
            corner = 1
            u = ONE
        elif _sure_corner(c, ca, -bc):
            corner = 2
            v = ONE
        if corner >= 0:
            return _with_weights(_to_corner(p, _chosen(corner, v0, v1, v2), k), u, v)
        n, sizes = cross(ab, -ca), cross_size(ab, -ca)
        s0, w2 = _sure_side(n, sizes, ab, a)
        s1, w0 = _sure_side(n, sizes, bc, b)
        s2, w1 = _sure_side(n, sizes, ca, c)
        total = w0 + w1 + w2
        in_face = s0 > 0 and s1 > 0 and s2 > 0 and total > SLENDER * dot_size(sizes, sizes)
        # Beyond one edge and between its ends: it has the nearest point. Otherwise a bit for each
        # edge that may have it.
        edges, at_border = int(0), bool(False)
        if s0 < 0 and dot(ab, a) > ZERO and dot(-ab, b) > ZERO:
            edges = 1
        elif s1 < 0 and dot(bc, b) > ZERO and dot(-bc, c) > ZERO:
            edges = 2
        elif s2 < 0 and dot(ca, c) > ZERO and dot(-ca, a) > ZERO:
            edges = 4
        if in_face or edges == 0:
            n, n_low, sizes = _double_area(v0, v1, v2, k)
            if not in_face:
                s0, s1, s2, w0, w1, w2 = _close_sides(p, v0, v1, v2, k, n, n_low, sizes)
                total = w0 + w1 + w2
                in_face = s0 > 0 and s1 > 0 and s2 > 0
                at_border = s0 * s1 * s2 == 0
                edges = wp.where(s0 <= 0, 1, 0) + wp.where(s1 <= 0, 2, 0) + wp.where(s2 <= 0, 4, 0)
            if in_face:
                nearest = _to_plane(p, v0, v1, v2, k, n, n_low, sizes)
                return _with_weights(nearest, w1 / total, w2 / total)
        best, sides = Measured(), int(3)
        best.distance = f8(wp.inf)
        best.sure = True
        # One call, as each is a copy of all that it does.
        for j in range(sides):
            if (edges >> j) % 2 == 1:
                other = _to_edge(p, _chosen(j, v0, v1, v2), _chosen((j + 1) % 3, v0, v1, v2))
                u = wp.where(j == 0, other.u, wp.where(j == 1, ONE - other.u, ZERO))
                v = wp.where(j == 0, ZERO, wp.where(j == 1, other.u, ONE - other.u))
                best = _nearer(best, other, u, v)
        at_border = at_border and best.distance > ZERO
        if at_border and scale_by(best.distance, best.exponent + k) < NEAR:
            best.sure = False
        return best

    @wp.func
    def nearest_on_triangle(p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
        """Return the nearest point (1-u-v) v0 + u v1 + v v2, its distance as a double."""
        nearest = Measured()
        a, b, c = p - v0, p - v1, p - v2
        ab, bc, ca = v1 - v0, v2 - v1, v0 - v2
        size = wp.max(largest(a), wp.max(largest(b), largest(c)))
        if size == ZERO:
            nearest.sure = True
            return nearest
        least = size * UNLIKE
        unlike = _has_below(a, least) or _has_below(b, least) or _has_below(c, least)
        unlike = unlike or _has_below(ab, least) or _has_below(bc, least) or _has_below(ca, least)
        if size < GREAT and not unlike:
            k = wp.min(-exponent(size), MOST)
            nearest = _by_region(p, v0, v1, v2, k, power_of_two(k))
            d = nearest.distance
            if d > ZERO:
                d = wp.min(wp.max(scale_by(d, nearest.exponent), SMALLEST), LARGEST)
            nearest.distance = wp.where(d > ZERO, d, ZERO)
        return nearest

    return nearest_on_triangle


close_on_triangle, nearest_on_triangle = _nearest_on(False), _nearest_on(True)
