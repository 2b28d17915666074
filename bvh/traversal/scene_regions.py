"""The primitives of a scene that meet regions of space: the top level's leaves, then their trees.

A region is brought to the top level as to any tree (see `region_reach`). At a leaf, boxes and
polytopes become planes in the frame of its tree, of which only those are kept that part its root's
box, and balls become three rows of an affine map, so that boxes of nodes stay as they are. Nodes
and groups that are surely inside are taken without a test; what else is near is decided on moved
vertices in the world.

The planes. With y = M x + t, x = c + x' s and the corners of the frame's root, f(y) = n . y + w is
g . x' s + h, g = n M and h = g . c + n . t + w. Computed, it is wrong by less than 2**-48 of the
terms, E: a dozen roundings of 2**-53, and that of vertices. Rows are float32 and divided by
s * sum(abs(g)); with B the bound of the frame, 2**-18 B covers their rounding, that of a box's
centre and half extents, and of seven steps: 20 * 2**-24 B.

Balls are measured in float64, where 2**-47 of the terms covers what the lanes lose, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.contacts import triangle_meets_box
from bvh.jit import by_type, entry, inlined, kernel, stay_outlined
from bvh.leaves import GROUP_SIZE, TOLERANCE
from bvh.numerics import INF, largest, power_of_two, vector
from bvh.placed import BLOCKS, GROUPS, IDS, TREE_SIZE, code_of, placed_corners
from bvh.regions import APART, MEET, triangle_and_planes, triangle_and_sphere
from bvh.simd import (
    WIDTH,
    convert,
    fma,
    greater,
    load,
    lowest_bit,
    mask_bits,
    peek,
    peek_int,
    pointer,
    pointer_to,
    poke,
    shifted,
    splat,
)
from bvh.traversal.overlaps import (
    COUNT,
    GROUP_ERROR,
    MOST_OF_LEAF,
    QUERY,
    TOP,
    Search,
    child_boxes,
    group_box,
    new_search,
    pointed_region,
)
from bvh.traversal.query import pointed_tree
from bvh.traversal.region_reach import (
    BoxRegions,
    PlaneRegions,
    SphereRegions,
    reach,
    scale_of,
    settle,
)
from bvh.traversal.singles import STACK
from bvh.wide_nodes import BLOCK_SIZE, CODES, leaf_rows

F = np.float32
F4, I4 = np.float32(0.0), np.int32(0)
ERROR = 2.0**-48
FLOAT_ERROR = 2.0**-18
# What underflow can lose of a product, with some room.
LOST = 2.0**-1070
LEAST_SIZE, MOST_SIZE = 2.0**-900, 2.0**900
TINY = 2.0**-1000

# Rows of a plane, or of an axis of a ball: g, h, what that may be wrong by.
ROW = 5
# Numbers of a frame: centre, exponent, reach, bound, corners.
FRAME, EXPONENT, BOUND, LOWEST, HIGHEST = 12, 3, 5, 6, 9
# The leaf that a search is in, -1 for none; where its stack begins; rows of the region there.
LEAF, BASE, ROWS = 3, 4, 5
OUTSIDE = -1


class SceneSearch(NamedTuple):
    """Where a search is, and its scratch."""

    outer: Search
    state: NDArray[np.int64]
    rows: NDArray[np.float64]


class SceneFound(NamedTuple):
    """What has been found: queries, and codes, ~code for those that are not decided."""

    query: NDArray[np.int64]
    prim: NDArray[np.int64]


class Below(NamedTuple):
    """What a search needs of the leaves' trees beside `Placed`."""

    frames: NDArray[np.float64]  # (m, 4, 3)
    tree_of: NDArray[np.int32]


def new_scene_search(region: Any, begin: int) -> SceneSearch:
    """Return the scratch of a search that begins with query `begin`."""
    outer = new_search(region, begin)._replace(stack=np.empty(2 * STACK, np.int64))
    planes = max(6, int(region.shape[0]) if isinstance(region, PlaneRegions) else 0)
    return SceneSearch(outer, np.array([begin, -1, 0, -1, 0, 0]), np.empty(ROW * planes))


def new_scene_found(size: int) -> SceneFound:
    """Return room for results."""
    return SceneFound(np.empty(size, np.int64), np.empty(size, np.int64))


@inlined
def _bring(placed, leaf, frame, n, w):
    """Return (g, h, E) of n . y + w in the frame of a leaf's tree, g times s."""
    maps, at = placed.maps, 12 * leaf
    s = power_of_two(-np.int64(peek(frame, EXPONENT)))
    c, bound = vector(frame, 0), peek(frame, BOUND) * s
    x, y, z = n[0] * peek(maps, at + 3), n[1] * peek(maps, at + 7), n[2] * peek(maps, at + 11)
    h = ((x + y) + z) + w
    terms = abs(x) + abs(y) + abs(z) + abs(w)
    g0 = n[0] * peek(maps, at) + n[1] * peek(maps, at + 4) + n[2] * peek(maps, at + 8)
    g1 = n[0] * peek(maps, at + 1) + n[1] * peek(maps, at + 5) + n[2] * peek(maps, at + 9)
    g2 = n[0] * peek(maps, at + 2) + n[1] * peek(maps, at + 6) + n[2] * peek(maps, at + 10)
    for j in range(3):
        size = (
            abs(n[0] * peek(maps, at + j))
            + abs(n[1] * peek(maps, at + 4 + j))
            + abs(n[2] * peek(maps, at + 8 + j))
        )
        terms += size * (abs(c[j]) + bound)
    h += (g0 * c[0] + g1 * c[1]) + g2 * c[2]
    lost = (abs(c[0]) + abs(c[1]) + abs(c[2]) + 3.0 * bound + 8.0) * LOST
    return (g0 * s, g1 * s, g2 * s), h, terms * ERROR + lost


@inlined
def _put_row(rows, at, g, h, error):
    poke(rows, at, g[0])
    poke(rows, at + 1, g[1])
    poke(rows, at + 2, g[2])
    poke(rows, at + 3, h)
    poke(rows, at + 4, error)


@kernel
def _add_plane(placed, leaf, frame, n, w, rows, count):
    """Add a plane to the rows of a region; return their number, OUTSIDE if it keeps out all."""
    stay_outlined()
    size = largest(n)
    if size == 0.0:
        # All of space, or the region would not have come here.
        return count
    g, h, error = _bring(
        placed, leaf, frame, (n[0] / size, n[1] / size, n[2] / size), w / size
    )  # fmt: skip
    top = bottom = h
    for j in range(3):
        a, b = g[j] * peek(frame, LOWEST + j), g[j] * peek(frame, HIGHEST + j)
        top += max(a, b)
        bottom += min(a, b)
    if top < -error:
        return np.int64(OUTSIDE)
    if bottom > error:
        return count
    total = abs(g[0]) + abs(g[1]) + abs(g[2])
    if LEAST_SIZE < total < MOST_SIZE and error < MOST_SIZE:
        by = 1.0 / total
        room = (error * by + FLOAT_ERROR * peek(frame, BOUND)) * (1.0 + 2.0**-20)
        _put_row(rows, ROW * count, (g[0] * by, g[1] * by, g[2] * by), h * by, room)
    else:
        # Nothing can be told.
        _put_row(rows, ROW * count, (0.0, 0.0, 0.0), 0.0, INF)
    return count + 1


def approach(region, i, placed, leaf, frame, rows):
    """Write region i as a leaf's tree has it into `rows`; return their number.

    That is OUTSIDE where nothing of the tree can be in it, 0 where all surely is.
    """


def _approach_planes(region, i, placed, leaf, frame, rows):
    planes, many, count = region.planes, peek(region.shape, 0), np.int64(0)
    for k in range(many):
        at = 4 * (i * many + k)
        n = (peek(planes, at), peek(planes, at + 1), peek(planes, at + 2))
        count = _add_plane(placed, leaf, frame, n, peek(planes, at + 3), rows, count)
        if count < 0:
            break
    return count


def _approach_box(region, i, placed, leaf, frame, rows):
    count = np.int64(0)
    for k in range(6):
        axis, n = k >> 1, (1.0 if k & 1 == 0 else -1.0)
        w = -peek(region.lower, 3 * i + axis) if k & 1 == 0 else peek(region.upper, 3 * i + axis)
        normal = (n if axis == 0 else 0.0, n if axis == 1 else 0.0, n if axis == 2 else 0.0)
        count = _add_plane(placed, leaf, frame, normal, w, rows, count)
        if count < 0:
            break
    return count


def _approach_ball(region, i, placed, leaf, frame, rows):
    for axis in range(3):
        n = (
            1.0 if axis == 0 else 0.0,
            1.0 if axis == 1 else 0.0,
            1.0 if axis == 2 else 0.0,
        )
        g, h, error = _bring(placed, leaf, frame, n, -peek(region.center, 3 * i + axis))
        _put_row(rows, ROW * axis, g, h, 2.0 * error)
    # Beside the rows, the square of the radius.
    radius = peek(region.radius, i)
    poke(rows, 3 * ROW, radius * radius)
    return np.int64(3)


APPROACH = {
    BoxRegions: _approach_box, PlaneRegions: _approach_planes, SphereRegions: _approach_ball
}  # fmt: skip


@by_type(approach)
def _choose_approach(region, i, placed, leaf, frame, rows):
    return APPROACH[region.instance_class]


def sift(region, rows, count, low, high):
    """Return which of the boxes in lanes a region may meet, and which surely lie in it, as bits."""


def _sift_planes(region, rows, count, low, high):
    half = F(0.5)
    centre = ((low[0] + high[0]) * half, (low[1] + high[1]) * half, (low[2] + high[2]) * half)
    extent = ((high[0] - low[0]) * half, (high[1] - low[1]) * half, (high[2] - low[2]) * half)
    near = low[0] <= high[0]
    inside = near
    for k in range(count):
        at = ROW * k
        x, y, z = F(peek(rows, at)), F(peek(rows, at + 1)), F(peek(rows, at + 2))
        height, room = F(peek(rows, at + 3)), F(peek(rows, at + 4))
        middle = fma(centre[0], x, fma(centre[1], y, fma(centre[2], z, splat(height, WIDTH))))
        spread = fma(extent[0], abs(x), fma(extent[1], abs(y), extent[2] * abs(z)))
        near = near & ~(middle + spread < -room)
        inside = inside & (middle - spread > room)
    return np.int64(mask_bits(near)), np.int64(mask_bits(inside))


@inlined
def _axis_of(rows, at, centre, extent):
    """Return how far boxes are from a ball's centre along an axis: the least, the most."""
    x, y, z = peek(rows, at), peek(rows, at + 1), peek(rows, at + 2)
    middle = abs(((centre[0] * x + centre[1] * y) + centre[2] * z) + peek(rows, at + 3))
    spread = (extent[0] * abs(x) + extent[1] * abs(y)) + extent[2] * abs(z)
    spread = spread + peek(rows, at + 4)
    gap = greater(middle - spread, splat(0.0, WIDTH))
    most = middle + spread
    return gap * gap, most * most


def _sift_ball(region, rows, count, low, high):
    a = convert(low[0], 0.0), convert(low[1], 0.0), convert(low[2], 0.0)
    b = convert(high[0], 0.0), convert(high[1], 0.0), convert(high[2], 0.0)
    centre = ((a[0] + b[0]) * 0.5, (a[1] + b[1]) * 0.5, (a[2] + b[2]) * 0.5)
    extent = ((b[0] - a[0]) * 0.5, (b[1] - a[1]) * 0.5, (b[2] - a[2]) * 0.5)
    gap0, most0 = _axis_of(rows, 0, centre, extent)
    gap1, most1 = _axis_of(rows, ROW, centre, extent)
    gap2, most2 = _axis_of(rows, 2 * ROW, centre, extent)
    square, used = peek(rows, 3 * ROW), low[0] <= high[0]
    near = used & ~((gap0 + gap1) + gap2 > square * (1.0 + ERROR) + TINY)
    inside = used & ((most0 + most1) + most2 < square * (1.0 - ERROR) - TINY)
    return np.int64(mask_bits(near)), np.int64(mask_bits(inside))


def _choose_sift(region, rows, count, low, high):
    return _sift_ball if region.instance_class is SphereRegions else _sift_planes


by_type(sift, melt=True)(_choose_sift)


def decide_placed(region, i, placed, code, scratch):
    """Tell whether region i meets a placed triangle: APART, MEET or UNSURE."""


def _decide_box(region, i, placed, code, scratch):
    v0, v1, v2 = placed_corners(placed, code)
    low, high = vector(region.lower, i), vector(region.upper, i)
    return MEET if triangle_meets_box(v0, v1, v2, low, high) else APART


def _decide_ball(region, i, placed, code, scratch):
    v0, v1, v2 = placed_corners(placed, code)
    return triangle_and_sphere(v0, v1, v2, vector(region.center, i), peek(region.radius, i))


def _decide_planes(region, i, placed, code, scratch):
    v0, v1, v2 = placed_corners(placed, code)
    count = peek(region.shape, 0)
    return triangle_and_planes(v0, v1, v2, region.planes, i * count, (i + 1) * count, scratch)


DECIDE = {BoxRegions: _decide_box, PlaneRegions: _decide_planes, SphereRegions: _decide_ball}


@by_type(decide_placed)
def _choose_decide(region, i, placed, code, scratch):
    return DECIDE[region.instance_class]


@kernel
def _visit(region, i, placed, leaf, code, taken, rows, many, bound, polygon, query, prim, count):
    """Test the triangles of a leaf of a tree; return the new number of results."""
    groups = pointer_to(peek(placed.trees, leaf * TREE_SIZE + GROUPS), F4)
    ids = pointer_to(peek(placed.trees, leaf * TREE_SIZE + IDS), I4)
    first, number = leaf_rows(code)
    for group in range(first, first + number):
        at = group * GROUP_SIZE
        bits = np.int64(mask_bits(load(groups, at + TOLERANCE * WIDTH, WIDTH) >= F(0.0)))
        sure = bits
        if not taken:
            low, high = group_box(groups, at, F(bound * GROUP_ERROR))
            near, sure = sift(region, rows, many, low, high)
            bits &= near
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            one = code_of(leaf, peek(ids, group * WIDTH + k))
            answer = np.int64(MEET)
            if not sure >> k & 1:
                answer = np.int64(decide_placed(region, i, placed, one, polygon))
            if answer != APART:
                poke(query, count, np.int64(i))
                poke(prim, count, one if answer == MEET else ~one)
                count += 1
    return count


@inlined
def _blocks_of(placed, leaf):
    return pointer_to(peek(placed.trees, leaf * TREE_SIZE + BLOCKS), F4)


@entry
def search_scene(arrays, below, regions, end, search, found):
    """Go on with a search until query `end` or until results might not fit.

    Within a leaf the stack holds 2 * code, and 1 more for what is taken untested. Returns whether
    the search has come to its end.
    """
    tree, region = pointed_tree(arrays), pointed_region(regions)
    placed, scale = tree.primitives, scale_of(tree.frame)
    frames, tree_of = pointer(below.frames), pointer(below.tree_of)
    stack, local = pointer(search.outer.stack), pointer(search.outer.local)
    polygon, rows = pointer(search.outer.polygon), pointer(search.rows)
    query, prim = pointer(found.query), pointer(found.prim)
    state = pointer(search.state)
    i, top, count = peek(state, QUERY), peek(state, TOP), np.int64(0)
    leaf, base, many = peek(state, LEAF), peek(state, BASE), peek(state, ROWS)
    blocks, bound, done = tree.blocks, 0.0, True
    if leaf >= 0:
        blocks = _blocks_of(placed, leaf)
        bound = peek(frames, np.int64(peek(tree_of, leaf)) * FRAME + BOUND)
    while i < end and done:
        if top < 0:
            top, leaf = np.int64(0), np.int64(-1)
            blocks = tree.blocks
            if settle(region, i, tree.frame, local, scale):
                poke(stack, 0, np.int64(0))
                top = np.int64(1)
        while top > 0:
            if count + MOST_OF_LEAF > len(found.prim):
                done = False
                break
            if leaf >= 0 and top == base:
                leaf = np.int64(-1)
                blocks = tree.blocks
            top -= 1
            code = peek(stack, top)
            if leaf < 0 and code < 0:
                row, _ = leaf_rows(code)
                one = np.int64(peek(tree.ids, row))
                if peek(placed.masks, one) == 0:
                    continue
                frame_at = np.int64(peek(tree_of, one)) * FRAME
                frame = shifted(frames, frame_at)
                many = approach(region, i, placed, one, frame, rows)
                if many == OUTSIDE:
                    continue
                leaf, base, bound = one, top, peek(frame, BOUND)
                blocks = _blocks_of(placed, leaf)
                poke(stack, top, np.int64(many == 0))
                top += 1
                continue
            taken = leaf >= 0 and code & 1 == 1
            node = code >> 1 if leaf >= 0 else code
            if node < 0:
                count = _visit(
                    region, i, placed, leaf, node, taken, rows, many, bound, polygon, query, prim,
                    count,
                )  # fmt: skip
                continue
            at = node * BLOCK_SIZE
            low, high = child_boxes(blocks, at)
            sure = np.int64(0)
            if leaf < 0:
                bits = np.int64(mask_bits(reach(region, local, low, high)))
            elif taken:
                bits = np.int64(mask_bits(low[0] <= high[0]))
                sure = bits
            else:
                bits, sure = sift(region, rows, many, low, high)
            while bits != 0:
                k = lowest_bit(bits)
                bits &= bits - 1
                child = np.int64(peek_int(blocks, at + CODES * WIDTH + k))
                if leaf >= 0:
                    child = 2 * child + (sure >> k & 1)
                poke(stack, top, child)
                top += 1
        if done:
            i += 1
            top = np.int64(-1)
    poke(state, QUERY, i)
    poke(state, TOP, top)
    poke(state, COUNT, count)
    poke(state, LEAF, leaf)
    poke(state, BASE, base)
    poke(state, ROWS, many)
    return done
