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

# The state of a search: the query, the stack's height (-1 before its root), results; its position;
# where the region's rows in the frame of a BLAS, and a polygon, begin in the scratch.
QUERY, TOP, COUNT, BASE, LEAF, MANY, AT_ROWS, AT_POLYGON = range(8)
_saved, _save = field(np.int64, QUERY, TOP, COUNT, BASE, LEAF, MANY)


class Search(NamedTuple):
    """State of a search, and its scratch: a stack, and numbers, with the region's own first."""

    state: NDArray[np.int64]
    stack: NDArray[np.int64]
    numbers: NDArray[np.float64]


class Found(NamedTuple):
    """Results: queries, and primitives by id (in a scene by code), ~id for undecided ones."""

    query: NDArray[np.int64]
    prim: NDArray[np.int64]


class Position(NamedTuple):
    """Where in a scene a search is; in a BLAS the stack holds 2 * code, and 1 if surely inside."""

    base: int  # where the stack of the BLAS begins, -1 in the TLAS or a tree by itself
    leaf: int
    many: int  # rows of the region there


class _Task(NamedTuple):
    """Pointers that all steps share."""

    tree: TreePointers
    region: Regions
    stack: Pointer[np.int64]
    local: Pointer[np.float64]
    rows: Pointer[np.float64]
    polygon: Pointer[np.float64]
    found: Found


def new_search(region: Regions, begin: int) -> Search:
    """Return the scratch of a search that begins with query `begin`."""
    planes = max(6, int(region.shape[0])) if isinstance(region, PlaneRegions) else 6
    rows, polygon = 4 * planes, (4 + ROW) * planes
    size = polygon + 2 * int(polygon_capacity.py_func(planes))
    state = np.array([begin, -1, 0, -1, -1, 0, rows, polygon])
    return Search(state, np.empty(2 * STACK, np.int64), np.empty(size))


def new_found(size: int) -> Found:
    """Return a buffer for results."""
    return Found(np.empty(size, np.int64), np.empty(size, np.int64))


@inlined
def _in_tlas():
    """Return the position in a TLAS, or in a tree by itself."""
    return Position(np.int64(-1), np.int64(-1), np.int64(0))


@inlined
def group_box(groups, at, error):
    """Return lower and upper corners of the triangles of a group, at `at`, `error` outward."""
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
    """Append a primitive that meets region i, or may; return the new number of results."""
    if answer != APART:
        poke(found.query, count, np.int64(i))
        poke(found.prim, count, prim if answer == MEET else ~prim)
        count += 1
    return count


@inlined
def _test(task, i, prim, count):
    """Append a primitive that overlaps region i, or may."""
    answer = np.int64(decide(task.tree.primitives, task.region, i, prim, task.polygon))
    return _add(task.found, i, prim, answer, count)


def _visit_triangles(primitives, task, i, position, code, top, count):
    """Test the triangles of a leaf whose boxes the region may overlap."""
    tree = task.tree
    first, rows = leaf_rows(code)
    error = F(frames.bound(tree.frame) * GROUP_ERROR)
    for group in range(first, first + rows):
        at = group_at(group)
        low, high = group_box(tree.groups, at, error)
        bits = mask_bits(used_lanes(tree.groups, at) & reach(task.region, task.local, low, high))
        while bits != 0:
            one = np.int64(peek(tree.ids, at + simd.lowest_bit(bits)))
            bits &= bits - 1
            count = _test(task, i, one, count)
    return position, top, count


def _visit_boxes(primitives, task, i, position, code, top, count):
    first, rows = leaf_rows(code)
    for row in range(first, first + rows):
        prim = np.int64(peek(task.tree.ids, row))
        if prim >= 0:
            count = _test(task, i, prim, count)
    return position, top, count


def _visit_instanced(primitives, task, i, position, code, top, count):
    """Enter the BLAS of a leaf of the TLAS, or test the triangles of a leaf in a BLAS."""
    if position.base < 0:
        position, top = _enter(task, i, position, code, top)
        return position, top, count
    return position, top, _visit_moved(task, i, position, code, count)


@inlined
def _enter(task, i, position, code, top):
    """Enter the BLAS of a leaf of the TLAS, unless it is surely outside."""
    instanced = task.tree.primitives
    leaf = np.int64(peek(task.tree.ids, leaf_rows(code)[0]))
    if peek(instanced.masks, leaf) == 0:
        return position, top
    frame = tree_rows.frame(row_of(instanced, leaf))
    many = approach(task.region, i, instanced, leaf, frame, task.rows)
    if many == OUTSIDE:
        return position, top
    # The root, which has the code 0: 1 if all of it is surely inside.
    poke(task.stack, top, np.int64(many == 0))
    return Position(top, leaf, many), top + 1


@kernel
def _visit_shapes(task, i, leaf, entry, count):
    """Test the shapes of a leaf of a BLAS."""
    ids = tree_rows.ids(row_of(task.tree.primitives, leaf))
    first, number = leaf_rows(entry >> 1)
    for place in range(first, first + number):
        prim = peek(ids, place)
        if prim >= 0 and entry & 1 == 1:
            count = _add(task.found, i, code_of(leaf, prim), np.int64(MEET), count)
        elif prim >= 0:
            count = _test(task, i, code_of(leaf, prim), count)
    return count


@kernel
def _visit_moved(task, i, position, entry, count):
    """Test the primitives of a leaf of a BLAS; return the new number of results."""
    leaf = position.leaf
    row = row_of(task.tree.primitives, leaf)
    if kind_of(task.tree.primitives, leaf) >= SPHERES:
        return _visit_shapes(task, i, leaf, entry, count)
    groups, ids = tree_rows.groups(row), tree_rows.ids(row)
    error = F(frames.bound(tree_rows.frame(row)) * GROUP_ERROR)
    first, number = leaf_rows(entry >> 1)
    for group in range(first, first + number):
        at = group_at(group)
        bits = np.int64(mask_bits(used_lanes(groups, at)))
        sure = bits
        if entry & 1 == 0:
            low, high = group_box(groups, at, error)
            near, sure = sift(task.region, task.rows, position.many, low, high)
            bits &= near
        while bits != 0:
            k = simd.lowest_bit(bits)
            bits &= bits - 1
            one = code_of(leaf, peek(ids, at + k))
            if sure >> k & 1:
                count = _add(task.found, i, one, np.int64(MEET), count)
            else:
                count = _test(task, i, one, count)
    return count


@by_type(inline=True)
def visit(primitives, task, i, position, code, top, count):
    """Test the primitives of a leaf, or enter a BLAS; return the new (position, top, count)."""
    return {
        Triangles: _visit_triangles, Instanced: _visit_instanced,
        **dict.fromkeys((Boxes, Spheres, Capsules), _visit_boxes),
    }[primitives.instance_class]  # fmt: skip


@inlined
def _push_tree(task, code, top):
    """Push the children of a node that may overlap the region; return the stack's new height.

    The node, `code`, is one of a TLAS or of a tree that is not in a scene.
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
    """Push the children of a node of the TLAS, or of a BLAS: these with a bit (see `Position`)."""
    if position.base < 0:
        return _push_tree(task, code, top)
    blocks, at = tree_rows.blocks(row_of(primitives, position.leaf)), node_at(code >> 1)
    low, high = child_boxes(blocks, at)
    if code & 1 == 1:
        bits = np.int64(mask_bits(low[0] <= high[0]))
        sure = bits
    else:
        bits, sure = sift(task.region, task.rows, position.many, low, high)
    while bits != 0:
        k = simd.lowest_bit(bits)
        bits &= bits - 1
        poke(task.stack, top, 2 * child_code(blocks, at + k) + (sure >> k & 1))
        top += 1
    return top


@by_type(inline=True)
def push(primitives, task, position, code, top):
    """Push the children of a node that the region may overlap; return the stack's height."""
    if primitives.instance_class is Instanced:
        return _push_instanced
    return lambda primitives, task, position, code, top: _push_tree(task, code, top)


@entry
def search_regions(row, regions, end, search, found):
    """Continue until query `end` or until results might not fit; return whether it is complete."""
    tree, region, state = as_pointers(row), as_pointers(regions), simd.pointer(search.state)
    stack, local = simd.pointer(search.stack), simd.pointer(search.numbers)
    scale = frames.scale(tree.frame)
    rows, polygon = shifted(local, peek(state, AT_ROWS)), shifted(local, peek(state, AT_POLYGON))
    task = _Task(tree, region, stack, local, rows, polygon, as_pointers(found))
    i, top, _, base, leaf, many = _saved(state, 0)
    position, count, done = Position(base, leaf, many), np.int64(0), True
    while i < end:
        if top < 0:
            top, position = np.int64(0), _in_tlas()
            if to_local(region, i, tree.frame, local, scale):
                poke(stack, 0, np.int64(0))
                top = np.int64(1)
        while top > 0:
            if count + MAX_LEAF_SIZE > len(found.prim):
                done = False
                break
            if top == position.base:
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
    _save(state, 0, (i, top, count, position.base, position.leaf, position.many))
    return done
