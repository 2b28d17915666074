"""Closest hits of a packet's rays, and its scratch: in a tree, or in the BLAS of an instance.

In the BLAS of an instance the rays are *moved* (see `moved_rays`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import power_of_two
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.candidates import load_closest
from bvh.tree.instanced import by_scene, code_of, leaf_of, prim_of
from bvh.tree.wide_nodes import STACK


class PacketStack(NamedTuple):
    """Scratch of a packet; pointers inside kernels."""

    children: NDArray[np.int32]
    entries: NDArray[np.float32]
    boxes: NDArray[np.int32]  # children, by number: node * WIDTH + lane
    slot: NDArray[np.float32]  # the slot ALONE, for a ray that may hit


def new_packet_stack() -> PacketStack:
    """Return the scratch of one thread."""
    return PacketStack(
        aligned(STACK, np.int32),
        aligned(STACK, np.float32),
        aligned(STACK, np.int32),
        slots.new_slot_alone(),
    )


def _load_own(primitives, block, memory, slot, r):
    """Load into a slot the closest hit of ray r of a packet, and what exact tests need."""
    load_closest(block, memory, slot, r, blocks.prim(block.lanes, r))


def _load_moved(primitives, block, memory, slot, r):
    lanes = block.lanes
    best = blocks.prim(lanes, r)
    if best >= 0:
        best = code_of(slots.instance(memory, slot), best)
    else:
        best = blocks.prim_before(lanes, r)
        if best >= 0:
            best = code_of(blocks.leaf_before(lanes, r), best)
    load_closest(block, memory, slot, r, best)
    slots.set_slack(memory, slot, blocks.slack(lanes, r))
    # The doubles of a moved ray lead from t to the BLAS in one step: that of the TLAS.
    shift = int(blocks.shift(block.doubles, blocks.double_index(r)))
    slots.set_tlas_scale(memory, slot, power_of_two(shift))
    slots.set_blas_scale(memory, slot, 1.0)
    slots.set_blas_entry(memory, slot, 0.0)


load_packed = by_scene(_load_own, _load_moved)


def _set_own(primitives, block, memory, slot, r):
    """Make the closest primitive of a slot that of ray r of a packet."""
    blocks.set_prim(block.lanes, r, slots.best(memory, slot))


def _set_moved(primitives, block, memory, slot, r):
    best = slots.best(memory, slot)
    here = best >= 0 and leaf_of(best) == slots.instance(memory, slot)
    blocks.set_prim(block.lanes, r, prim_of(best) if here else np.int64(-1))


_set_prim = by_scene(_set_own, _set_moved)


@inlined
def store_packed(primitives, block, memory, slot, r):
    """Store the closest hit of a slot as that of ray r of a packet, its end included."""
    _set_prim(primitives, block, memory, slot, r)
    blocks.set_best_low(block.lanes, r, slots.best_low(memory, slot))
    blocks.set_end(block.lanes, r, slots.end(memory, slot))
