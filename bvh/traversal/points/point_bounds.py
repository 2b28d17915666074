"""Bounds of the distances from a point to boxes and to triangles, WIDTH at a time, in float32.

For points further away than FAR, distances to boxes are bounded one at a time, in float64.

All is in the local frame of the tree (see `frame`), where triangles and boxes lie within B, and in
units of u = 2**-24. P is the largest coordinate of the point, which float32 holds to u P.

Boxes are rounded outward, so that their own rounding makes no primitive nearer than its box. Three
components of the vector to a box are off by u P each from the point, 1.74 u P in length, and by 4
u of themselves from the operations: a box is at least as far as d (1 - 2**-21) - 1.8 u P. So one
whose computed d**2 exceeds ((best + 2 u P) (1 + 2**-20))**2 contains nothing at `best` or nearer.

Triangles. As in `point_triangle.distance_bounds`, any point of a triangle bounds its distance from
above, any direction from below. A component of p - v0 is off by u (P + B) from its operands
and by as much from the difference; p - v1 and p - v2 by 2 u B more from the edge and by u (P + 3 B)
from the difference: u (3 P + 7 B). A product with a direction of length 1 adds 3 u, and bringing it
to that length 4 u, of 1.8 (P + B): in sum less than 1.8 u (10 P + 14 B) < 26 u (P + B). The point
guessed, of weights that are not negative and at most 1 + 4 u in sum, is off by less. So
32 u (P + B) covers both sides, and the 4 units in the last place of a double that the leaf test may
be wrong by. Triangles of compact groups are off by more (see `compact_groups`).

In float64, bounds of boxes are exact, so errors come only from the point, transformed to the local
frame, and from the operations: 4 * 2**-53 of the point's largest coordinate P, and as much of the
distance. A box whose computed d**2 exceeds ((best + 2**-49 P) (1 + 2**-48))**2 contains nothing at
`best` or nearer. Where P, or its square, overflows, nothing is discarded.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, largest
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.simd import WIDTH, Vec, compress_order
from bvh.tree import frame as frames
from bvh.tree import wide_nodes
from bvh.tree.triangle_groups import dot, group_at, load_group, widened

# A point or vector; and one whose coordinates are each in all lanes.
Point = tuple[float, float, float]
Lanes = tuple[Vec, Vec, Vec]

F = np.float32
UNIT = 2.0**-24  # u
FAR = 64.0
# Errors of distances to boxes, times P, and to triangles, times P + B: see above.
BOX_ERROR = 2.0 * UNIT
LEAF_ERROR = 32.0 * UNIT
UP = 1.0 + 2.0**-20  # more than the operations of a bound lose
# The weights of the squares of a distance's components in a tree by itself.
EVEN = (1.0, 1.0, 1.0)


@inlined
def local_point(frame, p):
    """Return (x, reach): point p in a tree's local frame, and its largest absolute coordinate."""
    c, s = frames.centre(frame), frames.scale(frame)
    x = ((p[0] - c[0]) * s, (p[1] - c[1]) * s, (p[2] - c[2]) * s)
    return x, largest(x)


@inlined
def spread_point(x):
    """Return the coordinates of a point in float32, each in all lanes."""
    return simd.splat(F(x[0]), WIDTH), simd.splat(F(x[1]), WIDTH), simd.splat(F(x[2]), WIDTH)


# An upper bound, in local units, of a distance whose rounded value in the world is given. Near the
# least denormal, where rounding is not relative, 1e-323 covers it.
local_distance = inlined(lambda distance, scale: (distance * (1.0 + 2.0**-49) + 1e-323) * scale)


@inlined
def local_bound(distance, scale):
    """Return `local_distance` in float32, rounded up, and at most 1e15, whose square is finite."""
    return F(min(local_distance(distance, scale) * UP + 1e-30, 1e15))


@inlined
def square_bound(best, box_error):
    """Return the largest squared distance, in float32, of boxes that may contain a near primitive.

    A primitive is near at a local distance of at most `best`; `box_error` bounds the absolute error
    of distances to boxes. The result is at most 1e30, a finite number.
    """
    bound = (np.float64(best) + box_error) * UP
    return F(min(bound * bound * UP, 1e30))


@inlined
def box_squares(blocks, at, p):
    """Return squared distances from p, spread over lanes, to the boxes in the node at `at`."""
    none = simd.splat(F(0.0), WIDTH)
    low, high = wide_nodes.child_boxes(blocks, at)
    x = simd.greater(simd.greater(low[0] - p[0], p[0] - high[0]), none)
    y = simd.greater(simd.greater(low[1] - p[1], p[1] - high[1]), none)
    z = simd.greater(simd.greater(low[2] - p[2], p[2] - high[2]), none)
    return simd.fused(x, x, simd.fused(y, y, z * z))


@inlined
def push_squares(blocks, code, squares, bound, stack, top, spare):
    """Push a node's children with squared distances up to `bound`, nearest on top; return the top.

    `code` is the node's code, `squares` has the distances in float32 lanes, and `top` is the height
    of the stack. An entry has the 32 bits of the squared distance, which sort like the number, then
    those of the child's code. `spare` is scratch for one vector of squares and one of codes.
    """
    bits = simd.mask_bits(squares <= bound)
    if bits == 0:
        return top
    order = compress_order(bits)
    simd.store(spare, 0, simd.permute(squares, order))
    codes = wide_nodes.child_codes(blocks, wide_nodes.node_at(code), WIDTH)
    simd.store_ints(spare, WIDTH, simd.permute(codes, order))
    first = top
    for i in range(simd.popcount(bits)):
        child = np.int64(simd.peek_int(spare, WIDTH + i)) & 0xFFFFFFFF
        entry = np.int64(simd.peek_int(spare, i)) << 32 | child
        k = top
        while k > first and simd.peek(stack, k - 1) < entry:
            simd.poke(stack, k, simd.peek(stack, k - 1))
            k -= 1
        simd.poke(stack, k, entry)
        top += 1
    return top


# The code of an entry of the stack.
code_of = inlined(lambda entry: (entry << 32) >> 32)
# The largest entry with the squared distance `bound`, which is finite and not negative.
key_of = inlined(lambda bound: np.int64(np.float32(bound).view(np.int32)) << 32 | 0xFFFFFFFF)


@inlined
def group_bounds(groups, group, p):
    """Return bounds (low, high) of the distances from p to a group's triangles, in lanes.

    Each coordinate of p is in all lanes. Bounds are off by at most LEAF_ERROR times the sum of p's
    largest coordinate and the frame's bound. Both are infinite in lanes without a triangle, and
    `high` also where it was computed as NaN.
    """
    v0, e1, e2, n, tolerance, _, _ = load_group(groups, group)
    a = (p[0] - v0[0], p[1] - v0[1], p[2] - v0[2])
    low, high = corner_bounds(a, e1, e2, n, tolerance)
    return widened(groups, group_at(group), low, high)


@inlined
def corner_bounds(a, e1, e2, n, tolerance):
    """Return bounds (low, high) of the distances from a point p to triangles, in lanes.

    a is p - v0, e1 and e2 are the triangles' edges from v0, n their normals. The tolerance is
    negative in lanes without a triangle, whose bounds are infinite.
    """
    none, one = simd.splat(F(0.0), WIDTH), simd.splat(F(1.0), WIDTH)
    # The weights s, t of the nearest point v0 + s e1 + t e2, by region (Ericson 2005, "Real-Time
    # Collision Detection", 5.1.5). Errors of them are harmless: any point gives an upper bound.
    l11, l12, l22 = dot(e1, e1), dot(e1, e2), dot(e2, e2)
    d1, d2 = dot(e1, a), dot(e2, a)
    d3, d4, d5, d6 = d1 - l11, d2 - l12, d1 - l12, d2 - l22
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    whole = one / (va + vb + vc)
    s, t = vb * whole, vc * whole
    # Regions of edges and corners replace the weights of earlier ones; clamping the weights on an
    # edge gives its corners.
    beyond = va <= none
    run, rise = d4 - d3, d5 - d6
    along = simd.lesser(simd.greater(run / (run + rise), none), one)
    s, t = simd.select(beyond, one - along, s), simd.select(beyond, along, t)
    on_ac = (vb <= none) & (d2 >= none) & (d6 <= none)
    s, t = simd.select(on_ac, none, s), simd.select(on_ac, d2 / l22, t)
    on_ab = (vc <= none) & (d1 >= none) & (d3 <= none)
    s, t = simd.select(on_ab, d1 / l11, s), simd.select(on_ab, none, t)
    inside = ~(beyond | on_ac | on_ab)
    at_a = (d1 <= none) & (d2 <= none)
    s, t = simd.select(at_a, none, s), simd.select(at_a, none, t)
    at_b = (d3 >= none) & (d4 <= d3)
    s, t = simd.select(at_b, one, s), simd.select(at_b, none, t)
    at_c = (d6 >= none) & (d5 <= d6)
    s, t = simd.select(at_c, none, s), simd.select(at_c, one, t)
    inside = inside & ~(at_a | at_b | at_c)
    # A weight of NaN, as of a triangle without area, becomes 0.
    s = simd.lesser(simd.greater(s, none), one)
    t = simd.lesser(simd.greater(t, none), one - s)
    # From the nearest point to p: a - s e1 - t e2.
    g = (
        a[0] - simd.fused(s, e1[0], t * e2[0]),
        a[1] - simd.fused(s, e1[1], t * e2[1]),
        a[2] - simd.fused(s, e1[2], t * e2[2]),
    )
    high = simd.sqrt(dot(g, g))
    # The lower bound is the gap along g: the normal, towards p, if the nearest point is inside of
    # the triangle; else the vector from that point to p.
    facing = dot(n, a)
    sign = simd.select(facing < none, -one, one)
    g = (
        simd.select(inside, n[0] * sign, g[0]),
        simd.select(inside, n[1] * sign, g[1]),
        simd.select(inside, n[2] * sign, g[2]),
    )
    length = simd.sqrt(dot(g, g))
    to_a, along_1, along_2 = dot(g, a), dot(g, e1), dot(g, e2)
    least = to_a - simd.greater(simd.greater(along_1, along_2), none)
    low = simd.select(length > F(1e-15), least / length, none)
    empty = tolerance < none
    infinite = simd.splat(F(INF), WIDTH)
    return simd.select(empty, infinite, low), simd.select(empty | (high != high), infinite, high)


@inlined
def _box_square(blocks, at, x, weights):
    """Return the weighted squared distance from x to the child's box at `at`, -1 for no child."""
    square = 0.0
    for axis in range(3):
        low = np.float64(wide_nodes.child_lower(blocks, at, axis))
        high = np.float64(wide_nodes.child_upper(blocks, at, axis))
        if low > high:
            return -1.0
        off = max(max(low - x[axis], x[axis] - high), 0.0)
        square += off * off * weights[axis]
    return square


@inlined
def square_limit(best, scale, lost):
    """Return the largest squared distance, in float64, of boxes that may contain a near primitive.

    A primitive is near at a distance of at most `best` in the world. `scale` is local units per
    unit of the world; `lost` bounds the absolute error of local distances.
    """
    bound = (local_distance(best, scale) + lost + 1e-300) * (1.0 + 2.0**-48)
    return bound * bound * (1.0 + 2.0**-48)


@kernel
def push_near(blocks, code, x, weights, bound, scratch, top):
    """Push a node's children, by its code, with weighted squared distances up to `bound`.

    x is the point in the frame of the tree; `weights` are factors of the squares of a distance's
    components. The nearest child comes on top. Entries are in two stacks: codes in `scratch.stack`,
    and squares in `scratch.squares`. `top` is the height of both; the new one is returned.
    """
    stack, squares = scratch.stack, scratch.squares
    first = top
    for lane in range(WIDTH):
        at = wide_nodes.node_at(code) + lane
        square = _box_square(blocks, at, x, weights)
        # A child whose square is NaN is not left out.
        if square == -1.0 or square > bound:
            continue
        k = top
        while k > first and simd.peek(squares, k - 1) < square:
            simd.poke(stack, k, simd.peek(stack, k - 1))
            simd.poke(squares, k, simd.peek(squares, k - 1))
            k -= 1
        simd.poke(stack, k, wide_nodes.child_code(blocks, at))
        simd.poke(squares, k, square)
        top += 1
    return top
