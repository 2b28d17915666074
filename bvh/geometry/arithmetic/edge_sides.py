"""Sides of edges: on which side a ray passes each edge of a triangle, exactly.

The side of an edge (a, b) is the sign of d . ((a-o) x (b-o)), the volume spanned by the ray and the
edge. It is decided by the first of these that can:

1. a float64 filter, with the edge in place of b-o;
2. where two edges of a triangle are open, the moment d x (v-o) of their vertex v: 0 for a ray
   through the vertex, short for one that passes near, and then its errors are small, too;
3. integers, where differences of coordinates are doubles (on grids, in maps, in plans);
4. double-doubles, which leave open only what is closer to 0 than 2**-100 of its terms;
5. exact sums.

Filter: Shewchuk 1997, "Adaptive precision floating-point arithmetic".
"""

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.exact_sums import triple_sign
from bvh.geometry.arithmetic.floats import DD_ERROR
from bvh.geometry.arithmetic.predicates import integer_volume, is_single
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.runtime.jit import inlined, kernel, stay_outlined

# The filters are used for coordinates between 2**-REACH and 2**REACH: others could over- or
# underflow in their products.
REACH = 500

# Rounding of `filtered_side`: three products and sums deep, seven roundings of 2**-53 each, and the
# rounding of the size itself; 9 covers (1 + 2**-53)**10 - 1 over 2**-53 many times.
SIDE_ERROR = 9.0 * 2.0**-53

NO_VERTEX = -1


@inlined
def filtered_side(o, d_scaled, floor, a, b):
    """Return the sign of d . ((a-o) x (b-o)), or 0 where rounding could have changed it."""
    # With the edge b-a instead of b-o, a far origin costs one factor of its distance, not two.
    p, q = minus(a, o), minus(b, a)
    value, size = dot(d_scaled, cross(p, q)), floats.dot_size(d_scaled, floats.cross_size(p, q))
    return _sign_beyond(value, SIDE_ERROR * size + floor)


@inlined
def _sign_beyond(value, error):
    """Return the sign of a value, or 0 where its error could have changed it."""
    # A NaN or an infinite error fails this test and is left undecided, too.
    if abs(value) > error:
        return 1 if value > 0.0 else -1
    return 0


@inlined
def sides(o, d, d_scaled, floor, v0, v1, v2):
    """Return (side, vertex): the side on which a ray passes a triangle, and a vertex on the ray.

    The side is -1 or 1 for a hit, 0 for a miss. -1 is the front: the ray opposes the normal
    (v1-v0) x (v2-v0). The vertex is NO_VERTEX unless the ray was found to pass exactly through it.
    """
    # Two edges of opposite signs are a miss whatever the third is, so all are filtered first.
    s0 = filtered_side(o, d_scaled, floor, v0, v1)
    s1 = filtered_side(o, d_scaled, floor, v1, v2)
    if s0 * s1 < 0:
        return 0, NO_VERTEX
    s2 = filtered_side(o, d_scaled, floor, v2, v0)
    if s0 * s2 < 0 or s1 * s2 < 0:
        return 0, NO_VERTEX
    if s0 * s1 * s2 != 0:
        return s0, NO_VERTEX
    return open_sides(o, d, d_scaled, floor, (v0, v1, v2), s0, s1, s2)


@kernel
def open_sides(o, d, d_scaled, floor, corners, s0, s1, s2):
    """Return the same as `sides`, given sides of edges; 0 for those that are open."""
    stay_outlined()
    # Begin with the vertex between two that are open. Exactly through it, both are 0.
    v0, v1, v2 = corners
    first = 0
    if s0 == 0 and s1 == 0:
        first, v0, v1, v2, s0, s1, s2 = 1, v1, v2, v0, s1, s2, s0
    elif s1 == 0 and s2 == 0:
        first, v0, v1, v2, s0, s1, s2 = 2, v2, v0, v1, s2, s0, s1
    if s0 == 0 and s2 == 0:
        if passes_through(o, d, v0):
            return s1 if s1 != 0 else exact_side(o, d, v1, v2), first
        s0, s2 = _sides_at(o, d, d_scaled, floor, v0, v1, v2)
        if s0 * s1 < 0 or s0 * s2 < 0 or s1 * s2 < 0:
            return 0, NO_VERTEX
    if s0 == 0:
        s0 = exact_side(o, d, v0, v1)
        if s0 * s1 < 0 or s0 * s2 < 0:
            return 0, NO_VERTEX
    if s1 == 0:
        s1 = exact_side(o, d, v1, v2)
        if s1 * s0 < 0 or s1 * s2 < 0:
            return 0, NO_VERTEX
    if s2 == 0:
        s2 = exact_side(o, d, v2, v0)
        if s2 * s0 < 0 or s2 * s1 < 0:
            return 0, NO_VERTEX
    return floats.sign(s0 + s1 + s2), NO_VERTEX


@inlined
def _sides_at(o, d, d_scaled, floor, v, after, before):
    """Return the sides of (v, after) and (before, v), 0 where not decided."""
    # They are m . (after-v) and m . (v-before), with the moment m = d x (v-o). Each component of m
    # is off by 10 * 2**-106 of its size (see `floats.difference_of_products`) and is rounded; with
    # the rounding of an edge, of products and of two sums: 6 * 2**-53 of the terms. What
    # underflows, less than 16 times 2**-1075 a component of m and what `scaled_ray` tells of d,
    # is below `floor`, too.
    m, sizes = floats.sized_cross(floats.unrounded(d_scaled, 0), floats.difference(v, o, 0))
    m = (m[0][0] + m[0][1], m[1][0] + m[1][1], m[2][0] + m[2][1])
    a, b = minus(after, v), minus(v, before)
    a_error = 6.0 * 2.0**-53 * floats.dot_size(m, a) + 2.0**-102 * floats.dot_size(sizes, a) + floor
    b_error = 6.0 * 2.0**-53 * floats.dot_size(m, b) + 2.0**-102 * floats.dot_size(sizes, b) + floor
    return _sign_beyond(dot(m, a), a_error), _sign_beyond(dot(m, b), b_error)


@kernel
def passes_through(o, d, v):
    """Return whether a ray's line surely passes exactly through a point."""
    stay_outlined()
    p = floats.difference(v, o, 0)
    return _are_parallel(d, floats.high(p)) and _are_parallel(d, floats.low(p))


@inlined
def _are_parallel(d, p):
    """Return whether d x p is surely zero."""
    return (
        floats.are_equal_products(d[0], p[1], d[1], p[0])
        and floats.are_equal_products(d[1], p[2], d[2], p[1])
        and floats.are_equal_products(d[2], p[0], d[0], p[2])
    )


@inlined
def vertex_of(o, d, v0, v1, v2):
    """Return the vertex, 0, 1 or 2, that a ray's line surely passes exactly through."""
    if passes_through(o, d, v0):
        return 0
    if passes_through(o, d, v1):
        return 1
    return 2 if passes_through(o, d, v2) else NO_VERTEX


@kernel
def exact_side(o, d, a, b):
    """Return the exact sign of d . ((a-o) x (b-a)), which a filter could not decide."""
    stay_outlined()
    # Common for axis-parallel rays: all six products have a factor that is exactly zero.
    # (A computed difference is zero only if the real one is.)
    zero = True
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if d[i] != 0.0 and ((a[j] != o[j] and b[k] != a[k]) or (a[k] != o[k] and b[j] != a[j])):
            zero = False
    if zero:
        return 0
    p, q = floats.difference(a, o, 0), floats.difference(b, a, 0)
    if is_single(p) and is_single(q):
        decided, value, _ = integer_volume(floats.high(p), floats.high(q), d)
        if decided:
            return floats.sign(value[0])
    e, k = floats.exponent(floats.reach_of(o, a, b)), floats.exponent(floats.largest(d))
    if -REACH <= e <= REACH and k <= 1022:
        # What underflows is below 2**-1060.
        n, sizes = floats.sized_cross(floats.difference(a, o, -e), floats.difference(b, a, -e))
        value, size = floats.sized_dot(n, sizes, floats.unrounded(d, k))
        side = _sign_beyond(value[0], 2.0 * DD_ERROR * size + 2.0**-1000)
        if side != 0:
            return side
    return triple_sign(o, d, a, b)
