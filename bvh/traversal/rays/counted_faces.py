"""Mask test of a triangle group."""

from bvh.runtime.jit import inlined
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays import slots
from bvh.traversal.rays.blocks import batch_index
from bvh.traversal.rays.ray_batch import mask_of
from bvh.tree import rows as tree_rows
from bvh.tree.face_bits import sharing
from bvh.tree.instanced import by_scene, row_of


@inlined
def counted_of_group(tree, rays, group, i, bits):
    """Return those of the lanes `bits` of a group of a tree whose faces count for ray i."""
    return bits & sharing(tree.face_bits, group, mask_of(rays, i)) if tree.has_bits else bits


def _counted_in_tree(primitives, tree, context_ref, memory, slot, group, bits):
    """Return those of the lanes `bits` of a group whose faces count for a slot's ray."""
    _, rays, block = follow(context_ref)
    return counted_of_group(tree, rays, group, batch_index(block, slots.ray(memory, slot)), bits)


def _counted_in_leaf(primitives, tree, context_ref, memory, slot, group, bits):
    row = row_of(primitives, slots.instance(memory, slot))
    if tree_rows.has_bits(row):
        _, rays, block = follow(context_ref)
        mask = mask_of(rays, batch_index(block, slots.ray(memory, slot)))
        bits &= sharing(tree_rows.bits(row), group, mask)
    return bits


counted_lanes = by_scene(_counted_in_tree, _counted_in_leaf)
