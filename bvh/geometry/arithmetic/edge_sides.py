"""Sides of edges: on which side a ray passes each edge of a triangle, exactly.

The side of an edge (a, b) is the sign of d . ((a-o) x (b-o)), the volume spanned by the ray and the
edge. It is decided by the first of these that can:

1. a float64 filter, with the edge b-a in place of b-o;
2. the moment d x (v-o) of an end v of the edge, times the edge. The moment is 0 for a ray through
   v, short for one that passes near, and then its errors are small, too. It serves all edges at v;
3. the same in double-doubles, which decide all but values below some 2**-100 of their terms;
4. zeros among the factors of all terms; integers, where differences of coordinates have few digits
   (on grids, in maps, in plans); exact sums.

`d_scaled` is d times a power of two, with which no product overflows, and `floor` bounds what
underflows with it: both by `triangles.scaled_ray`.

Filter: Shewchuk 1997, "Adaptive precision floating-point arithmetic".
"""

from typing import NamedTuple

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import triple_sign
from bvh.geometry.arithmetic.floats import DD_ERROR, NAN
from bvh.geometry.arithmetic.predicates import integer_volume
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.runtime.jit import inlined, kernel, stay_outlined

# The filters are used for coordinates between 2**-REACH and 2**REACH: others could over- or
# underflow in their products.
REACH = 500

# Rounding of `filtered_side`: seven roundings of 2**-53 on the way of any term (two differences,
# two products, three sums). 9 in place of 7 covers what rounding the size and the bound changes.
SIDE_ERROR = 9.0 * 2.0**-53
# Rounding of `_moment_side`; and the error of a moment itself, as a share of its terms' sizes.
MOMENT_ERROR, MOMENT_LOST = 6.0 * 2.0**-53, 2.0**-102

NO_VERTEX = -1  # in place of the index of a vertex, 0 to 2
NOWHERE = (NAN, NAN, NAN)  # unequal to all points


class Passing(NamedTuple):
    """How a ray passes a vertex, computed once for all edges of the vertex; only inside kernels."""

    vertex: tuple[float, float, float]
    end: tuple[float, float, float]  # other end of an edge whose line the ray surely meets, or NaN
    moment: tuple[tuple[float, float], ...]  # d_scaled x (vertex - o), double-doubles
    sizes: tuple[float, float, float]  # sums of absolute terms of the moment's components
    through: bool  # whether the ray's line surely passes exactly through it


@inlined
def filtered_side(o, d_scaled, floor, a, b):
    """Return the sign of d . ((a-o) x (b-o)), or 0 where rounding could have changed it."""
    # With the edge b-a instead of b-o, a far origin costs one factor of its distance, not two.
    p, q = minus(a, o), minus(b, a)
    value, size = dot(d_scaled, cross(p, q)), floats.dot_size(d_scaled, floats.cross_size(p, q))
    return floats.sign_beyond(value, SIDE_ERROR * size + floor)


@inlined
def sides(o, d, d_scaled, floor, corners):
    """Return (side, vertex): the side on which a ray passes a triangle, and a vertex on the ray.

    The side is -1 or 1 for a hit, 0 for a miss; -1 means that the ray (o, d) meets the front, which
    the normal (v1-v0) x (v2-v0) points out of. The vertex is the index of a corner that the ray
    passes exactly through, or NO_VERTEX if there is none or none has been looked for. `d_scaled` is
    d times a power of two, `floor` bounds what underflows with it (see `triangles.scaled_ray`).
    """
    # The filter returns NO_VERTEX if it decided, else a vertex of an edge that it did not decide.
    side, vertex = filtered_sides(o, d_scaled, floor, corners)
    if vertex == NO_VERTEX:
        return side, NO_VERTEX
    return exact_sides(o, d, d_scaled, floor, corners, vertex)


@inlined
def filtered_sides(o, d_scaled, floor, corners):
    """Return (side, NO_VERTEX) if a float64 filter decides on which side a ray meets a triangle.

    The side is 1 or -1 for a hit, 0 for a miss, as `sides` returns it. Without a decision, the
    result is (0, vertex): an index, 0 to 2, of an end of an edge that is undecided. `d_scaled` is
    the direction times a power of two, `floor` bounds what underflows with it.
    """
    v0, v1, v2 = corners
    # Two edges of opposite signs are a miss whatever the third is; if two edges are undecided, the
    # ray is likely to pass near their common vertex.
    s0 = filtered_side(o, d_scaled, floor, v0, v1)
    s1 = filtered_side(o, d_scaled, floor, v1, v2)
    if s0 * s1 < 0 or (s0 == 0 and s1 == 0):
        return 0, (1 if s0 == 0 else NO_VERTEX)
    s2 = filtered_side(o, d_scaled, floor, v2, v0)
    if s0 * s2 < 0 or s1 * s2 < 0:
        return 0, NO_VERTEX
    if s0 * s1 * s2 != 0:
        return s0, NO_VERTEX
    return 0, (0 if s0 == 0 else (2 if s2 == 0 else 1))


@kernel
def exact_sides(o, d, d_scaled, floor, corners, k):
    """Return (side, vertex) as `sides` does, where `filtered_sides` does not decide.

    k, 0 to 2, is the vertex that `filtered_sides` returned. The ray may pass near it, so its edges
    are decided by its moment. The resulting vertex is k or NO_VERTEX.
    """
    stay_outlined()
    corners = turned(corners, k)
    near = passing(o, d, d_scaled, corners[0])
    side, near = side_at(o, d, d_scaled, floor, near, corners)
    return side, (k if near.through and side != 0 else NO_VERTEX)


@inlined
def turned(corners, k):
    """Return the vertices of a triangle in the same cyclic order, beginning with the k-th."""
    v0, v1, v2 = corners
    if k == 0:
        return v0, v1, v2
    return (v1, v2, v0) if k == 1 else (v2, v0, v1)


@inlined
def passing(o, d, d_scaled, v):
    """Return how the ray (o, d) passes the vertex v: a `Passing` whose `end` is NOWHERE yet.

    `d_scaled` is d times a power of two, with which no product overflows.
    """
    ray = (d_scaled[0],), (d_scaled[1],), (d_scaled[2],)
    moment, sizes = floats.sized_cross(ray, floats.difference(v, o, 0))
    through = floats.largest(floats.high(moment)) == 0.0 and passes_through(o, d, v)
    return Passing(v, NOWHERE, moment, sizes, through)


# The `Passing` of no vertex, the initial value of a search: NaN, so unequal to every vertex.
passing_nothing = inlined(
    lambda: Passing(NOWHERE, NOWHERE, ((0.0, 0.0),) * 3, (0.0, 0.0, 0.0), False)
)


@inlined
def side_at(o, d, d_scaled, floor, near, corners):
    """Return (side, near): the exact side on which a ray meets a triangle, and an updated `near`.

    The side is 1 or -1 for a hit, 0 for a miss, as `sides` returns it. `near` is the `Passing` of
    the first of the three corners. If the ray turns out to meet the line of an edge at this corner,
    `near` gets the edge's other end as `end`, so that the neighbour need not test the edge.
    """
    # s0 and s2 are the sides of the edges from and to the first corner, s1 that of the third edge.
    # Opposite signs are a miss. Filters come first, then exact signs for what they leave at 0. An
    # edge to `near.end` has the side 0, as the ray meets its line.
    _, after, before = corners
    on_first, on_last = after == near.end, before == near.end
    s0 = 0 if near.through or on_first else _moment_side(near, floor, near.vertex, after)
    s2 = 0 if near.through or on_last else _moment_side(near, floor, before, near.vertex)
    if s0 * s2 < 0:
        return 0, near
    s1 = filtered_side(o, d_scaled, floor, after, before)
    if s0 * s1 < 0 or s1 * s2 < 0:
        return 0, near
    if not near.through:
        if s0 == 0 and not on_first:
            s0 = _exact_side(o, d, floor, near, near.vertex, after)
        if s0 * s1 < 0:
            return 0, near
        if s2 == 0 and not on_last:
            s2 = _exact_side(o, d, floor, near, before, near.vertex)
        end = after if s0 == 0 else before
        if (s0 == 0 or s2 == 0) and end != near.vertex:
            near = Passing(near.vertex, end, near.moment, near.sizes, near.through)
        if s0 * s2 < 0 or s1 * s2 < 0:
            return 0, near
    if s1 == 0:
        s1 = exact_side(o, d, d_scaled, floor, after, before)
        if s0 * s1 < 0 or s1 * s2 < 0:
            return 0, near
    # No two signs are opposite; if all are 0, the ray is in the plane and misses.
    return floats.sign(s0 + s1 + s2), near


@inlined
def _moment_side(near, floor, a, b):
    """Return the side of an edge (a, b) at `near.vertex`; 0 where rounding could change it."""
    # The side is the sign of m . (b-a), with the moment m. Each component of m is off by 8 *
    # 2**-106 of its size (see `floats.difference_of_products`) and is rounded; with the rounding of
    # an edge, of products and of two sums: 5 * 2**-53 of the terms. Terms that underflow, less than
    # 16 times 2**-1075 a component of m and the underflow of d in `scaled_ray`, are below `floor`,
    # too.
    x, y, z = near.moment
    m, e = (x[0] + x[1], y[0] + y[1], z[0] + z[1]), minus(b, a)
    error = MOMENT_ERROR * floats.dot_size(m, e) + MOMENT_LOST * floats.dot_size(near.sizes, e)
    return floats.sign_beyond(dot(m, e), error + floor)


@kernel
def exact_side(o, d, d_scaled, floor, a, b):
    """Return the exact side of the edge (a, b), the sign of d . ((a-o) x (b-a)).

    `d_scaled` is d times a power of two, `floor` bounds what underflows with it.
    """
    stay_outlined()
    return _exact_side(o, d, floor, passing(o, d, d_scaled, a), a, b)


@kernel
def _exact_side(o, d, floor, near, a, b):
    """Return the exact side of the edge (a, b); `near` is the `Passing` of one of its ends."""
    stay_outlined()
    # First double-doubles, of the moment times the edge.
    q = floats.difference(b, a, 0)
    value, size = floats.sized_dot(near.moment, near.sizes, q)
    side = floats.sign_beyond(value[0], 2.0 * DD_ERROR * size + floor)
    if side != 0:
        return side
    # Then zeros: often all terms of the sum are zero, for rays and edges along axes, and for rays
    # through a vertex of the edge.
    if all_terms_zero(o, d, a, floats.high(q)) or all_terms_zero(o, d, b, floats.high(q)):
        return 0
    # At last integers, or exact sums.
    p = floats.difference(near.vertex, o, 0)
    decided, value, _ = integer_volume(p, q, floats.unrounded(d, 0))
    return floats.sign(value[0]) if decided else triple_sign(o, d, a, b)


# Whether a ray's line surely passes exactly through a point.
passes_through = inlined(lambda o, d, v: all_terms_zero(o, d, v, (1.0, 1.0, 1.0)))


@kernel
def all_terms_zero(o, d, v, e):
    """Return whether all three terms of (d x (v-o)) . e are surely zero: one factor of each is.

    e is any vector, such as an edge. False means that this is unknown.
    """
    stay_outlined()
    p = floats.difference(v, o, 0)
    return (
        (e[0] == 0.0 or _is_zero_component(d, p, 1, 2))
        and (e[1] == 0.0 or _is_zero_component(d, p, 2, 0))
        and (e[2] == 0.0 or _is_zero_component(d, p, 0, 1))
    )


@inlined
def _is_zero_component(d, p, i, j):
    """Return whether d[i] * p[j] = d[j] * p[i] surely, for doubles d and double-doubles p."""
    (x, x_low), (y, y_low) = p[i], p[j]
    # Equal products of high parts, and of low parts, are sufficient.
    return floats.are_equal_products(d[i], y, d[j], x) and (
        (x_low == 0.0 and y_low == 0.0) or floats.are_equal_products(d[i], y_low, d[j], x_low)
    )
