"""The nearest hit of each ray, or whether there is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined, kernel
from bvh.numerics import INF, NAN
from bvh.primitives import FRONT, is_ray, pointed, test, weights
from bvh.simd import peek, peek_int, pointer, poke
from bvh.traversal.block import (
    BLOCK, PRIM, STRIDE, Block, new_block, pointed_block, pointed_rays, prepare, read_ray
)
from bvh.traversal.singles import Slots, new_slots, pointed_slots, trace
from bvh.triangles import scaled_ray


class Scratch(NamedTuple):
    """What one thread needs beside its rays."""

    block: Block
    slots: Slots
    alive: NDArray[np.int64]


def new_scratch() -> Scratch:
    """Return the scratch of one thread."""
    return Scratch(new_block(), new_slots(), np.empty(BLOCK, np.int64))


class TreePointers(NamedTuple):
    """A tree inside kernels."""

    blocks: Any
    ids: Any
    groups: Any
    primitives: Any
    frame: Any


@inlined
def pointed_tree(tree):
    """Return a tree with pointers in place of arrays."""
    return TreePointers(
        pointer(tree.nodes.blocks),
        pointer(tree.nodes.ids),
        pointer(tree.groups),
        pointed(tree.primitives),
        pointer(tree.frame),
    )


@entry
def closest_hits(tree, rays, scratch, cull, begin, end, t, prim, u, v, front):
    """Find the nearest hits of rays begin..end."""
    empty = len(tree.nodes.blocks) == 0
    _closest_hits(
        pointed_tree(tree), pointed_rays(rays), pointed_block(scratch.block), pointed_slots(scratch.slots),
        pointer(scratch.alive), empty, cull, begin, end, t, prim, u, v, front,
    )


@kernel
def _closest_hits(tree, rays, block, slots, alive, empty, cull, begin, end, t, prim, u, v, front):
    for start in range(begin, end, BLOCK):
        count = np.int64(0)
        size = min(end - start, BLOCK)
        for r in range(size):
            i = start + r
            poke(block.which, r, i)
            t[i], prim[i], u[i], v[i], front[i] = INF, -1, NAN, NAN, False
            o, d, low, high = read_ray(rays, i)
            if not empty and is_ray(o, d, low, high) and prepare(block, tree.frame, r, o, d, low, high):
                poke(alive, count, r)
                count += 1
        trace(tree, rays, block, slots, alive, count, False, cull)
        for j in range(count):
            r = peek(alive, j)
            found = np.int64(peek_int(block.lanes, r * STRIDE + PRIM))
            if found < 0:
                continue
            i = start + r
            o, d, low, high = read_ray(rays, i)
            scaled = scaled_ray(o, d, peek(tree.frame, 4))
            t[i], side = test(tree.primitives, found, o, d, scaled, low, high, 0)
            prim[i], front[i] = found, side == FRONT
            u[i], v[i] = weights(tree.primitives, found, o, d, scaled)


@entry
def any_hits(tree, rays, scratch, cull, begin, end, hit):
    """Tell for rays begin..end whether they hit anything."""
    empty = len(tree.nodes.blocks) == 0
    _any_hits(
        pointed_tree(tree), pointed_rays(rays), pointed_block(scratch.block), pointed_slots(scratch.slots),
        pointer(scratch.alive), empty, cull, begin, end, hit,
    )


@kernel
def _any_hits(tree, rays, block, slots, alive, empty, cull, begin, end, hit):
    for start in range(begin, end, BLOCK):
        count = np.int64(0)
        for r in range(min(end - start, BLOCK)):
            i = start + r
            poke(block.which, r, i)
            hit[i] = False
            o, d, low, high = read_ray(rays, i)
            if not empty and is_ray(o, d, low, high) and prepare(block, tree.frame, r, o, d, low, high):
                poke(alive, count, r)
                count += 1
        trace(tree, rays, block, slots, alive, count, True, cull)
        for j in range(count):
            r = peek(alive, j)
            hit[start + r] = peek_int(block.lanes, r * STRIDE + PRIM) >= 0
