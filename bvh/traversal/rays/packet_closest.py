"""Closest hits of a packet's rays, and its scratch: in a tree, or in the BLAS of an instance.

In the BLAS of an instance the rays are *moved* (see `moved_rays`): their block has other rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import power_of_two
from bvh.runtime.arguments import aligned
from bvh.runtime.simd import peek, poke
from bvh.traversal.rays.candidates import load_closest, store_closest
from bvh.traversal.rays.ray_memory import (
    BEST,
    BEST_LOW,
    BLAS_ENTRY,
    BLAS_SCALE,
    END,
    SHIFT,
    SLACK,
    STACK,
    STACK_CHILDREN,
    TLAS_SCALE,
    by_scene,
    double_index,
    instance_in,
    read_int,
    read_row,
    reset_closest,
    slot_doubles,
    slot_integers,
    write_int,
    write_row,
)
from bvh.tree.instanced import code_of, leaf_of, prim_of

# Rows of moved rays, from EDGE_FLOOR on. There are those of a slot, then integers: the closest
# primitive in this BLAS, if there is one; that of before and its leaf; the octant.
HERE, PRIM_BEFORE, LEAF_BEFORE, MOVED_OCTANT = 26, 27, 28, 29


class PacketStack(NamedTuple):
    """Scratch of a packet; pointers inside kernels."""

    children: NDArray[np.int32]
    entries: NDArray[np.float32]
    boxes: NDArray[np.int32]  # children, by number: node * WIDTH + lane
    slot: NDArray[np.float32]  # without a stack, for a ray that may hit


def new_packet_stack() -> PacketStack:
    """Return the scratch of one thread."""
    return PacketStack(
        aligned(STACK, np.int32),
        aligned(STACK, np.float32),
        aligned(STACK, np.int32),
        aligned(STACK_CHILDREN, np.float32),
    )


def _load_own(primitives, block, memory, slot, r):
    """Load into a slot the closest hit of ray r of a packet, and what exact tests need."""
    load_closest(block, memory, slot, r)


def _load_moved(primitives, block, memory, slot, r):
    reset_closest(memory, slot, r)
    best = np.int64(read_int(block, r, HERE))
    if best >= 0:
        best = code_of(instance_in(memory, slot), best)
    else:
        best = np.int64(read_int(block, r, PRIM_BEFORE))
        if best >= 0:
            best = code_of(read_int(block, r, LEAF_BEFORE), best)
    poke(slot_integers(memory, slot), BEST, best)
    poke(memory, slot + BEST_LOW, read_row(block, r, BEST_LOW))
    poke(memory, slot + END, read_row(block, r, END))
    poke(memory, slot + SLACK, read_row(block, r, SLACK))
    own = slot_doubles(memory, slot)
    shift = int(peek(block.doubles, double_index(r, SHIFT)))
    poke(own, TLAS_SCALE, power_of_two(shift))
    poke(own, BLAS_SCALE, 1.0)
    poke(own, BLAS_ENTRY, 0.0)


load_packed = by_scene(_load_own, _load_moved)


def _store_own(primitives, block, memory, slot, r):
    """Store the closest hit of a slot as that of ray r of a packet."""
    store_closest(block, memory, slot, r)


def _store_moved(primitives, block, memory, slot, r):
    best = peek(slot_integers(memory, slot), BEST)
    here = best >= 0 and leaf_of(best) == instance_in(memory, slot)
    write_int(block, r, HERE, prim_of(best) if here else np.int64(-1))
    write_row(block, r, BEST_LOW, peek(memory, slot + BEST_LOW))
    write_row(block, r, END, peek(memory, slot + END))


store_packed = by_scene(_store_own, _store_moved)
