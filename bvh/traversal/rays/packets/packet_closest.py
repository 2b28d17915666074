"""Closest hits of a packet's rays, and its scratch: in a tree, or in the BLAS of an instance.

In the BLAS of an instance the rays are *moved* (see `moved_rays`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import power_of_two
from bvh.runtime.arguments import aligned
from bvh.traversal.rays import blocks, slots
from bvh.traversal.rays.candidates import load_closest, store_closest
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
    load_closest(block, memory, slot, r)


def _load_moved(primitives, block, memory, slot, r):
    lanes = block.lanes
    slots.reset_closest(memory, slot, r)
    best = blocks.prim(lanes, r)
    if best >= 0:
        best = code_of(slots.instance(memory, slot), best)
    else:
        best = blocks.prim_before(lanes, r)
        if best >= 0:
            best = code_of(blocks.leaf_before(lanes, r), best)
    slots.set_best(memory, slot, best)
    slots.set_best_low(memory, slot, blocks.best_low(lanes, r))
    slots.set_end(memory, slot, blocks.end(lanes, r))
    slots.set_slack(memory, slot, blocks.slack(lanes, r))
    # The doubles of a moved ray lead from t to the BLAS in one step: that of the TLAS.
    shift = int(blocks.shift(block.doubles, blocks.double_index(r)))
    slots.set_tlas_scale(memory, slot, power_of_two(shift))
    slots.set_blas_scale(memory, slot, 1.0)
    slots.set_blas_entry(memory, slot, 0.0)


load_packed = by_scene(_load_own, _load_moved)


def _store_own(primitives, block, memory, slot, r):
    """Store the closest hit of a slot as that of ray r of a packet."""
    store_closest(block, memory, slot, r)


def _store_moved(primitives, block, memory, slot, r):
    lanes, best = block.lanes, slots.best(memory, slot)
    here = best >= 0 and leaf_of(best) == slots.instance(memory, slot)
    blocks.set_prim(lanes, r, prim_of(best) if here else np.int64(-1))
    blocks.set_best_low(lanes, r, slots.best_low(memory, slot))
    blocks.set_end(lanes, r, slots.end(memory, slot))


store_packed = by_scene(_store_own, _store_moved)
