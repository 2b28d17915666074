"""Packets in a scene: through its TLAS, and into the BLAS of each instance.

At a leaf of the TLAS the rays that enter it are moved into the frame of the BLAS, and go through it
as a packet, or as one for each octant that their directions have there. A packet that cannot (see
`moved_rays`), or that gives up, is traced singly, from the start.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import kernel, stay_outlined
from bvh.runtime.simd import WIDTH, lowest_bit, mask_bits, peek, poke, popcount, select, splat
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.blocks import GROUP, PACKET, Block, batch_index
from bvh.traversal.rays.packets import moved_rays
from bvh.traversal.rays.packets.moved_rays import MovedRays
from bvh.traversal.rays.packets.packet_closest import PacketStack, new_packet_stack
from bvh.traversal.rays.packets.packet_walk import LEAVES, enter_box, trace_packet
from bvh.traversal.rays.ray_batch import Context
from bvh.traversal.rays.slots import ALONE
from bvh.tree import frame as frames
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers
from bvh.tree.instanced import BOUND, TRANSFORM_SIZE, kind_of, row_of
from bvh.tree.rows import TRIANGLES
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

    children: NDArray[np.int32]
    entries: NDArray[np.float32]
    boxes: NDArray[np.int32]
    scratch: PacketScratch


def new_packet_scratch() -> PacketScratch:
    """Return the scratch of one thread."""
    failed = np.zeros(1, np.int64)
    return PacketScratch(
        new_packet_stack(), new_packet_stack(), moved_rays.new_moved_rays(), failed
    )


# The packet loop again: in a TLAS it comes here at a leaf. Numba takes a call of a function that it
# is compiling for recursion, and links no code for other types.
_trace_in_blas = kernel(trace_packet.py_func)


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
    """Move the rays of a packet that enter an instance; return whether packets can trace them."""
    # `entering` has WIDTH bits for each of its vectors.
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
            moved_rays.set_waiting(moved.ends, i, splat(F(-INF), WIDTH))
            blocks.set_prim(moved.lanes, at, splat(np.int32(-1), WIDTH))
        else:
            if not moved_rays.move_rays(tree, block, moved, i, at, leaf, inside):
                return False
            moved_rays.set_waiting(moved.ends, i, blocks.ends(moved.lanes, at, WIDTH))
        i += WIDTH
    slots.open_tree(instanced, scratch.below.slot, np.int64(ALONE), leaf)
    return True


@kernel
def _next_octant(moved, begin, end):
    """Activate the moved rays of one octant that are yet to be traced; -1 if there are none."""
    octant, i = np.int64(-1), np.int64(0)
    lanes, ends = moved.lanes, moved.ends
    for at in range(begin, end, GROUP):
        waiting = moved_rays.waiting(ends, i, WIDTH)
        bits = mask_bits(waiting > F(-INF))
        if bits != 0 and octant < 0:
            octant = blocks.octant(lanes, at + lowest_bit(bits))
        same = blocks.octants(lanes, at, WIDTH) == splat(np.int32(octant), WIDTH)
        none = splat(F(-INF), WIDTH)
        blocks.set_end(lanes, at, select(same, waiting, none))
        moved_rays.set_waiting(ends, i, select(same, none, waiting))
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
            done = _trace_in_blas(below, scratch.below, begin, end, octant, reach, goal)
            i = np.int64(0)
            for at in range(begin, end, GROUP):
                changed = moved_rays.bring_back(block, moved, i, at, leaf) or changed
                i += WIDTH
            octant = _next_octant(moved, begin, end)
    if not done:
        # End the packet.
        poke(scratch.failed, np.int64(0), np.int64(1))
        for at in range(begin, end, GROUP):
            blocks.set_end(lanes, at, splat(F(-INF), WIDTH))
    return changed or not done, popcount(entering)


LEAVES[TlasStack] = _intersect_instance


def trace_in_scene(tree, context, scratch, begin, octant, goal):
    _, rays, block = context
    moved, above, end = scratch.moved, scratch.above, begin + PACKET
    if goal.cull != 0 or not moved_rays.start_moving(tree, rays, block, moved, begin, end):
        return False
    poke(scratch.failed, np.int64(0), np.int64(0))
    stack = TlasStack(above.children, above.entries, above.boxes, scratch)
    reach = F(frames.bound(tree.frame))
    done = trace_packet(context, stack, begin, end, octant, reach, goal)
    if done and peek(scratch.failed, np.int64(0)) == 0:
        return True
    i = np.int64(0)
    for at in range(begin, end, GROUP):
        prims = blocks.prims(block.lanes, at, WIDTH)
        # Any hit suffices where there is one.
        over = prims >= np.int32(0) if goal.any_hit else prims > np.int32(2**31 - 1)
        ends = select(over, splat(F(-INF), WIDTH), moved_rays.ends(moved.ends, i, WIDTH))
        blocks.set_end(block.lanes, at, ends)
        blocks.set_best_low(block.lanes, at, splat(F(INF), WIDTH))
        blocks.set_prim(block.lanes, at, select(over, prims, splat(np.int32(-1), WIDTH)))
        i += WIDTH
    return False
