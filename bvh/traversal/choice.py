"""Packets or single rays: whichever was faster on a block of the same run.

Now and then each kernel takes one block, and the clock of the CPU tells which will take the next
ones: twice as many as before for as long as the answer stays the same. Both kernels give the same
answers, so nothing but time depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import by_type, inlined
from bvh.placed import Placed
from bvh.simd import cycles, peek, poke
from bvh.traversal.block import BLOCK, HALF, Block, new_block
from bvh.traversal.goals import Nearest, begin_block
from bvh.traversal.order import AUTO, PACKETS
from bvh.traversal.packets import (
    PacketStack,
    new_packet_stack,
    packable,
    trace_packets,
)
from bvh.traversal.query import Query
from bvh.traversal.scene_slots import SLOT_SIZE as SCENE_SLOT
from bvh.traversal.scene_walk import walk
from bvh.traversal.singles import SLOT_SIZE, Slots, new_slots, trace_all

# Blocks from one trial to the next: at first, and at most.
PERIOD, LONGEST_PERIOD = 16.0, 256.0

# What is learnt: cycles a ray in packets and alone, the blocks until the next trial and in all from
# one to the next, and which of the two it was (-1 before the first trial).
IN_PACKETS, ALONE, LEFT, BETWEEN, WINNER = range(5)


class Scratch(NamedTuple):
    """What one thread needs beside its rays; pointers inside kernels."""

    block: Block
    slots: Slots
    packet: PacketStack
    alive: NDArray[np.int64]
    learnt: NDArray[np.float64]


def new_scratch(learnt: NDArray[np.float64], scene: bool = False) -> Scratch:
    """Return the scratch of one thread; what is learnt may be shared by all threads of a batch."""
    alive = np.empty(BLOCK + HALF, np.int64)
    slots = new_slots(SCENE_SLOT if scene else SLOT_SIZE)
    return Scratch(new_block(), slots, new_packet_stack(), alive, learnt)


def nothing_learnt() -> NDArray[np.float64]:
    """Return what `trace_block` knows at the start of a batch."""
    return np.array([0.0, 0.0, 0.0, PERIOD, -1.0])


@inlined
def _blocks_to_go(learnt):
    """Return for how many blocks the winner of a trial takes all; more if it has won before."""
    winner = np.float64(peek(learnt, ALONE) <= peek(learnt, IN_PACKETS))
    between = PERIOD
    if winner == peek(learnt, WINNER):
        between = min(2.0 * peek(learnt, BETWEEN), LONGEST_PERIOD)
    poke(learnt, BETWEEN, between)
    poke(learnt, WINNER, winner)
    return between


def trace_block(tree, rays, scratch, count, forced, goal):
    """Take the rays `alive[:count]` of a block through the tree."""


@by_type(trace_block)
def _choose_trace(tree, rays, scratch, count, forced, goal):
    if tree.types[tree.fields.index("primitives")].instance_class is Placed:
        return _walk_scene
    return _trace_either_way if goal.instance_class is Nearest else _trace_one_by_one


def _walk_scene(tree, rays, scratch, count, forced, goal):
    begin_block(goal)
    walk(Query(tree, rays, scratch.block), scratch.slots.memory, scratch.alive, count, goal)


def _trace_one_by_one(tree, rays, scratch, count, forced, goal):
    begin_block(goal)
    trace_all(Query(tree, rays, scratch.block), scratch.slots, scratch.alive, count, goal)


def _trace_either_way(tree, rays, scratch, count, forced, goal):
    block, slots, alive, learnt = scratch.block, scratch.slots, scratch.alive, scratch.learnt
    parts = Query(tree, rays, block)
    trial = np.int64(2)
    packets = forced == PACKETS
    if forced == AUTO and count >= BLOCK // 4 and packable(tree.primitives, block, alive, count):
        # Two blocks of trial, then as many as are worth it. Threads that count together lose one
        # at worst.
        left = peek(learnt, LEFT)
        if left <= 0.0:
            trial, left = (IN_PACKETS, -1.0) if left == 0.0 else (ALONE, _blocks_to_go(learnt))
        else:
            left -= 1.0
        poke(learnt, LEFT, left)
        packets = trial == IN_PACKETS or (
            trial != ALONE and peek(learnt, IN_PACKETS) < peek(learnt, ALONE)
        )
    began = cycles()
    if packets:
        trace_packets(tree.primitives, parts, slots, scratch.packet, alive, count, goal)
    else:
        trace_all(parts, slots, alive, count, goal)
    if trial < 2:
        # Half of what was known stays: blocks differ.
        before, spent = peek(learnt, trial), np.float64(cycles() - began) / count
        poke(learnt, trial, spent if before == 0.0 else 0.5 * (before + spent))
