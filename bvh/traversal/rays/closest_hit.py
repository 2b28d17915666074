"""Closest hit of each ray of a batch, or whether there is any: the kernel, block by block."""

from __future__ import annotations

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.runtime.jit import entry, inlined, kernel
from bvh.runtime.simd import peek, poke
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays.candidates import closest_primitive
from bvh.traversal.rays.hit_details import finish_block
from bvh.traversal.rays.packets_or_singles import trace_block
from bvh.traversal.rays.ray_batch import pick_rays, prefetch_next, tile_of
from bvh.traversal.rays.ray_block import batch_index
from bvh.traversal.rays.ray_setup import set_up_block


@entry
def closest_hits(tree_arrays, ray_arrays, ray_order, thread_scratch, goal, begin, end, columns):
    """Find the closest hits of the rays in the blocks begin..end of an order, or any.

    One kernel for both: the traversal makes nearly all of it, and is compiled once.

    Parameters
    ----------
    tree_arrays : TreeArrays
    ray_arrays : Rays
    ray_order : Order
    thread_scratch : Scratch
    goal : ClosestGoal, CountGoal or FirstGoal
        Of a goal that is any hit, only whether there is one is written, to `columns.front`.
    begin, end : int
    columns : finish.Columns
        A row for each ray of the batch.
    """
    if len(tree_arrays.nodes.data) == 0:
        return
    tree, rays, order = as_pointers(tree_arrays), as_pointers(ray_arrays), as_pointers(ray_order)
    scratch, aim, out = as_pointers(thread_scratch), as_pointers(goal), as_pointers(columns)
    block, active = scratch.block, scratch.active
    for b in range(begin, end):
        size = pick_rays(order, b, block.which)
        if aim.any_hit:
            for i in range(size):
                poke(out.front, peek(block.which, i), np.uint8(0))
        else:
            _miss_all(order, b, block.which, size, out)
        count = set_up_block(block, tree.frame, rays, size, active)
        prefetch_next(order, b, rays)
        trace_block(tree, rays, scratch, count, order.kernel, aim)
        hits = np.int64(0)
        for j in range(count):
            r = peek(active, j)
            found = closest_primitive(tree.primitives, block, r)
            if aim.any_hit:
                poke(out.front, batch_index(block, r), np.uint8(found >= 0))
            else:
                poke(out.prim_id, batch_index(block, r), found)
                poke(active, hits, r)
                hits += np.int64(found >= 0)
        finish_block(tree, rays, block, active, hits, out)


@kernel
def _miss_all(order, b, which, size, out):
    """Write misses for the rays of a block, run by run of neighbours."""
    if order.plain:
        begin = peek(which, np.int64(0))
        _miss_run(begin, begin + size, out)
    elif order.row > 0:
        top, bottom, left, right = tile_of(order, b)
        for y in range(top, bottom):
            _miss_run(y * order.row + left, y * order.row + right, out)
    else:
        for i in range(size):
            _miss_run(peek(which, i), peek(which, i) + 1, out)


@inlined
def _miss_run(begin, end, out):
    """Write misses array by array, which makes them vector stores."""
    for k in range(begin, end):
        poke(out.t, k, INF)
    for k in range(begin, end):
        poke(out.prim_id, k, -1)
    for k in range(begin, end):
        poke(out.u, k, NAN)
    for k in range(begin, end):
        poke(out.v, k, NAN)
    for k in range(begin, end):
        poke(out.front, k, np.uint8(0))
