"""All hits of a ray with a leaf, appended to those of its ray block.

While a block is traced, hits are appended as they are found, a ray and a primitive each; see
`all_hits` for how they are sorted.
"""

from __future__ import annotations

import numpy as np

from bvh.geometry.triangles import scaled_ray
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, lowest_bit, mask_bits, peek, poke
from bvh.runtime.tuple_references import follow
from bvh.traversal.rays.candidates import back_lanes, is_culled, primitive_of
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_block import batch_index, ray_number
from bvh.traversal.rays.ray_slots import current_arrays, ray_of
from bvh.tree.edge_rule import crosses
from bvh.tree.frame import farthest
from bvh.tree.primitives import MISS, intersect

F = np.float32


@inlined
def _append(found, r, prim):
    """Append a hit of ray r; beyond the capacity it is only counted."""
    i, at = ray_number(r), peek(found.size, 0)
    poke(found.counts, i, peek(found.counts, i) + 1)
    poke(found.size, 0, at + 1)
    if at < found.capacity:
        poke(found.rays, at, i)
        poke(found.prims, at, prim)


@kernel
def _is_hit(context_ref, r, prim, cull, once):
    """Return whether ray r hits a primitive, or crosses it where hits must have one owner."""
    stay_outlined()
    tree, rays, block = follow(context_ref)
    o, d, t_min, t_max = read_ray(rays, batch_index(block, r))
    scaled = scaled_ray(o, d, farthest(tree.frame))
    _, side = intersect(tree.primitives, prim, o, d, scaled, t_min, t_max, cull)
    return side != MISS and (not once or crosses(tree.primitives, prim, o, d))


def collect_hit(goal, context_ref, memory, slot, prim):
    """Append a primitive that no filter has seen, if a slot's ray hits it."""
    r = ray_of(memory, slot)
    if _is_hit(context_ref, r, prim, goal.cull, goal.once):
        _append(goal.found, r, prim)


def collect_group(goal, tree, block, context_ref, memory, slot, group, found):
    """Append all hits of a slot's ray with the candidates of a triangle group."""
    _, _, ids = current_arrays(tree, memory, slot)
    back = np.int64(mask_bits(found.den > F(0.0)))
    back = back_lanes(tree.primitives, memory, slot, back)
    r, bits = ray_of(memory, slot), found.bits
    while bits != 0:
        k = lowest_bit(bits)
        bits &= bits - 1
        prim = primitive_of(tree.primitives, memory, slot, peek(ids, group * WIDTH + k))
        if found.certain >> k & 1:
            # What surely passes all edges meets none, however little it is moved.
            if not is_culled(goal.cull, back, k):
                _append(goal.found, r, prim)
        elif _is_hit(context_ref, r, prim, goal.cull, goal.once):
            _append(goal.found, r, prim)
