"""Faces of two leaves: those that may be near enough, and lower bounds of their distances in lanes.

The gap along any direction is a lower bound of the distance of two convex shapes. Faces are
compared along the direction of the search with all of the other leaf, along a few directions with
its box, and with single faces; at last along the line between the points where edges are nearest.
All is in float32, in the frame of the pair, where no coordinate of a corner is above 1. Corners are
off by 2**-20, products with a direction by 2**-22 of its length, sums of the half axes of a box by
2**-18: FACE_ERROR covers it all.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.arithmetic.vectors import minus
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, greater, lesser, load, mask_bits, peek, select, splat, sqrt
from bvh.traversal.pairs import closest_memory as memory
from bvh.traversal.pairs import near_pairs
from bvh.traversal.pairs.near_pairs import bound_of, doubles, reach_of, spread, square_above
from bvh.traversal.pairs.pair_frames import ALONG_MARGIN, ALONG_SHIFT, placed, towards, turned
from bvh.tree.oriented_boxes import one_box
from bvh.tree.triangle_groups import cross, dot, group_at, group_edges, group_origin, three_rows
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, leaf_rows

F = np.float32
# A group of triangles in the frame of the pair is GROUP_ROWS rows of WIDTH lanes: nine of the
# coordinates of corners, from row NORMAL on three of normals n, and row INVERSE of 1 / n . n.
NORMAL, INVERSE = 9, 12


# The mask of lanes with a face (ids are -1 without one) whose id is at most `last`.
_up_to = inlined(lambda ids, last: (ids >= np.int32(0)) & (ids <= last))


@inlined
def _local_group(groups, group):
    """Return (v0, e1, e2) of a group's triangles, in the tree's frame: a corner, edges from it."""
    at = group_at(group)
    e1, e2 = group_edges(groups, at)
    return group_origin(groups, at), e1, e2


@inlined
def _ends(group, floats, side, sign):
    """Return where triangles end along the search's direction, as float64 lanes.

    The end is the least product of a triangle's points with the direction for sign -1, the greatest
    for sign 1, moved outward by the side's margin. `group` is (v0, e1, e2) by `_local_group`, and
    `floats` are the side's numbers in float32.
    """
    v0, e1, e2 = group
    sign32, zero = F(sign), splat(F(0.0), WIDTH)
    # How far the triangles extend from v0 in the direction times `sign`.
    wide = greater(greater(towards(floats, e1) * sign32, towards(floats, e2) * sign32), zero)
    margin = peek(side, ALONG_SHIFT) + sign * peek(side, ALONG_MARGIN)
    return doubles(towards(floats, v0) + wide * sign32, margin)


@inlined
def _in_frame(group, floats):
    """Return the three corners of a group's triangles, in lanes, in the frame of the pair.

    `group` is (v0, e1, e2) by `_local_group`; `floats` has the map of its side, in float32.
    """
    v0, e1, e2 = group
    a, u, v = placed(floats, v0), turned(floats, e1), turned(floats, e2)
    return a, (a[0] + u[0], a[1] + u[1], a[2] + u[2]), (a[0] + v[0], a[1] + v[1], a[2] + v[2])


@inlined
def _squared_gaps(g, reach, inverse, p, q, r):
    """Return squared gaps along g between triangles and a box, 0 where they overlap.

    p, q, r are the triangles' corners less the box's centre, `reach` is the largest product of g
    with a vector from that centre to a point of the box, and `inverse` is 1 / g . g.
    """
    x, y, z = dot(p, g), dot(q, g), dot(r, g)
    gap = greater(lesser(x, lesser(y, z)), -greater(x, greater(y, z))) - reach
    return square_above(gap, inverse)


@inlined
def _keys_of_box(corners, n, inverse, box):
    """Return lower bounds of the squared distances of triangles, in lanes, from a box.

    They are along the box's half axes and the triangles' normals `n`, not of length 1; `inverse` is
    1 / n . n. `box` is (box, reaches, inverses) by `near_pairs.in_frame`.
    """
    (c, h0, h1, h2), reaches, inverses = box
    p, q, r = minus(corners[0], c), minus(corners[1], c), minus(corners[2], c)
    keys = _squared_gaps(h0, reaches[0], inverses[0], p, q, r)
    keys = greater(keys, _squared_gaps(h1, reaches[1], inverses[1], p, q, r))
    keys = greater(keys, _squared_gaps(h2, reaches[2], inverses[2], p, q, r))
    # The reach of the box along n.
    wide = abs(dot(n, h0)) + abs(dot(n, h1)) + abs(dot(n, h2))
    # For a degenerate triangle n may be far from a normal, but any direction gives a bound.
    return greater(keys, _squared_gaps(n, wide, inverse, p, q, r))


@inlined
def _gap(g, a, b):
    """Return |g| times the gap between triangles a and b along g, in lanes.

    It is positive if all of a comes after all of b in direction g, else negative or 0.
    """
    near = lesser(dot(g, a[0]), lesser(dot(g, a[1]), dot(g, a[2])))
    return near - greater(dot(g, b[0]), greater(dot(g, b[1]), dot(g, b[2])))


@inlined
def _either_gap(g, a, b):
    """Return |g| times the gap between triangles along g, whichever of them comes first."""
    return greater(_gap(g, a, b), _gap(g, b, a))


@inlined
def _load_three(rows, row):
    """Return a vector of lanes, whose coordinates are three rows from number `row` on."""
    return three_rows(rows, row * WIDTH)


@inlined
def _corners(rows, row):
    """Return the three corners of triangles in lanes, stored from number `row` on."""
    return _load_three(rows, row), _load_three(rows, row + 3), _load_three(rows, row + 6)


@inlined
def _corners_of_one(rows, k):
    """Return the three corners of one triangle, stored from position k on, in all lanes."""
    return spread(rows, 0, k), spread(rows, 3, k), spread(rows, 6, k)


@inlined
def _sum(v):
    """Return the sum of three vectors, the items of v."""
    a, b, c = v
    return a[0] + b[0] + c[0], a[1] + b[1] + c[1], a[2] + b[2] + c[2]


@inlined
def _keys_of_faces(rows, at, k):
    """Return lower bounds of the squared distances of triangles a, in lanes, from one triangle b.

    Both are stored as by `_put_corners`: a from row `at` on, b from position k on, its first row
    times WIDTH, plus its lane.
    """
    # A bound is the largest squared gap along three directions: g between the centres, and the
    # normals n of a and m of b.
    a, b = _corners(rows, at), _corners_of_one(rows, k)
    g = minus(_sum(a), _sum(b))
    n, inverse = _load_three(rows, at + NORMAL), load(rows, (at + INVERSE) * WIDTH, WIDTH)
    along_n = square_above(_either_gap(n, a, b), inverse)
    inverse = splat(peek(rows, INVERSE * WIDTH + k), WIDTH)
    along_m = square_above(_either_gap(spread(rows, NORMAL, k), a, b), inverse)
    return greater(near_pairs.quotient(_gap(g, a, b), dot(g, g)), greater(along_n, along_m))


# Numbers clamped to 0..1.
_clamped = inlined(lambda x: lesser(greater(x, splat(F(0.0), WIDTH)), splat(F(1.0), WIDTH)))


@inlined
def _nearest_edges(rows, at, k):
    """Return (squares, keys) of triangles a and one triangle b, stored as for `_keys_of_faces`.

    `squares` are the least squared distances of an edge of a from one of b, up to rounding; `keys`
    are lower bounds of the triangles' squared distances.
    """
    # The bounds are gaps along the lines between the nearest points of these edges.
    best = splat(F(INF), WIDTH)
    gx, gy, gz = best, best, best
    for i in range(3):
        # The nearest points of two edges are p + s u and r + t v (Ericson 2005, "Real-Time
        # Collision Detection", 5.1.9).
        p = _load_three(rows, at + 3 * i)
        u = minus(_load_three(rows, at + 3 * ((i + 1) % 3)), p)
        a = dot(u, u)
        one_by_a = near_pairs.inverse_of(a)
        for j in range(3):
            r = spread(rows, 3 * j, k)
            v = minus(spread(rows, 3 * ((j + 1) % 3), k), r)
            w = minus(p, r)
            b, c, e, f = dot(u, v), dot(u, w), dot(v, v), dot(v, w)
            s = _clamped((b * f - c * e) * near_pairs.inverse_of(a * e - b * b))
            t = _clamped((b * s + f) * near_pairs.inverse_of(e))
            s = _clamped((b * t - c) * one_by_a)
            x = simd.fused(s, u[0], simd.fused(-t, v[0], w[0]))
            y = simd.fused(s, u[1], simd.fused(-t, v[1], w[1]))
            z = simd.fused(s, u[2], simd.fused(-t, v[2], w[2]))
            square = dot((x, y, z), (x, y, z))
            nearer = square < best
            best = select(nearer, square, best)
            gx, gy, gz = select(nearer, x, gx), select(nearer, y, gy), select(nearer, z, gz)
    g = gx, gy, gz
    a, b = _corners(rows, at), _corners_of_one(rows, k)
    return best, near_pairs.quotient(_gap(g, a, b), dot(g, g))


@inlined
def _put_corners(rows, row, corners):
    """Store corners, normals n and 1 / n . n of triangles, from `row` on; return (n, 1 / n . n)."""
    n = cross(minus(corners[1], corners[0]), minus(corners[2], corners[0]))
    inverse = near_pairs.inverse_of(dot(n, n))
    for i in range(3):
        near_pairs.put_three(rows, row + 3 * i, corners[i])
    near_pairs.put_three(rows, row + NORMAL, n)
    simd.store(rows, (row + INVERSE) * WIDTH, inverse)
    return n, inverse


@inlined
def _lower_best(task, squares, mask):
    """Lower BEST, the upper bound of the distance, if two points of faces are nearer.

    `squares` are squared distances of points in the frame of the pair; only the lanes of `mask`
    count. LOWERED is set if BEST becomes less.
    """
    state, reals = task.search.state, task.search.reals
    least = sqrt(np.float64(near_pairs.least_of(squares, mask)))
    # The margin and the factor cover the errors of float32; the quotient is in the world.
    nearest = least + peek(reals, memory.FACE_MARGIN)
    nearest = nearest * (1.0 + 2.0**-18) / peek(reals, memory.SCALE)
    if nearest < peek(reals, memory.BEST):
        simd.poke(reals, memory.BEST, nearest)
        simd.poke(state, memory.LOWERED, np.int64(1))


@kernel
def collect_faces(task, code, box, code2, box2):
    """Collect the pairs of faces of two leaves that may be near enough; return how many.

    Leaves are given by codes and positions of boxes. A pair gets a key in search.keys, which is a
    lower bound of its squared distance, and a name in search.names: the position group * WIDTH +
    lane of the first face, times 2**32, plus the position of the second. After a contact, first
    faces with ids above the contact's are left out, for their pairs come after it.
    """
    stay_outlined()
    search, tree, tree2 = task.search, task.tree, task.tree2
    rows, ends, count = search.rows, search.ends, np.int64(0)
    contact = peek(search.state, memory.CONTACT)
    last = np.int32(min(contact >> 32, memory.MAX_ID))
    first, many = leaf_rows(code)
    first2, many2 = leaf_rows(code2)
    reach, bound = reach_of(search.reals), bound_of(task, memory.FACE_MARGIN)
    # First faces begin at `low` along the direction, which leads from the second side to the first;
    # second faces end at `high`. The first MAX_LEAF_ROWS rows of `ends` have -high, the others low:
    # the sum of two entries is the gap between two faces.
    least = INF
    for g in range(many):
        used = _up_to(load(tree.ids, group_at(first + g), WIDTH), last)
        low = _ends(_local_group(tree.groups, first + g), search.floats, task.side, -1.0)
        simd.store(ends, (MAX_LEAF_ROWS + g) * WIDTH, low)
        least = min(least, near_pairs.least_of(low, used))
    # Second faces that are near enough to the first faces, and to the first leaf's box.
    leaf_box = near_pairs.in_frame(one_box(task.boxes, box), search.floats)
    most = -INF
    for m in range(many2):
        group = _local_group(tree2.groups, first2 + m)
        high = _ends(group, search.floats2, task.side2, 1.0)
        used = load(tree2.ids, group_at(first2 + m), WIDTH) >= np.int32(0)
        used = used & (high >= least - reach)
        simd.poke(search.masks, m, mask_bits(used))
        if mask_bits(used) == 0:
            continue
        corners = _in_frame(group, search.floats2)
        n, inverse = _put_corners(rows, m * memory.GROUP_ROWS, corners)
        used = used & (~near_pairs.far(_keys_of_box(corners, n, inverse, leaf_box), bound))
        simd.poke(search.masks, m, mask_bits(used))
        simd.store(ends, m * WIDTH, -high)
        most = max(most, -near_pairs.least_of(-high, used))
    # First faces that are near enough to these second faces, and to the second leaf's box.
    leaf_box = near_pairs.in_frame(one_box(task.boxes2, box2), search.floats2)
    at = MAX_LEAF_ROWS * memory.GROUP_ROWS
    for g in range(first, first + many):
        low = load(ends, (MAX_LEAF_ROWS + g - first) * WIDTH, WIDTH)
        near = _up_to(load(tree.ids, group_at(g), WIDTH), last) & (low <= most + reach)
        if mask_bits(near) == 0:
            continue
        corners = _in_frame(_local_group(tree.groups, g), search.floats)
        n, inverse = _put_corners(rows, at, corners)
        near = near & ~near_pairs.far(_keys_of_box(corners, n, inverse, leaf_box), bound)
        if mask_bits(near) == 0:
            continue
        for m in range(many2):
            # The side with more faces left is in lanes: its corners begin at row `lanes` of `rows`,
            # and its ends are row `lanes_end` of `ends`. Faces of the other side, in `single` and
            # `single_end`, are taken one by one. Names of pairs grow by `step` a lane, and by
            # `step2` from face to face.
            bits, bits2 = mask_bits(near), peek(search.masks, m)
            lanes, lanes_end = at, MAX_LEAF_ROWS + g - first
            single, single_end = m * memory.GROUP_ROWS, m
            name, step, name2, step2 = (g * WIDTH) << 32, 1 << 32, (first2 + m) * WIDTH, 1
            if simd.popcount(bits2) > simd.popcount(bits):
                bits, bits2 = bits2, bits
                lanes, lanes_end, single, single_end = single, single_end, lanes, lanes_end
                step, step2 = step2, step
            lane_bits = splat(np.int32(bits), WIDTH) >> simd.lane_numbers(WIDTH)
            used = lane_bits & np.int32(1) != np.int32(0)
            ends_in_lanes = load(ends, lanes_end * WIDTH, WIDTH)
            while bits2 != 0:
                k = simd.lowest_bit(bits2)
                bits2 &= bits2 - 1
                mask = used & (ends_in_lanes + peek(ends, single_end * WIDTH + k) <= reach)
                if mask_bits(mask) == 0:
                    continue
                c = single * WIDTH + k
                keys = _keys_of_faces(rows, lanes, c)
                mask = mask & ~near_pairs.far(keys, bound)
                if mask_bits(mask) == 0:
                    continue
                square, more = _nearest_edges(rows, lanes, c)
                keys = greater(keys, more)
                mask = mask & ~near_pairs.far(keys, bound)
                if contact == memory.NO_PAIR:
                    _lower_best(task, square, mask)
                    reach, bound = reach_of(search.reals), bound_of(task, memory.FACE_MARGIN)
                    mask = mask & ~near_pairs.far(keys, bound)
                left, pair = mask_bits(mask), name + name2 + step2 * k
                count = near_pairs.collect(task, doubles(keys, 0.0), left, pair, step, count)
    return count
