"""The exact intersection of a ray with a triangle on a device: sides, and quotients of volumes.

As `geometry.triangles` has it, and with its numbers, bit for bit: a side by a float64 filter, then
by double-doubles, then by an exact volume; t, u and v (see `measures`) as quotients of volumes.
Each function also returns whether it could decide: what is too large or too small for exact
volumes, and quotients that lie half-way between two doubles as far as double-doubles tell, are left
to the CPU.
"""

from typing import Any

import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import DD_ERROR, INF, ONE, TWO, ZERO, dd3, f8
from bvh.devices.exact.volumes import exact_sum
from bvh.geometry.arithmetic import edge_sides

SIDE_ERROR, REACH = f8(edge_sides.SIDE_ERROR), edge_sides.REACH
# Bounds of the filters of weights, those of `geometry.triangles.solve_weights`.
WEIGHT_SHARE, WEIGHT_FLOOR = f8(2.0**54 * DD_ERROR.value), f8(2.0**-700)


@wp.func
def scaled_ray(o: wp.vec3d, d: wp.vec3d, reach: wp.float64):
    """Return (d_scaled, floor, e, k) for the filters of a ray, as `geometry.triangles.scaled_ray`.

    `reach` is the largest absolute coordinate of triangles. 2**e is about the largest coordinate of
    all, 2**k that of the direction, and d_scaled is d * 2**(-k - 2 e). Filters only decide volumes
    above `floor`, which is inf if the ray is too large or too small for them.
    """
    e = floats.exponent(wp.max(floats.largest(o), reach))
    k = wp.min(floats.exponent(floats.largest(d)), 1022)
    scaled = d
    floor = INF
    if e >= -REACH and e <= REACH:
        scaled = (d * floats.power_of_two(-k)) * floats.power_of_two(-2 * e)
        floor = floats.power_of_two(2 * wp.abs(e) - 1064)
    return scaled, floor, e, k


@wp.func
def unit_of(d: wp.vec3d):
    """Return (d', k) with d = 2**k d', where d' is of double-doubles and of size about 1.

    This size makes d' moderate, as `exact_sum` requires.
    """
    k = wp.min(wp.max(floats.exponent(floats.largest(d)), -1022), 1022)
    return floats.unrounded(d * floats.power_of_two(-k)), k


@wp.func
def _moved_side(d: wp.vec3d, a: wp.vec3d, b: wp.vec3d):
    """Return (decided, side) of the edge (a, b), which a ray of direction d meets, after a shift.

    The ray is shifted by the infinitesimal of `bvh.tree.edge_rule`. Then the side of the edge on
    which it passes is the sign of the first component of d x (b - a) that is not 0, or 0 if all
    are.
    """
    unit, _ = unit_of(d)
    sure, side, axes = bool(True), int(0), int(3)
    for axis in range(axes):  # to a variable: Warp would unroll a loop over constants
        if sure and side == 0:
            # The volume with an axis is that component of the cross product.
            along = dd3()
            along[axis, 0] = ONE
            decided, value, _ = exact_sum(unit, floats.difference(b, a, 0), along, False)
            sure = decided
            side = floats.sign_of(value[0])
    return sure, side


def _triangle_side(by_sums: bool) -> Any:
    """Return the function `triangle_side` below.

    Without `by_sums` it leaves open what exact sums have to decide, such as hits at edges.
    """

    @wp.func
    def edge_side(
        o: wp.vec3d, d: wp.vec3d, d_scaled: wp.vec3d, floor: wp.float64, a: wp.vec3d, b: wp.vec3d
    ):  # fmt: skip
        """Return (decided, sign of d . ((a-o) x (b-o))) of the ray o, d and the edge (a, b).

        It tries doubles, double-doubles, and exact sums if `by_sums`. `d_scaled` and `floor` are
        those of `scaled_ray`.
        """
        value = wp.dot(d_scaled, wp.cross(a - o, b - a))
        size = floats.dot_size(d_scaled, floats.cross_size(a - o, b - a))
        decided = wp.abs(value) > SIDE_ERROR * size + floor
        if not decided:
            p, q = floats.difference(a, o, 0), floats.difference(b, a, 0)
            m, sizes = floats.sized_cross(floats.unrounded(d_scaled), p)
            close, close_size = floats.sized_dot(m, sizes, q)
            value = close[0]
            decided = wp.abs(value) > TWO * DD_ERROR * close_size + floor
            if by_sums:
                if not decided:
                    unit, _ = unit_of(d)
                    decided, close, _ = exact_sum(p, q, unit, False)
                    value = close[0]
        return decided, floats.sign_of(value)

    @wp.func
    def triangle_side(
        o: wp.vec3d, d: wp.vec3d, d_scaled: wp.vec3d, floor: wp.float64,
        v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d, once: wp.int32,
    ):  # fmt: skip
        """Return (decided, side): 0 if the ray o, d misses v0 v1 v2, -1 from the front, 1 behind.

        `d_scaled` and `floor` are those of `scaled_ray`. With `once` not 0, a hit at an edge or a
        vertex only counts if the edge rule says that the ray crosses this face there.
        """
        # The ray misses if it passes two edges on different sides, even if the third is undecided.
        sure, positive, negative, crossed = bool(True), bool(False), bool(False), bool(True)
        first, edges = int(0), int(3)
        a, b, c = v0, v1, v2
        for k in range(edges):  # a variable, as in `_moved_side`
            if not (positive and negative):
                decided, side = edge_side(o, d, d_scaled, floor, a, b)
                positive = positive or (decided and side > 0)
                negative = negative or (decided and side < 0)
                if by_sums:
                    if once != 0 and decided and side == 0:
                        decided, side = _moved_side(d, a, b)
                sure = sure and decided
                first = wp.where(k == 0, side, first)
                crossed = crossed and side == first and side != 0
            # The next edge; a tuple on the right would be assigned one after the other.
            spare = a
            a = b
            b = c
            c = spare
        if positive and negative:
            return True, 0
        side = wp.where(positive, 1, 0) - wp.where(negative, 1, 0)
        return sure, wp.where(once != 0 and not crossed, 0, side)

    return triangle_side


close_side, triangle_side = _triangle_side(False), _triangle_side(True)


@wp.struct
class Volumes:
    """A ray and a triangle v0 v1 v2, and their volumes as double-doubles.

    The errors of volumes are at most DD_ERROR times their sizes. a = v0 - o, p = v1 - v0 and
    q = v2 - v0 are scaled by 2**-e, the direction r by 2**-k. Of a hit, t is along / total *
    2**shift, u is of_u / total, and v is of_v / total.
    """

    a: dd3
    p: dd3
    q: dd3
    r: dd3
    n: dd3  # p x q
    sizes: wp.vec3d  # as of `sized_cross`, for n
    along: wp.vec2d  # n . a
    along_size: wp.float64
    total: wp.vec2d  # n . r
    total_size: wp.float64
    of_u: wp.vec2d  # -(r x a) . q
    u_size: wp.float64
    of_v: wp.vec2d  # (r x a) . p
    v_size: wp.float64
    shift: int
    in_range: wp.bool  # whether no number is so large or small that bounds of errors do not hold


@wp.func
def volumes_of(
    o: wp.vec3d, d: wp.vec3d, e: int, k: int, v0: wp.vec3d, v1: wp.vec3d, v2: wp.vec3d
):  # fmt: skip
    """Return the `Volumes` of a ray o, d and a triangle v0 v1 v2; e and k are of `scaled_ray`."""
    a = floats.difference(v0, o, -e)
    p, q = floats.difference(v1, v0, -e), floats.difference(v2, v0, -e)
    r = floats.unrounded(d * floats.power_of_two(-k))
    n, sizes = floats.sized_cross(p, q)
    m, m_sizes = floats.sized_cross(r, a)
    along, along_size = floats.sized_dot(n, sizes, a)
    total, total_size = floats.sized_dot(n, sizes, r)
    of_u, u_size = floats.sized_dot(m, m_sizes, q)
    of_v, v_size = floats.sized_dot(m, m_sizes, p)
    in_range = e >= -REACH and e <= REACH and total_size > ZERO
    return Volumes(  # type: ignore[call-arg]
        a, p, q, r, n, sizes, along, along_size, total, total_size,
        -of_u, u_size, of_v, v_size, e - k, in_range,
    )  # fmt: skip


@wp.func
def is_normal(k: int):
    """Return whether numbers of exponent k are normal doubles, with a margin for roundings."""
    return k > -1020 and k < 1020


@wp.func
def scaled_quotient(
    n: wp.vec2d, n_size: wp.float64, d: wp.vec2d, d_size: wp.float64, e: int
):  # fmt: skip
    """Return (decided, n / d * 2**e): if decided, a normal double, correctly rounded.

    The arguments n to `d_size` are those of `round_quotient`.
    """
    decided, t = floats.round_quotient(n, n_size, d, d_size)
    return decided and is_normal(floats.exponent(t) + e), floats.scale_by(t, e)


@wp.func
def is_sided(x: Volumes):
    """Return whether the sign of the volume `total` is sure: from which side a ray comes."""
    return wp.abs(x.total[0]) > DD_ERROR * x.total_size + WEIGHT_FLOOR


@wp.func
def weights_of(x: Volumes):
    """Return (u decided, u, v decided, v) of a hit, rounded as `geometry.triangles` does."""
    # Where no volume is small by cancellation, u and v are quotients of the high parts, as on CPUs.
    u = x.of_u[0] / x.total[0]
    v = x.of_v[0] / x.total[0]
    sure = x.in_range and (
        wp.abs(x.total[0]) > WEIGHT_SHARE * x.total_size + WEIGHT_FLOOR
        and wp.abs(x.of_u[0]) > WEIGHT_SHARE * x.u_size + WEIGHT_FLOOR
        and wp.abs(x.of_v[0]) > WEIGHT_SHARE * x.v_size + WEIGHT_FLOOR
    )
    u_sure, v_sure = wp.bool(sure), wp.bool(sure)
    if x.in_range and not sure:
        # Elsewhere, as `details_at_edge` on CPUs, they are rounded correctly.
        decided, w = floats.round_quotient(x.of_u, x.u_size, x.total, x.total_size)
        u_sure = decided and is_sided(x)
        u = w
        decided, w = floats.round_quotient(x.of_v, x.v_size, x.total, x.total_size)
        v_sure = decided and is_sided(x)
        v = w
    return u_sure, u, v_sure, v
