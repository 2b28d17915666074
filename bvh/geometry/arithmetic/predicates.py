"""Exact orientation predicates: signs of areas and volumes spanned by points.

`orient2d` and `orient3d` are the predicates of Shewchuk 1997, "Adaptive precision floating-point
arithmetic and fast robust geometric predicates". A float64 filter with an error bound answers
first, and exact sums where it does not decide. They are exact for all finite doubles.

The bounds. A difference of two doubles is off by 2**-53 of itself, so a product of two of them by
three such units, the difference of two products by four of the sum of their sizes, and with a third
factor and two more sums by eight: AREA_ERROR and VOLUME_ERROR are larger by half, which also covers
for the rounding of the sizes. A product that underflows loses 2**-1075, times the third factor of a
volume; TINY times that factor covers six of them. What overflows is infinite or no number in both
value and size, and is left undecided.
"""

from bvh.geometry.arithmetic.exact_sums import add_product, add_triple, new_sum, take_sign
from bvh.geometry.arithmetic.floats import cross_size, dot_size, two_product, two_sum
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.runtime.jit import inlined, kernel, stay_outlined

AREA_ERROR = 6.0 * 2.0**-53
VOLUME_ERROR = 12.0 * 2.0**-53
TINY = 2.0**-1070

# Differences of this range have products of three whose rounding errors do not underflow.
SMALL, GREAT = 2.0**-300, 2.0**300


@inlined
def drop_axis(p, axis):
    """Return a point's two other coordinates, in cyclic order."""
    if axis == 0:
        return p[1], p[2]
    if axis == 1:
        return p[2], p[0]
    return p[0], p[1]


@kernel
def orient2d(a, b, c):
    """Return the sign of the area of the triangle a, b, c in the plane: 1 if it turns left."""
    stay_outlined()
    ux, vy = b[0] - a[0], c[1] - a[1]
    uy, vx = b[1] - a[1], c[0] - a[0]
    left, right = ux * vy, uy * vx
    value = left - right
    if abs(value) > AREA_ERROR * (abs(left) + abs(right)) + TINY:
        return 1 if value > 0.0 else -1
    # A computed difference is zero only if the real one is.
    if (ux == 0.0 or vy == 0.0) and (uy == 0.0 or vx == 0.0):
        return 0
    return _exact_area(a, b, c)


@kernel
def _exact_area(a, b, c):
    """Return the sign of the area where the filter cannot decide."""
    stay_outlined()
    total = new_sum()
    for p, q in ((a, b), (b, c), (c, a)):
        add_product(total, 1.0, p[0], q[1], 1.0, 1.0)
        add_product(total, -1.0, p[1], q[0], 1.0, 1.0)
    return take_sign(total)


@inlined
def plane_of(a, b, c):
    """Return the normal (b-a) x (c-a) of a triangle, and the sizes of its terms."""
    p, q = minus(b, a), minus(c, a)
    return cross(p, q), cross_size(p, q)


@inlined
def filtered_above(plane, a, p):
    """Return the side of a plane through a on which p lies, 0 where rounding could change it."""
    n, sizes = plane
    r = minus(p, a)
    value, size = dot(n, r), dot_size(sizes, r)
    floor = TINY * (1.0 + (abs(r[0]) + abs(r[1]) + abs(r[2])))
    if abs(value) > VOLUME_ERROR * size + floor:
        return 1 if value > 0.0 else -1
    return 0


@kernel
def orient3d(a, b, c, p):
    """Return the sign of the volume (p-a) . ((b-a) x (c-a)): 1 if p is above the triangle."""
    stay_outlined()
    side = filtered_above(plane_of(a, b, c), a, p)
    return side if side != 0 else exact_volume(a, b, c, p)


@kernel
def exact_volume(a, b, c, p):
    """Return the sign of `orient3d` where the filter cannot decide."""
    stay_outlined()
    u, v, r = minus(b, a), minus(c, a), minus(p, a)
    # The most common cases: a plane parallel to two axes, and points that coincide.
    for i in range(3):
        if u[i] == 0.0 and v[i] == 0.0 and r[i] == 0.0:
            return 0
    if a == b or a == c or a == p or b == c or b == p or c == p:
        return 0
    decided, side = _unrounded_volume(a, b, c, p)
    if decided:
        return side
    total = new_sum()
    add_triple(total, 1.0, p, b, c)
    add_triple(total, -1.0, a, b, c)
    add_triple(total, -1.0, p, a, c)
    add_triple(total, -1.0, p, b, a)
    return take_sign(total)


@kernel
def _unrounded_volume(a, b, c, p):
    """Return (decided, sign): decided where nothing is rounded, as for points on grids."""
    stay_outlined()
    value, lost = 0.0, False
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        uj, e0 = two_sum(b[j], -a[j])
        uk, e1 = two_sum(b[k], -a[k])
        vj, e2 = two_sum(c[j], -a[j])
        vk, e3 = two_sum(c[k], -a[k])
        r, e4 = two_sum(p[i], -a[i])
        for x in (uj, uk, vj, vk, r):
            if x != 0.0 and not SMALL <= abs(x) <= GREAT:
                return False, 0
        left, e5 = two_product(uj, vk)
        right, e6 = two_product(uk, vj)
        area, e7 = two_sum(left, -right)
        part, e8 = two_product(area, r)
        value, e9 = two_sum(value, part)
        for e in (e0, e1, e2, e3, e4, e5, e6, e7, e8, e9):
            if e != 0.0:
                lost = True
    return not lost, (1 if value > 0.0 else 0) - (1 if value < 0.0 else 0)
