"""t, u and v of hits: by double-doubles, and what these leave open by a point nearby or exact sums.

Near an edge, a vertex or the origin of a ray volumes are small, and found by way of a point nearby:
where a weight or t is about 0, its volume loses by cancellation what double-doubles have. It is
the same volume for another point: (r x a) . q = (r x (a + s q - t r)) . q for all s and t, and
n . a = n . (a + u p + v q). With the approximate t and weights of the hit the sum in brackets is
short, and so is the error of a product with it.

Of the sum b = a + s x + t y, with the largest term M, the doubles that are added up without error
leave six errors of sums and two low parts of products. The low parts of all terms are at most
10 * 2**-53 M, so those eight are below 2**-100 M in sum. Adding them loses at most 7 * 2**-153 M,
and the last rounding 2**-153 M and 2**-105 of b. So (r x b) . q is off by that share of its terms,
which DD_ERROR covers with the 38 * 2**-106 of `sized_dot`, and by at most 2**-150 M |r| |q|, sums
of absolute components; n . b likewise by 2**-150 M |sizes|. DD_ERROR * 2**-46 M covers these.
"""

from typing import Any

import warp as wp

from bvh.devices.exact.arithmetic import (
    ZERO,
    difference,
    f8,
    largest,
    round_quotient,
    sized_cross,
    sized_dot,
    two_product,
    two_sum,
)
from bvh.devices.exact.triangles import (
    NONE,
    Volumes,
    exact_quotient,
    is_sided,
    scaled_quotient,
    shifted,
    unit_of,
    volumes_for_details,
    weights_of,
)
from bvh.devices.exact.volumes import exact_volume, is_moderate

TERM_SHARE = f8(2.0**-46)


@wp.struct
class Measures:
    """t, u, v and side of a hit, if they are decided."""

    t: wp.float64
    u: wp.float64
    v: wp.float64
    front: wp.bool
    decided: wp.bool


@wp.func
def _sum_of(v: wp.vec3d):
    return wp.abs(v[0]) + wp.abs(v[1]) + wp.abs(v[2])


@wp.func
def _shifted(
    a: wp.vec3d, a_low: wp.vec3d, s: wp.float64, x: wp.vec3d, x_low: wp.vec3d, t: wp.float64,
    y: wp.vec3d, y_low: wp.vec3d,
):  # fmt: skip
    """Return (high, low, largest term) of a + s x + t y, whose large terms cancel."""
    high, low, most = wp.vec3d(), wp.vec3d(), wp.float64(0.0)
    for axis in range(3):
        p, e = two_product(s, x[axis])
        q, f = two_product(t, y[axis])
        p_low, e_low = two_product(s, x_low[axis])
        q_low, f_low = two_product(t, y_low[axis])
        z, r1 = two_sum(a[axis], p)
        z, r2 = two_sum(z, q)
        w, g1 = two_sum(r1, r2)
        w, g2 = two_sum(w, a_low[axis])
        w, g3 = two_sum(w, e)
        w, g4 = two_sum(w, f)
        w, g5 = two_sum(w, p_low)
        w, g6 = two_sum(w, q_low)
        rest = ((g1 + g2) + (g3 + g4)) + ((g5 + g6) + (e_low + f_low))
        z, w = two_sum(z, w)
        z, w = two_sum(z, w + rest)
        high[axis] = z
        low[axis] = w
        most = wp.max(most, wp.max(wp.abs(a[axis]), wp.max(wp.abs(p), wp.abs(q))))
    return high, low, most


@wp.func
def _weight(x: Volumes, q: wp.vec3d, q_low: wp.vec3d, s: wp.float64, tau: wp.float64):
    """Return (decided, (r x a) . q over the total); s is the other weight."""
    b, b_low, most = _shifted(x.a, x.a_low, s, q, q_low, -tau, x.r, wp.vec3d())
    m, m_low, sizes = sized_cross(x.r, wp.vec3d(), b, b_low)
    value, size = sized_dot(m, m_low, sizes, q, q_low)
    size += TERM_SHARE * (most * _sum_of(x.r) * _sum_of(q))
    decided, w = round_quotient(value, size, x.total, x.total_size)
    return decided, w


@wp.func
def _time(x: Volumes, o: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
    """Return (decided, t) of a hit near the origin of its ray."""
    decided, t = bool(False), wp.float64(0.0)
    if not is_sided(x):
        return decided, t
    # The origin is a vertex; or each component of a or of the normal is 0, as on faces along axes.
    at_vertex = largest(o - v0) == ZERO or largest(o - v1) == ZERO or largest(o - v2) == ZERO
    in_plane = x.along_size == ZERO and is_moderate(x.a) and is_moderate(x.p) and is_moderate(x.q)
    if at_vertex or in_plane:
        decided = True
    else:
        u, v = x.of_u[0] / x.total[0], x.of_v[0] / x.total[0]
        b, b_low, most = _shifted(x.a, x.a_low, u, x.p, x.p_low, v, x.q, x.q_low)
        value, size = sized_dot(x.n, x.n_low, x.sizes, b, b_low)
        size += TERM_SHARE * (most * _sum_of(x.sizes))
        decided, t = scaled_quotient(value, size, x.total, x.total_size, x.shift)
    return decided, t


@wp.func
def _by_sums(o: wp.vec3d, d: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, volumes: int):
    """Return (side, decided, t, decided, u, decided, v) by exact volumes: two for t, four for all.

    The side is whether the hit is from the front.
    """
    front, t_sure, u_sure, v_sure = bool(False), bool(False), bool(False), bool(False)
    t, u, v = wp.float64(0.0), wp.float64(0.0), wp.float64(0.0)
    total_sure, total = bool(False), wp.vec2d()
    unit, shift = unit_of(d)
    # Of the normal with d and with v0 - o; of d x (v0 - o) with v0 - v2 and with v1 - v0. A loop,
    # as compilers take long for a volume.
    for which in range(volumes):
        normal, of_u = which < 2, which == 2
        a, a_low = difference(wp.where(normal, v1, v0), wp.where(normal, v0, o), NONE)
        to = wp.where(normal, v2, wp.where(of_u, v0, v1))
        b, b_low = difference(to, wp.where(of_u, v2, v0), NONE)
        c, c_low = unit, wp.vec3d()
        if which == 1:
            c, c_low = difference(v0, o, NONE)
        sure, value = exact_volume(a, a_low, b, b_low, c, c_low)
        decided, w = exact_quotient(sure, value, total_sure, total)
        if which == 0:
            total_sure = sure and value[0] != ZERO
            total = value
            front = value[0] < ZERO
        if which == 1:
            t_sure, t = shifted(decided, w, shift)
        if which == 2:
            u_sure, u = decided, w
        if which == 3:
            v_sure, v = decided, w
    return front, t_sure, t, u_sure, u, v_sure, v


def _by(near: bool, sums: bool) -> tuple[Any, Any]:
    """Return (distance, measures): by double-doubles and, for the rest, by one more means."""

    @wp.func
    def distance(
        x: Volumes, o: wp.vec3d, d: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d
    ):  # fmt: skip
        """Return (decided, t) of a hit, rounded to the nearest double."""
        decided, t = scaled_quotient(x.along, x.along_size, x.total, x.total_size, x.shift)
        if near:
            if not decided:
                decided, t = _time(x, o, v0, v1, v2)
        if sums:
            if not decided:
                _front, decided, t, _u_sure, _u, _v_sure, _v = _by_sums(o, d, v0, v1, v2, 2)
        return decided, t

    @wp.func
    def measures(o: wp.vec3d, d: wp.vec3d, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d):
        """Return the measures of a hit, as `exact_details` has them."""
        x = volumes_for_details(o, d, v0, v1, v2)
        t_sure, t = scaled_quotient(x.along, x.along_size, x.total, x.total_size, x.shift)
        u_sure, u, v_sure, v = weights_of(x)
        front = x.total[0] < ZERO
        if near:
            if not t_sure:
                t_sure, t = _time(x, o, v0, v1, v2)
            if x.in_range and is_sided(x):
                tau = x.along[0] / x.total[0]
                first, second = x.of_u[0] / x.total[0], x.of_v[0] / x.total[0]
                if not u_sure:
                    u_sure, w = _weight(x, x.q, x.q_low, second, tau)
                    u = -w
                if not v_sure:
                    v_sure, v = _weight(x, x.p, x.p_low, first, tau)
        if sums:
            if x.in_range and not (t_sure and u_sure and v_sure):
                front, sure_t, t2, sure_u, u2, sure_v, w = _by_sums(o, d, v0, v1, v2, 4)
                t, t_sure = wp.where(t_sure, t, t2), t_sure or sure_t
                u, u_sure = wp.where(u_sure, u, u2), u_sure or sure_u
                v, v_sure = wp.where(v_sure, v, w), v_sure or sure_v
        sure = x.in_range and t_sure and u_sure and v_sure
        return Measures(t, u, v, front, sure)  # type: ignore[call-arg]

    return distance, measures


close_distance, close_measures = _by(near=False, sums=False)
near_distance, near_measures = _by(near=True, sums=False)
exact_distance, exact_measures = _by(near=False, sums=True)
