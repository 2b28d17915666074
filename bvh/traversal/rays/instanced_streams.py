"""Streams in a scene: through its TLAS, and into the BLAS of each instance.

At a leaf of the TLAS, the rays of all groups that wait there are moved into the frame of the BLAS,
form new groups, by the octants that their directions have there, and are traced as streams there.
Rays that fail (see `moved_rays`), and those that meet an instance of boxes or other shapes, are
traced singly, from the start. Arguments are named as in `streams`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import kernel, stay_outlined
from bvh.runtime.simd import lowest_bit, peek, poke
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays import blocks, moved_rays, slots, streams
from bvh.traversal.rays.blocks import batch_index, lane_index, ray_number
from bvh.traversal.rays.moved_rays import MovedRays, bring_back
from bvh.traversal.rays.ray_batch import mask_of
from bvh.traversal.rays.streams import GROUP_RAYS, LEAF_VISITS, LOW_BITS, SLOT, Streams
from bvh.tree import rows as tree_rows
from bvh.tree.arrays import TreePointers
from bvh.tree.instanced import by_scene, kind_of, row_of
from bvh.tree.rows import TRIANGLES
from bvh.tree.wide_nodes import first_row

F = np.float32


class SceneStreams(NamedTuple):
    """Scratch of streams in trees and scenes; pointers inside kernels."""

    below: Streams  # in a tree, or a BLAS
    groups: NDArray[np.float32]  # in a TLAS
    moved: MovedRays


def new_scene_streams() -> SceneStreams:
    """Return `SceneStreams`, the scratch of one thread."""
    return SceneStreams(streams.new_streams(), streams.new_groups(), moved_rays.new_moved_rays())


# `streams.trace` of a TLAS calls this copy of it at a leaf: Numba takes a call of a function that
# it is compiling for recursion, and links no code for other types.
_trace_in_blas = kernel(streams.trace.py_func)


@kernel
def _take_rays(context_ref, memory, moved, leaf, first, last):
    """List in `moved` the rays that wait where the first queued group does; return how many.

    Groups first..last of the queue in `memory` are searched. All wait at leaves of the TLAS, the
    first at the instance whose tree is in row `leaf`. Rays that are done, and those whose masks
    exclude the instance, are left out.
    """
    tree, rays, block = follow(context_ref)
    lanes, target, count = block.lanes, moved.block, np.int64(0)
    instance_mask = peek(tree.primitives.masks, leaf)
    code = streams.child(memory, streams.queued(memory, first))
    for i in range(first, last):
        group = streams.queued(memory, i)
        if streams.child(memory, group) != code:
            continue
        bits = streams.mask(memory, group) & LOW_BITS
        # Its rays are traced with those of the first group; `_visit_instances` skips it.
        streams.set_mask(memory, group, 0)
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            r = np.int64(streams.ray(memory, group + k))
            index = batch_index(block, r)
            if blocks.end(lanes, r) > F(-INF) and instance_mask & mask_of(rays, index) != 0:
                poke(moved.places, count, group * GROUP_RAYS + k)
                poke(moved.numbers, count, ray_number(r))
                poke(target.which, count, index)
                # In a tie with the closest hit so far, in another BLAS, the codes decide.
                at = lane_index(count)
                blocks.set_prim_before(target.lanes, at, blocks.prim(lanes, r))
                blocks.set_leaf_before(target.lanes, at, blocks.prim_instance(lanes, r))
                count += 1
    return count


@kernel
def _trace_instance(context_ref, scratch, leaf, count, goal):
    """Trace the rays `scratch.moved.numbers[:count]` through the instance in row `leaf`.

    Hits are written to the block of the TLAS. At an instance of shapes all rays fail: they will be
    traced singly.
    """
    stay_outlined()
    tree, rays, block = follow(context_ref)
    instanced, moved, memory = tree.primitives, scratch.moved, scratch.groups
    if kind_of(instanced, leaf) != TRIANGLES:
        # Streams are for triangles.
        for i in range(count):
            moved_rays.fail(block, moved, lane_index(peek(moved.numbers, i)))
        return
    active = moved_rays.move_rays(tree, block, moved, leaf, count)
    if active == 0:
        return
    # Exact tests are made in the world, with the frame of the scene; `accept_group` reads the bits
    # of faces from the row of the instance.
    row = row_of(instanced, leaf)
    blas = TreePointers(
        tree_rows.blocks(row), tree_rows.ids(row), tree_rows.groups(row), instanced,
        tree.frame, tree.face_bits, False,
    )  # fmt: skip
    slots.open_tree(instanced, scratch.below.slot, np.int64(SLOT), leaf)
    _trace_in_blas(blas, rays, moved.block, scratch.below, moved.active, active, goal)
    for i in range(active):
        r = peek(moved.active, i)
        if blocks.prim(moved.block.lanes, r) >= 0:
            bring_back(block, moved, r, leaf)
            if goal.any_hit:
                # One hit suffices: end this ray in its group.
                place = peek(moved.places, ray_number(r))
                group, k = place // GROUP_RAYS, place % GROUP_RAYS
                alive = streams.alive(memory, group) & ~(np.int64(1) << k)
                streams.set_alive(memory, group, alive)


def _visit_instances(goal, tree, block, context_ref, scratch, first, last, waiting):
    """Trace the queued groups first..last of a TLAS in the instances at their leaves.

    Then queue each group by its next entry; return `waiting`, the ends of the queues of groups at
    nodes and at leaves, updated.
    """
    memory = scratch.groups
    for i in range(first, last):
        group = streams.queued(memory, i)
        if streams.mask(memory, group) != 0:
            leaf = np.int64(peek(tree.ids, first_row(np.int64(streams.child(memory, group)))))
            count = _take_rays(context_ref, memory, scratch.moved, leaf, i, last)
            if count > 0:
                _trace_instance(context_ref, scratch, leaf, count, goal)
    for i in range(first, last):
        group = streams.queued(memory, i)
        waiting = streams.advance(tree, memory, group, streams.top(memory, group), waiting)
    return waiting


LEAF_VISITS[SceneStreams] = _visit_instances


def _trace_in_tree(tree, rays, block, scratch, active, count, goal, failed):
    """Trace the rays `active[:count]` of a block through a tree as streams.

    Returns 0, the number of rays that failed: none does in a tree. `failed` is unused.
    """
    streams.trace(tree, rays, block, scratch.below, active, count, goal)
    return np.int64(0)


def _trace_in_scene(tree, rays, block, scratch, active, count, goal, failed):
    """Trace the rays `active[:count]` of a block through a scene as streams; return how many fail.

    The lane indices of those are written to `failed`: these rays must be traced singly.
    """
    moved_rays.start_moving(tree, rays, block, scratch.moved)
    streams.trace(tree, rays, block, scratch, active, count, goal)
    return moved_rays.restart(block, scratch.moved, failed)


trace_streams = by_scene(_trace_in_tree, _trace_in_scene)
