"""Distance from a point to a triangle on a device: that of `geometry.point_triangle`, bit for bit.

By exact differences as double-doubles, rounded once at the end. Where these do not suffice, for
points on a face or an edge or next to them, exact volumes decide, as exact sums do on CPUs. Flat
faces, and numbers of extreme sizes, are left to the CPU.
"""

from typing import Any

import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import LARGEST, ONE, SMALLEST, TWO, ZERO, dd3, f8
from bvh.devices.exact.volumes import LOWEST, exact_sum
from bvh.geometry import point_triangle
from bvh.geometry.arithmetic import feature_distances

GREAT, UNDERFLOW = f8(feature_distances.GREAT), f8(feature_distances.UNDERFLOW)
KEPT = f8(feature_distances.KEPT)
DOUBT, FLAT, NEAR = f8(point_triangle.DOUBT), f8(point_triangle.FLAT), f8(point_triangle.NEAR)
UNLIKE, SLENDER = f8(point_triangle.UNLIKE), f8(point_triangle.SLENDER)
SIDE_ERROR = f8(point_triangle.SIDE_ERROR)
QUARTER = f8(0.25)


@wp.struct
class NearestPoint:
    """The point (1-u-v) v0 + u v1 + v v2 of a triangle nearest to a point p, if it is `sure`."""

    distance: wp.float64  # from p, divided by 2**exponent
    exponent: int
    u: wp.float64
    v: wp.float64
    sure: wp.bool


@wp.func
def _root_of(x: wp.vec2d):
    """Return the square root of a double-double x, at least 0, as a double."""
    r = wp.sqrt(x[0])
    if r == ZERO:
        return r
    # One step of Newton's method, which corrects r by the difference of x and r * r.
    p, e = floats.two_product(r, r)
    return r + (((x[0] - p) - e) + x[1]) / (TWO * r)


@wp.func
def _square_of(v: dd3):
    """Return (square, e) with |v|**2 = 2**(2 e) square, for double-doubles v and `square`."""
    # Scaled by the exponent e of its largest component, v has a square that does not overflow.
    e = floats.exponent(floats.largest(floats.high(v)))
    w = v * floats.power_of_two(-e)
    return floats.dd_dot(w, w), e


@wp.func
def _scaled_offset(p: wp.vec3d, q: wp.vec3d):
    """Return (v, e): p - q is v * 2**e, and v, of double-doubles, is 0 or of size about 1."""
    # Where the difference may overflow, quarters are subtracted; "not <" includes NaN.
    v, e = floats.difference(p, q, 0), int(0)
    if not floats.largest(floats.high(v)) < GREAT:
        v, e = floats.difference(p * QUARTER, q * QUARTER, 0), 2
    k = floats.exponent(floats.largest(floats.high(v)))
    k = wp.min(wp.max(k, -1022), 1022)
    return v * floats.power_of_two(-k), e + k


@wp.func
def _exact_cross(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d):
    """Return (decided, v, e): (p - a) x (b - a) is v * 2**e, as `exact_cross` of CPUs has it.

    v are double-doubles, by exact sums.
    """
    v, w = floats.difference(p, a, 0), floats.difference(b, a, 0)
    cross, shifts = dd3(), wp.vec3i()
    sure, axes, most = bool(True), int(3), int(LOWEST)
    for axis in range(axes):  # to a variable: Warp would unroll a loop over constants
        # A component is the volume with the axis; it is cut (True) as on CPUs.
        along = dd3()
        along[axis, 0] = ONE
        fits, value, e = exact_sum(v, w, along, True)
        cross[axis] = value
        shifts[axis] = e
        most = wp.max(most, e)
        sure = sure and fits
    for axis in range(axes):
        cross[axis] = cross[axis] * floats.power_of_two(shifts[axis] - most)
    return sure, cross, most


@wp.func
def _sign_beyond(value: wp.float64, error: wp.float64):
    """Return the sign of a value, or 0 if an error of this size could have changed the sign."""
    return wp.where(wp.abs(value) > error, floats.sign_of(value), 0)


@wp.func
def _side_of_edge(n: dd3, p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, k: int):
    """Return (sign, value) of n . ((b-a) x (p-a)) * 2**(2 k), by double-doubles.

    n is the normal of a triangle with the edge (a, b): the value is above 0 if p is on the inner
    side of that edge. The sign is 0 if it is unsure.
    """
    e, off = floats.difference(b, a, k), floats.difference(p, a, k)
    value = floats.dd_dot(n, floats.dd_cross(e, off))[0]
    size = floats.dot_size(floats.high(n), floats.cross_size(floats.high(e), floats.high(off)))
    return _sign_beyond(value, DOUBT * size), value


@wp.func
def _sure_side(n: wp.vec3d, sizes: wp.vec3d, e: wp.vec3d, a: wp.vec3d):
    """Return (sign, value) of n . (e x a), by doubles; the sign is 0 if it is unsure.

    n is the normal of a triangle, with the `sizes` of `cross_size`; e is an edge, and a the offset
    of a point from the start of the edge. The value is above 0 if the point is on the inner side.
    """
    value = wp.dot(n, wp.cross(e, a))
    return _sign_beyond(value, SIDE_ERROR * floats.dot_size(sizes, floats.cross_size(e, a))), value


@wp.func
def _sure_corner(off: wp.vec3d, e: wp.vec3d, f: wp.vec3d):
    """Return whether a corner is surely the nearest of a triangle to a point, offset by `off`.

    e and f are the edges from that corner: both must have negative dot products with `off`.
    """
    margin = SIDE_ERROR * floats.largest(off)
    beyond = wp.dot(e, off) < -margin * floats.largest(e)
    return beyond and wp.dot(f, off) < -margin * floats.largest(f)


@wp.func
def _has_below(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, least: wp.float64):
    """Return whether some component of three vectors is not 0, but of a size below `least`."""
    below = bool(False)
    for i in range(3):
        x, y, z = wp.abs(a[i]), wp.abs(b[i]), wp.abs(c[i])
        below = below or (x > ZERO and x < least) or (y > ZERO and y < least)
        below = below or (z > ZERO and z < least)
    return below


@wp.func
def _chosen(i: int, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """Return a, b or c for i = 0, 1 or 2."""
    return wp.where(i == 0, a, wp.where(i == 1, b, c))


def _nearest_on(by_sums: bool) -> Any:
    """Return the function `nearest_on_triangle` below.

    Without `by_sums` its results are not `sure` where only exact sums decide.
    """

    @wp.func
    def _to_edge(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d):
        """Return the `NearestPoint` of the edge (a, b) to p; `u` is the weight of b, `v` is 0."""
        nearest = NearestPoint()
        nearest.sure = True
        pa, i = _scaled_offset(p, a)
        pb, j = _scaled_offset(p, b)
        e, k = _scaled_offset(b, a)
        edge = floats.high(e)
        at_a, at_b = wp.dot(floats.high(pa), edge), wp.dot(floats.high(pb), edge)
        if at_a <= ZERO or at_b >= ZERO:
            # The nearest point is an end.
            near, shift = pa, i
            if at_a > ZERO:
                near, shift = pb, j
                nearest.u = ONE
            square, scale = _square_of(near)
            nearest.distance = _root_of(square)
            nearest.exponent = scale + shift
            return nearest
        nearest.u = wp.min(floats.scale_by(at_a / wp.dot(edge, edge), i - k), ONE)
        across, shift = floats.dd_cross(pa, e), i + k
        size = floats.largest(floats.cross_size(floats.high(pa), edge))
        if floats.largest(floats.high(across)) < KEPT * size + UNDERFLOW:
            # A point on the line, or next to it: the cross product has lost digits.
            nearest.sure = by_sums
            if by_sums:
                fits, across, shift = _exact_cross(p, a, b)
                nearest.sure = fits
                if floats.largest(floats.high(across)) == ZERO:
                    return nearest
        square, scale = _square_of(across)
        length, e_scale = _square_of(e)
        nearest.distance = _root_of(floats.dd_div(square, length))
        nearest.exponent = scale - e_scale + shift - k
        return nearest

    @wp.func
    def _to_plane(
        p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: int, n: dd3,
        n_size: wp.vec3d,
    ):  # fmt: skip
        """Return the distance of p to the plane of v0 v1 v2, as `feature_distances.to_plane`.

        It is a `NearestPoint` without weights. n is the normal (v1 - v0) x (v2 - v0) times
        2**(2 k), `n_size` is its `cross_size`.
        """
        # The distance is the volume n . (p - v0), times 2**e, over the length of n, times 2**f. It
        # is not sure if n has lost too much by cancellation; a volume that has is summed exactly,
        # or left open without `by_sums`.
        nearest = NearestPoint()
        a = floats.difference(p, v0, k)
        volume = floats.dd_dot(n, a)
        e, f = -3 * k, -2 * k
        nearest.sure = not (floats.largest(floats.high(n)) < KEPT * floats.largest(n_size))
        if wp.abs(volume[0]) < KEPT * floats.dot_size(n_size, floats.high(a)):
            # A point in the plane, or next to it.
            fits = by_sums
            if by_sums:
                b, c = floats.difference(v1, v0, 0), floats.difference(v2, v0, 0)
                fits, volume, e = exact_sum(b, c, floats.difference(p, v0, 0), True)
            nearest.sure = nearest.sure and fits
        if volume[0] == ZERO:
            return nearest
        shift = floats.exponent(wp.abs(volume[0]))
        volume = volume * floats.power_of_two(-shift)
        square, scale = _square_of(n)
        nearest.distance = _root_of(floats.dd_div(floats.dd_mul(volume, volume), square))
        nearest.exponent = shift + e - scale - f
        return nearest

    @wp.func
    def _by_region(
        p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, k: int, s: wp.float64
    ):  # fmt: skip
        """Return the `NearestPoint` of v0 v1 v2 to p, by the Voronoi region that p is in.

        All differences are multiplied by s = 2**k, which makes the largest about 1. Where doubles
        do not surely determine the region, double-doubles do; where these do not either, the
        nearest of the edges in question is taken.
        """
        a, b, c = (p - v0) * s, (p - v1) * s, (p - v2) * s
        ab, bc, ca = (v1 - v0) * s, (v2 - v1) * s, (v0 - v2) * s
        # A point is surely beyond one corner at most.
        corner = wp.where(_sure_corner(a, ab, -ca), 0, -1)
        corner = wp.where(_sure_corner(b, bc, -ab), 1, corner)
        corner = wp.where(_sure_corner(c, ca, -bc), 2, corner)
        if corner >= 0:
            square, scale = _square_of(floats.difference(p, _chosen(corner, v0, v1, v2), k))
            u, v = wp.where(corner == 1, ONE, ZERO), wp.where(corner == 2, ONE, ZERO)
            return NearestPoint(_root_of(square), scale - k, u, v, True)  # type: ignore[call-arg]
        n, sizes = wp.cross(ab, -ca), floats.cross_size(ab, -ca)
        # Signs s0 to s2 are those of the edges ab, bc and ca: above 0 for p on the inner side. The
        # values are proportional to the weights of the opposite corners.
        s0, w2 = _sure_side(n, sizes, ab, a)
        s1, w0 = _sure_side(n, sizes, bc, b)
        s2, w1 = _sure_side(n, sizes, ca, c)
        total = w0 + w1 + w2
        in_face = s0 > 0 and s1 > 0 and s2 > 0 and total > SLENDER * floats.dot_size(sizes, sizes)
        # Beyond one edge and between its ends: it has the nearest point. Otherwise a bit for each
        # edge that may have it.
        edges, at_border = int(0), bool(False)
        if s0 < 0 and wp.dot(ab, a) > ZERO and wp.dot(-ab, b) > ZERO:
            edges = 1
        elif s1 < 0 and wp.dot(bc, b) > ZERO and wp.dot(-bc, c) > ZERO:
            edges = 2
        elif s2 < 0 and wp.dot(ca, c) > ZERO and wp.dot(-ca, a) > ZERO:
            edges = 4
        if in_face or edges == 0:
            # The normal by double-doubles, and the sizes of its terms, times 2**(2 k).
            e, f = floats.difference(v1, v0, k), floats.difference(v2, v0, k)
            area, areas = floats.dd_cross(e, f), floats.cross_size(floats.high(e), floats.high(f))
            if not in_face:
                # Flat faces are treated as their edges: no side is decided.
                s0, s1, s2 = 0, 0, 0
                if floats.largest(floats.high(area)) > FLAT * floats.largest(areas):
                    s0, w2 = _side_of_edge(area, p, v0, v1, k)
                    s1, w0 = _side_of_edge(area, p, v1, v2, k)
                    s2, w1 = _side_of_edge(area, p, v2, v0, k)
                total = w0 + w1 + w2
                in_face = s0 > 0 and s1 > 0 and s2 > 0
                at_border = s0 * s1 * s2 == 0
                edges = wp.where(s0 <= 0, 1, 0) + wp.where(s1 <= 0, 2, 0) + wp.where(s2 <= 0, 4, 0)
            if in_face:
                nearest = _to_plane(p, v0, v1, v2, k, area, areas)
                nearest.u = w1 / total
                nearest.v = w2 / total
                return nearest
        best, sides = NearestPoint(), int(3)
        best.distance = f8(wp.inf)
        best.sure = True
        # The nearest of these edges. A loop with one call: the compiler copies a function at each
        # call.
        for j in range(sides):
            if (edges >> j) % 2 == 1:
                other = _to_edge(p, _chosen(j, v0, v1, v2), _chosen((j + 1) % 3, v0, v1, v2))
                sure, t = best.sure and other.sure, other.u
                # Compared at the exponent of `best`; of edges equally near the first is taken.
                shift = other.exponent - best.exponent
                if floats.scale_by(other.distance, shift) < best.distance:
                    best = other
                    best.u = wp.where(j == 0, t, wp.where(j == 1, ONE - t, ZERO))
                    best.v = wp.where(j == 0, ZERO, wp.where(j == 1, t, ONE - t))
                best.sure = sure
        # Where a side is unsure and p is next to the face, the face itself could be nearer.
        at_border = at_border and best.distance > ZERO
        if at_border and floats.scale_by(best.distance, best.exponent + k) < NEAR:
            best.sure = False
        return best

    @wp.func
    def nearest_on_triangle(p: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
        """Return the `NearestPoint` of v0 v1 v2 to p, with `distance` not divided by 2**exponent.

        It is not `sure` where the CPU has to decide.
        """
        nearest = NearestPoint()
        a, b, c = p - v0, p - v1, p - v2
        size = wp.max(floats.largest(a), wp.max(floats.largest(b), floats.largest(c)))
        if size == ZERO:
            nearest.sure = True
            return nearest
        # Numbers whose products could over- or underflow are left to the CPU.
        least = size * UNLIKE
        unlike = _has_below(a, b, c, least) or _has_below(v1 - v0, v2 - v1, v0 - v2, least)
        if size < GREAT and not unlike:
            k = wp.min(-floats.exponent(size), 1022)
            nearest = _by_region(p, v0, v1, v2, k, floats.power_of_two(k))
            d = nearest.distance
            if d > ZERO:
                d = wp.min(wp.max(floats.scale_by(d, nearest.exponent), SMALLEST), LARGEST)
            nearest.distance = wp.where(d > ZERO, d, ZERO)
        return nearest

    return nearest_on_triangle


close_on_triangle, nearest_on_triangle = _nearest_on(False), _nearest_on(True)
