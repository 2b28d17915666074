"""The nearest hit of each ray, or whether there is any."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.jit import entry, inlined, kernel
from bvh.numerics import INF, NAN
from bvh.simd import peek, pointer, poke
from bvh.traversal.block import number_of
from bvh.traversal.choice import pointed_scratch, trace_block
from bvh.traversal.filling import fill
from bvh.traversal.finish import finish
from bvh.traversal.goals import pointed_goal
from bvh.traversal.offers import closest_primitive
from bvh.traversal.order import ask_for_next, pick_rays, pointed_order, tile_of
from bvh.traversal.query import pointed_rays, pointed_tree


class Out(NamedTuple):
    """Where hits are written; of a goal that is any hit, only whether there is one, to `front`."""

    t: Any
    u: Any
    v: Any
    front: Any


@entry
def closest_hits(tree, rays, order, scratch, goal, begin, end, t, prim, u, v, front):
    """Find the nearest hits of the rays in the blocks begin..end of an order, or any.

    One kernel for both: the traversal makes nearly all of it, and is compiled once.
    """
    if len(tree.nodes.blocks) > 0:
        _closest_hits(
            pointed_tree(tree), pointed_rays(rays), pointed_order(order),
            pointed_scratch(scratch), pointed_goal(goal), begin, end, pointer(prim),
            Out(pointer(t), pointer(u), pointer(v), pointer(front)),
        )  # fmt: skip


@kernel
def _miss_all(order, b, which, size, prim, out):
    """Write misses for the rays of a block, run by run of neighbours."""
    if order.plain:
        begin = peek(which, np.int64(0))
        _miss_run(begin, begin + size, prim, out)
    elif order.row > 0:
        top, bottom, left, right = tile_of(order, b)
        for y in range(top, bottom):
            _miss_run(y * order.row + left, y * order.row + right, prim, out)
    else:
        for i in range(size):
            _miss_run(peek(which, i), peek(which, i) + 1, prim, out)


@inlined
def _miss_run(begin, end, prim, out):
    """Write misses array by array, which makes them vector stores."""
    for k in range(begin, end):
        poke(out.t, k, INF)
    for k in range(begin, end):
        poke(prim, k, -1)
    for k in range(begin, end):
        poke(out.u, k, NAN)
    for k in range(begin, end):
        poke(out.v, k, NAN)
    for k in range(begin, end):
        poke(out.front, k, np.uint8(0))


@kernel
def _closest_hits(tree, rays, order, scratch, goal, begin, end, prim, out):
    block, alive = scratch.block, scratch.active
    for b in range(begin, end):
        size = pick_rays(order, b, block.which)
        if goal.any_hit:
            for i in range(size):
                poke(out.front, peek(block.which, i), np.uint8(0))
        else:
            _miss_all(order, b, block.which, size, prim, out)
        count = fill(block, tree.frame, rays, size, alive)
        ask_for_next(order, b, rays)
        trace_block(tree, rays, scratch, count, order.kernel, goal)
        hits = np.int64(0)
        for j in range(count):
            r = peek(alive, j)
            found = closest_primitive(tree.primitives, block, r)
            if goal.any_hit:
                poke(out.front, peek(block.which, number_of(r)), np.uint8(found >= 0))
            else:
                poke(prim, peek(block.which, number_of(r)), found)
                poke(alive, hits, r)
                hits += np.int64(found >= 0)
        finish(tree.primitives, tree, rays, block, alive, hits, out)
