"""t, u and v of hits: by double-doubles, and what these leave open by a point nearby or exact sums.

Near an edge, a vertex or the origin of a ray, a weight or t is about 0, and cancellation takes the
digits of its volume. It is the same volume for a point nearby: for all s and t, (r x a) . q =
(r x (a + s q - t r)) . q, and n . a = n . (a + u p + v q). With the approximate t and weights of
the hit the sum in brackets is short, and so is the error of a product with it.

`_shifted` computes b = a + s x + t y, with the largest term M. It adds doubles without error, but
for six errors of sums and two of products. The low parts of all terms are at most 10 * 2**-53 M,
so these eight are below 2**-100 M in sum. Adding them loses at most 7 * 2**-153 M, and the last
rounding 2**-153 M and 2**-105 of b. So (r x b) . q is off by 2**-105 of its terms, which DD_ERROR
covers with the 38 * 2**-106 of `sized_dot`, and by at most 2**-150 M |r| |q|, sums of absolute
components; n . b likewise by 2**-150 M |sizes|. DD_ERROR * 2**-46 M covers these.
"""

from typing import Any

import warp as wp

from bvh.devices.exact import floats, triangles
from bvh.devices.exact.floats import ZERO, dd3, f8
from bvh.devices.exact.triangles import Volumes, is_sided, scaled_quotient
from bvh.devices.exact.volumes import exact_sum, is_moderate

TERM_SHARE = f8(2.0**-46)


@wp.struct
class Measures:
    """t and weights of a hit at (1-u-v) v0 + u v1 + v v2, correctly rounded if `decided`."""

    t: wp.float64
    u: wp.float64
    v: wp.float64
    front: wp.bool  # whether the ray comes from the side of the normal
    decided: wp.bool


@wp.func
def _shifted(a: dd3, s: wp.float64, x: dd3, t: wp.float64, y: dd3):
    """Return (b, M): b = a + s x + t y of double-doubles, and its largest absolute term.

    The terms may cancel: the error is that which the module's docstring derives.
    """
    total, most = dd3(), wp.float64(0.0)
    for axis in range(3):
        p, e = floats.two_product(s, x[axis, 0])
        q, f = floats.two_product(t, y[axis, 0])
        p_low, e_low = floats.two_product(s, x[axis, 1])
        q_low, f_low = floats.two_product(t, y[axis, 1])
        z, r1 = floats.two_sum(a[axis, 0], p)
        z, r2 = floats.two_sum(z, q)
        w, g1 = floats.two_sum(r1, r2)
        w, g2 = floats.two_sum(w, a[axis, 1])
        w, g3 = floats.two_sum(w, e)
        w, g4 = floats.two_sum(w, f)
        w, g5 = floats.two_sum(w, p_low)
        w, g6 = floats.two_sum(w, q_low)
        rest = ((g1 + g2) + (g3 + g4)) + ((g5 + g6) + (e_low + f_low))
        z, w = floats.two_sum(z, w)
        z, w = floats.two_sum(z, w + rest)
        total[axis] = wp.vec2d(z, w)
        most = wp.max(most, wp.max(wp.abs(a[axis, 0]), wp.max(wp.abs(p), wp.abs(q))))
    return total, most


@wp.func
def _weight(x: Volumes, q: dd3, s: wp.float64, tau: wp.float64):
    """Return (decided, (r x a) . q / total): the weight v of a hit for q = x.p, -u for q = x.q.

    s is about the weight of the edge q: u for x.p, v for x.q. tau is about t / 2**x.shift. The
    quotient is correctly rounded if decided.
    """
    # b = a + s q - tau r is about minus the weight sought times the other edge, so b is short where
    # that weight is about 0; and (r x b) . q equals (r x a) . q.
    b, most = _shifted(x.a, s, q, -tau, x.r)
    m, sizes = floats.sized_cross(x.r, b)
    value, size = floats.sized_dot(m, sizes, q)
    size += TERM_SHARE * (most * floats.sum_of(floats.high(x.r)) * floats.sum_of(floats.high(q)))
    return floats.round_quotient(value, size, x.total, x.total_size)


@wp.func
def _time(x: Volumes, o: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
    """Return (decided, t) of a ray from o that hits the triangle v0 v1 v2 near o.

    `x` are the volumes of the ray and the triangle. t is correctly rounded if decided.
    """
    if not is_sided(x):
        return False, f8(0.0)
    # t is 0: the origin is a vertex; or each product of the volume n . a is 0, as on faces along
    # axes, and the numbers are moderate, so that no product has underflowed.
    at_vertex = o == v0 or o == v1 or o == v2
    in_plane = x.along_size == ZERO and is_moderate(x.a) and is_moderate(x.p) and is_moderate(x.q)
    if at_vertex or in_plane:
        return True, f8(0.0)
    u, v = x.of_u[0] / x.total[0], x.of_v[0] / x.total[0]
    b, most = _shifted(x.a, u, x.p, v, x.q)
    value, size = floats.sized_dot(x.n, x.sizes, b)
    size += TERM_SHARE * (most * floats.sum_of(x.sizes))
    decided, t = scaled_quotient(value, size, x.total, x.total_size, x.shift)
    return decided, t


@wp.func
def _by_sums(o: wp.vec3d, d: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, volumes: int):
    """Return (front, decided, (t, u, v)) of the hit of the ray o, d on the triangle v0 v1 v2.

    Computed by exact volumes: `volumes` is 2 for t alone, 4 for u and v, too. `front` tells whether
    the ray comes from the side of the normal. `decided` is the sum of 1, 2 and 4 if t, u and v are
    decided, which are correctly rounded then.
    """
    front, decided, found = bool(False), int(0), wp.vec3d()
    total_sure, total = bool(False), wp.vec2d()
    unit, shift = triangles.unit_of(d)
    # Volumes: 0 and 1, the normal with d and with v0 - o; 2 and 3, d x (v0 - o) with v0 - v2 and
    # with v1 - v0. Divided by volume 0, the others are t, u and v. A loop, as compilers take long
    # for each call.
    for which in range(volumes):
        normal, of_u = which < 2, which == 2
        a = floats.difference(wp.where(normal, v1, v0), wp.where(normal, v0, o), 0)
        to = wp.where(normal, v2, wp.where(of_u, v0, v1))
        b = floats.difference(to, wp.where(of_u, v2, v0), 0)
        c = unit
        if which == 1:
            c = floats.difference(v0, o, 0)
        sure, value, _ = exact_sum(a, b, c, False)
        if which == 0:
            total_sure = sure and value[0] != ZERO
            total = value
            front = value[0] < ZERO
        else:
            rounded, w = floats.round_quotient(value, wp.abs(value[0]), total, wp.abs(total[0]))
            if which == 1:
                rounded = rounded and triangles.is_normal(floats.exponent(w) - shift)
                w = floats.scale_by(w, -shift)
            is_zero = value[0] == ZERO
            found[which - 1] = wp.where(is_zero, ZERO, w)
            if sure and total_sure and (rounded or is_zero):
                decided += 1 << (which - 1)
    return front, decided, found


def _measures(near: bool, sums: bool, weights: bool) -> Any:
    """Return a function that measures hits by double-doubles.

    With `near` it decides what these leave open by a point nearby, with `sums` by exact sums. Its
    results have u = v = 0 without `weights`.
    """

    @wp.func
    def measures(x: Volumes, o: wp.vec3d, d: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
        """Return the measures of the hit of the ray o, d on v0 v1 v2; `x` are their volumes."""
        t_sure, t = scaled_quotient(x.along, x.along_size, x.total, x.total_size, x.shift)
        u_sure, u, v_sure, v, front = bool(True), f8(0.0), bool(True), f8(0.0), x.total[0] < ZERO
        if weights:
            u_sure, u, v_sure, v = triangles.weights_of(x)
        if near:
            if not t_sure:
                t_sure, t = _time(x, o, v0, v1, v2)
            if weights:
                if x.in_range and is_sided(x):
                    # Approximate t, before its scale, and weights.
                    tau = x.along[0] / x.total[0]
                    first, second = x.of_u[0] / x.total[0], x.of_v[0] / x.total[0]
                    if not u_sure:
                        u_sure, w = _weight(x, x.q, second, tau)
                        u = -w
                    if not v_sure:
                        v_sure, v = _weight(x, x.p, first, tau)
        if sums:
            if x.in_range and not (t_sure and u_sure and v_sure):
                front, exact, found = _by_sums(o, d, v0, v1, v2, wp.where(weights, 4, 2))
                t, t_sure = wp.where(t_sure, t, found[0]), t_sure or (exact & 1) != 0
                u, u_sure = wp.where(u_sure, u, found[1]), u_sure or (exact & 2) != 0
                v, v_sure = wp.where(v_sure, v, found[2]), v_sure or (exact & 4) != 0
        sure = x.in_range and t_sure and u_sure and v_sure
        return Measures(t, u, v, front, sure)  # type: ignore[call-arg]

    return measures


# Each pair: a function for t alone, and one for t, u and v.
close_distance, close_measures = (_measures(False, False, weights) for weights in (False, True))
near_distance, near_measures = (_measures(True, False, weights) for weights in (False, True))
exact_distance, exact_measures = (_measures(False, True, weights) for weights in (False, True))
