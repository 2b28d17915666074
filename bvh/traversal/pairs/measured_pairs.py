"""Measurement of pairs of faces: the bound, nearest and common points, shared vertices.

For `search`, its `state` and its `reals` see `closest_memory`. About six faces of a mesh share a
vertex, so that where two meshes are nearest at vertices, 36 pairs of faces are at one distance. It
is measured for one of them.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, exponent, largest, power_of_two, reach_of, vector
from bvh.geometry.arithmetic.vectors import cross, dot, minus
from bvh.geometry.pairs.triangle_distance import (
    all_scaled,
    distance_bounds,
    nearest_features,
    point_on,
    put_back,
    triangle_distance,
)
from bvh.geometry.point_triangle import nearest_on_triangle
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import peek, poke, shifted, sqrt
from bvh.traversal.pairs import closest_memory as memory
from bvh.traversal.pairs.pair_frames import side_corners

# Squared sines and cosines above this are clearly not 0.
CLEAR = 2.0**-40
# The largest coordinate, and the least squared distance, whose products are in range.
REACH, LEAST = 2.0**200, 2.0**-200
# For an edge u at v, with g = v - w: the least u . g and the largest u . u, in units of g . g.
NEAR, FAR = 2.0**-30, 2.0**70
# A factor that lowers numbers from float32 by more than their errors.
ROUNDED = 1.0 - 2.0**-18
# The largest distance from both triangles, in a box of about 1, of a point that counts as common.
COMMON = 2.0**-52


@inlined
def _vertex_at(t, p):
    """Return the index of the vertex of triangle t that equals the point p, -1 for none."""
    for i in range(3):
        if t[i][0] == p[0] and t[i][1] == p[1] and t[i][2] == p[2]:
            return i
    return -1


@inlined
def _leads_away(u, g, square):
    """Return whether an edge u clearly leads along g, and is not too long for double-doubles.

    The component of u along g must exceed NEAR |g|, and the squared cosine of their angle CLEAR;
    u . u must be below FAR times `square`, which is g . g.
    """
    c, size = dot(u, g), dot(u, u)
    return c > NEAR * square and c * c > CLEAR * (size * square) and size < FAR * square


@inlined
def _askew(u, v):
    """Return whether edges are clearly not parallel: their squared sine exceeds CLEAR."""
    n = cross(u, v)
    return dot(n, n) > CLEAR * (dot(u, u) * dot(v, v))


@kernel
def nearest_at(a, b, v, w):
    """Return whether v is a vertex of triangle a, w one of b, and they clearly are nearest points.

    False if in doubt. If True, `triangle_distance` returns their distance, and is sure of it.
    """
    # Edges p, q at v lead away from w, and edges r, s at w away from v, so that the distance grows
    # along all of them. A pair of features (vertices, edges, faces), one of which contains neither
    # v nor w, is farther apart than v and w, by at least 2**-31 of their distance. That no other
    # pair is nearer follows from signs of products of sines and cosines above 2**-20: at least
    # 2**-60 of their terms, which double-doubles decide, with errors of 2**-98.
    stay_outlined()
    i, j = _vertex_at(a, v), _vertex_at(b, w)
    g = minus(v, w)
    square = dot(g, g)
    if i < 0 or j < 0 or not (largest(v) < REACH and largest(w) < REACH and square > LEAST):
        return False
    p, q = minus(a[(i + 1) % 3], v), minus(a[(i + 2) % 3], v)
    back = minus(w, v)
    r, s = minus(b[(j + 1) % 3], w), minus(b[(j + 2) % 3], w)
    return (
        _leads_away(p, g, square) and _leads_away(q, g, square)
        and _leads_away(r, back, square) and _leads_away(s, back, square)
        and _askew(p, q) and _askew(r, s)
        and _askew(p, r) and _askew(p, s) and _askew(q, r) and _askew(q, s)
    )  # fmt: skip


@inlined
def lower_best(reals, distance):
    """Lower BEST, the distance's upper bound, to `distance` if that is less; return if it is."""
    # Distances are off by 2 units in the last place at most; 1e-322 covers denormal ones.
    distance = distance * (1.0 + 2.0**-50) + 1e-322
    lower = distance < peek(reals, memory.BEST)
    if lower:
        poke(reals, memory.BEST, distance)
    return lower


@inlined
def put_points(reals, at, x, y):
    """Store the points x and y as six numbers of `reals`, from position `at` on."""
    for axis in range(3):
        poke(reals, at + axis, x[axis])
        poke(reals, at + 3 + axis, y[axis])


@inlined
def points_at(reals, at):
    """Return the two points that are stored in `reals` as six numbers, from position `at` on."""
    points = shifted(reals, at)
    return vector(points, 0), vector(points, 1)


@inlined
def _nearest_at_shared(reals, a, b):
    """Return whether the stored VERTICES are clearly the nearest points of faces a and b.

    The distance of the faces is then the stored one, SHARED.
    """
    v, w = points_at(reals, memory.VERTICES)
    d = peek(reals, memory.SHARED)
    # A distance of NaN, which differs from itself: no vertices are stored.
    return d == d and nearest_at(a, b, v, w)


@inlined
def measure(reals, a, b):
    """Return (low, high, x, y) of triangles a and b: bounds of their distance, and nearest points.

    Bounds are equal where the distance is certain. `reals` keeps one pair of VERTICES that were the
    nearest points of two faces, and their distance SHARED (NaN for none): where they clearly are
    the nearest points of a and b, too, nothing is measured. The nearest of such pairs is kept.
    """
    d = peek(reals, memory.SHARED)
    if _nearest_at_shared(reals, a, b):
        v, w = points_at(reals, memory.VERTICES)
        return d, d, v, w
    _, low, high, x, y = triangle_distance(a, b)
    # Not low <= d, so that the first distance replaces NaN.
    if low == high and not low > d and nearest_at(a, b, x, y):
        poke(reals, memory.SHARED, low)
        put_points(reals, memory.VERTICES, x, y)
    return low, high, x, y


@inlined
def add_candidate(search, code, low, high):
    """Append a pair, by its code, to the candidates, for which there must be room.

    `low` and `high` bound the pair's distance. If the pair is yet to be measured, `high` is NaN, or
    UNTESTED if only float32 lanes have bounded it.
    """
    count = peek(search.state, memory.COUNT)
    poke(search.codes, count, code)
    poke(search.lows, count, low)
    poke(search.highs, count, high)
    poke(search.state, memory.COUNT, count + 1)


@inlined
def lower_bound(reals, key):
    """Return a lower bound of the distance of two faces in the world.

    `key` is a lower bound of their squared distance in the frame of the pair, by float32 lanes:
    ROUNDED, a factor below 1, covers rounding, and FACE_MARGIN is the absolute error.
    """
    distance = sqrt(key) * ROUNDED - peek(reals, memory.FACE_MARGIN)
    return distance / peek(reals, memory.SCALE) * ROUNDED


@inlined
def _nearest_first(search, count):
    """Swap the candidate with the least lower bound, of the first `count`, to the front."""
    best = np.int64(0)
    for i in range(1, count):
        if peek(search.lows, i) < peek(search.lows, best):
            best = i
    if best > 0:
        code = peek(search.codes, best)
        low, high = peek(search.lows, best), peek(search.highs, best)
        poke(search.codes, best, peek(search.codes, 0))
        poke(search.lows, best, peek(search.lows, 0))
        poke(search.highs, best, peek(search.highs, 0))
        poke(search.codes, 0, code)
        poke(search.lows, 0, low)
        poke(search.highs, 0, high)


@kernel
def measure_candidates(task):
    """Measure all candidates; leave only those that may still be the closest pair.

    A candidate whose bounds differ stays, unless the lower one exceeds BEST when its turn comes. Of
    those with equal bounds only the nearest stays; of several nearest, that with the lowest code.
    """
    # `left` counts the candidates with unequal bounds, which stay at the front; the best of the
    # others is appended at the end.
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    state, reals = search.state, search.reals
    best, best_code, left = INF, np.int64(memory.NO_PAIR), np.int64(0)
    count = peek(state, memory.COUNT)
    _nearest_first(search, count)
    for i in range(count):
        code, low, high = peek(search.codes, i), peek(search.lows, i), peek(search.highs, i)
        if low > peek(reals, memory.BEST):
            continue
        # Measure it here unless it has an upper bound: NaN and UNTESTED, -1, stand for none.
        measured, x, y = not high >= 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        if measured:
            valid, a = side_corners(tree.primitives, code >> 32, side)
            valid2, b = side_corners(tree2.primitives, code & memory.LOW_BITS, side2)
            if not (valid and valid2):
                continue
            # Quick bounds may save the measurement of all but the first, which is the nearest.
            if i > 0 and high == memory.UNTESTED and not _nearest_at_shared(reals, a, b):
                low, high, _, _, _ = distance_bounds(a, b)
                lower_best(reals, high)
                if low > peek(reals, memory.BEST):
                    continue
            low, high, x, y = measure(reals, a, b)
            lower_best(reals, high)
        if low == high:
            if low < best or (low == best and code < best_code):
                best, best_code = low, code
                if measured:
                    put_points(reals, memory.POINTS, x, y)
                    poke(state, memory.KEPT_PAIR, code)
        else:
            poke(search.codes, left, code)
            poke(search.lows, left, low)
            poke(search.highs, left, high)
            left += 1
    if best_code != memory.NO_PAIR:
        # There is room, as the pair was a candidate.
        poke(search.codes, left, best_code)
        poke(search.lows, left, best)
        poke(search.highs, left, best)
        left += 1
    poke(state, memory.COUNT, left)


@kernel
def put_corners(task, count):
    """Write the corners of the first `count` candidates' faces, in the world, to `search.corners`.

    Each candidate has six: those of the first face, then those of the second.
    """
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    for c in range(count):
        code, at = peek(search.codes, c), 18 * c
        _, a = side_corners(tree.primitives, code >> 32, side)
        _, b = side_corners(tree2.primitives, code & memory.LOW_BITS, side2)
        for k in range(9):
            poke(search.corners, at + k, a[k // 3][k % 3])
            poke(search.corners, at + 9 + k, b[k // 3][k % 3])


@kernel
def _nearer(p, a, b, least, best):
    """Return (distance, point) of that point, p or `best`, which is nearer to triangles a and b.

    A point's distance is the larger of its distances from a and from b: `least` for `best`.
    """
    stay_outlined()
    distance = max(nearest_on_triangle(p, *a)[0], nearest_on_triangle(p, *b)[0])
    return (distance, p) if distance < least else (least, best)


@kernel
def common_point(a, b):
    """Return a point that the triangles a and b have in common, rounded; they are known to touch.

    It is the first candidate that is as near to both triangles (COMMON) as the rounding of its
    coordinates allows or, if there is none, the one that is computed nearest to both.
    """
    # Where triangles touch, a vertex or an edge of one meets the face of the other, or two edges
    # meet.
    stay_outlined()
    # The exponent of the largest coordinate, limited so that 2**scale and 2**-scale are doubles.
    scale = min(max(exponent(max(reach_of(*a), reach_of(*b))), -1022), 1022)
    f = power_of_two(-scale)
    a, b = all_scaled(a, f), all_scaled(b, f)
    least, best = INF, a[0]
    # Attempt 0 tries the points where edges cross the planes of faces, which usually suffice.
    # Attempt 1 tries a nearest point of a, all vertices, and where the lines of edges meet planes.
    for attempt in range(2):
        if attempt == 1:
            _, x, _, _ = nearest_features(a, b)
            least, best = _nearer(x, a, b, least, best)
        for side in range(2):
            face, other = (a, b) if side == 0 else (b, a)
            n = cross(minus(face[1], face[0]), minus(face[2], face[0]))
            for k in range(3):
                p, q = other[k], other[(k + 1) % 3]
                if attempt == 1:
                    least, best = _nearer(p, a, b, least, best)
                # Heights of p and q above the plane of the face, times |n|.
                h, g = dot(n, minus(p, face[0])), dot(n, minus(q, face[0]))
                if h != g and largest(n) > 0.0 and (attempt == 1 or (h <= 0.0) != (g <= 0.0)):
                    x = point_on(p, q, h / (h - g))
                    least, best = _nearer(x, a, b, least, best)
                if least <= COMMON:
                    return put_back(best, scale)
    return put_back(best, scale)
