"""Region search in a tree or a scene: the primitives that overlap boxes, balls or polytopes.

In a scene the loop visits the TLAS as it does a tree, with the region in its frame (see `regions`),
and at a leaf the BLAS, with the region in the frame of that (see `instanced_regions`). There, nodes
and groups that are surely inside are accepted without a test; all else is decided on moved vertices
in the world.

Results go to a buffer. When those of a leaf might not fit, the kernel stores its position and
returns; its caller takes the results and calls again. So no result is lost or found twice, and the
only memory is that of results and one buffer for each thread.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.region_overlap import APART, MEET, polygon_capacity
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import WIDTH, field, greater, lesser, mask_bits, peek, poke, shifted
from bvh.runtime.tuple_references import Pointer, as_pointers
from bvh.traversal.regions.instanced_regions import OUTSIDE, ROW, approach, sift
from bvh.traversal.regions.regions import PlaneRegions, Regions, decide, reach, to_local
from bvh.tree import frame as frames
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers
from bvh.tree.instanced import SPHERES, Instanced, code_of, kind_of, row_of
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import Boxes, Capsules, Spheres
from bvh.tree.triangle_groups import group_at, group_edges, group_origin, used_lanes
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, STACK, child_boxes, child_code, leaf_rows, node_at

F = np.float32
MAX_LEAF_SIZE = MAX_LEAF_ROWS * WIDTH
# Corners computed from a group's float32 rows have an error of less than 8 * 2**-24 of the largest
# coordinate: v0, an edge and their sum, each rounded.
GROUP_ERROR = 2.0**-20

# Places in `Search.state`: the number of the query, the height of the stack (-1 before the query
# begins), and how many results there are; the `Position`; where in `Search.numbers` the region's
# rows in the frame of a BLAS begin, and where polygons do.
QUERY, TOP, COUNT, BASE, LEAF, ROWS, AT_ROWS, AT_POLYGON = range(8)
_saved, _save = field(np.int64, QUERY, TOP, COUNT, BASE, LEAF, ROWS)


class Search(NamedTuple):
    """State of a search, and its scratch."""

    state: NDArray[np.int64]  # (8,): QUERY to AT_POLYGON
    stack: NDArray[np.int64]  # entries as in `Position`
    numbers: NDArray[np.float64]  # local numbers of the region, its rows in a BLAS, polygons


class Found(NamedTuple):
    """Buffer for results: pairs of a query and a primitive that overlap."""

    query: NDArray[np.int64]
    prim: NDArray[np.int64]  # its id, in a scene its code; ~id where it is undecided


class Position(NamedTuple):
    """Where a search is: in a BLAS, or in the TLAS or a tree that is not in a scene.

    Entries of the stack are codes of nodes or leaves; those of a BLAS are 2 * code, plus 1 if the
    region surely contains their box.
    """

    base: int  # height at which the stack of the BLAS begins; -1 in the TLAS or a tree
    leaf: int  # row of the instanced tree
    rows: int  # number of rows of the region there


class _Task(NamedTuple):
    """Pointers that all steps of a search share."""

    tree: TreePointers
    region: Regions  # of all queries
    stack: Pointer[np.int64]
    local: Pointer[np.float64]  # the current region, from `to_local`
    rows: Pointer[np.float64]  # the region in the frame of a BLAS, from `approach`
    polygon: Pointer[np.float64]  # scratch of `decide`
    found: Found  # the results so far


def new_search(region: Regions, begin: int) -> Search:
    """Return a `Search`, the state and scratch for regions from query number `begin` on."""
    # `numbers` has 4 local numbers of each plane, then a row of ROW numbers for each plane in a
    # BLAS, where a box becomes 6 planes (a ball needs no more), then two polygons of a triangle:
    # one before and one after a cut.
    planes = max(6, int(region.shape[0])) if isinstance(region, PlaneRegions) else 6
    rows, polygon = 4 * planes, (4 + ROW) * planes  # where these begin in `numbers`
    size = polygon + 2 * int(polygon_capacity.py_func(planes))
    # The query has no stack yet (-1), there are no results, and the position is in the TLAS.
    state = np.array([begin, -1, 0, -1, -1, 0, rows, polygon])
    return Search(state, np.empty(2 * STACK, np.int64), np.empty(size))


def new_found(size: int) -> Found:
    """Return a `Found` with room for `size` results."""
    return Found(np.empty(size, np.int64), np.empty(size, np.int64))


@inlined
def _in_tlas():
    """Return the `Position` in a TLAS, or in a tree that is not in a scene: no base, leaf, rows."""
    return Position(np.int64(-1), np.int64(-1), np.int64(0))


@inlined
def group_box(groups, at, error):
    """Return the corners (lower, upper) of boxes of a group's triangles, enlarged by `error`.

    The group is at index `at` of `groups`. A corner is three vectors, with a triangle in each lane.
    """
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


@inlined
def _add(found, i, prim, answer, count):
    """Append a primitive as a result of query i to `found`, a `Found`; return the new count.

    It is appended as `prim` if `answer` is MEET, as ~prim if UNSURE, and not at all if APART.
    `count` is the number of results before.
    """
    if answer != APART:
        poke(found.query, count, np.int64(i))
        poke(found.prim, count, prim if answer == MEET else ~prim)
        count += 1
    return count


@inlined
def _test(task, i, prim, count):
    """Append `prim`, or ~prim if undecided, if it may overlap region i; return the new `count`.

    `task` is the search's `_Task`, and `count` the number of its results.
    """
    answer = np.int64(decide(task.tree.primitives, task.region, i, prim, task.polygon))
    return _add(task.found, i, prim, answer, count)


def _visit_triangles(primitives, task, i, position, code, top, count):
    """Append the triangles of the leaf `code` that overlap region i; return (position, top, count).

    `task` is the search's `_Task`. Only `count`, the number of results, changes.
    """
    tree = task.tree
    first, rows = leaf_rows(code)
    error = F(frames.bound(tree.frame) * GROUP_ERROR)
    for group in range(first, first + rows):
        at = group_at(group)
        low, high = group_box(tree.groups, at, error)
        bits = mask_bits(used_lanes(tree.groups, at) & reach(task.region, task.local, low, high))
        while bits != 0:
            prim = np.int64(peek(tree.ids, at + simd.lowest_bit(bits)))
            bits &= bits - 1
            count = _test(task, i, prim, count)
    return position, top, count


def _visit_shapes(primitives, task, i, position, code, top, count):
    """Append the shapes of the leaf `code` that overlap region i; return (position, top, count).

    `task` is the search's `_Task`. Only `count`, the number of results, changes.
    """
    first, rows = leaf_rows(code)
    for row in range(first, first + rows):
        prim = np.int64(peek(task.tree.ids, row))
        if prim >= 0:  # -1: an unused row
            count = _test(task, i, prim, count)
    return position, top, count


def _visit_instanced(primitives, task, i, position, code, top, count):
    """Visit a leaf of a scene for region i; return (position, top, count) after it.

    At a leaf of a BLAS, overlapping primitives are appended to the `count` results. A leaf of the
    TLAS is one instance, whose BLAS is entered: its root is pushed on the stack, of height `top`.
    """
    if position.base >= 0:  # in a BLAS
        return position, top, _visit_blas_leaf(task, i, position, code, count)
    leaf = np.int64(peek(task.tree.ids, leaf_rows(code)[0]))
    if peek(primitives.masks, leaf) == 0:  # the instance is hidden
        return position, top, count
    frame = tree_rows.frame(row_of(primitives, leaf))
    rows = approach(task.region, i, primitives, leaf, frame, task.rows)
    if rows == OUTSIDE:
        return position, top, count
    # The entry of the root, whose code is 0, plus 1 if all of it is surely inside (no rows).
    poke(task.stack, top, np.int64(rows == 0))
    return Position(top, leaf, rows), top + 1, count


@kernel
def _visit_blas_shapes(task, i, leaf, entry, count):
    """Append the shapes of a leaf of a BLAS that overlap region i; return the new `count`.

    `entry` is 2 * the leaf's code, plus 1 if the region surely contains all of it. `leaf` is the
    row of the instance's tree.
    """
    ids = tree_rows.ids(row_of(task.tree.primitives, leaf))
    first, number = leaf_rows(entry >> 1)
    for row in range(first, first + number):
        prim = peek(ids, row)  # -1: an unused row
        if prim >= 0 and entry & 1 == 1:
            count = _add(task.found, i, code_of(leaf, prim), np.int64(MEET), count)
        elif prim >= 0:
            count = _test(task, i, code_of(leaf, prim), count)
    return count


@kernel
def _visit_blas_leaf(task, i, position, entry, count):
    """Append the primitives of a leaf of a BLAS that overlap region i; return the new `count`.

    `entry` is 2 * the leaf's code, plus 1 if the region surely contains all of it. `position` tells
    the instance and how many rows the region has in its frame.
    """
    leaf = position.leaf
    row = row_of(task.tree.primitives, leaf)
    if kind_of(task.tree.primitives, leaf) >= SPHERES:
        return _visit_blas_shapes(task, i, leaf, entry, count)
    groups, ids = tree_rows.groups(row), tree_rows.ids(row)
    error = F(frames.bound(tree_rows.frame(row)) * GROUP_ERROR)
    first, number = leaf_rows(entry >> 1)
    for group in range(first, first + number):
        at = group_at(group)
        bits = np.int64(mask_bits(used_lanes(groups, at)))
        sure = bits
        if entry & 1 == 0:
            low, high = group_box(groups, at, error)
            near, sure = sift(task.region, task.rows, position.rows, low, high)
            bits &= near
        while bits != 0:
            k = simd.lowest_bit(bits)
            bits &= bits - 1
            prim = code_of(leaf, peek(ids, at + k))
            if sure >> k & 1:
                count = _add(task.found, i, prim, np.int64(MEET), count)
            else:
                count = _test(task, i, prim, count)
    return count


@by_type(inline=True)
def visit(primitives, task, i, position, code, top, count):
    """Test region i against the primitives of the leaf `code`, an entry of the stack.

    A leaf of a TLAS has a BLAS, which is entered instead. Returns (position, top, count): the
    `Position`, the height of the stack, and the number of results, after the visit.
    """
    return {
        Triangles: _visit_triangles, Instanced: _visit_instanced,
        **dict.fromkeys((Boxes, Spheres, Capsules), _visit_shapes),
    }[primitives.instance_class]  # fmt: skip


@inlined
def _push_tree(task, code, top):
    """Push on `task.stack` those children of a node of a tree or TLAS that the region may overlap.

    `code` is the node's code, `top` the height of the stack; the new height is returned.
    """
    blocks, at = task.tree.blocks, node_at(code)
    low, high = child_boxes(blocks, at)
    bits = mask_bits(reach(task.region, task.local, low, high))
    while bits != 0:
        poke(task.stack, top, child_code(blocks, at + simd.lowest_bit(bits)))
        bits &= bits - 1
        top += 1
    return top


def _push_instanced(primitives, task, position, code, top):
    """Push the children of a node of a scene that the region may overlap; return the new `top`.

    In a BLAS, `code` is 2 * the node's code, plus 1 if the region surely contains the node's box;
    so are the entries that are pushed. `top` is the height of the stack.
    """
    if position.base < 0:  # in the TLAS
        return _push_tree(task, code, top)
    blocks, at = tree_rows.blocks(row_of(primitives, position.leaf)), node_at(code >> 1)
    low, high = child_boxes(blocks, at)
    if code & 1 == 1:
        bits = np.int64(mask_bits(low[0] <= high[0]))  # unused lanes have low > high
        sure = bits
    else:
        bits, sure = sift(task.region, task.rows, position.rows, low, high)
    while bits != 0:
        k = simd.lowest_bit(bits)
        bits &= bits - 1
        poke(task.stack, top, 2 * child_code(blocks, at + k) + (sure >> k & 1))
        top += 1
    return top


@by_type(inline=True)
def push(primitives, task, position, code, top):
    """Push the children of a node that the region may overlap; return the new `top`.

    `code` is the node's entry of the stack (see `Position`); `top` is the height of the stack.
    """
    if primitives.instance_class is Instanced:
        return _push_instanced
    return lambda primitives, task, position, code, top: _push_tree(task, code, top)


@entry
def search_regions(row, regions, end, search, found):
    """Continue a `Search` up to query `end`, excluded, or until results might not fit into `found`.

    Returns whether all queries are done. `row` is the tree row of the tree or scene, `regions` are
    `BoxRegions`, `SphereRegions` or `PlaneRegions`, one region for each query. Results are written
    to `found`, a `Found`, from its start, and their number to `search.state[COUNT]`.
    """
    tree, region, state = as_pointers(row), as_pointers(regions), simd.pointer(search.state)
    stack, local = simd.pointer(search.stack), simd.pointer(search.numbers)
    scale = frames.scale(tree.frame)
    rows, polygon = shifted(local, peek(state, AT_ROWS)), shifted(local, peek(state, AT_POLYGON))
    task = _Task(tree, region, stack, local, rows, polygon, as_pointers(found))
    i, top, _, base, leaf, number = _saved(state, 0)
    position, count, done = Position(base, leaf, number), np.int64(0), True
    while i < end:
        if top < 0:  # query i has not begun
            top, position = np.int64(0), _in_tlas()
            if to_local(region, i, tree.frame, local, scale):
                poke(stack, 0, np.int64(0))
                top = np.int64(1)
        while top > 0:
            if count + MAX_LEAF_SIZE > len(found.prim):
                done = False
                break
            if top == position.base:
                # The BLAS has no entries left: its root replaced the leaf of the TLAS here.
                position = _in_tlas()
            top -= 1
            code = peek(stack, top)
            if code >= 0:
                top = push(tree.primitives, task, position, code, top)
                continue
            position, top, count = visit(tree.primitives, task, i, position, code, top, count)
        if not done:
            break
        i += 1
        top = np.int64(-1)
    _save(state, 0, (i, top, count, position.base, position.leaf, position.rows))
    return done
