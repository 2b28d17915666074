"""The polygon that two triangles in one plane share: exact signs, and corners rounded correctly.

The first triangle is clipped by the sides of the second. Corners of the polygon are corners of
either triangle, or where two edges cross, so signs of the triangles' corners decide everything.

`sides[k][m]` is the side of edge k of the first triangle on which corner m of the second is: 1 for
the side of the face, -1 for the other, 0 on the edge's line. `sides2` are those of the second one's
edges and the first one's corners. Edge k goes from corner k to the next one.
"""

from bvh.geometry.arithmetic import floats
from bvh.geometry.arithmetic.predicates import drop_axis, orient2d, projected
from bvh.geometry.pairs.triangle_overlap import spread_axis
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined

# Numbers of a polygon's corners: 0 to 2 for those of the first triangle, SECOND + k for those of
# the second, CROSSED + 3 i + k where edge i of the first crosses edge k of the second. Edges of the
# polygon are on edges of the triangles: 0 to 2, and SECOND + k.
SECOND, CROSSED = 3, 6
# The most corners of a polygon. Rows of the scratch, of MOST + 1 integers: its corners in order,
# the edge that follows each of them, and both again for the polygon that a step of clipping makes.
MOST, ROWS = 6, 4
# In place of the number of corners: rational numbers must decide.
UNSURE = -1

# The least and the greatest of three numbers.
least = inlined(lambda s: min(s[0], min(s[1], s[2])))
most = inlined(lambda s: max(s[0], max(s[1], s[2])))
# Corner k of face i of an array (n, 3, 3), and all three corners of it.
corner_at = inlined(lambda faces, i, k: (faces[i, k, 0], faces[i, k, 1], faces[i, k, 2]))
face_at = inlined(
    lambda faces, i: (corner_at(faces, i, 0), corner_at(faces, i, 1), corner_at(faces, i, 2))
)
# Face i of a mesh, (vertices (n, 3), faces (m, 3)).
face_of = inlined(
    lambda mesh, i: (
        floats.vector(mesh[0], mesh[1][i, 0]),
        floats.vector(mesh[0], mesh[1][i, 1]),
        floats.vector(mesh[0], mesh[1][i, 2]),
    )
)


@inlined
def overlap(p, q, r, s):
    """Return whether the edges p, q and r, s, which are in one line, share more than a point."""
    # Compare them along an axis to which the line is not perpendicular.
    k = 0 if p[0] != q[0] else (1 if p[1] != q[1] else 2)
    low, high = min(p[k], q[k]), max(p[k], q[k])
    return max(low, min(r[k], s[k])) < min(high, max(r[k], s[k]))


@inlined
def _sides_of_edge(p, q, turn, t):
    """Return the sides of the edge p, q on which the corners of triangle t are."""
    return turn * orient2d(p, q, t[0]), turn * orient2d(p, q, t[1]), turn * orient2d(p, q, t[2])


@inlined
def sides_of(a, turn, b):
    """Return `sides` of the edges of triangle a and the corners of b, both projected to the plane.

    `turn` is 1 if a turns left, -1 if it turns right.
    """
    c, d, e = a
    first, second = _sides_of_edge(c, d, turn, b), _sides_of_edge(d, e, turn, b)
    return first, second, _sides_of_edge(e, c, turn, b)


@inlined
def share_an_area(sides, sides2):
    """Return whether two triangles in a plane share an area.

    sides[k][m] is the side of the first one's edge k on which corner m of the second is: 1 inner,
    -1 outer, 0 on the edge's line. `sides2` is the same with both triangles swapped.
    """
    # If not, all corners of one are outside of, or on, the line of an edge of the other.
    shared = True
    for k in range(3):
        shared = shared and most(sides[k]) > 0 and most(sides2[k]) > 0
    return shared


@inlined
def share_a_segment(a, b, sides, k, m):
    """Return whether edge k of triangle a and edge m of b share more than a point.

    sides[k] are the sides of edge k on which b's corners are, 0 on its line (see `sides_of`).
    """
    in_line = sides[k][m] == 0 and sides[k][(m + 1) % 3] == 0
    return in_line and overlap(a[k], a[(k + 1) % 3], b[m], b[(m + 1) % 3])


# The corner of a triangle that its edges m and k share; edge k begins at corner k.
_shared_corner = inlined(lambda m, k: k if k == (m + 1) % 3 else m)


@inlined
def _side(corner, k, turns, sides, sides2):
    """Return the side of edge k of the second triangle on which a corner of the polygon is.

    It is 1 on the inner side, 0 on the edge's line, -1 outside. `corner` is 0 to 2 for those of the
    first triangle, SECOND + m for those of the second, CROSSED + 3 i + m where edge i of the first
    crosses edge m of the second. `turns` is -1 if the triangles run around in opposite directions,
    else 1; `sides` and `sides2` are as in `share_an_area`.
    """
    if corner < SECOND:
        return sides2[k][corner]
    if corner < CROSSED:
        return 0 if corner - SECOND == k or corner - SECOND == (k + 1) % 3 else 1
    # The corner is where edge i of the first crosses the line of edge m of the second. From b, the
    # corner of edges m and k, to the other end c of m, that line is on the inner side of k. With
    # the height h over edge i, the crossing is at the share h(b) / (h(b) - h(c)) of the way from b
    # to c, and the sign of the share is the side. h(b) has the sign sides[i] of b; that of
    # h(b) - h(c) follows from the side of m to which i leads.
    i, m = (corner - CROSSED) // 3, (corner - CROSSED) % 3
    grows = -turns * sides2[m][(i + 1) % 3] * (1 if k == (m + 1) % 3 else -1)
    return sides[i][_shared_corner(m, k)] * grows


@kernel
def _clip(scratch, count, k, turns, sides, sides2):
    """Clip a polygon to the inner side of edge k of the second triangle; return its new count.

    The first row of `scratch` has the `count` corners of the polygon, numbered as in `_side`. The
    second has the edge that follows each: 0 to 2 of the first triangle, SECOND + m of the second.
    Both get those of the clipped polygon; the other rows are memory. `turns`, `sides` and `sides2`
    are as in `_side`.
    """
    stay_outlined()
    # `last`, `side` and `after` are the sides of k that corners i - 1, i and i + 1 are on; `edge`
    # leads from corner i - 1 to i.
    corners, edges, new_corners, new_edges = scratch
    found, last = 0, _side(corners[count - 1], k, turns, sides, sides2)
    first = _side(corners[0], k, turns, sides, sides2)
    side = first
    for i in range(count):
        after = first if i + 1 == count else _side(corners[i + 1], k, turns, sides, sides2)
        edge = edges[i - 1 if i > 0 else count - 1]
        if last * side < 0:
            # An edge of the second triangle crosses k in their common corner. What follows is the
            # rest of the edge where the polygon enters the inner side, and k where it leaves it.
            crossing = CROSSED + 3 * edge + k
            shared = SECOND + _shared_corner(edge - SECOND, k)
            new_corners[found] = crossing if edge < SECOND else shared
            new_edges[found] = edge if last < 0 else SECOND + k
            found += 1
        if side >= 0:
            new_corners[found] = corners[i]
            new_edges[found] = SECOND + k if side == 0 and after < 0 else edges[i]
            found += 1
        last, side = side, after
    for i in range(found):
        corners[i], edges[i] = new_corners[i], new_edges[i]
    return found


@inlined
def _height(p, a, b):
    """Return (height, size): the height of p over the edge a, b, times its length, in the plane.

    The height is a double-double, positive to the left of the edge; `size` is the sum of the
    absolute values of its terms.
    """
    x, y = floats.two_sum(b[0], -a[0]), floats.two_sum(b[1], -a[1])
    u, v = floats.two_sum(p[0], -a[0]), floats.two_sum(p[1], -a[1])
    return floats.difference_of_products((x, v), (y, u))


@kernel
def edge_crossing(p, q, a, b, axis, row):
    """Write the point where the edge p, q crosses the line of a, b to `row` (3,); return `sure`.

    All are points in space of one plane, which is not parallel to `axis`. `sure` tells whether the
    coordinates are correctly rounded.
    """
    # The point is (f q - g p) / (f - g), with heights f of p and g of q over the projected line.
    # Heights are off by less than 16 * 2**-106 of their sizes; numerator and denominator, with the
    # rounding of products and sums, by less than 2**-101 of theirs.
    stay_outlined()
    c, d = drop_axis(a, axis), drop_axis(b, axis)
    f, f_size = _height(drop_axis(p, axis), c, d)
    g, g_size = _height(drop_axis(q, axis), c, d)
    f, g = floats.fast_two_sum(f[0], f[1]), floats.fast_two_sum(g[0], g[1])
    below, sure = floats.dd_sub(f, g), True
    for k in range(3):
        if p[k] == q[k]:
            row[k] = p[k]
            continue
        above = floats.dd_sub(floats.dd_mul(f, (q[k], 0.0)), floats.dd_mul(g, (p[k], 0.0)))
        size = f_size * abs(q[k]) + g_size * abs(p[k])
        decided, row[k] = floats.round_quotient(above, size, below, f_size + g_size)
        sure = sure and decided
    return sure


@entry
def common_polygons(own, other, pairs, scratch, corners, starts, sizes):
    """Write to `corners` (MOST n, 3) the polygons that pairs of faces in one plane share.

    `pairs` (n, 2) are faces of the meshes `own` and `other` (see `face_of`) that share an area.
    `sizes` (n,) gets the polygons' numbers of corners, and `starts` (n,) the row of the first; the
    size is UNSURE if a corner is not surely rounded correctly. `scratch` is memory of shape
    (ROWS, MOST + 1).
    """
    if len(pairs) == 0:
        return
    last, start = pairs[0, 0], 0
    a = face_of(own, last)
    axis = spread_axis(a)
    p = projected(a, axis)
    turn = orient2d(*p)
    for n in range(len(pairs)):
        # Most pairs have the first face of the pair before.
        if pairs[n, 0] != last:
            last = pairs[n, 0]
            a = face_of(own, last)
            axis = spread_axis(a)
            p = projected(a, axis)
            turn = orient2d(*p)
        b = face_of(other, pairs[n, 1])
        q = projected(b, axis)
        turn2 = orient2d(*q)
        sides, sides2 = sides_of(p, turn, q), sides_of(q, turn2, p)
        count, sure = 3, True
        for k in range(3):
            scratch[0, k] = scratch[1, k] = k
        # If the first triangle lies in the second, it is the polygon.
        within = least(sides2[0]) >= 0 and least(sides2[1]) >= 0 and least(sides2[2]) >= 0
        for k in range(0 if within else 3):
            rows = scratch[0], scratch[1], scratch[2], scratch[3]
            count = _clip(rows, count, k, turn * turn2, sides, sides2)
        for i in range(count):
            corner = scratch[0, i]
            if corner >= CROSSED:
                k, m = (corner - CROSSED) // 3, (corner - CROSSED) % 3
                f, g, row = a[(k + 1) % 3], b[(m + 1) % 3], corners[start + i]
                sure = edge_crossing(a[k], f, b[m], g, axis, row) and sure
            else:
                point = b[corner - SECOND] if corner >= SECOND else a[corner]
                corners[start + i, 0], corners[start + i, 1], corners[start + i, 2] = point
        starts[n], sizes[n] = start, count if sure else UNSURE
        start += count if sure else 0
