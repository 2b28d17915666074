"""Triangle groups: their memory layout and accessors, and the filter of a ray against them.

A group is WIDTH triangles of a leaf side by side as float32. It has fourteen rows of WIDTH lanes:
v0 (x y z), e1 = v1 - v0, e2 = v2 - v0 and the normal N = e1 x e2 in the tree's local frame, and two
sizes for error bounds. The filter computes, with C = v0 - o and R = C x d,

    den = d . N,   U = R . e2,   V = -R . e1,   W = den - U - V,   T = N . C,

whose real values have one sign in U, V and W where the ray meets the triangle (that of den), at
T / den. It answers "certain miss", "certain hit" (within an interval of t) or "undecided, ask the
exact test", by the error bounds below.

The bounds. All is float32 with unit roundoff e = 2**-24; B bounds the coordinates of the local
frame (1 but for extents near the largest double) and those of the ray's origin, which has been
brought to the root's box; D = abs(dx) + abs(dy) + abs(dz); x = max(abs(e1)) * sum(abs(e2)), which
no component of N exceeds. Second order terms are covered by rounding all constants up.

- C: rounding of v0, of o and of the difference, e B (0.5 + 1 + 2.1) = 3.6 e B a component.
- R: 3.6 e B D from C, e * 2.1 B D from d, 2 e * 2.1 B D from two products and a sum: 9.9 e B D.
- U, V: that times sum(abs(e2)) or sum(abs(e1)), and their own rounding, that of e2 or e1 and of
  three fused steps, 4 e * 2.1 B D: 18.3 e B D s with s = sum(abs(e1)) + sum(abs(e2)), in sum.
- N comes from float64, where it is off by 2**-51 of its terms, and is rounded: by e M in sum,
  M = sum(abs(N)) + 2**-26 x.
- den: one e of those terms from N, one from d, three from three steps: 5 e D x, or with the
  largest component of d, 5 e max(abs(d)) M.
- W: those of U, V and den, and two differences, e (D x + 4.2 B D s): 22.5 e B D s + 6 e D x.

So 24 e B D * tolerance with tolerance >= s + s * max(abs(e)) / (2 B) >= s + x / (2 B) covers U, V
and W. T is off by 2.1 e B M from N, 3.6 e B M from C and 6.3 e B M from three steps: 12 e B M. A
distance t within the box has t * max(abs(d)) <= 2.1 B, so t * den is off by 10.5 e B M, and
24 e B M covers T and t * den together. Underflow loses 2**-149 a few times: both sizes are kept
above 2**-100, also lest an infinite bound times nothing be no number, and 2**-126 is added to the
bound of T.

An unused lane has a negative tolerance, which fails every comparison.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import entry, inlined
from bvh.runtime.simd import (
    WIDTH,
    as_floats,
    as_ints,
    convert,
    fma,
    gather,
    greater,
    lane,
    lesser,
    load,
    lowest,
    lowest_bit,
    mask_bits,
    select,
    splat,
    store,
)
from bvh.tree.frame import bound, centre, scale
from bvh.tree.primitives import Triangles

ROWS = 14
V0, E1, E2, NORMAL, TOLERANCE, SIZE = 0, 3, 6, 9, 12, 13
GROUP_SIZE = ROWS * WIDTH

UNIT = 2.0**-24
EDGE_ERROR = 24.0 * UNIT
T_BOUND = 24.0 * UNIT
TINY = np.float32(2.0**-126)
SIGN_BIT = np.int32(-(2**31))


@inlined
def _corner(triangles, prims, k):
    """Return the k-th vertices of triangles, one in each lane."""
    v = convert(gather(triangles.faces, prims, 3, k), np.int64(0))
    vertices = triangles.points
    return gather(vertices, v, 3, 0), gather(vertices, v, 3, 1), gather(vertices, v, 3, 2)


@inlined
def _edge(a, b, h):
    """Return b - a times h / 2; halved before subtracting, so that no extent overflows."""
    return (
        (0.5 * b[0] - 0.5 * a[0]) * h,
        (0.5 * b[1] - 0.5 * a[1]) * h,
        (0.5 * b[2] - 0.5 * a[2]) * h,
    )


@inlined
def _longest(e):
    return greater(abs(e[0]), greater(abs(e[1]), abs(e[2])))


@inlined
def _put(groups, at, row, values, used):
    """Store a row of a group, zero in unused lanes."""
    none = splat(np.float32(0.0), WIDTH)
    store(groups, at + row * WIDTH, select(used, convert(values, np.float32(0.0)), none))


@inlined
def pack_group(triangles, ids, c, s, extent, g, groups):
    """Fill group g with the triangles of row g of `ids`; return the corners of their box.

    `c`, `s` and `extent` are the frame's centre, scale and bound. Lower > upper if it is empty.
    """
    at = group_at(g)
    prims = convert(load(ids, g * WIDTH, WIDTH), np.int64(0))
    used = prims >= np.int64(0)
    bits = mask_bits(used)
    if bits == 0:
        for row in range(ROWS):
            store(groups, at + row * WIDTH, splat(np.float32(0.0), WIDTH))
        store(groups, at + TOLERANCE * WIDTH, splat(np.float32(-1.0), WIDTH))
        return (INF, INF, INF), (-INF, -INF, -INF)
    # Unused lanes repeat a triangle until they are stored.
    first = lane(prims, np.int32(lowest_bit(bits)))
    prims = select(used, prims, splat(first, WIDTH))
    v0, v1 = _corner(triangles, prims, 0), _corner(triangles, prims, 1)
    v2 = _corner(triangles, prims, 2)
    e1, e2 = _edge(v0, v1, 2.0 * s), _edge(v0, v2, 2.0 * s)
    n = (
        e1[1] * e2[2] - e1[2] * e2[1],
        e1[2] * e2[0] - e1[0] * e2[2],
        e1[0] * e2[1] - e1[1] * e2[0],
    )
    for axis in range(3):
        _put(groups, at, V0 + axis, (v0[axis] - c[axis]) * s, used)
        _put(groups, at, E1 + axis, e1[axis], used)
        _put(groups, at, E2 + axis, e2[axis], used)
        _put(groups, at, NORMAL + axis, n[axis], used)
    sums = abs(e1[0]) + abs(e1[1]) + abs(e1[2]) + abs(e2[0]) + abs(e2[1]) + abs(e2[2])
    longest = greater(_longest(e1), _longest(e2))
    up = 1.0 + 2.0**-20
    tolerance = sums * (0.5 * longest / extent + 1.0) * up + 2.0**-100
    size = abs(n[0]) + abs(n[1]) + abs(n[2]) + longest * 2.0**-26 * sums
    _put(groups, at, SIZE, size * up + 2.0**-100, used)
    none = splat(np.float32(-1.0), WIDTH)
    tolerance = select(used, convert(tolerance, np.float32(0.0)), none)
    store(groups, at + TOLERANCE * WIDTH, tolerance)
    return (
        (_lowest(v0[0], v1[0], v2[0]), _lowest(v0[1], v1[1], v2[1]), _lowest(v0[2], v1[2], v2[2])),
        (
            -_lowest(-v0[0], -v1[0], -v2[0]),
            -_lowest(-v0[1], -v1[1], -v2[1]),
            -_lowest(-v0[2], -v1[2], -v2[2]),
        ),
    )


@inlined
def _lowest(a, b, c):
    return lowest(lesser(a, lesser(b, c)))


@entry
def pack_triangles(points, faces, ids, frame, begin, end, groups):
    """Fill the groups begin..end with the triangles `ids`, -1 for an unused lane."""
    c, s, extent = centre(frame), scale(frame), bound(frame)
    triangles = Triangles(points, faces)
    for g in range(begin, end):
        pack_group(triangles, ids, c, s, extent, g, groups)


@inlined
def group_at(group):
    """Return the position of a group, which the accessors below take."""
    return group * GROUP_SIZE


@inlined
def group_origin(groups, at):
    """Return the first vertices v0 of a group's triangles, as vectors of lanes."""
    return three(groups, at + V0 * WIDTH)


@inlined
def group_edges(groups, at):
    """Return the edges (e1, e2) of a group's triangles, as vectors of lanes."""
    return three(groups, at + E1 * WIDTH), three(groups, at + E2 * WIDTH)


@inlined
def group_normal(groups, at):
    """Return the normals of a group's triangles, as vectors of lanes."""
    return three(groups, at + NORMAL * WIDTH)


@inlined
def group_tolerance(groups, at):
    """Return the tolerances of a group's edges; negative in unused lanes."""
    return load(groups, at + TOLERANCE * WIDTH, WIDTH)


@inlined
def group_sizes(groups, at):
    """Return the sizes that errors of distances are proportional to."""
    return load(groups, at + SIZE * WIDTH, WIDTH)


@inlined
def used_lanes(groups, at):
    """Return which lanes of a group hold a triangle."""
    return group_tolerance(groups, at) >= np.float32(0.0)


@inlined
def three(array, at):
    """Return three rows of WIDTH lanes, a vector in each lane."""
    return (
        load(array, at, WIDTH),
        load(array, at + WIDTH, WIDTH),
        load(array, at + 2 * WIDTH, WIDTH),
    )


@inlined
def cross(a, b):
    """Return the cross product of two vectors of lanes."""
    return (
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    )


@inlined
def dot(a, b):
    """Return the dot product of two vectors of lanes."""
    return fma(a[0], b[0], fma(a[1], b[1], a[2] * b[2]))


@inlined
def test_edges(o, d, v0, e1, e2, n, margin):
    """Test on which side of the edges of triangles rays pass, lane by lane.

    `margin` bounds the error of the tests; where it is negative, rays pass by. Returns masks of the
    lanes that do not surely pass the triangle by, and of those that surely do not; c, from the
    origin to v0; and den.
    """
    c = (v0[0] - o[0], v0[1] - o[1], v0[2] - o[2])
    r = cross(c, d)
    den = dot(d, n)
    u = dot(r, e2)
    v = -dot(r, e1)
    w = (den - u) - v
    inside = lesser(lesser(u, v), w)
    outside = greater(greater(u, v), w)
    maybe = (inside >= -margin) | (outside <= margin)
    return maybe, (inside > margin) | (outside < -margin), c, den


@inlined
def test_distance(c, den, low, high, n, margin):
    """Find where rays meet the planes of triangles, lane by lane.

    `margin` bounds the error of t times den. Returns the mask of the lanes where t may be in
    low..high, the distance t, and how far it may be from the real one.
    """
    size = abs(den)
    # With the sign of den.
    numerator = as_floats(as_ints(dot(n, c)) ^ (as_ints(den) & SIGN_BIT))
    maybe = (numerator <= fma(high, size, margin)) & (numerator >= fma(low, size, -margin))
    return maybe, numerator / size, margin / size
