"""Packets in a scene: through its TLAS, and into the BLAS of each instance.

At a leaf of the TLAS the rays that enter it are moved into the frame of the BLAS, and go through it
as a packet, or as one for each octant that their directions have there. A packet that cannot (see
`moved_rays`), or that gives up, is traced singly, from the start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import kernel, stay_outlined
from bvh.runtime.simd import (
    WIDTH,
    load,
    load_ints,
    lowest_bit,
    mask_bits,
    peek,
    peek_int,
    poke,
    poke_int,
    popcount,
    select,
    splat,
    store,
    store_ints,
)
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.moved_rays import (
    MovedRays,
    bring_back,
    move_rays,
    new_moved_rays,
    start_moving,
)
from bvh.traversal.rays.packet_closest import (
    HERE,
    MOVED_OCTANT,
    PacketStack,
    new_packet_stack,
)
from bvh.traversal.rays.packets import (
    LEAVES,
    enter_box,
    trace_packet,
)
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.ray_memory import (
    BEST_LOW,
    END,
    GROUP,
    GROUPS_ADDRESS,
    IDS_ADDRESS,
    INSTANCE,
    NODES_ADDRESS,
    PACKET,
    PACKET_RAYS,
    PRIM,
    Block,
    batch_index,
    by_scene,
    slot_integers,
)
from bvh.tree import frame as frames
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers
from bvh.tree.instanced import BOUND, TRANSFORM_SIZE, kind_of, row_of
from bvh.tree.rows import GROUPS, IDS, NODES, TRIANGLES
from bvh.tree.wide_nodes import first_row

F = np.float32


class PacketScratch(NamedTuple):
    """Scratch of packets in trees and scenes; pointers inside kernels."""

    below: PacketStack  # in a tree, or a BLAS
    above: PacketStack  # in a TLAS
    moved: MovedRays
    failed: NDArray[np.int64]  # whether a packet must be traced singly


class TlasStack(NamedTuple):
    """Scratch of a packet in a TLAS; inside kernels."""

    children: Any
    entries: Any
    boxes: Any
    scratch: Any


def new_packet_scratch() -> PacketScratch:
    """Return the scratch of one thread."""
    failed = np.zeros(1, np.int64)
    return PacketScratch(new_packet_stack(), new_packet_stack(), new_moved_rays(), failed)


trace_blas_packet = kernel(trace_packet.py_func)


@kernel
def _within_mask(rays, block, instanced, at, leaf, inside):
    """Return those of the rays `inside` of a vector whose masks share a bit with a leaf's."""
    mask, bits = peek(instanced.masks, leaf), inside
    if rays.mask_step == 0:
        return inside if mask & peek(rays.masks, np.int64(0)) != 0 else np.int64(0)
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        if mask & peek(rays.masks, batch_index(block, at + k)) == 0:
            inside &= ~(np.int64(1) << k)
    return inside


@kernel
def _enter_instance(context_ref, scratch, begin, end, leaf, entering):
    """Move the rays of a packet that enter an instance; return whether packets can trace them.

    `entering` has WIDTH bits for each of its vectors.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    instanced, moved = tree.primitives, scratch.moved
    if kind_of(instanced, leaf) != TRIANGLES:
        return False
    i = np.int64(0)
    for at in range(begin, end, GROUP):
        inside = entering >> i & ((1 << WIDTH) - 1)
        if inside != 0:
            inside = _within_mask(rays, block, instanced, at, leaf, inside)
        if inside == 0:
            store(moved.ends, PACKET_RAYS + i, splat(F(-INF), WIDTH))
            store_ints(moved.lanes, at + HERE * WIDTH, splat(np.int32(-1), WIDTH))
        else:
            if not move_rays(tree, block, moved, i, at, leaf, inside):
                return False
            store(moved.ends, PACKET_RAYS + i, load(moved.lanes, at + END * WIDTH, WIDTH))
        i += WIDTH
    slot, memory = np.int64(0), scratch.below.slot
    words, row = slot_integers(memory, slot), row_of(instanced, leaf)
    poke(words, NODES_ADDRESS, peek(row, NODES))
    poke(words, GROUPS_ADDRESS, peek(row, GROUPS))
    poke(words, IDS_ADDRESS, peek(row, IDS))
    poke_int(memory, slot + INSTANCE, leaf)
    return True


@kernel
def _next_octant(moved, begin, end):
    """Activate the moved rays of one octant that are yet to be traced; -1 if there are none."""
    octant, i = np.int64(-1), np.int64(0)
    lanes, ends = moved.lanes, moved.ends
    for at in range(begin, end, GROUP):
        waiting = load(ends, PACKET_RAYS + i, WIDTH)
        bits = mask_bits(waiting > F(-INF))
        if bits != 0 and octant < 0:
            octant = np.int64(peek_int(lanes, at + MOVED_OCTANT * WIDTH + lowest_bit(bits)))
        same = load_ints(lanes, at + MOVED_OCTANT * WIDTH, WIDTH) == splat(np.int32(octant), WIDTH)
        none = splat(F(-INF), WIDTH)
        store(lanes, at + END * WIDTH, select(same, waiting, none))
        store(ends, PACKET_RAYS + i, select(same, none, waiting))
        i += WIDTH
    return octant


def _intersect_instance(goal, tree, block, context_ref, stack, packet, child, box, planes):
    begin, end = packet
    scratch, lanes = stack.scratch, block.lanes
    moved = scratch.moved
    entering, i = np.int64(0), np.int64(0)
    for at in range(begin, end, GROUP):
        entering |= np.int64(enter_box(tree.blocks, box, lanes, at, planes)) << i
        i += WIDTH
    if entering == 0:
        return False, np.int64(0)
    instanced, leaf = tree.primitives, np.int64(peek(tree.ids, first_row(child)))
    done = _enter_instance(context_ref, scratch, begin, end, leaf, entering)
    changed = False
    if done:
        row = row_of(instanced, leaf)
        blas = TreePointers(
            tree_rows.blocks(row), tree_rows.ids(row), tree_rows.groups(row), instanced,
            tree.frame, tree.face_bits, False,
        )  # fmt: skip
        _, rays, _ = follow(context_ref)
        below = Context(blas, rays, Block(moved.lanes, moved.doubles, block.which))
        reach = F(peek(instanced.transforms, leaf * TRANSFORM_SIZE + BOUND))
        octant = _next_octant(moved, begin, end)
        while octant >= 0 and done:
            done = trace_blas_packet(below, scratch.below, begin, end, octant, reach, goal)
            i = np.int64(0)
            for at in range(begin, end, GROUP):
                changed = bring_back(block, moved, i, at, leaf) or changed
                i += WIDTH
            octant = _next_octant(moved, begin, end)
    if not done:
        # End the packet.
        poke(scratch.failed, np.int64(0), np.int64(1))
        for at in range(begin, end, GROUP):
            store(lanes, at + END * WIDTH, splat(F(-INF), WIDTH))
    return changed or not done, popcount(entering)


LEAVES[TlasStack] = _intersect_instance


def _trace_in_tree(tree, context, scratch, begin, octant, goal):
    """Trace a packet, its rays all of one octant; return whether that is done."""
    reach = F(frames.bound(tree.frame))
    return trace_packet(context, scratch.below, begin, begin + PACKET, octant, reach, goal)


def _trace_in_scene(tree, context, scratch, begin, octant, goal):
    _, rays, block = context
    moved, above, end = scratch.moved, scratch.above, begin + PACKET
    if goal.cull != 0 or not start_moving(tree, rays, block, moved, begin, end):
        return False
    poke(scratch.failed, np.int64(0), np.int64(0))
    stack = TlasStack(above.children, above.entries, above.boxes, scratch)
    reach = F(frames.bound(tree.frame))
    done = trace_packet(context, stack, begin, end, octant, reach, goal)
    if done and peek(scratch.failed, np.int64(0)) == 0:
        return True
    i = np.int64(0)
    for at in range(begin, end, GROUP):
        prims = load_ints(block.lanes, at + PRIM * WIDTH, WIDTH)
        # Any hit suffices where there is one.
        over = prims >= np.int32(0) if goal.any_hit else prims > np.int32(2**31 - 1)
        ends = select(over, splat(F(-INF), WIDTH), load(moved.ends, i, WIDTH))
        store(block.lanes, at + END * WIDTH, ends)
        store(block.lanes, at + BEST_LOW * WIDTH, splat(F(INF), WIDTH))
        kept = select(over, prims, splat(np.int32(-1), WIDTH))
        store_ints(block.lanes, at + PRIM * WIDTH, kept)
        i += WIDTH
    return False


trace_rays_together = by_scene(_trace_in_tree, _trace_in_scene)
