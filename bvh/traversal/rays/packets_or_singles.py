"""Choice of the traversal of a ray block: packets or single rays, whichever was faster.

Now and then each of the two takes one block, and the CPU's cycle counter decides which takes the
next ones: twice as many as before for as long as the answer stays the same. Both give the same
hits, so nothing but time depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import cycles, peek, poke
from bvh.traversal.rays.goals import ClosestGoal, begin_block
from bvh.traversal.rays.packets import (
    PacketStack,
    new_packet_stack,
    packable,
    trace_packets,
)
from bvh.traversal.rays.ray_batch import AUTO, PACKETS, Context
from bvh.traversal.rays.ray_block import BLOCK, HALF, Block, new_block
from bvh.traversal.rays.ray_slots import is_instanced
from bvh.traversal.rays.single_rays import Slots, new_slots, trace, trace_all

# Blocks from one trial to the next: at first, and at most.
PERIOD, LONGEST_PERIOD = 16.0, 256.0

# Measured: cycles a ray in packets and singly, the blocks until the next trial and in all
# from one to the next, and which of the two was faster (-1 before the first trial).
IN_PACKETS, SINGLY, LEFT, BETWEEN, FASTER = range(5)
NO_TRIAL = 2


class Scratch(NamedTuple):
    """Scratch memory of one thread; pointers inside kernels."""

    block: Block
    slots: Slots
    packet: PacketStack
    active: NDArray[np.int64]
    measured: NDArray[np.float64]


def new_scratch(measured: NDArray[np.float64]) -> Scratch:
    """Return the scratch of one thread; measured times may be shared by threads of a batch."""
    active = np.empty(BLOCK + HALF, np.int64)
    return Scratch(new_block(), new_slots(), new_packet_stack(), active, measured)


def no_measurements() -> NDArray[np.float64]:
    """Return the measured times at the start of a batch."""
    return np.array([0.0, 0.0, 0.0, PERIOD, -1.0])


@inlined
def _blocks_to_go(measured):
    """Return how many blocks the faster traversal of a trial gets; more if it was faster before."""
    faster = np.float64(peek(measured, SINGLY) <= peek(measured, IN_PACKETS))
    between = PERIOD
    if faster == peek(measured, FASTER):
        between = min(2.0 * peek(measured, BETWEEN), LONGEST_PERIOD)
    poke(measured, BETWEEN, between)
    poke(measured, FASTER, faster)
    return between


def trace_block(tree, rays, scratch, count, forced, goal):
    """Trace the rays `active[:count]` of a block through a tree or a scene."""


@by_type(trace_block)
def _choose_trace(tree, rays, scratch, count, forced, goal):
    if is_instanced(tree):
        return _trace_scene
    return _trace_either_way if goal.instance_class is ClosestGoal else _trace_singly


def _trace_scene(tree, rays, scratch, count, forced, goal):
    begin_block(goal)
    context, octant = Context(tree, rays, scratch.block), np.int64(0)
    trace(context, scratch.slots.memory, scratch.active, count, octant, goal)


def _trace_singly(tree, rays, scratch, count, forced, goal):
    begin_block(goal)
    trace_all(Context(tree, rays, scratch.block), scratch.slots, scratch.active, count, goal)


def _trace_either_way(tree, rays, scratch, count, forced, goal):
    block, slots, active, measured = scratch.block, scratch.slots, scratch.active, scratch.measured
    context = Context(tree, rays, block)
    trial = np.int64(NO_TRIAL)
    packets = forced == PACKETS
    if forced == AUTO and count >= BLOCK // 4 and packable(tree.primitives, block, active, count):
        # Two blocks of trial, then as many as are worth it. Threads that share the counts lose at
        # most one.
        left = peek(measured, LEFT)
        if left <= 0.0:
            trial, left = (IN_PACKETS, -1.0) if left == 0.0 else (SINGLY, _blocks_to_go(measured))
        else:
            left -= 1.0
        poke(measured, LEFT, left)
        packets = trial == IN_PACKETS or (
            trial != SINGLY and peek(measured, IN_PACKETS) < peek(measured, SINGLY)
        )
    began = cycles()
    if packets:
        trace_packets(tree.primitives, context, slots, scratch.packet, active, count, goal)
    else:
        trace_all(context, slots, active, count, goal)
    if trial != NO_TRIAL:
        # Half of what was measured before stays: blocks differ.
        before, spent = peek(measured, trial), np.float64(cycles() - began) / count
        poke(measured, trial, spent if before == 0.0 else 0.5 * (before + spent))
