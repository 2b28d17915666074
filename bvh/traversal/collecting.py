"""All hits: what a leaf adds to those of a block, and the block's hits in order.

While a block of rays is under way, hits are noted as they are found, a ray and a primitive each.
Then they are sorted by ray, t, u and v are found side by side, and each ray's own are sorted by t
and id.
"""

from __future__ import annotations

import numpy as np

from bvh.crossings import crosses
from bvh.jit import inlined, kernel, stay_outlined
from bvh.primitives import MISS, test
from bvh.references import follow
from bvh.simd import WIDTH, lowest_bit, mask_bits, peek, poke
from bvh.traversal.block import number_of
from bvh.traversal.leaf_visits import filter_group
from bvh.traversal.query import read_ray
from bvh.triangles import scaled_ray
from bvh.wide_nodes import leaf_rows

F = np.float32


@inlined
def add_hit(found, r, prim):
    """Note a hit of ray r; count it even where there is no room for it."""
    i, at = number_of(r), peek(found.size, 0)
    poke(found.counts, i, peek(found.counts, i) + 1)
    poke(found.size, 0, at + 1)
    if at < found.room:
        poke(found.rays, at, i)
        poke(found.prims, at, prim)


@kernel
def touches(query, r, prim, cull, once):
    """Tell whether ray r hits a primitive, or crosses it where hits must have one owner."""
    stay_outlined()
    tree, rays, block = follow(query)
    o, d, t_min, t_max = read_ray(rays, peek(block.which, number_of(r)))
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    _, side = test(tree.primitives, prim, o, d, scaled, t_min, t_max, cull)
    return side != MISS and (not once or crosses(tree.primitives, prim, o, d))


def collect_triangles(primitives, tree, block, query, r, rows, code, goal):
    """Note all hits of ray r with the triangles of a leaf."""
    cull = goal.cull
    group, count = leaf_rows(code)
    for g in range(group, group + count):
        bits, sure, den, _, _ = filter_group(tree, rows, g)
        if bits == 0:
            continue
        back = mask_bits(den > F(0.0))
        while bits != 0:
            k = lowest_bit(bits)
            bits &= bits - 1
            prim = np.int64(peek(tree.ids, g * WIDTH + k))
            if sure >> k & 1:
                # What surely passes all edges meets none, however little it is moved.
                if cull == 0 or (cull > 0) != (back >> k & 1 == 1):
                    add_hit(goal.found, r, prim)
            elif touches(query, r, prim, cull, goal.once):
                add_hit(goal.found, r, prim)


def collect_solids(primitives, tree, block, query, r, rows, code, goal):
    """Note all hits of ray r with the solids of a leaf."""
    first, count = leaf_rows(code)
    for i in range(first, first + count):
        prim = np.int64(peek(tree.ids, i))
        if touches(query, r, prim, goal.cull, goal.once):
            add_hit(goal.found, r, prim)
