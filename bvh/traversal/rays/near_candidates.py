"""Near candidates: a second edge test of a triangle group, from a point of the ray near it.

There errors are smaller, and fewer candidates are left to exact tests.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import exponent, largest, power_of_two
from bvh.runtime.simd import WIDTH, lowest_bit, mask_bits, splat
from bvh.traversal.rays import blocks, ray_numbers, slots
from bvh.traversal.rays.blocks import batch_index, double_index
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_setup import NEAR_ORIGIN
from bvh.tree.frame import bound, into_frame
from bvh.tree.instanced import by_scene
from bvh.tree.triangle_groups import load_group, test_edges_near

F = np.float32


def _refine(primitives, tree, rays, block, memory, slot, group, bits, certain, sure):
    """Repeat the edge tests of a slot's ray and triangle group `group` from a point near the group.

    `bits` are lanes that may be hit, and `certain` those of them that surely are; both are returned
    updated. `sure` are lanes whose distances, if hit, surely are in the ray's range. The intervals
    of tau of all candidates must be stored in `slots.interval`.
    """
    # Give up if three or more triangles are uncertain, or the closest hit was decided exactly: the
    # ray probably passes exactly through a vertex or an edge, which this test cannot decide.
    uncertain = bits & ~certain
    but_one = uncertain & (uncertain - 1)
    if (
        bits == certain
        or but_one & (but_one - 1) != 0
        or slots.exact(memory, slot) == slots.best(memory, slot)
    ):
        return bits, certain
    # Choose as new origin q the point of the ray in the middle of the first uncertain interval. Its
    # error is below 2**-31 of the bound, except for far origins and extreme directions, which are
    # left out.
    r, k = slots.ray(memory, slot), lowest_bit(uncertain)
    o, d, _, _ = read_ray(rays, batch_index(block, r))
    p, e, (low, high) = into_frame(tree.frame, o), exponent(largest(d)), slots.interval(memory, k)
    # In the frame the direction is d * 2**-e.
    distance = blocks.entry(block.doubles, double_index(r)) + 0.5 * (low + high)
    if not (largest(p) <= NEAR_ORIGIN and abs(distance) <= 4.0 * NEAR_ORIGIN and abs(e) < 1000):
        return bits, certain
    s = distance * power_of_two(-e)
    q = p[0] + s * d[0], p[1] + s * d[1], p[2] + s * d[2]
    # The point is the sum of two vectors of float32.
    x, y, z = F(q[0]), F(q[1]), F(q[2])
    point = splat(x, WIDTH), splat(y, WIDTH), splat(z, WIDTH)
    rest = splat(F(q[0] - x), WIDTH), splat(F(q[1] - y), WIDTH), splat(F(q[2] - z), WIDTH)
    ray = slots.ray_numbers(primitives, block, memory, slot)
    triangles, edge = load_group(tree.groups, group), ray_numbers.edge(ray)
    direction, extent = ray_numbers.direction(ray), bound(tree.frame)
    maybe, passes = test_edges_near(point, rest, direction, triangles, edge, extent)
    bits &= np.int64(mask_bits(maybe)) | certain
    return bits, certain | (bits & np.int64(mask_bits(passes)) & sure)


# In a scene candidates stay as they are: `test_edges_near` has no bounds for moved rays.
refined = by_scene(
    _refine,
    lambda primitives, tree, rays, block, memory, slot, group, bits, certain, sure: (bits, certain),
)
