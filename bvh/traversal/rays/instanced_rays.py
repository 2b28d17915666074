"""Traversal of single rays in a scene: from its TLAS to its BLAS and back.

At a leaf of the TLAS the ray is transformed into the frame of an instance's BLAS and continues
there, in the same slot and on the same stack; when nothing is left of the BLAS, it returns to the
TLAS.
"""

from __future__ import annotations

import numpy as np

from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import address, peek, peek_int, poke, poke_int
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.instanced_setup import enter_blas, write_octant
from bvh.traversal.rays.ray_block import END, INVERSE, OCTANT, read_int, read_row
from bvh.traversal.rays.ray_slots import (
    BASE,
    INSTANCE,
    NODES_ADDRESS,
    OCTANT_SHIFT,
    PLANES,
    STACK_CHILDREN,
    STACK_ENTRIES,
    TLAS_ERROR,
    instance_in,
    leave_blas,
    ray_of,
    reset_closest,
    slot_doubles,
    slot_integers,
)
from bvh.tree.wide_nodes import all_planes, first_row

F = np.float32


@inlined
def _load_tlas_numbers(tree, block, memory, slot, r):
    """Load into a slot the numbers of ray r that the nodes of the TLAS need."""
    for row in range(INVERSE + 3):
        poke(memory, slot + row, read_row(block, r, row))
    poke(memory, slot + END, read_row(block, r, END))
    write_octant(memory, slot, np.int64(read_int(block, r, OCTANT)) & 7)
    poke(slot_integers(memory, slot), NODES_ADDRESS, address(tree.blocks, np.int64(0)))


def load_ray_of_scene(tree, block, memory, slot, r):
    """Load ray r into a slot, at the root of the TLAS."""
    _load_tlas_numbers(tree, block, memory, slot, r)
    reset_closest(memory, slot, r)
    poke(slot_doubles(memory, slot), TLAS_ERROR, -1.0)
    poke_int(memory, slot + INSTANCE, -1)
    poke_int(memory, slot + BASE, slot)


def child_planes_in_scene(tree, memory, slot, octant):
    """Return (planes, shift) of a slot's ray: each BLAS has its own octant."""
    nx = np.int64(peek_int(memory, slot + PLANES))
    ny = np.int64(peek_int(memory, slot + PLANES + 1))
    nz = np.int64(peek_int(memory, slot + PLANES + 2))
    shift = np.int32(peek_int(memory, slot + OCTANT_SHIFT))
    return all_planes(nx, ny, nz), shift


def next_entry_in_scene(tree, context_ref, memory, slot, top):
    """Return the top of the stack at the next node, or at the next leaf of a BLAS."""
    base = np.int64(peek_int(memory, slot + BASE))
    if (
        top < base
        or peek(memory, top + STACK_ENTRIES) > peek(memory, slot + END)
        or (peek_int(memory, slot + INSTANCE) < 0 and peek_int(memory, top + STACK_CHILDREN) < 0)
    ):
        return _change_level(context_ref, memory, slot, top)
    return top


@kernel
def _change_level(context_ref, memory, slot, top):
    """Pop the stack of a slot from `top` on, entering and leaving BLASes as needed.

    Returns the new top, below the slot if nothing is left. Entries behind the closest hit are
    dropped; one with it stays, for a tie.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    r = ray_of(memory, slot)
    while True:
        base, end = np.int64(peek_int(memory, slot + BASE)), peek(memory, slot + END)
        while top >= base and peek(memory, top + STACK_ENTRIES) > end:
            top -= 1
        if top >= base:
            child = np.int64(peek_int(memory, top + STACK_CHILDREN))
            if child >= 0 or instance_in(memory, slot) >= 0:
                return top
            # A leaf of the TLAS: the root of its BLAS replaces it on the stack.
            leaf = np.int64(peek(tree.ids, first_row(child)))
            if enter_blas(tree, rays, block, memory, slot, r, leaf):
                poke_int(memory, slot + BASE, top)
                poke_int(memory, top + STACK_CHILDREN, 0)
                poke(memory, top + STACK_ENTRIES, F(0.0))
                return top
            top -= 1
        elif instance_in(memory, slot) >= 0:
            leave_blas(block, memory, slot, r)
            _load_tlas_numbers(tree, block, memory, slot, r)
            poke_int(memory, slot + BASE, slot)
        else:
            return slot - 1
