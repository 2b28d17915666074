"""Region search in one tree: the primitives that overlap boxes, balls or polytopes.

Results go to a buffer. When a leaf might not fit any more, the kernel returns and keeps its
position; its caller takes the results and calls again. So nothing is found twice or cut off, and
the only memory is that of results and one buffer for each thread.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.region_overlap import APART, MEET, polygon_capacity
from bvh.runtime.jit import by_type, entry, inlined
from bvh.runtime.simd import (
    WIDTH,
    greater,
    lesser,
    lowest_bit,
    mask_bits,
    peek,
    pointer,
    poke,
)
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.overlaps.regions import (
    BoxRegions,
    PlaneRegions,
    SphereRegions,
    decide,
    reach,
    to_local,
)
from bvh.traversal.rays.ray_slots import STACK
from bvh.tree import frame as frames
from bvh.tree.primitives import Boxes, Triangles
from bvh.tree.triangle_groups import group_at, group_edges, group_origin, used_lanes
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, child_boxes, child_code, leaf_rows, node_at

MAX_LEAF_SIZE = MAX_LEAF_ROWS * WIDTH
# Corners computed from a group's float32 rows have an error of less than 8 * 2**-24 of the largest
# coordinate: v0, an edge and their sum, each rounded.
GROUP_ERROR = 2.0**-20

QUERY, TOP, COUNT = 0, 1, 2


class Search(NamedTuple):
    """State of a search: its position, and its scratch."""

    state: NDArray[np.int64]  # the query, the stack's height (-1 before its root), results
    stack: NDArray[np.int64]
    local: NDArray[np.float64]
    polygon: NDArray[np.float64]


class Found(NamedTuple):
    """Results: queries, and primitives by id (in a scene by code), ~id for undecided ones."""

    query: NDArray[np.int64]
    prim: NDArray[np.int32] | NDArray[np.int64]


def new_search(region: Any, begin: int) -> Search:
    """Return the scratch of a search that begins with query `begin`."""
    planes = int(region.shape[0]) if isinstance(region, PlaneRegions) else 0
    return Search(
        np.array([begin, -1, 0]),
        np.empty(STACK, np.int64),
        np.empty(max(6, 4 * planes)),
        np.empty(2 * int(polygon_capacity.py_func(planes))),
    )


def new_found(size: int, ids: type = np.int32) -> Found:
    """Return a buffer for results."""
    return Found(np.empty(size, np.int64), np.empty(size, ids))


def region_as_pointers(region):
    """Return regions as kernels read them: pointers instead of arrays."""


@by_type(region_as_pointers)
def _choose_region_as_pointers(region):
    if region.instance_class is BoxRegions:
        return lambda region: BoxRegions(pointer(region.lower), pointer(region.upper))
    if region.instance_class is SphereRegions:
        return lambda region: SphereRegions(pointer(region.center), pointer(region.radius))
    return lambda region: PlaneRegions(pointer(region.planes), pointer(region.shape))


@inlined
def group_box(groups, at, error):
    """Return lower and upper corners of a group's triangles, lane by lane, `error` outward."""
    v0, (e1, e2) = group_origin(groups, at), group_edges(groups, at)
    x1, y1, z1 = v0[0] + e1[0], v0[1] + e1[1], v0[2] + e1[2]
    x2, y2, z2 = v0[0] + e2[0], v0[1] + e2[1], v0[2] + e2[2]
    low = (
        lesser(v0[0], lesser(x1, x2)) - error,
        lesser(v0[1], lesser(y1, y2)) - error,
        lesser(v0[2], lesser(z1, z2)) - error,
    )
    high = (
        greater(v0[0], greater(x1, x2)) + error,
        greater(v0[1], greater(y1, y2)) + error,
        greater(v0[2], greater(z1, z2)) + error,
    )
    return low, high


def visit_leaf(primitives, tree, region, i, code, local, polygon, query, prim, count):
    """Test the primitives of a leaf against region i; return the new number of results."""


@inlined
def _test(tree, region, i, one, polygon, query, prim, count):
    """Append a primitive that overlaps region i, or may."""
    answer = decide(tree.primitives, region, i, np.int64(one), polygon)
    if answer != APART:
        poke(query, count, np.int64(i))
        poke(prim, count, np.int32(one if answer == MEET else ~one))
        count += 1
    return count


def _visit_triangles(primitives, tree, region, i, code, local, polygon, query, prim, count):
    first, rows = leaf_rows(code)
    error = np.float32(frames.bound(tree.frame) * GROUP_ERROR)
    for group in range(first, first + rows):
        at = group_at(group)
        low, high = group_box(tree.groups, at, error)
        used = used_lanes(tree.groups, at)
        bits = mask_bits(used & reach(region, local, low, high))
        while bits != 0:
            one = peek(tree.ids, group * WIDTH + lowest_bit(bits))
            bits &= bits - 1
            count = _test(tree, region, i, one, polygon, query, prim, count)
    return count


def _visit_boxes(primitives, tree, region, i, code, local, polygon, query, prim, count):
    first, rows = leaf_rows(code)
    for row in range(first, first + rows):
        count = _test(tree, region, i, peek(tree.ids, row), polygon, query, prim, count)
    return count


VISITS = {Triangles: _visit_triangles, Boxes: _visit_boxes}


def _choose_visit(primitives, tree, region, i, code, local, polygon, query, prim, count):
    return VISITS[primitives.instance_class]


by_type(visit_leaf, inline=True)(_choose_visit)


@entry
def search_regions(arrays, regions, end, search, found):
    """Continue a search until query `end` or until results might not fit.

    Returns whether it is complete.
    """
    tree, region = as_pointers(arrays), region_as_pointers(regions)
    blocks, scale = tree.blocks, frames.scale(tree.frame)
    stack, local, polygon = pointer(search.stack), pointer(search.local), pointer(search.polygon)
    query, prim = pointer(found.query), pointer(found.prim)
    i, top, count = search.state[QUERY], search.state[TOP], np.int64(0)
    while i < end:
        if top < 0:
            top = np.int64(0)
            if to_local(region, i, tree.frame, local, scale):
                poke(stack, 0, np.int64(0))
                top = np.int64(1)
        while top > 0:
            if count + MAX_LEAF_SIZE > len(found.prim):
                search.state[QUERY], search.state[TOP], search.state[COUNT] = i, top, count
                return False
            top -= 1
            code = peek(stack, top)
            if code >= 0:
                at = node_at(code)
                low, high = child_boxes(blocks, at)
                bits = mask_bits(reach(region, local, low, high))
                while bits != 0:
                    child = child_code(blocks, at + lowest_bit(bits))
                    bits &= bits - 1
                    poke(stack, top, child)
                    top += 1
            else:
                count = visit_leaf(
                    tree.primitives, tree, region, i, code, local, polygon, query, prim, count
                )
        i += 1
        top = np.int64(-1)
    search.state[QUERY], search.state[TOP], search.state[COUNT] = i, top, count
    return True
