"""Region search in a scene: the leaves of its TLAS, then their BLAS.

A region is transformed to the frame of the TLAS as to any tree's (see `regions`), and at a leaf to
that of its BLAS (see `instanced_regions`). Nodes and groups that are surely inside are accepted
without a test; all else is decided on moved vertices in the world.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.region_overlap import APART, MEET
from bvh.runtime.jit import entry, kernel
from bvh.runtime.simd import (
    WIDTH,
    lowest_bit,
    mask_bits,
    peek,
    pointer,
    poke,
    shifted,
)
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.overlaps.instanced_regions import OUTSIDE, ROW, approach, sift
from bvh.traversal.overlaps.region_search import (
    COUNT,
    GROUP_ERROR,
    MAX_LEAF_SIZE,
    QUERY,
    TOP,
    Search,
    group_box,
    new_search,
    region_as_pointers,
)
from bvh.traversal.overlaps.regions import PlaneRegions, decide, reach, to_local
from bvh.traversal.rays.ray_slots import STACK
from bvh.tree import frame as frames
from bvh.tree.frame import FRAME_SIZE
from bvh.tree.instanced import blocks_of, code_of, groups_of, prim_ids_of
from bvh.tree.triangle_groups import group_at, used_lanes
from bvh.tree.wide_nodes import child_boxes, child_code, leaf_rows, node_at

F = np.float32

# The current leaf, -1 for none; where its stack begins; rows of the region there.
LEAF, BASE, ROWS = 3, 4, 5


class SceneSearch(NamedTuple):
    """The state of a search, and its scratch."""

    outer: Search
    state: NDArray[np.int64]
    rows: NDArray[np.float64]


class LeafTrees(NamedTuple):
    """Arrays of the leaves' trees that a search needs beside `Instanced`."""

    frames: NDArray[np.float64]  # (m, 4, 3)
    tree_of: NDArray[np.int32]


def new_scene_search(region: Any, begin: int) -> SceneSearch:
    """Return the scratch of a search that begins with query `begin`."""
    outer = new_search(region, begin)._replace(stack=np.empty(2 * STACK, np.int64))
    planes = max(6, int(region.shape[0]) if isinstance(region, PlaneRegions) else 0)
    return SceneSearch(outer, np.array([begin, -1, 0, -1, 0, 0]), np.empty(ROW * planes))


class _Part(NamedTuple):
    """A leaf of an instance's tree, by its code, and the region's rows in the frame of the tree."""

    leaf: int
    code: int
    taken: bool
    rows: Any
    many: int
    bound: float


@kernel
def _visit(region, i, instanced, part, polygon, query, prim, count):
    """Test the triangles of a leaf of a tree; return the new number of results."""
    leaf, code, taken, rows, many, bound = part
    groups, ids = groups_of(instanced, leaf), prim_ids_of(instanced, leaf)
    first, number = leaf_rows(code)
    for group in range(first, first + number):
        at = group_at(group)
        bits = np.int64(mask_bits(used_lanes(groups, at)))
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
                answer = np.int64(decide(instanced, region, i, one, polygon))
            if answer != APART:
                poke(query, count, np.int64(i))
                poke(prim, count, one if answer == MEET else ~one)
                count += 1
    return count


@entry
def search_scene(arrays, trees, regions, end, search, found):
    """Continue a search until query `end` or until results might not fit.

    Within a leaf the stack holds 2 * code, and 1 more for nodes accepted untested. Returns whether
    the search is complete.
    """
    tree, region = as_pointers(arrays), region_as_pointers(regions)
    instanced, scale = tree.primitives, frames.scale(tree.frame)
    all_frames, tree_of = pointer(trees.frames), pointer(trees.tree_of)
    stack, local = pointer(search.outer.stack), pointer(search.outer.local)
    polygon, rows = pointer(search.outer.polygon), pointer(search.rows)
    query, prim = pointer(found.query), pointer(found.prim)
    state = pointer(search.state)
    i, top, count = peek(state, QUERY), peek(state, TOP), np.int64(0)
    leaf, base, many = peek(state, LEAF), peek(state, BASE), peek(state, ROWS)
    blocks, bound, done = tree.blocks, 0.0, True
    if leaf >= 0:
        blocks = blocks_of(instanced, leaf)
        bound = frames.bound(shifted(all_frames, np.int64(peek(tree_of, leaf)) * FRAME_SIZE))
    while i < end and done:
        if top < 0:
            top, leaf = np.int64(0), np.int64(-1)
            blocks = tree.blocks
            if to_local(region, i, tree.frame, local, scale):
                poke(stack, 0, np.int64(0))
                top = np.int64(1)
        while top > 0:
            if count + MAX_LEAF_SIZE > len(found.prim):
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
                if peek(instanced.masks, one) == 0:
                    continue
                frame = shifted(all_frames, np.int64(peek(tree_of, one)) * FRAME_SIZE)
                many = approach(region, i, instanced, one, frame, rows)
                if many == OUTSIDE:
                    continue
                leaf, base, bound = one, top, frames.bound(frame)
                blocks = blocks_of(instanced, leaf)
                poke(stack, top, np.int64(many == 0))
                top += 1
                continue
            taken = leaf >= 0 and code & 1 == 1
            node = code >> 1 if leaf >= 0 else code
            if node < 0:
                part = _Part(leaf, node, taken, rows, many, bound)
                count = _visit(region, i, instanced, part, polygon, query, prim, count)
                continue
            at = node_at(node)
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
                child = child_code(blocks, at + k)
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
