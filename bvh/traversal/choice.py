"""Packets or single rays: whichever was faster on a block of the same run.

Every few blocks each kernel takes one block, and the clock of the CPU tells which will take the
next ones. Both give the same answers, so nothing but time depends on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import inlined, kernel
from bvh.primitives import pointed
from bvh.simd import cycles, pointer
from bvh.traversal.block import BLOCK, HALF, Block, new_block, pointed_block
from bvh.traversal.order import AUTO, PACKETS
from bvh.traversal.packets import (
    PacketStack,
    new_packet_stack,
    packable,
    pointed_packet,
    trace_packets,
)
from bvh.traversal.singles import Slots, new_slots, pointed_slots, trace_all

# Blocks from one trial to the next.
PERIOD = 16


class Scratch(NamedTuple):
    """What one thread needs beside its rays; pointers inside kernels."""

    block: Block
    slots: Slots
    packet: PacketStack
    alive: NDArray[np.int64]


def new_scratch() -> Scratch:
    """Return the scratch of one thread."""
    return Scratch(new_block(), new_slots(), new_packet_stack(), np.empty(BLOCK + HALF, np.int64))


@inlined
def pointed_scratch(scratch):
    """Return scratch with pointers in place of arrays."""
    return Scratch(
        pointed_block(scratch.block),
        pointed_slots(scratch.slots),
        pointed_packet(scratch.packet),
        pointer(scratch.alive),
    )


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


# Cycles a ray took in packets and alone at the last trial, and blocks since.
START = (0.0, 0.0, 0)


@kernel
def trace_block(tree, rays, scratch, count, forced, choice, any_hit, cull):
    """Take the rays `alive[:count]` of a block through the tree; return what was learnt."""
    in_packets, alone, age = choice
    block, slots, alive = scratch.block, scratch.slots, scratch.alive
    if forced == AUTO and (count < BLOCK // 4 or not packable(tree.primitives, block, alive, count)):
        packets = False
        age_next = age
    else:
        trial = age % PERIOD
        packets = trial == 0 or (trial > 1 and in_packets < alone)
        if forced != AUTO:
            packets = forced == PACKETS
        age_next = age + 1
    began = cycles()
    if packets:
        trace_packets(tree.primitives, tree, rays, block, slots, scratch.packet, alive, count, any_hit, cull)
    else:
        trace_all(tree, rays, block, slots, alive, count, any_hit, cull)
    spent = np.float64(cycles() - began) / max(count, 1)
    if age_next > age:
        if age % PERIOD == 0:
            in_packets = spent
        elif age % PERIOD == 1:
            alone = spent
    return in_packets, alone, age_next
