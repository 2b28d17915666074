"""Transform between the local frames of two trees, applied to boxes and triangles.

x' = L x + T maps a coordinate of the second tree's local frame to the first one's; L and T come
from both frames and the affine matrix between them. A box is mapped by its centre and half extents,
the latter by the absolute values of L. `margin` covers the float64 errors of L, T and x', the
rounding of the vertices that the matrix moves, and the float32 rows of triangle groups; the final
rounding to float32 is covered by 2**-22 of the numbers themselves. Overflow makes a box larger, up
to all of space.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import finite, row_of, vector
from bvh.geometry.arithmetic.vectors import dot
from bvh.geometry.transforms import transformed_point
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, Accessor, convert, greater, lesser, peek, splat, store
from bvh.tree.frame import BOUND, CENTRE, EXPONENT, FARTHEST, FRAME_SIZE
from bvh.tree.primitives import corners
from bvh.tree.triangle_groups import group_at, group_edges, group_origin
from bvh.tree.wide_nodes import child_boxes, node_at

Floats = NDArray[np.float64]

# The parts of the map: L, abs(L), T, margin, the matrix's three rows, whether there is a matrix;
# whether both trees are parts of one mesh, so that shared corners and edges do not count; whether
# each tree is an instance under a map, and the rows of both maps.
MATRIX, SIZES, SHIFT, MARGIN, ROWS, MOVES, SAME_MESH = 0, 9, 18, 21, 24, 36, 37
PLACED, PLACED2, PLACE, PLACE2, TRANSFORM_SIZE = 38, 39, 40, 52, 64

ERROR = 2.0**-47
GROUP_ERROR = 2.0**-19
LARGEST_FLOAT = 3.0e38

# Rows of lanes for a group of the second tree: box, corners, largest coordinate.
LOW, HIGH, V0, V1, V2, LARGEST, GROUP_ROWS = 0, 3, 6, 9, 12, 15, 16


def _three(row: int) -> tuple[Accessor, Accessor, Accessor]:
    """Return the accessors of three rows; `lower` to `corner` are given the rows and a column."""
    return simd.rows(np.float32, *range(row * WIDTH, (row + 3) * WIDTH, WIDTH))


lower, lowers, _ = _three(LOW)
upper, uppers, _ = _three(HIGH)
# The other corners are three rows on from each other.
corner, _, _ = _three(V0)
largest, _, _ = simd.rows(np.float32, LARGEST * WIDTH)


def frame_maps(
    frames: Floats, maps: Floats, inverses: Floats, others: Floats, other_maps: Floats,
    transform: Floats | None, same_mesh: bool,
) -> Floats:  # fmt: skip
    """Return the maps between the trees of n pairs, both moved, (n, TRANSFORM_SIZE)."""
    # A tree has a frame (4, 3) and, as an instance, a map (3, 4), the first of a pair that map's
    # rounded inverse W, too; `transform` moves the second once more. L is W, the transform and the
    # second map composed: the boxes of the first tree stay as they are, and W times the rounding of
    # its vertices is added to the margin. All errors together are below 50 * 2**-53 of the terms.
    matrix = np.eye(4) if transform is None else transform
    outer, shift = matrix[:3, :3], matrix[:3, 3]
    own, theirs = frames.reshape(-1, FRAME_SIZE), others.reshape(-1, FRAME_SIZE)
    k, k2, bound, bound2 = own[:, EXPONENT], theirs[:, EXPONENT], own[:, BOUND], theirs[:, BOUND]
    centre, centre2 = own[:, CENTRE : CENTRE + 3], theirs[:, CENTRE : CENTRE + 3]
    farthest, farthest2 = own[:, FARTHEST : FARTHEST + 1], theirs[:, FARTHEST : FARTHEST + 1]
    w, m = inverses[:, :, :3], other_maps[:, :, :3]
    to_first = np.zeros((len(frames), TRANSFORM_SIZE))
    with np.errstate(all="ignore"):
        scale = np.ldexp(1.0, k.astype(np.int64))
        local = np.ldexp(w @ (outer @ m), (k - k2).astype(np.int64)[:, None, None])
        at = _times(m, centre2) + other_maps[:, :, 3]
        at = _times(w, at @ outer.T + shift) + inverses[:, :, 3]
        # How large coordinates are: of the first tree, of the second before and after `transform`.
        size = _times(np.abs(maps[:, :, :3]), farthest) + np.abs(maps[:, :, 3])
        size2 = _times(np.abs(m), farthest2) + np.abs(other_maps[:, :, 3])
        size2 = size2 @ np.abs(outer).T + np.abs(shift)
        terms = _times(np.abs(w), size + size2 + 2.0**-1000)
        terms += np.abs(inverses[:, :, 3]) + np.abs(centre)
        to_first[:, MATRIX:SIZES] = local.reshape(-1, 9)
        to_first[:, SIZES:SHIFT] = np.abs(local).reshape(-1, 9)
        to_first[:, SHIFT:MARGIN] = (at - centre) * scale[:, None]
        to_first[:, MARGIN:ROWS] = (
            terms * (scale * ERROR)[:, None]
            + np.abs(local).sum(axis=2) * (bound2 * GROUP_ERROR)[:, None]
            + (bound * GROUP_ERROR)[:, None]
            + 2.0**-100
        )
    to_first[:, ROWS:MOVES] = matrix[:3].ravel()
    to_first[:, MOVES] = transform is not None
    to_first[:, SAME_MESH] = same_mesh
    for placed, place, given in ((PLACED, PLACE, maps), (PLACED2, PLACE2, other_maps)):
        to_first[:, placed] = (given != np.eye(3, 4)).any(axis=(1, 2))
        to_first[:, place : place + 12] = given.reshape(-1, 12)
    return kernel_input(to_first)


def frame_map(frame: Floats, other: Floats, transform: Floats | None, same_mesh: bool) -> Floats:
    """Return the map from the local frame of `other` to that of a tree, `frame`."""
    still = np.eye(3, 4)[None]
    maps = frame_maps(frame[None], still, still, other[None], still, transform, same_mesh)
    return kernel_input(maps[0])


def _times(matrices: Floats, vectors: Floats) -> Floats:
    """Return the products of matrices (n, 3, 3) and vectors (n, 3), or of one number for all."""
    return np.asarray((matrices * vectors[:, None, :]).sum(axis=2))


@inlined
def _doubles(v):
    """Return lanes as doubles."""
    zero = np.float64(0.0)
    return convert(v[0], zero), convert(v[1], zero), convert(v[2], zero)


@inlined
def _put(rows, at, lanes):
    """Store doubles as float32."""
    store(rows, at, convert(lanes, np.float32(0.0)))


@inlined
def _put_ends(rows, at, row, low, high, margin):
    """Store the ends of intervals, moved outward."""
    low, high = low - margin, high + margin
    low, high = low - abs(low) * 2.0**-22, high + abs(high) * 2.0**-22
    # NaN fails the first comparison, and becomes the largest number.
    low = lesser(greater(low, splat(-LARGEST_FLOAT, WIDTH)), splat(LARGEST_FLOAT, WIDTH))
    high = greater(lesser(high, splat(LARGEST_FLOAT, WIDTH)), splat(-LARGEST_FLOAT, WIDTH))
    _put(rows, at + (LOW + row) * WIDTH, low)
    _put(rows, at + (HIGH + row) * WIDTH, high)


@inlined
def transform_children(blocks, node, to_first, rows):
    """Transform the boxes of a node's children to the first tree's frame; return the used lanes."""
    first, last = child_boxes(blocks, node_at(node))
    low, high = _doubles(first), _doubles(last)
    centre = (low[0] + high[0]) * 0.5, (low[1] + high[1]) * 0.5, (low[2] + high[2]) * 0.5
    half = (high[0] - low[0]) * 0.5, (high[1] - low[1]) * 0.5, (high[2] - low[2]) * 0.5
    for row in range(3):
        x = dot(centre, vector(to_first, row)) + peek(to_first, SHIFT + row)
        h = dot(half, vector(to_first, SIZES // 3 + row))
        _put_ends(rows, 0, row, x - h, x + h, peek(to_first, MARGIN + row))
    return first[0] <= last[0]


@inlined
def transform_group(groups, group, to_first, rows, at):
    """Transform a triangle group to the first tree's frame: boxes and corners."""
    start = group_at(group)
    e1, e2 = group_edges(groups, start)
    v0, e1, e2 = _doubles(group_origin(groups, start)), _doubles(e1), _doubles(e2)
    size = splat(np.float64(0.0), WIDTH)
    for row in range(3):
        a = dot(v0, vector(to_first, row)) + peek(to_first, SHIFT + row)
        b = a + dot(e1, vector(to_first, row))
        c = a + dot(e2, vector(to_first, row))
        low, high = lesser(a, lesser(b, c)), greater(a, greater(b, c))
        size = greater(size, greater(abs(a), greater(abs(b), abs(c))))
        _put_ends(rows, at, row, low, high, peek(to_first, MARGIN + row))
        _put(rows, at + (V0 + row) * WIDTH, a)
        _put(rows, at + (V1 + row) * WIDTH, b)
        _put(rows, at + (V2 + row) * WIDTH, c)
    _put(rows, at + LARGEST * WIDTH, size)


@inlined
def applied(numbers, at, p):
    """Return a point under the twelve numbers of a map from `at` on, every operation rounded."""
    a, b, c = row_of(numbers, at), row_of(numbers, at + 4), row_of(numbers, at + 8)
    return dot(p, a) + a[3], dot(p, b) + b[3], dot(p, c) + c[3]


@inlined
def _placed(to_first, place, corners):
    """Return the vertices of an instanced triangle, each coordinate correctly rounded."""
    a, b, c = corners
    return (
        transformed_point(to_first, place, a),
        transformed_point(to_first, place, b),
        transformed_point(to_first, place, c),
    )


@inlined
def own_corners(triangles, prim, to_first):
    """Return the corners of a triangle of the first tree in its world."""
    found = corners(triangles, prim)
    return _placed(to_first, PLACE, found) if peek(to_first, PLACED) != 0.0 else found


@inlined
def moved_corners(triangles, prim, to_first):
    """Return (finite, corners) of a triangle of the second tree in the first one's world."""
    a, b, c = corners(triangles, prim)
    if peek(to_first, PLACED2) != 0.0:
        a, b, c = _placed(to_first, PLACE2, (a, b, c))
    if peek(to_first, MOVES) != 0.0:
        a, b, c = applied(to_first, ROWS, a), applied(to_first, ROWS, b), applied(to_first, ROWS, c)
        return finite(a) and finite(b) and finite(c), (a, b, c)
    return True, (a, b, c)
