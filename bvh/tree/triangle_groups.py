"""Triangle groups: their memory layout and accessors, and the filter of a ray against them.

A group is WIDTH triangles of a leaf side by side as float32. It has twelve rows of WIDTH lanes:
v0 (x y z), e1 = v1 - v0 and e2 = v2 - v0 in the tree's local frame, two sizes for error bounds, and
the ids, as int32 bits, which share cache lines with the last of what the filter loads.
With the normal N = e1 x e2, which takes less time to compute than to load from distant memory, and
with C = v0 - o and R = C x d, the filter computes

    den = d . N,   U = R . e2,   V = -R . e1,   W = den - U - V,   T = N . C,

whose real values have one sign in U, V and W where the ray meets the triangle (that of den), at
T / den. It answers "certain miss", "certain hit" (within an interval of t) or "undecided, ask the
exact test", by the error bounds below.

The bounds, which `tests/proofs` proves. All is float32 with unit roundoff e = 2**-24; B bounds the
coordinates of the local frame (1 but for refits and extents near the largest double); the ray's
origin has been moved to the root's box, so that a difference from it is at most 2.001 B, which is
written as 2 B; D = abs(dx) + abs(dy) + abs(dz); x = max(abs(e1)) * sum(abs(e2)), which no sum of
the two products of a component of N exceeds. Constants are rounded up to cover second order terms.

- C: rounding of v0, of o and of the difference, e B (1 + 1 + 2) = 4 e B a component.
- R: 4 e B D from C, e * 2 B D from d, 2 e * 2 B D from two products and a sum: 10 e B D.
- U, V: that times sum(abs(e2)) or sum(abs(e1)), and their own rounding, that of e2 or e1 and of
  three fused steps, 4 e * 2 B D: 18 e B D s with s = sum(abs(e1)) + sum(abs(e2)), in sum.
- N: 2 e x from rounding of e1 and e2, e x from a product and e x from the fused step: 4 e x a
  component.
- den: 4 e D x from N, one e D x from d, three from three steps: 8 e D x.
- W: those of U, V and den, and two differences, e (2 D x + 4 B D s): 22 e B D s + 10 e D x.

So 24 e B D * tolerance with tolerance >= s + s * max(abs(e)) / (2 B) >= s + x / (2 B) covers U, V
and W.

The distance t of a hit is compared with T / den. Let F be the rounded e1 x e2 of rounded edges that
stands for N, M = sum(abs(N)), P the sum of the six products of N's components, all positive, and
L <= 2 B the largest component of an edge. At the hit C - t d = -(a e1 + b e2), real edges, with
a, b >= 0 and a + b <= 1. So C . F - t d . F = -(a e1 + b e2) . F, which is nearly 0 however far off
F is: F is perpendicular to the rounded edges but for its own rounding, e P + e M in sum, and they
differ by e L a component from the real ones. That makes e L (P + 2 M) in all. To it come, for T,
4 e B M from C and 6 e B M from three steps; for t * den, with t * max(abs(d)) <= 2 B, one e from d,
three from three steps, and one from a product where nothing is fused, 10 e B M. Here sum(abs(F))
stands for M, which is less than M + 3 e P. The sum is below 24.1 e B (M + 3 e P) + e L P, and
25 e B * size with size >= M + P (L / (24 B) + 2**-22) covers it: errors of N hardly count, for a
triangle is small.

Near origins. These bounds are of the frame, however small triangles are. Undecided candidates are
tested once more from a point of the ray near the triangles, h + l, which is known to 2**-31 B
(`test_edges_near`). With K the largest component of C = (v0 - h) - l, its error is e B from v0,
0.01 e B from the point and 2 e K from the two differences; in place of 2 B stands K:

- R: 1.01 e B D + 5 e K D;  U, V: 1.01 e B D s + 9 e K D s, in sum;
- W: 1.01 e B D s + 11 e K D s + 10 e D x, and x is at most s * max(abs(e1)).

So e D * tolerance * (1.04 B + 12 (K + max(abs(e1)))) covers U, V and W.

Underflow loses 2**-149 a few times: both sizes are at least 2**-100, also lest an infinite bound
times nothing be no number, and 2**-126 is added to the bound of T.

An unused lane has a negative tolerance, so that no ray may hit it, and the id -1.

Copies: the filter is also in `compact_groups` (of int16), and in Warp for devices, in
`devices.stages.local_rays` (rays: FILTER, SLACK_BOUND, TINY) and `devices.stages.points`
(distances; bounds of `traversal.points.point_bounds`). A test holds their constants to those here.
"""

from functools import partial

import numpy as np

from bvh.geometry.arithmetic import vectors
from bvh.geometry.arithmetic.floats import INF
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, types
from bvh.runtime.simd import WIDTH
from bvh.tree import compact_groups
from bvh.tree.frame import bound, centre, scale
from bvh.tree.instanced import one_of_two
from bvh.tree.primitives import Triangles

ROWS = 12
V0, E1, E2, TOLERANCE, SIZE, IDS = 0, 3, 6, 9, 10, 11
GROUP_SIZE = ROWS * WIDTH

UNIT = 2.0**-24
EDGE_ERROR, T_BOUND = 24.0 * UNIT, 25.0 * UNIT
# The part of near origins' tolerance that comes from v0, in units of B.
NEAR_ERROR = 1.04
TINY = np.float32(2.0**-126)
SIGN_BIT = np.int32(-(2**31))


@inlined
def _corner(triangles, prims, k):
    """Return the k-th vertices (x, y, z) of the triangles with ids `prims`, one in each lane."""
    # gather(array, i, 3, k) reads element 3 i + k: column k of row i.
    v = simd.convert(simd.gather(triangles.faces, prims, 3, k), np.int64(0))
    return simd.gather_threes(triangles.points, v)


@inlined
def _edge(a, b, h):
    """Return (b - a) * h / 2 of points, which are halved first so that no difference overflows."""
    return vectors.scaled(vectors.minus(vectors.scaled(b, 0.5), vectors.scaled(a, 0.5)), h)


_longest = inlined(lambda e: simd.greater(abs(e[0]), simd.greater(abs(e[1]), abs(e[2]))))


@inlined
def _put_row(groups, at, row, values, used):
    """Store values as float32 in row `row` of the group at `at`; 0 in lanes that are not `used`."""
    none = simd.splat(np.float32(0.0), WIDTH)
    values = simd.convert(values, np.float32(0.0))
    simd.store(groups, at + row * WIDTH, simd.select(used, values, none))


@inlined
def pack_group(triangles, rows, c, s, extent, g, groups):
    """Fill group g with the triangles of row g of ids; return the corners of their world box.

    `rows` are those of `WideNodes`; `c`, `s` and `extent` are the frame's centre, scale and largest
    local coordinate. If the row has no triangles, the corners are +inf and -inf.
    """
    at = group_at(g)
    ids = simd.load(rows, first_id(rows, g), WIDTH)
    prims = simd.convert(ids, np.int64(0))
    used = prims >= np.int64(0)
    bits = simd.mask_bits(used)
    if bits == 0:
        _put_unused(groups, at, ids)
        return (INF, INF, INF), (-INF, -INF, -INF)
    # Unused lanes repeat the first triangle, which adds nothing to the box.
    first = simd.lane(prims, np.int32(simd.lowest_bit(bits)))
    prims = simd.select(used, prims, simd.splat(first, WIDTH))
    v0, v1 = _corner(triangles, prims, 0), _corner(triangles, prims, 1)
    v2 = _corner(triangles, prims, 2)
    # The upper corner is minus the lower corner of the negated vertices.
    opposite = _lower_corner(vectors.negated(v0), vectors.negated(v1), vectors.negated(v2))
    low, high = _lower_corner(v0, v1, v2), vectors.negated(opposite)
    _put_triangles(groups, at, used, ids, (v0, v1, v2), (low, high), c, s, extent)
    return low, high


def _put_compact(groups, at, used, ids, corners, box, c, s, extent):
    """Fill the compact group at `at` with triangles, whose vertices (v0, v1, v2) are `corners`.

    Lanes that are not `used` have the corners of a used one. `box` are the corners of the box of
    all. All are world coordinates; c and s are the frame's centre and scale. `extent` is unused.
    """
    v0, v1, v2 = corners
    local = _local(v0, c, s), _local(v1, c, s), _local(v2, c, s)
    compact_groups.put(groups, at, used, ids, local, _local(box[0], c, s), _local(box[1], c, s))


_local = inlined(lambda v, c, s: vectors.scaled(vectors.minus(v, c), s))


def _put(groups, at, used, ids, corners, box, c, s, extent):
    """Fill the group at `at` with triangles, whose vertices (v0, v1, v2) are `corners`.

    Lanes that are not `used` have the corners of a used one. c, s and `extent` are the frame's
    centre, scale and largest local coordinate. `box` is for compact groups alone.
    """
    v0, v1, v2 = corners
    e1, e2 = _edge(v0, v1, 2.0 * s), _edge(v0, v2, 2.0 * s)
    n = vectors.cross(e1, e2)
    for axis in range(3):
        _put_row(groups, at, V0 + axis, (v0[axis] - c[axis]) * s, used)
        _put_row(groups, at, E1 + axis, e1[axis], used)
        _put_row(groups, at, E2 + axis, e2[axis], used)
    sums = abs(e1[0]) + abs(e1[1]) + abs(e1[2]) + abs(e2[0]) + abs(e2[1]) + abs(e2[2])
    longest = simd.greater(_longest(e1), _longest(e2))
    # Covers the rounding of tolerance and size, whose formulas the top of this file derives.
    up = 1.0 + 2.0**-20
    tolerance = sums * (longest * (0.5 / extent) + 1.0) * up + 2.0**-100
    products = (
        abs(e1[0]) * (abs(e2[1]) + abs(e2[2]))
        + abs(e1[1]) * (abs(e2[2]) + abs(e2[0]))
        + abs(e1[2]) * (abs(e2[0]) + abs(e2[1]))
    )
    share = longest * (1.0 / (24.0 * extent)) + 2.0**-22
    size = abs(n[0]) + abs(n[1]) + abs(n[2]) + products * share
    _put_row(groups, at, SIZE, size * up + 2.0**-100, used)
    none = simd.splat(np.float32(-1.0), WIDTH)
    tolerance = simd.select(used, simd.convert(tolerance, np.float32(0.0)), none)
    simd.store(groups, at + TOLERANCE * WIDTH, tolerance)
    simd.store_ints(groups, at + IDS * WIDTH, ids)


def _put_all_unused(groups, at, ids):
    """Mark all lanes of the group at `at` as unused, by the tolerance -1, and store their ids."""
    for row in range(IDS):
        simd.store(groups, at + row * WIDTH, simd.splat(np.float32(0.0), WIDTH))
    simd.store(groups, at + TOLERANCE * WIDTH, simd.splat(np.float32(-1.0), WIDTH))
    simd.store_ints(groups, at + IDS * WIDTH, ids)


# A function of groups that compiles to one of two: of full groups, of compact ones.
_by_kind = partial(one_of_two, lambda groups: groups.dtype == types.int16)
_put_triangles = _by_kind(_put, _put_compact)
_put_unused = _by_kind(_put_all_unused, compact_groups.put_unused.py_func)


@inlined
def _lower_corner(a, b, c):
    """Return the lower corner of all triangles; a, b and c are vertices (x, y, z) in lanes."""
    x, y, z = simd.lesser(b[0], c[0]), simd.lesser(b[1], c[1]), simd.lesser(b[2], c[2])
    x, y, z = simd.lesser(a[0], x), simd.lesser(a[1], y), simd.lesser(a[2], z)
    return simd.lowest(x), simd.lowest(y), simd.lowest(z)


@entry
def pack_triangles(points, faces, rows, frame, begin, end, groups):
    """Fill groups begin..end: group g with the triangles of row g of `rows` (see `WideNodes`)."""
    c, s, extent = centre(frame), scale(frame), bound(frame)
    triangles = Triangles(points, faces)
    for g in range(begin, end):
        # Prefetch the faces of two groups ahead. Face 0 stands for the id -1 of unused lanes.
        later = first_id(rows, min(g + 2, end - 1))
        for i in range(WIDTH):
            face = 3 * max(np.int64(simd.peek(rows, later + i)), 0)
            simd.prefetch_address(simd.address(faces, face))
        pack_group(triangles, rows, c, s, extent, g, groups)


# The position of the first id in a row of `WideNodes.rows`, which ends with its ids.
first_id = inlined(lambda rows, row: (row + 1) * rows.shape[1] - min(WIDTH, rows.shape[1]))
# The position of a group, which the accessors below take; that of its ids, from the first id on.
group_at = inlined(lambda group: group * GROUP_SIZE)
# The position of an id, by the number group * WIDTH + lane.
id_at = inlined(lambda number: group_at(number // WIDTH) + number % WIDTH)
# Three rows of lanes from one on; the first vertices v0 and the edges (e1, e2) of triangles.
_, _load_three, _ = simd.rows(np.float32, 0, WIDTH, 2 * WIDTH)
three_rows = inlined(lambda groups, at: _load_three(groups, at, WIDTH))
group_origin = inlined(lambda groups, at: three_rows(groups, at + V0 * WIDTH))
group_edges = inlined(
    lambda groups, at: (three_rows(groups, at + E1 * WIDTH), three_rows(groups, at + E2 * WIDTH))
)
# The tolerances of edges, negative in unused lanes; the sizes that errors of distances have.
group_tolerance = inlined(lambda groups, at: simd.load(groups, at + TOLERANCE * WIDTH, WIDTH))
group_sizes = inlined(lambda groups, at: simd.load(groups, at + SIZE * WIDTH, WIDTH))
used_lanes = inlined(lambda groups, at: group_tolerance(groups, at) >= np.float32(0.0))


@inlined
def group_normal(groups, at):
    """Return the normals e1 x e2 of the triangles of the group at position `at`, in lanes."""
    e1, e2 = group_edges(groups, at)
    return cross(e1, e2)


def _load_group(groups, group):
    """Return (v0, e1, e2, normal, tolerance, size, grain) of a group's triangles, in lanes.

    Error bounds are proportional to the tolerance for the edge test, to the size for the distance.
    The grain is the part of the tolerance that nearer origins do not reduce.
    """
    # The grain is 0 here, as only the grid of compact groups causes one.
    at = group_at(group)
    e1, e2 = group_edges(groups, at)
    return (
        group_origin(groups, at), e1, e2, cross(e1, e2), group_tolerance(groups, at),
        group_sizes(groups, at), simd.splat(np.float32(0.0), WIDTH),
    )  # fmt: skip


def _load_compact(groups, group):
    """Return (v0, e1, e2, normal, tolerance, size, grain) of a compact group, in lanes.

    The last three are as in `_load_group`: factors of error bounds.
    """
    v0, e1, e2, used, step = compact_groups.load(groups, group_at(group))
    n = cross(e1, e2)
    tolerance, size, grain = compact_groups.bounds_of(e1, e2, n, used, step)
    return v0, e1, e2, n, tolerance, size, grain


load_group = _by_kind(_load_group, _load_compact)
# Bounds of the distances to a group's triangles, widened by the rounding of compact groups.
widened = _by_kind(
    lambda groups, at, low, high: (low, high),
    lambda groups, at, low, high: compact_groups.widened(groups, at, low, high),
)
# The position of an id, from the first id on, given that in groups of float32, as of `id_at`:
# compact groups have half as many words of 32 bits.
id_place = _by_kind(
    lambda groups, at: at, lambda groups, at: at - at // GROUP_SIZE * (GROUP_SIZE // 2)
)


@inlined
def cross(a, b):
    """Return the cross product of two vectors of lanes."""
    return (
        simd.fma(a[1], b[2], -(a[2] * b[1])),
        simd.fma(a[2], b[0], -(a[0] * b[2])),
        simd.fma(a[0], b[1], -(a[1] * b[0])),
    )


# The dot product of two vectors of lanes.
dot = inlined(lambda a, b: simd.fma(a[0], b[0], simd.fma(a[1], b[1], a[2] * b[2])))


@inlined
def test_edges(o, d, v0, e1, e2, n, margin):
    """Return (maybe, surely, c, den) of the line of a ray (o, d) and triangles, lane by lane.

    The masks tell where the line may pass through the triangle, and where it surely does; `margin`
    bounds the error of the test. c is v0 - o, and den = d . n for the normals n. A negative margin,
    of an unused lane, clears the first mask, but sets the second: combine both.
    """
    # u, v and w are the barycentric weights of the hit times den, so inside they have its sign.
    c = vectors.minus(v0, o)
    r = cross(c, d)
    den = dot(d, n)
    u = dot(r, e2)
    v = -dot(r, e1)
    w = (den - u) - v
    inside = simd.lesser(simd.lesser(u, v), w)
    outside = simd.greater(simd.greater(u, v), w)
    maybe = (inside >= -margin) | (outside <= margin)
    return maybe, (inside > margin) | (outside < -margin), c, den


@inlined
def test_edges_near(point, rest, d, triangles, edge, extent):
    """Return masks (maybe, surely) of where the line of a ray passes triangles, for a near origin.

    It is `test_edges` with narrower margins, for a point of the ray near the triangles as the
    origin: the sum of `point` and the small `rest`. d is the direction, and `triangles` what
    `load_group` returns. `edge` times a tolerance is the margin for an origin anywhere, and
    `extent` the frame's largest local coordinate.
    """
    v0, e1, e2, n, tolerance, _, grain = triangles
    v0 = vectors.minus(v0, point)
    near = _longest(vectors.minus(v0, rest)) + _longest(e1)
    # The margin of near origins as a share of that of any: (1.04 B + 12 near) / (24 B), B = extent.
    share = simd.fma(near, np.float32(0.5 / extent), np.float32(NEAR_ERROR / 24.0))
    margin = edge * simd.fma(tolerance, share, grain)
    maybe, passes, _, _ = test_edges(rest, d, v0, e1, e2, n, margin)
    return maybe, passes


@inlined
def test_distance(c, den, low, high, n, margin):
    """Return (maybe, numerator, denominator) of where lines of rays meet planes of triangles.

    The mask has the lanes where t = numerator / denominator may be in low..high; `margin` bounds
    the error of t times den. The denominator is positive, or 0 if the ray is parallel to the plane.
    For v0 on the plane and the normal n, c is v0 - o, and den is d . n.
    """
    size = abs(den)
    # n . c, with its sign changed if den is negative: `size` is the denominator.
    numerator = simd.as_floats(simd.as_ints(dot(n, c)) ^ (simd.as_ints(den) & SIGN_BIT))
    maybe = (numerator <= simd.fma(high, size, margin)) & (
        numerator >= simd.fma(low, size, -margin)
    )
    return maybe, numerator, size
