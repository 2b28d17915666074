"""The nearest hit of each ray, or whether there is one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined, kernel
from bvh.numerics import INF, NAN
from bvh.primitives import pointed
from bvh.simd import WIDTH, peek, peek_int, pointer, poke
from bvh.traversal.block import (
    BLOCK,
    HALF,
    PRIM,
    Block,
    fill,
    new_block,
    number_of,
    pointed_block,
    pointed_rays,
)
from bvh.traversal.finish import finish
from bvh.traversal.packets import PacketStack, new_packet_stack, pointed_packet, trace_packets
from bvh.traversal.singles import Slots, new_slots, pointed_slots, trace_all


class Scratch(NamedTuple):
    """What one thread needs beside its rays."""

    block: Block
    slots: Slots
    packet: PacketStack
    alive: NDArray[np.int64]


def new_scratch() -> Scratch:
    """Return the scratch of one thread."""
    return Scratch(new_block(), new_slots(), new_packet_stack(), np.empty(BLOCK + HALF, np.int64))


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


class Out(NamedTuple):
    """Where hits are written."""

    t: Any
    u: Any
    v: Any
    front: Any


@entry
def closest_hits(tree, rays, scratch, packets, cull, begin, end, t, prim, u, v, front):
    """Find the nearest hits of rays begin..end."""
    empty = len(tree.nodes.blocks) == 0
    # One loop an array: that is what becomes vector stores.
    for i in range(begin, end):
        t[i] = INF
    for i in range(begin, end):
        prim[i] = -1
    for i in range(begin, end):
        u[i] = NAN
    for i in range(begin, end):
        v[i] = NAN
    for i in range(begin, end):
        front[i] = 0
    if empty:
        return
    _closest_hits(
        pointed_tree(tree), pointed_rays(rays), pointed_block(scratch.block), pointed_slots(scratch.slots), pointed_packet(scratch.packet),
        pointer(scratch.alive), packets, cull, begin, end, pointer(prim),
        Out(pointer(t), pointer(u), pointer(v), pointer(front)),
    )


@kernel
def _closest_hits(tree, rays, block, slots, packet, alive, packets, cull, begin, end, prim, out):
    for start in range(begin, end, BLOCK):
        size = min(end - start, BLOCK)
        for i in range(size):
            poke(block.which, i, start + i)
        count = fill(block, tree.frame, rays, size, True, alive)
        if packets:
            trace_packets(tree.primitives, tree, rays, block, slots, packet, alive, count, False, cull)
        else:
            trace_all(tree, rays, block, slots, alive, count, False, cull)
        hits = np.int64(0)
        for j in range(count):
            r = peek(alive, j)
            found = peek_int(block.lanes, r + PRIM * WIDTH)
            poke(prim, peek(block.which, number_of(r)), found)
            poke(alive, hits, r)
            hits += np.int64(found >= 0)
        finish(tree.primitives, tree, rays, block, alive, hits, out)


@entry
def any_hits(tree, rays, scratch, packets, cull, begin, end, hit):
    """Tell for rays begin..end whether they hit anything."""
    for i in range(begin, end):
        hit[i] = 0
    if len(tree.nodes.blocks) == 0:
        return
    _any_hits(
        pointed_tree(tree), pointed_rays(rays), pointed_block(scratch.block), pointed_slots(scratch.slots), pointed_packet(scratch.packet),
        pointer(scratch.alive), packets, cull, begin, end, pointer(hit),
    )


@kernel
def _any_hits(tree, rays, block, slots, packet, alive, packets, cull, begin, end, hit):
    for start in range(begin, end, BLOCK):
        size = min(end - start, BLOCK)
        for i in range(size):
            poke(block.which, i, start + i)
        count = fill(block, tree.frame, rays, size, True, alive)
        if packets:
            trace_packets(tree.primitives, tree, rays, block, slots, packet, alive, count, True, cull)
        else:
            trace_all(tree, rays, block, slots, alive, count, True, cull)
        for j in range(count):
            r = peek(alive, j)
            found = peek_int(block.lanes, r + PRIM * WIDTH)
            poke(hit, peek(block.which, number_of(r)), np.uint8(found >= 0))
