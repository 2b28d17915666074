"""Closest points of a tree on a device: float32 bounds that only discard, then exact distances.

Bounds of boxes and of triangles are those of `traversal.points.point_bounds`, whose margins hold
here; nothing is fused, which they allow. Candidates are stored until the end, when most are beyond
the best upper bound, and then measured.
"""

import warp as wp

from bvh.devices.exact.arithmetic import INF, ZERO, f8, is_contracted, largest, power_of_two
from bvh.devices.exact.point_triangle import nearest_on_triangle
from bvh.devices.layout import STACK, Target
from bvh.devices.stages.moved import face_of
from bvh.traversal.points import point_bounds

# States of a point: answered; left to the CPU; or refused, as its module fuses operations.
SURE, UNSURE, CONTRACTED = wp.constant(0), wp.constant(1), wp.constant(2)
f4 = wp.float32
Stack = wp.types.vector(length=STACK, dtype=wp.int32)
Squares = wp.types.vector(length=STACK, dtype=wp.float32)
# Number of candidates, triangles that may be the closest, that are stored until they are measured.
HELD = 24
Held = wp.types.vector(length=HELD, dtype=wp.int32)
Lows = wp.types.vector(length=HELD, dtype=wp.float32)
HELD_MOST = wp.constant(HELD)

# Points farther away, by the size of the tree, are left to the CPU: bounds would discard little.
FAR = f8(2.0**12)
BOX_ERROR, LEAF_ERROR = f8(point_bounds.BOX_ERROR), f8(point_bounds.LEAF_ERROR)
UP, TINY, MOST_BOUND, MOST_SQUARE = f8(point_bounds.UP), f8(1e-30), f8(1e15), f8(1e30)
DISTANCE_UP, DISTANCE_TINY = f8(1.0 + 2.0**-49), f8(1e-323)
ZERO4, ONE4, LENGTH_LEAST = f4(0.0), f4(1.0), f4(1e-15)


@wp.struct
class Near:
    """The closest point; prim_id -1 and distance inf if there is none; state as in `rays`."""

    distance: wp.float64
    u: wp.float64
    v: wp.float64
    prim_id: wp.int32
    state: wp.int32


@wp.func
def _clamped(x: wp.float32, most: wp.float32):
    """Return x between 0 and a limit; 0 for NaN."""
    y = wp.where(x > ZERO4, x, ZERO4)
    return wp.where(y < most, y, most)


@wp.func
def _triangle_bounds(target: Target, i: int, p: wp.vec3):
    """Return (lower, upper) bound of the distance to a triangle, without errors.

    The weights s of e1 and t of e2 are those of the nearest point, but for rounding.
    """
    x, y, z = target.triangles[i, 0], target.triangles[i, 1], target.triangles[i, 2]
    a = p - wp.vec3(x[0], x[1], x[2])
    e1, e2 = wp.vec3(y[0], y[1], y[2]), wp.vec3(z[0], z[1], z[2])
    n = wp.cross(e1, e2)
    l11, l12, l22 = wp.dot(e1, e1), wp.dot(e1, e2), wp.dot(e2, e2)
    d1, d2 = wp.dot(e1, a), wp.dot(e2, a)
    d3, d4, d5, d6 = d1 - l11, d2 - l12, d1 - l12, d2 - l22
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
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
    # The upper bound is the distance to this point. For the lower one, all points q of the triangle
    # have g . (p - q) >= g . a - beyond, for any g: the vector from the point, or the normal.
    g = a - s * e1 - t * e2
    low, high = f4(0.0), wp.sqrt(wp.dot(g, g))
    if inside:
        g = wp.where(wp.dot(n, a) < ZERO4, -n, n)
    length = wp.sqrt(wp.dot(g, g))
    if length > LENGTH_LEAST:
        beyond = wp.max(wp.max(wp.dot(g, e1), wp.dot(g, e2)), ZERO4)
        low = (wp.dot(g, a) - beyond) / length
    # NaN becomes no bound.
    return wp.where(low >= ZERO4, low, ZERO4), wp.where(high >= ZERO4, high, f4(wp.inf))


@wp.func
def _square_bound(best: wp.float32, box_error: wp.float64):
    """Return the squared distance beyond which boxes are discarded, from the best upper bound."""
    bound = (f8(best) + box_error) * UP
    return f4(wp.min(bound * bound * UP, MOST_SQUARE))


@wp.func
def _local_bound(distance: wp.float64, scale: wp.float64):
    """Return a distance in local units, rounded up, and finite."""
    local32 = (distance * DISTANCE_UP + DISTANCE_TINY) * scale
    return f4(wp.min(local32 * UP + TINY, MOST_BOUND))


@wp.func
def _measured(target: Target, p: wp.vec3d, i: int, best: Near):
    """Return the closer of triangle i of a leaf and the best so far, by (distance, prim_id)."""
    prim = target.ids[i]
    v0, v1, v2 = face_of(target, prim)
    nearest = nearest_on_triangle(p, v0, v1, v2)
    if not nearest.sure:
        best.state = UNSURE
        return best
    d = nearest.distance
    if d < best.distance or (d == best.distance and (best.prim_id < 0 or prim < best.prim_id)):
        best.distance = d
        best.u = nearest.u
        best.v = nearest.v
        best.prim_id = prim
    return best


@wp.func
def _outside(low: wp.float32, high: wp.float32, x: wp.float32):
    """Return how far x is outside of low..high; 0 inside."""
    return wp.max(wp.max(low - x, x - high), ZERO4)


@wp.func
def _square(
    x: wp.float32, x2: wp.float32, y: wp.float32, y2: wp.float32, z: wp.float32, z2: wp.float32,
    p: wp.vec3,
):  # fmt: skip
    """Return the square of the distance to a box, given by its planes."""
    dx, dy, dz = _outside(x, x2, p[0]), _outside(y, y2, p[1]), _outside(z, z2, p[2])
    return dx * dx + dy * dy + dz * dz


@wp.func
def closest_to(target: Target, p: wp.vec3d, limit: wp.float64, mask: wp.int32):
    """Return the closest point at most `limit` away, on a face that counts for the mask."""
    best = Near()
    best.prim_id = -1
    best.distance = limit
    tree = target.top
    if is_contracted(target.probe):
        best.state = CONTRACTED
        return best
    if tree.is_empty != 0 or mask == 0 or not wp.isfinite(p) or not limit >= ZERO:
        best.distance = INF
        return best
    scale = power_of_two(tree.exponent)
    local64 = (p - tree.centre) * scale
    reach = largest(local64)
    if tree.depth >= STACK or not reach <= FAR:
        best.state = UNSURE
        return best
    local32 = wp.vec3(f4(local64[0]), f4(local64[1]), f4(local64[2]))
    # `bound` is the best upper bound of the distance so far, `square` that for boxes.
    box_error = BOX_ERROR * reach + TINY
    error = f4(LEAF_ERROR * (reach + tree.bound) * UP + TINY)
    bound = _local_bound(limit, scale)
    square = _square_bound(bound, box_error)
    codes, counts, squares = Stack(), Stack(), Squares()
    held, lows = Held(), Lows()
    held_count = int(0)
    code, count = wp.int32(tree.root), wp.int32(tree.count)
    top = int(0)
    running = bool(True)
    while running:
        while count == 0:
            a, b, c = target.boxes[code, 0], target.boxes[code, 1], target.boxes[code, 2]
            first = _square(a[0], a[1], b[0], b[1], c[0], c[1], local32)
            second = _square(a[2], a[3], b[2], b[3], c[2], c[3], local32)
            pair = target.children[code]
            swap = second < first
            if wp.max(first, second) <= square:
                codes[top] = wp.where(swap, pair[0], pair[2])
                counts[top] = wp.where(swap, pair[1], pair[3])
                squares[top] = wp.max(first, second)
                top += 1
            if wp.min(first, second) <= square:
                code = wp.where(swap, pair[2], pair[0])
                count = wp.where(swap, pair[3], pair[1])
            else:
                code = int(0)
                count = -1
        for i in range(code, code + count):
            if (target.bits[i] & mask) == 0:
                continue
            low, high = _triangle_bounds(target, i, local32)
            if high + error < bound:
                bound = high + error
                square = _square_bound(bound, box_error)
            if low - error > bound:
                continue
            if held_count == HELD_MOST:
                # Drop candidates beyond the bound; if none is, measure all.
                remaining = int(0)
                for j in range(held_count):
                    if lows[j] - error <= bound:
                        held[remaining] = held[j]
                        lows[remaining] = lows[j]
                        remaining += 1
                held_count = remaining
                if held_count == HELD_MOST:
                    for j in range(held_count):
                        best = _measured(target, p, held[j], best)
                    held_count = int(0)
                    bound = wp.min(bound, _local_bound(best.distance, scale))
                    square = _square_bound(bound, box_error)
            held[held_count] = i
            lows[held_count] = low
            held_count += 1
        running = top > 0
        if running:
            top -= 1
            code = codes[top]
            count = counts[top]
            if squares[top] > square:
                code = int(0)
                count = -1
    for j in range(held_count):
        if lows[j] - error <= bound:
            best = _measured(target, p, held[j], best)
    if best.prim_id < 0:
        best.distance = INF
    return best
