"""Frame of a pair of trees: the maps of both sides to it, with margins, applied to their boxes.

A side of a pair is a tree whose vertices are moved: by the map of an instance, correctly rounded,
and then by an affine matrix, every operation rounded. x' = L x + T maps a coordinate of the tree's
local frame to the frame of the pair, which is one of two:

- The local frame of the first tree, whose boxes stay as they are: for pairs that meet.
- The world's, less a centre, times a power of two that makes all coordinates about 1: for the
  closest pair. There, both sides are also projected on one direction: the gap between the
  projections is a lower bound of the distance, however large the boxes are.

Boxes and triangle groups are mapped in float64; margins cover the errors of L, T and x', the
rounding of vertices, fewer than 50 * 2**-53 of the terms, and the float32 rows of triangle groups.
Overflow makes a box larger, up to all of space.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import (
    INF,
    exponent,
    finite,
    largest,
    power_of_two,
    row_of,
    scale_by,
    vector,
)
from bvh.geometry.arithmetic.vectors import dot, minus, plus, scaled
from bvh.geometry.transforms import transformed_point
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, Accessor, convert, greater, lesser, peek, poke, splat, store
from bvh.tree import frame as frames
from bvh.tree import rows as tree_rows
from bvh.tree.primitives import corners
from bvh.tree.triangle_groups import dot as lanes_dot
from bvh.tree.triangle_groups import group_at, group_edges, group_origin
from bvh.tree.wide_nodes import child_boxes, node_at

# Where the numbers of a side begin: L by rows, T, margins of x'; the instance's map, and whether
# there is one; the matrix, and whether there is one; the map from the world to the frame of the
# pair, before shift and scale; the direction on which both sides are projected, in the tree's
# frame, its shift and margin; the bound of that frame. Maps are twelve numbers by rows, (3, 4).
LINEAR, SHIFT, MARGIN = 0, 9, 12
MAP, MAPPED, MATRIX, MOVED, INVERSE = 15, 27, 28, 40, 41
ALONG, ALONG_SHIFT, ALONG_MARGIN, BOUND, SIDE_SIZE = 53, 56, 57, 58, 59
# Numbers of a side that are used in lanes, as float32: L, T and the direction; one is unused.
FLOATS = 16

# Errors of mapped coordinates, as a share of their terms; and of float32 rows, of their bound.
ERROR = 2.0**-47
GROUP_ERROR = 2.0**-19
# Errors of a sum of products with a direction, where no term is above 4; and of such a sum in
# float32, relative to the largest product.
ALONG_ERROR = 2.0**-44
LANES_ERROR = 2.0**-18
# The length of directions: a little below 1, so that rounding makes none longer.
SHORTER = 1.0 - 2.0**-40
# A factor that keeps sums of a few coordinates from overflowing.
LESS = 2.0**-10
LARGEST_FLOAT = 3.0e38  # a finite float32 in place of infinite bounds
F = np.float32

# Rows of lanes for a group of the second tree: box, corners, largest coordinate.
LOW, HIGH, V0, V1, V2, LARGEST, GROUP_ROWS = 0, 3, 6, 9, 12, 15, 16


def _three(row: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return accessors (read one column, load lanes, store) of rows `row` to row + 2 of lanes."""
    return simd.rows(np.float32, *range(row * WIDTH, (row + 3) * WIDTH, WIDTH))


lower, lowers, _ = _three(LOW)
upper, uppers, _ = _three(HIGH)
# Reads v0; for v1 and v2 the position is 3 and 6 rows further on.
corner, _, _ = _three(V0)
largest_coordinate, _, _ = simd.rows(np.float32, LARGEST * WIDTH)


def addresses(*arrays: tree_rows.Array) -> NDArray[np.int64]:
    """Return the table of the addresses of arrays; 0 for None, and for arrays without items."""
    return kernel_input(np.array(tree_rows.addresses(*arrays), np.int64))


# The pointer to doubles at an address in a table.
doubles_at = inlined(lambda table, i: simd.pointer_to(peek(table, i), 0.0))


@inlined
def _store_map(side, at, numbers, first, given):
    """Store a map (3, 4) at side[at]: numbers[first] and on, or the identity if not `given`."""
    for i in range(12):
        # The diagonal of (3, 4) has the positions 0, 5 and 10.
        identity = 1.0 if i % 5 == 0 else 0.0
        poke(side, at + i, peek(numbers, first + i) if given else identity)


@inlined
def set_motions(side, side2, table, leaf, leaf2, q):
    """Store in `side` and `side2` the maps that move their vertices: an instance's, then a matrix.

    The table has four addresses: of maps (n, 3, 4) and their inverses, for the first side; of maps,
    and of matrices (n, 4, 4), for the second. An address of 0 stands for the identity. `leaf` and
    `leaf2` are the numbers of the sides' maps, q that of the second side's matrix; the first side
    has no matrix.
    """
    mapped, mapped2, moved = peek(table, 0) != 0, peek(table, 2) != 0, peek(table, 3) != 0
    matrices = doubles_at(table, 3)
    _store_map(side, MAP, doubles_at(table, 0), 12 * leaf, mapped)
    _store_map(side, MATRIX, matrices, 0, False)
    _store_map(side2, MAP, doubles_at(table, 2), 12 * leaf2, mapped2)
    _store_map(side2, MATRIX, matrices, 16 * q, moved)
    poke(side, MAPPED, 1.0 if mapped else 0.0)
    poke(side, MOVED, 0.0)
    poke(side2, MAPPED, 1.0 if mapped2 else 0.0)
    poke(side2, MOVED, 1.0 if moved else 0.0)


@inlined
def _applied(numbers, at, p):
    """Return the point p moved by the map whose numbers begin at `at`, every operation rounded."""
    a, b, c = row_of(numbers, at), row_of(numbers, at + 4), row_of(numbers, at + 8)
    return dot(p, a) + a[3], dot(p, b) + b[3], dot(p, c) + c[3]


@inlined
def _turned(numbers, at, v):
    """Return the vector v under the linear part of the map whose numbers begin at `at`."""
    a, b, c = row_of(numbers, at), row_of(numbers, at + 4), row_of(numbers, at + 8)
    return dot(v, a), dot(v, b), dot(v, c)


@inlined
def _sizes_after(side, at, p):
    """Return bounds of absolute coordinates after the map at side[at], from the bounds p before."""
    a, b, c = row_of(side, at), row_of(side, at + 4), row_of(side, at + 8)
    return (
        abs(a[0]) * p[0] + abs(a[1]) * p[1] + abs(a[2]) * p[2] + abs(a[3]),
        abs(b[0]) * p[0] + abs(b[1]) * p[1] + abs(b[2]) * p[2] + abs(b[3]),
        abs(c[0]) * p[0] + abs(c[1]) * p[1] + abs(c[2]) * p[2] + abs(c[3]),
    )


@inlined
def _column(side, k):
    """Return axis k of a side's tree, of length 1, moved to the world by map and matrix."""
    column = peek(side, MAP + k), peek(side, MAP + 4 + k), peek(side, MAP + 8 + k)
    return _turned(side, MATRIX, column)


# The centre of a side's tree, moved to the world.
_middle = inlined(
    lambda tree, side: _applied(side, MATRIX, _applied(side, MAP, frames.centre(tree.frame)))
)


@inlined
def _extent(tree, side):
    """Return bounds (x, y, z) of a side's absolute coordinates after its map, before its matrix."""
    far = frames.farthest(tree.frame)
    return _sizes_after(side, MAP, (far, far, far))


@kernel
def _radius(tree, side):
    """Return LESS times a bound of how far a side reaches from its centre, along any world axis."""
    stay_outlined()
    x, y, z = _column(side, 0), _column(side, 1), _column(side, 2)
    widest = 0.0
    for row in range(3):
        widest = max(widest, abs(x[row]) + abs(y[row]) + abs(z[row]))
    unit = power_of_two(-frames.exponent(tree.frame))
    return widest * (unit * LESS) * frames.bound(tree.frame)


@inlined
def _set_side(tree, side, c, k, by_inverse, size, rounded):
    """Set L, T and the margins of a side, for the map x' = L x + T to the frame of the pair.

    x is a point in the frame of the side's tree. x' is this point in the world, moved by the map
    INVERSE if `by_inverse`, less c, times 2**k; its error is below the margin. In the frame of the
    first tree, the margin also covers the rounding of that tree's vertices, whose coordinates are
    bounded by `size` (x, y, z) in the world, and by `rounded` in their own frame, where they are
    float32. In the common frame `size` and `rounded` are 0.
    """
    s, bound = power_of_two(k), frames.bound(tree.frame)
    at, size = _middle(tree, side), plus(_sizes_after(side, MATRIX, _extent(tree, side)), size)
    x, y, z = _column(side, 0), _column(side, 1), _column(side, 2)
    if by_inverse:
        at, size = _applied(side, INVERSE, at), _sizes_after(side, INVERSE, size)
        x, y, z = _turned(side, INVERSE, x), _turned(side, INVERSE, y), _turned(side, INVERSE, z)
    at = minus(scaled(at, s), scaled(c, s))
    # x is in units of the tree's frame, 2**-exponent in the world.
    k -= frames.exponent(tree.frame)
    for row in range(3):
        entries = scale_by(x[row], k), scale_by(y[row], k), scale_by(z[row], k)
        total, shift = abs(entries[0]) + abs(entries[1]) + abs(entries[2]), at[row]
        # 2**-100 covers underflow in the frame of the pair.
        margin = (size[row] * s + abs(c[row] * s)) * ERROR + 2.0**-100
        # The last term makes the margin NaN unless the shift is finite.
        margin += (total * bound + rounded) * GROUP_ERROR + 0.0 * shift
        if not margin < INF:
            # Boxes become all of space: with NaN in lanes they would be left out.
            margin, shift, entries = INF, 0.0, (0.0, 0.0, 0.0)
        for column in range(3):
            poke(side, LINEAR + 3 * row + column, entries[column])
        poke(side, SHIFT + row, shift)
        poke(side, MARGIN + row, margin)
    poke(side, BOUND, bound)


@kernel
def set_first_frame(tree, tree2, side, side2, table, leaf):
    """Set the map L x + T of the second side to the local frame of the first tree.

    `set_motions` has set both sides; `table` is its table, and `leaf` the first side's row there.
    """
    stay_outlined()
    for i in range(2):
        # Identities, which scenes often have, need no exact arithmetic.
        either, same = side if i == 0 else side2, True
        for k in range(12):
            same = same and peek(either, MAP + k) == (1.0 if k % 5 == 0 else 0.0)
        if same:
            poke(either, MAPPED, 0.0)
    _store_map(side2, INVERSE, doubles_at(table, 1), 12 * leaf, peek(table, 1) != 0)
    # `tiny` times ERROR is above the rounding of denormal numbers.
    (x, y, z), tiny = _extent(tree, side), 2.0**-1000
    c, k = frames.centre(tree.frame), frames.exponent(tree.frame)
    size = x + tiny, y + tiny, z + tiny
    _set_side(tree2, side2, c, k, True, size, frames.bound(tree.frame))


@kernel
def set_common_frame(tree, tree2, side, side2):
    """Set the maps L x + T of both sides to a common frame, where coordinates are about 1 at most.

    `set_motions` has set both sides. Returns (scale, extent): a unit of the world is `scale` units
    of the frame, where `extent` bounds all coordinates.
    """
    # `reach` is LESS times the sum of the centres' distance and the radii, which might overflow.
    stay_outlined()
    c, c2, none = _middle(tree, side), _middle(tree2, side2), (0.0, 0.0, 0.0)
    reach = largest(minus(scaled(c, LESS), scaled(c2, LESS)))
    reach += _radius(tree, side) + _radius(tree2, side2)
    k = min(max(-exponent(reach / LESS), -1022), 1000)
    _set_side(tree, side, c, k, False, none, 0.0)
    _set_side(tree2, side2, c, k, False, none, 0.0)
    return power_of_two(k), reach * power_of_two(k) / LESS


@kernel
def set_direction(side, side2, g):
    """Set the direction on which both sides are projected: that of g, at a length of about 1.

    g leads from the second side to the first, in the frame of the pair. The direction is 0, which
    bounds nothing, if g is too short or too long. Each side gets the direction in its tree's frame
    (ALONG), the product of T with it, and the error of products.
    """
    stay_outlined()
    length = simd.sqrt(dot(g, g))
    f = SHORTER / length if 1e-100 < length < 1e100 else 0.0
    for row in range(3):
        # A side that is all of space has no bound along a direction.
        f = f if peek(side, MARGIN + row) + peek(side2, MARGIN + row) < INF else 0.0
    for k in range(2):
        either = side if k == 0 else side2
        for i in range(ALONG, BOUND):
            poke(either, i, 0.0)
        if not f > 0.0:
            continue
        margin, size = ALONG_ERROR, 0.0
        for row in range(3):
            d = g[row] * f
            poke(either, ALONG_SHIFT, peek(either, ALONG_SHIFT) + d * peek(either, SHIFT + row))
            margin += abs(d) * peek(either, MARGIN + row)
            for column in range(3):
                entry = d * peek(either, LINEAR + 3 * row + column)
                poke(either, ALONG + column, peek(either, ALONG + column) + entry)
        for column in range(3):
            size += abs(peek(either, ALONG + column))
        poke(either, ALONG_MARGIN, margin + LANES_ERROR * size * peek(either, BOUND))


@inlined
def set_floats(side, floats):
    """Store L, T and the direction of a side, in the tree's frame, as FLOATS numbers of float32."""
    for i in range(12):
        poke(floats, i, F(peek(side, LINEAR + i)))
    for i in range(3):
        poke(floats, 12 + i, F(peek(side, ALONG + i)))


# The products of vectors in lanes, in a tree's frame, with the direction in `floats`.
towards = inlined(lambda floats, p: lanes_dot(p, vector(floats, 4)))


@inlined
def turned(floats, v):
    """Return L v of a vector v, or vectors in lanes; `floats` has L (see `set_floats`)."""
    a, b, c = vector(floats, 0), vector(floats, 1), vector(floats, 2)
    return lanes_dot(v, a), lanes_dot(v, b), lanes_dot(v, c)


@inlined
def placed(floats, p):
    """Return L p + T of a point p, or points in lanes; `floats` has L, then T (`set_floats`)."""
    x, y, z = turned(floats, p)
    return x + peek(floats, 9), y + peek(floats, 10), z + peek(floats, 11)


@inlined
def _doubles(v):
    """Return a vector of float32 lanes in float64."""
    return convert(v[0], 0.0), convert(v[1], 0.0), convert(v[2], 0.0)


@inlined
def _put(rows, at, lanes):
    """Store float64 lanes as float32 from rows[at] on."""
    store(rows, at, convert(lanes, F(0.0)))


@inlined
def _put_ends(rows, at, row, low, high, margin):
    """Store the intervals low..high of boxes along axis `row`, in rows LOW and HIGH from `at` on.

    Ends, float64 lanes, are moved outward by the margin, and by what rounding to float32 may lose.
    """
    low, high = low - margin, high + margin
    low, high = low - abs(low) * 2.0**-22, high + abs(high) * 2.0**-22
    # NaN fails comparisons, and becomes -LARGEST_FLOAT in `low`, LARGEST_FLOAT in `high`.
    low = lesser(greater(low, splat(-LARGEST_FLOAT, WIDTH)), splat(LARGEST_FLOAT, WIDTH))
    high = greater(lesser(high, splat(LARGEST_FLOAT, WIDTH)), splat(-LARGEST_FLOAT, WIDTH))
    _put(rows, at + (LOW + row) * WIDTH, low)
    _put(rows, at + (HIGH + row) * WIDTH, high)


@inlined
def transform_children(blocks, node, side, rows):
    """Write boxes of a node's children to the rows LOW and HIGH, in the frame of the pair.

    Returns the mask of the lanes that have a child.
    """
    first, last = child_boxes(blocks, node_at(node))
    low, high = _doubles(first), _doubles(last)
    centre = (low[0] + high[0]) * 0.5, (low[1] + high[1]) * 0.5, (low[2] + high[2]) * 0.5
    half = (high[0] - low[0]) * 0.5, (high[1] - low[1]) * 0.5, (high[2] - low[2]) * 0.5
    for row in range(3):
        a, b, c = vector(side, row)
        x = dot(centre, (a, b, c)) + peek(side, SHIFT + row)
        h = dot(half, (abs(a), abs(b), abs(c)))
        _put_ends(rows, 0, row, x - h, x + h, peek(side, MARGIN + row))
    return first[0] <= last[0]


@inlined
def transform_group(groups, group, side, rows, at):
    """Write boxes, corners and the largest coordinate of a group's triangles to rows from `at` on.

    All are in the frame of the pair; the rows are LOW, HIGH, V0, V1, V2 and LARGEST.
    """
    start = group_at(group)
    e1, e2 = group_edges(groups, start)
    v0, e1, e2 = _doubles(group_origin(groups, start)), _doubles(e1), _doubles(e2)
    size = splat(0.0, WIDTH)
    for row in range(3):
        a = dot(v0, vector(side, row)) + peek(side, SHIFT + row)
        b = a + dot(e1, vector(side, row))
        c = a + dot(e2, vector(side, row))
        low, high = lesser(a, lesser(b, c)), greater(a, greater(b, c))
        size = greater(size, greater(abs(a), greater(abs(b), abs(c))))
        _put_ends(rows, at, row, low, high, peek(side, MARGIN + row))
        _put(rows, at + (V0 + row) * WIDTH, a)
        _put(rows, at + (V1 + row) * WIDTH, b)
        _put(rows, at + (V2 + row) * WIDTH, c)
    _put(rows, at + LARGEST * WIDTH, size)


@kernel
def _moved(side, p):
    """Return vertex p of a side in the world, moved by the map and the matrix that the side has."""
    stay_outlined()
    if peek(side, MAPPED) != 0.0:
        p = transformed_point(side, np.int64(MAP), p)
    return _applied(side, MATRIX, p) if peek(side, MOVED) != 0.0 else p


@inlined
def side_corners(triangles, prim, side):
    """Return (whether all are finite, corners) of triangle `prim` of a side, in the world."""
    a, b, c = corners(triangles, prim)
    if peek(side, MAPPED) + peek(side, MOVED) != 0.0:
        a, b, c = _moved(side, a), _moved(side, b), _moved(side, c)
    return finite(a) and finite(b) and finite(c), (a, b, c)
