"""Closest points of a tree on a device: float32 bounds that only discard, then exact distances.

Bounds of boxes and of triangles are those of `traversal.points.point_bounds`, whose margins hold
here; nothing is fused, which they allow. The search lists candidates, the triangles that by their
bounds may be the closest; `decide` measures these exactly. Points are the origins of rays, whose
t_max is the largest distance.
"""

import functools
from typing import Any

import warp as wp

from bvh.devices.exact.floats import INF, ONE, ONE4, ZERO, ZERO4, f4, f8, largest, nan, power_of_two
from bvh.devices.layout import STACK, Target
from bvh.devices.stages import marks
from bvh.devices.stages.moved import vertices_of
from bvh.devices.stages.work import Columns, DeviceRays, RayQuery, Work, row_at, row_of
from bvh.traversal.points import point_bounds

# Points farther away, by the size of the tree, are left to the CPU: bounds would discard little.
FAR = f8(2.0**12)
BOX_ERROR, LEAF_ERROR = f8(point_bounds.BOX_ERROR), f8(point_bounds.LEAF_ERROR)
# TINY is added against underflow; the largest bounds of distances and of squares fit into float32.
UP, TINY, MOST_BOUND, MOST_SQUARE = f8(point_bounds.UP), f8(1e-30), f8(1e15), f8(1e30)
# What the rounding of a distance may hide, as a factor and at least.
DISTANCE_UP, DISTANCE_TINY = f8(1.0 + 2.0**-49), f8(1e-323)
# A shorter gradient gives no lower bound.
LENGTH_LEAST = f4(1e-15)


@wp.func
def _clamped(x: wp.float32, most: wp.float32):
    """Return x, limited to 0..most; 0 for NaN."""
    y = wp.where(x > ZERO4, x, ZERO4)
    return wp.where(y < most, y, most)


@wp.func
def _triangle_bounds(target: Target, i: int, p: wp.vec3):
    """Return (lower, upper, more): bounds of the distance from p to triangle i, in the local frame.

    They do not include rounding errors. `more` tells whether another triangle of the leaf follows.
    """
    x, y, z = target.triangles[i, 0], target.triangles[i, 1], target.triangles[i, 2]
    a = p - wp.vec3(x[0], x[1], x[2])
    e1, e2 = wp.vec3(y[0], y[1], y[2]), wp.vec3(z[0], z[1], z[2])
    n = wp.cross(e1, e2)
    l11, l12, l22 = wp.dot(e1, e1), wp.dot(e1, e2), wp.dot(e2, e2)
    d1, d2 = wp.dot(e1, a), wp.dot(e2, a)
    d3, d4, d5, d6 = d1 - l11, d2 - l12, d1 - l12, d2 - l22
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    # The weights s of e1 and t of e2 are those of the nearest point, but for rounding, by
    # the region of p (Ericson 2005, "Real-Time Collision Detection", section 5.1.5).
    s, t, inside = f4(0.0), f4(0.0), bool(False)
    if d1 <= ZERO4 and d2 <= ZERO4:
        s = f4(0.0)
    elif d3 >= ZERO4 and d4 <= d3:
        s = f4(1.0)
    elif d6 >= ZERO4 and d5 <= d6:
        t = f4(1.0)
    elif vc <= ZERO4 and d1 >= ZERO4 and d3 <= ZERO4:
        s = d1 / l11
    elif vb <= ZERO4 and d2 >= ZERO4 and d6 <= ZERO4:
        t = d2 / l22
    elif va <= ZERO4:
        run, rise = d4 - d3, d5 - d6
        t = _clamped(run / (run + rise), ONE4)
        s = ONE4 - t
    else:
        inverse = ONE4 / (va + vb + vc)
        s, t, inside = vb * inverse, vc * inverse, bool(True)
    s = _clamped(s, ONE4)
    t = _clamped(t, ONE4 - s)
    # The upper bound is the distance to this point. For the lower one, with p - q = a - (q - v0),
    # all points q of the triangle have g . (p - q) >= g . a - beyond, for any vector g: here that
    # from the nearest point to p or, if it is inside the triangle, the normal toward p.
    g = a - s * e1 - t * e2
    low, high = f4(0.0), wp.sqrt(wp.dot(g, g))
    if inside:
        g = wp.where(wp.dot(n, a) < ZERO4, -n, n)
    length = wp.sqrt(wp.dot(g, g))
    if length > LENGTH_LEAST:
        beyond = wp.max(wp.max(wp.dot(g, e1), wp.dot(g, e2)), ZERO4)
        low = (wp.dot(g, a) - beyond) / length
    # NaN becomes no bound.
    low, high = wp.where(low >= ZERO4, low, ZERO4), wp.where(high >= ZERO4, high, f4(wp.inf))
    return low, high, z[3] > ZERO4


@wp.func
def _square_bound(best: wp.float32, box_error: wp.float64):
    """Return the squared distance of a box beyond which no triangle in it is closer.

    `best` is the best upper bound of the distance to a triangle; `box_error` bounds the error of
    distances to boxes.
    """
    bound = (f8(best) + box_error) * UP
    return f4(wp.min(bound * bound * UP, MOST_SQUARE))


@wp.func
def _square(lower: wp.vec3, upper: wp.vec3, p: wp.vec3):
    """Return the squared distance from p to the box lower..upper, 0 within it."""
    off = wp.max(wp.max(lower - p, p - upper), wp.vec3())
    return wp.dot(off, off)


@wp.func
def _drop_beyond(work: Work, place: int, count: int, error: wp.float32, bound: wp.float32):
    """Drop candidates of the point at a place whose lower bound, less `error`, is above `bound`.

    Return how many of its `count` candidates are left, which move to the front.
    """
    rest = int(0)
    for j in range(count):
        low = work.lows[j, place]
        if low - error <= bound:
            work.candidates[rest, place] = work.candidates[j, place]
            work.lows[rest, place] = low
            rest += 1
    return rest


@wp.func
def _write(
    target: Target, columns: Columns, i: int, prim: int, d: wp.float64, u: wp.float64,
    v: wp.float64,
):  # fmt: skip
    """Write the closest point of face `prim` to point i, at a distance d with weights u and v.

    Its position is (1-u-v) v0 + u v1 + v v2, each operation rounded. No point is prim -1, d inf, u
    and v NaN; then its position is NaN, too.
    """
    columns.distance[i] = d
    if columns.prim_id.shape[0] > 0:
        columns.prim_id[i] = prim
        columns.u[i] = u
        columns.v[i] = v
        columns.position[i] = wp.vec3d(u, u, u)
        if prim >= 0:
            a, b, c = vertices_of(target, prim)
            columns.position[i] = (((ONE - u) - v) * a + u * b) + v * c


@wp.func
def _point_of(rays: DeviceRays, i: int):
    """Return (point, largest distance) of the query of point i."""
    p = rays.origins[row_of(i, rays.origins.shape[0])]
    return p, rays.t_max[row_of(i, rays.t_max.shape[0])]


@functools.cache
def point_search_function(size: int) -> Any:
    """Return the function `search` below, whose stack has `size` entries."""
    stack_type = wp.types.vector(length=size, dtype=wp.int32)
    squares_type = wp.types.vector(length=size, dtype=wp.float32)

    @wp.func
    def search(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """List the triangles that may be closest to the point at a place of `work`.

        Return its next queue (see `marks`), NO_QUEUE if it has no candidates. Until another stage
        finds a closest point, its answer is that there is none.
        """
        i, tree, mask = row_at(work, place), target.top, rays.mask[0]
        p, limit = _point_of(rays, i)
        _write(target, columns, i, -1, INF, nan(), nan())
        if tree.is_empty != 0 or mask == 0 or not wp.isfinite(p) or not limit >= ZERO:
            return marks.NO_QUEUE
        scale = power_of_two(tree.exponent)
        local64 = (p - tree.centre) * scale
        reach = largest(local64)
        if tree.depth >= STACK or target.is_scene != 0 or not reach <= FAR:
            return marks.UNDECIDED
        local32 = wp.vec3(local64)
        # `bound` is the best upper bound of the distance so far, `square` that for boxes.
        box_error = BOX_ERROR * reach + TINY
        error = f4(LEAF_ERROR * (reach + tree.bound) * UP + TINY)
        # The limit in local units, rounded up, and finite.
        local_limit = (limit * DISTANCE_UP + DISTANCE_TINY) * scale
        bound = f4(wp.min(local_limit * UP + TINY, MOST_BOUND))
        square = _square_bound(bound, box_error)
        # Children left for later, and the squared distances to their boxes.
        stack, squares, top, count = stack_type(), squares_type(), int(0), int(0)
        # A node, or ~(first triangle) of a leaf.
        code = wp.where(tree.count > 0, ~tree.root, tree.root)
        while code != marks.DONE:
            while code >= 0:
                a, b, c = target.boxes[code, 0], target.boxes[code, 1], target.boxes[code, 2]
                lower, upper = wp.vec3(a[0], b[0], c[0]), wp.vec3(a[1], b[1], c[1])
                first = _square(lower, upper, local32)
                lower, upper = wp.vec3(a[2], b[2], c[2]), wp.vec3(a[3], b[3], c[3])
                second = _square(lower, upper, local32)
                pair = target.children[code]
                left = wp.where(pair[1] > 0, ~pair[0], pair[0])
                right = wp.where(pair[3] > 0, ~pair[2], pair[2])
                swap = second < first
                if wp.max(first, second) <= square:
                    stack[top] = wp.where(swap, left, right)
                    squares[top] = wp.max(first, second)
                    top += 1
                code = wp.where(swap, right, left)
                if not wp.min(first, second) <= square:
                    code = int(marks.DONE)
            # Triangles of a leaf, up to that which is marked as its last.
            more, j = code != marks.DONE, ~code
            while more:
                low, high, follows = _triangle_bounds(target, j, local32)
                more = follows
                if (target.bits[j] & mask) != 0:
                    if high + error < bound:
                        bound = high + error
                        square = _square_bound(bound, box_error)
                    if low - error <= bound:
                        if count == work.candidates.shape[0]:
                            count = _drop_beyond(work, place, count, error, bound)
                        if count == work.candidates.shape[0]:
                            return marks.CROWDED
                        work.candidates[count, place] = j
                        work.lows[count, place] = low
                        count += 1
                j += 1
            code = int(marks.DONE)
            # The bound may be lower by now than when a child was put onto the stack.
            while top > 0 and code == marks.DONE:
                top -= 1
                if squares[top] <= square:
                    code = stack[top]
        count = _drop_beyond(work, place, count, error, bound)
        work.candidate_count[place] = count
        return wp.where(count > 0, marks.DECIDE, marks.NO_QUEUE)

    return search


@functools.cache
def point_decide_function(nearest_on: Any) -> Any:
    """Return the function `decide` below, which measures a point's candidates by `nearest_on`.

    `nearest_on` is `close_on_triangle` or `nearest_on_triangle` (see `point_triangle`).
    """

    @wp.func
    def decide(
        target: Target, rays: DeviceRays, query: RayQuery, work: Work, columns: Columns, place: int
    ):  # fmt: skip
        """Write the closest candidate of the point at a place; return whether it is decided.

        Of candidates at the same distance, the one of the lowest prim_id is taken.
        """
        i, decided, prim = row_at(work, place), bool(True), int(-1)
        p, distance = _point_of(rays, i)
        u, v = wp.float64(0.0), wp.float64(0.0)
        for j in range(work.candidate_count[place]):
            if decided:
                other = target.ids[work.candidates[j, place]]
                v0, v1, v2 = vertices_of(target, other)
                nearest = nearest_on(p, v0, v1, v2)
                decided = nearest.sure
                d = nearest.distance
                if d < distance or (d == distance and (prim < 0 or other < prim)):
                    distance = d
                    u = nearest.u
                    v = nearest.v
                    prim = other
        if decided and prim >= 0:
            _write(target, columns, i, prim, distance, u, v)
        return decided

    return decide
