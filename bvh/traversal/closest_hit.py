"""The nearest hit of each ray, or whether there is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bvh.jit import entry, kernel
from bvh.numerics import INF, NAN
from bvh.simd import WIDTH, peek, peek_int, pointer, poke
from bvh.traversal.block import PRIM, fill, number_of, pointed_rays
from bvh.traversal.choice import START, pointed_scratch, pointed_tree, trace_block
from bvh.traversal.finish import finish
from bvh.traversal.order import pick_rays, pointed_order


class Out(NamedTuple):
    """Where hits are written."""

    t: Any
    u: Any
    v: Any
    front: Any


@entry
def closest_hits(tree, rays, order, scratch, cull, begin, end, t, prim, u, v, front):
    """Find the nearest hits of the rays in the blocks begin..end of an order."""
    if len(tree.nodes.blocks) > 0:
        _closest_hits(
            pointed_tree(tree), pointed_rays(rays), pointed_order(order), pointed_scratch(scratch), cull,
            begin, end, pointer(prim), Out(pointer(t), pointer(u), pointer(v), pointer(front)),
        )  # fmt: skip


@kernel
def _closest_hits(tree, rays, order, scratch, cull, begin, end, prim, out):
    block, alive = scratch.block, scratch.alive
    choice = START
    for b in range(begin, end):
        size = pick_rays(order, b, block.which)
        for i in range(size):
            at = peek(block.which, i)
            poke(out.t, at, INF)
            poke(prim, at, np.int32(-1))
            poke(out.u, at, NAN)
            poke(out.v, at, NAN)
            poke(out.front, at, np.uint8(0))
        count = fill(block, tree.frame, rays, size, alive)
        choice = trace_block(tree, rays, scratch, count, order.kernel, choice, False, cull)
        hits = np.int64(0)
        for j in range(count):
            r = peek(alive, j)
            found = peek_int(block.lanes, r + PRIM * WIDTH)
            poke(prim, peek(block.which, number_of(r)), found)
            poke(alive, hits, r)
            hits += np.int64(found >= 0)
        finish(tree.primitives, tree, rays, block, alive, hits, out)


@entry
def any_hits(tree, rays, order, scratch, cull, begin, end, hit):
    """Tell for the rays in the blocks begin..end of an order whether they hit anything."""
    if len(tree.nodes.blocks) > 0:
        _any_hits(
            pointed_tree(tree), pointed_rays(rays), pointed_order(order), pointed_scratch(scratch), cull,
            begin, end, pointer(hit),
        )  # fmt: skip


@kernel
def _any_hits(tree, rays, order, scratch, cull, begin, end, hit):
    block, alive = scratch.block, scratch.alive
    choice = START
    for b in range(begin, end):
        size = pick_rays(order, b, block.which)
        for i in range(size):
            poke(hit, peek(block.which, i), np.uint8(0))
        count = fill(block, tree.frame, rays, size, alive)
        choice = trace_block(tree, rays, scratch, count, order.kernel, choice, True, cull)
        for j in range(count):
            r = peek(alive, j)
            found = peek_int(block.lanes, r + PRIM * WIDTH)
            poke(hit, peek(block.which, number_of(r)), np.uint8(found >= 0))
