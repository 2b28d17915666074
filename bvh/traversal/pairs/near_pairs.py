"""Pairs of boxes of two trees, by their distances: opened, sorted and pushed.

In the files on closest pairs, `side` has the map of a tree to the frame of the pair, in float64
(see `pair_frames`); `floats` are that map, 12 numbers, and the direction of the search, 3, in
float32; `reals` are the numbers of the search (see `closest_memory`). A key is a lower bound of the
squared distance of two boxes or faces in that frame; for boxes that overlap it is minus the square
of a depth. Entries of the stack have the bits of keys.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, bits
from bvh.geometry.arithmetic.vectors import minus
from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH
from bvh.traversal.pairs import closest_memory as memory
from bvh.traversal.pairs.pair_frames import ALONG_MARGIN, ALONG_SHIFT, placed, towards, turned
from bvh.traversal.pairs.pair_walk import child_of, push
from bvh.tree.oriented_boxes import node_boxes
from bvh.tree.triangle_groups import dot

# Up to this many pairs are sorted before they are pushed; of more, only the nearest is put on top.
SORTED = 40
# Steps between two checks for an interrupt: some milliseconds.
STEPS = 1 << 10
F = np.float32
UP = 1.0 + 2.0**-40  # raises a bound in float64 by more than its rounding
# A factor that raises squares in float32 by more than their errors; errors of distances of boxes
# and of faces, where coordinates are about 1.
SLACK = 1.0 + 2.0**-18
BOX_ERROR, FACE_ERROR = 2.0**-15, 2.0**-17
# An id less this number is a key below those of all distances.
FIRST = 2.0**32
# The key of boxes that have the same centre: below those of most others.
DEEPEST = -16.0


@inlined
def reach_of(reals):
    """Return BEST, the upper bound of the distance, in the frame of the pair, rounded up."""
    return (simd.peek(reals, memory.BEST) * simd.peek(reals, memory.SCALE)) * UP + 2.0**-100


@inlined
def bound_of(task, margin):
    """Return the largest key of pairs that may still be near enough.

    It is a squared distance in the frame of the pair. `margin` is the index, in the numbers of the
    search, of the error of keys: BOX_MARGIN for boxes, FACE_MARGIN for faces.
    """
    reach = reach_of(task.search.reals) + simd.peek(task.search.reals, margin)
    return reach * reach * SLACK


# The mask of lanes that are surely too far; NaN is not.
far = inlined(lambda keys, bound: keys > F(bound))


@inlined
def square_above(gap, inverse):
    """Return the squares of gaps along a vector, in lanes; 0 for negative gaps.

    `gap` has the gaps times the length of the vector, and `inverse` is 1 over its squared length.
    """
    gap = simd.greater(gap, simd.splat(F(0.0), WIDTH))
    return gap * gap * inverse


# As `square_above`, but with the sign of the gap in place of 0.
_signed_square = inlined(lambda gap, inverse: gap * abs(gap) * inverse)


@inlined
def quotient(gap, square):
    """Return the squares of gaps along a vector, gap**2 / square, in lanes.

    `gap` has the gaps times the length of the vector, `square` is its squared length. The result is
    0 for negative gaps, and for tiny squares.
    """
    gap = simd.greater(gap, simd.splat(F(0.0), WIDTH))
    return simd.select(square > F(1e-30), gap * gap / square, F(0.0))


# The inverses of squares, 0 for tiny ones, whose vectors bound nothing.
inverse_of = inlined(lambda square: simd.select(square > 1e-30, 1.0 / square, 0.0))


@inlined
def spread(rows, row, k):
    """Return the vector in column k of rows `row` to row + 2, each coordinate in all lanes."""
    at = row * WIDTH + k
    return (
        simd.splat(simd.peek(rows, at), WIDTH), simd.splat(simd.peek(rows, at + WIDTH), WIDTH),
        simd.splat(simd.peek(rows, at + 2 * WIDTH), WIDTH),
    )  # fmt: skip


@inlined
def put_three(rows, row, v):
    """Store the coordinates of v, vectors in lanes, as three rows from number `row` on."""
    for axis in range(3):
        simd.store(rows, (row + axis) * WIDTH, v[axis])


# Lanes of float32 plus x, as doubles.
doubles = inlined(lambda lanes, x: simd.convert(lanes, 0.0) + x)


@inlined
def _ends(box, floats, side, sign):
    """Return where boxes end along the search's direction, as float64 lanes.

    The end is the least product of a box's points with the direction for sign -1, the greatest for
    sign 1, moved outward by the side's margin. `box` is (centre, h0, h1, h2), with half axes, in
    the tree's frame; `floats` has the direction there, in float32.
    """
    c, h0, h1, h2 = box
    wide = abs(towards(floats, h0)) + abs(towards(floats, h1)) + abs(towards(floats, h2))
    margin = simd.peek(side, ALONG_SHIFT) + sign * simd.peek(side, ALONG_MARGIN)
    return doubles(towards(floats, c) + wide * F(sign), margin)


# The least of the lanes of a mask.
least_of = inlined(lambda lanes, mask: simd.lowest(simd.select(mask, lanes, INF)))


@inlined
def in_frame(box, floats):
    """Return (box, reaches, inverses) of a box, or boxes in lanes, moved to the frame of the pair.

    A box is (centre, h0, h1, h2), whose half axes need not be orthogonal after the map, which is in
    `floats`. reaches[i] is the largest product of hi with a vector from the centre to a point of
    the box, |hi . h0| + |hi . h1| + |hi . h2|, and inverses[i] is 1 / hi . hi.
    """
    c, h0, h1, h2 = box
    c, h0, h1, h2 = placed(floats, c), turned(floats, h0), turned(floats, h1), turned(floats, h2)
    q0, q1, q2 = dot(h0, h0), dot(h1, h1), dot(h2, h2)
    p0, p1, p2 = abs(dot(h1, h2)), abs(dot(h2, h0)), abs(dot(h0, h1))
    reaches = q0 + (p1 + p2), q1 + (p2 + p0), q2 + (p0 + p1)
    return (c, h0, h1, h2), reaches, (inverse_of(q0), inverse_of(q1), inverse_of(q2))


@inlined
def _box_keys(box, reaches, inverses, rows, k, bound, lanes):
    """Return keys of the distances of boxes, in lanes, from the box in column k of the rows.

    Boxes are given as `in_frame` returns them; the rows have the centre, half axes, reaches and
    inverses. If the keys along the line between the centres exceed `bound` in all `lanes` (bits),
    these are returned; else the largest keys of seven directions.
    """
    # The gap along any direction is a lower bound of the distance. The directions are those between
    # the centres and along the half axes of both boxes. With `in_frame`, all is in float32: no
    # coordinate of a centre is above 2, none of a half axis above 3, so that the lengths of the
    # vectors that are multiplied have a sum below 25. A product is off by 3 * 2**-24 of their
    # lengths, the sums by 7 * 2**-24 * 25, both frames by 2**-19: BOX_ERROR covers it all.
    #
    # Boxes that overlap along all directions have keys below 0, minus the square of the depth:
    # faces meet sooner where boxes overlap deeply. d leads between the centres; x and y are its
    # products with the half axes h and g of the boxes, and m are those of h with g.
    c, h0, h1, h2 = box
    g0, g1, g2 = spread(rows, 3, k), spread(rows, 6, k), spread(rows, 9, k)
    d = minus(spread(rows, 0, k), c)
    x0, x1, x2 = abs(dot(h0, d)), abs(dot(h1, d)), abs(dot(h2, d))
    y0, y1, y2 = abs(dot(g0, d)), abs(dot(g1, d)), abs(dot(g2, d))
    square = dot(d, d)
    gap = square - ((x0 + x1) + (x2 + y0) + (y1 + y2))
    keys = simd.select(square > F(1e-30), gap * abs(gap) / square, F(DEEPEST))
    if simd.mask_bits(far(keys, bound)) & lanes == lanes:
        return keys
    m00, m01, m02 = abs(dot(h0, g0)), abs(dot(h0, g1)), abs(dot(h0, g2))
    m10, m11, m12 = abs(dot(h1, g0)), abs(dot(h1, g1)), abs(dot(h1, g2))
    m20, m21, m22 = abs(dot(h2, g0)), abs(dot(h2, g1)), abs(dot(h2, g2))
    r, s = spread(rows, 12, k), spread(rows, 15, k)
    a = _signed_square(x0 - (reaches[0] + (m00 + m01 + m02)), inverses[0])
    b = _signed_square(x1 - (reaches[1] + (m10 + m11 + m12)), inverses[1])
    e = _signed_square(x2 - (reaches[2] + (m20 + m21 + m22)), inverses[2])
    keys = simd.greater(keys, simd.greater(a, simd.greater(b, e)))
    a = _signed_square(y0 - (r[0] + (m00 + m10 + m20)), s[0])
    b = _signed_square(y1 - (r[1] + (m01 + m11 + m21)), s[1])
    e = _signed_square(y2 - (r[2] + (m02 + m12 + m22)), s[2])
    return simd.greater(keys, simd.greater(a, simd.greater(b, e)))


@inlined
def collect(task, keys, lanes, name, step, count):
    """Append the pairs of `lanes` (bits) to the `count` collected pairs; return the new count.

    A pair has a key, a lane of `keys`, and a name: name + step * k for lane k.
    """
    search = task.search
    if lanes != 0:
        simd.store(search.spare, 0, keys)
        while lanes != 0:
            k = simd.lowest_bit(lanes)
            lanes &= lanes - 1
            simd.poke(search.keys, count, simd.peek(search.spare, k))
            simd.poke(search.names, count, name + step * k)
            count += 1
    return count


@inlined
def _lane_mask(used, child, node):
    """Return the mask `used`, limited to the lane of one box, `child` = node * WIDTH + lane."""
    return used & (simd.lane_numbers(WIDTH) == np.int32(child - node * WIDTH))


@kernel
def open_pair(task, code, box, code2, box2):
    """Collect the near pairs of children of two nodes, or a node and a leaf; return how many.

    A side is given by its code and the position of its box; a leaf counts as the only child of its
    parent. Pairs get keys and names in `search.keys` and `search.names`. A name is the lane of the
    second child times WIDTH, plus the lane of the first. After a contact, keys order pairs by the
    lowest ids of first faces.
    """
    stay_outlined()
    search = task.search
    rows, ends, count = search.rows, search.ends, np.int64(0)
    bound, reach = bound_of(task, memory.BOX_MARGIN), reach_of(search.reals)
    node2 = code2 if code2 >= 0 else box2 // WIDTH
    boxes2 = node_boxes(task.boxes2, node2)
    # The centres of unused lanes are NaN.
    used2 = boxes2[0][0] == boxes2[0][0]
    if code2 < 0:
        used2 = _lane_mask(used2, box2, node2)
    high = _ends(boxes2, search.floats2, task.side2, 1.0)
    node = code if code >= 0 else box // WIDTH
    boxes = node_boxes(task.boxes, node)
    used = boxes[0][0] == boxes[0][0]
    if code < 0:
        used = _lane_mask(used, box, node)
    ids = simd.load(task.lowest, node * WIDTH, WIDTH)
    contact = simd.peek(search.state, memory.CONTACT)
    touching = contact != memory.NO_PAIR
    if touching:
        used = used & (ids <= np.int32(contact >> 32))
    # First drop boxes that are too far, along the search's direction, from all of the other side.
    low = _ends(boxes, search.floats, task.side, -1.0)
    used = used & (low <= reach - least_of(-high, used2))
    bits2 = simd.mask_bits(used2 & (high >= least_of(low, used) - reach))
    if bits2 == 0 or simd.mask_bits(used) == 0:
        return count
    boxes2, reaches, inverses = in_frame(boxes2, search.floats2)
    for i in range(4):
        put_three(rows, 3 * i, boxes2[i])
    put_three(rows, 12, reaches)
    put_three(rows, 15, inverses)
    simd.store(ends, 0, high)
    boxes, reaches, inverses = in_frame(boxes, search.floats)
    while bits2 != 0:
        k = simd.lowest_bit(bits2)
        bits2 &= bits2 - 1
        lanes = simd.mask_bits(used & (low <= simd.peek(ends, k) + reach))
        if lanes == 0:
            continue
        keys = _box_keys(boxes, reaches, inverses, rows, k, bound, lanes)
        lanes &= ~simd.mask_bits(far(keys, bound))
        if touching:
            # Keys below all distances, in order of the first faces' lowest ids.
            count = collect(task, simd.convert(ids, 0.0) - FIRST, lanes, k * WIDTH, 1, count)
        else:
            count = collect(task, simd.convert(keys, 0.0), lanes, k * WIDTH, 1, count)
    return count


@inlined
def sort_collected(search, count):
    """Sort the first `count` pairs in search.keys and search.names by descending keys.

    The nearest is then last, to be pushed last and visited first. Of more than SORTED pairs, only
    the nearest is moved to the end.
    """
    keys, names = search.keys, search.names
    if count > SORTED:
        best = np.int64(0)
        for i in range(1, count):
            if simd.peek(keys, i) < simd.peek(keys, best):
                best = i
        key, name = simd.peek(keys, best), simd.peek(names, best)
        simd.poke(keys, best, simd.peek(keys, count - 1))
        simd.poke(names, best, simd.peek(names, count - 1))
        simd.poke(keys, count - 1, key)
        simd.poke(names, count - 1, name)
        return
    for i in range(1, count):
        key, name, k = simd.peek(keys, i), simd.peek(names, i), i
        while k > 0 and simd.peek(keys, k - 1) < key:
            simd.poke(keys, k, simd.peek(keys, k - 1))
            simd.poke(names, k, simd.peek(names, k - 1))
            k -= 1
        simd.poke(keys, k, key)
        simd.poke(names, k, name)


@inlined
def push_collected(task, top, code, box, code2, box2, count):
    """Push `count` collected pairs of children of two subtrees; return the stack's new height.

    `top` is the height before. The subtrees are given by codes and positions of boxes. A pair's
    name is the lane of its second child times WIDTH, plus the lane of its first.
    """
    search = task.search
    for i in range(count):
        name, key = simd.peek(search.names, i), bits(simd.peek(search.keys, i))
        child = child_of(task.tree.blocks, code, box, name % WIDTH)
        child2 = child_of(task.tree2.blocks, code2, box2, name // WIDTH)
        top = push(task.stack, top, key, child, child2)
    return top
