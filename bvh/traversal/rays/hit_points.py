"""Hit points: positions of hits on triangles, and unit normals there, HALF hits side by side.

A position is (((1 - u) - v) v0 + u v1) + v v2. A normal is the cross product of the edges from v0;
edges and product are scaled to length 1. Every operation is rounded as written, so that results do
not depend on lanes, threads or CPUs. In a scene the vertices are those in the world.

Rays that enter a sphere or capsule leave it at another point, which `find_far_ends` finds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import NAN
from bvh.geometry.arithmetic.vectors import cross, minus
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.rays.blocks import HALF
from bvh.traversal.rays.hit_details import LANES_BYTES, pairs_at, vertices_of
from bvh.traversal.rays.ray_batch import read_ray
from bvh.traversal.rays.ray_numbers import largest_of
from bvh.tree.instanced import Instanced, by_scene, code_of, instanced_round, kind_of
from bvh.tree.rows import TRIANGLES
from bvh.tree.shapes import KINDS


class HitColumns(NamedTuple):
    """Hits of a tree or scene, column by column; pointers inside kernels."""

    leaf: NDArray[np.int32]  # rows of the scene's instanced trees; empty for a tree
    prim_id: NDArray[np.int32]
    u: NDArray[np.float64]
    v: NDArray[np.float64]


def _id_of_triangle(primitives, hits, i):
    """Return the id of the triangle of hit i of a tree; -1 for a miss."""
    return np.int64(simd.peek(hits.prim_id, i))


def _code_of_triangle(primitives, hits, i):
    """Return a scene's code of the triangle of hit i; -1 for a miss, and for a hit on a shape."""
    leaf, prim = np.int64(simd.peek(hits.leaf, i)), simd.peek(hits.prim_id, i)
    if prim < 0 or kind_of(primitives, leaf) != TRIANGLES:
        return np.int64(-1)
    return code_of(leaf, prim)


_triangle_of = by_scene(_id_of_triangle, _code_of_triangle)


@inlined
def _unit(a):
    """Return vectors (x, y, z), in lanes, scaled to length 1; NaN for zero vectors."""
    # Squares of components that are at most 1 do not overflow.
    largest = largest_of(a)
    x, y, z = a[0] / largest, a[1] / largest, a[2] / largest
    length = simd.sqrt((x * x + y * y) + z * z)
    return x / length, y / length, z / length


@kernel
def _write_points(primitives, hits, pairs, positions, normals):
    """Write positions and unit normals of hits on triangles, those of the first HALF pairs.

    `pairs.prims` are the triangles, and `pairs.rows` the rows of the hits: in `hits`, `HitColumns`,
    and in `positions` and `normals`, (n, 3).
    """
    _, (v0, v1, v2) = vertices_of(primitives, pairs, np.int64(0))
    rows = simd.load(pairs.rows, 0, HALF)
    u, v = simd.gather(hits.u, rows, 1, 0), simd.gather(hits.v, rows, 1, 0)
    rest, normal = (1.0 - u) - v, _unit(cross(_unit(minus(v1, v0)), _unit(minus(v2, v0))))
    for axis in range(3):
        position = (rest * v0[axis] + u * v1[axis]) + v * v2[axis]
        for k in range(HALF):
            at = 3 * simd.peek(pairs.rows, k) + axis
            simd.poke(positions, at, simd.lane(position, k))
            simd.poke(normals, at, simd.lane(normal[axis], k))


@entry
def locate_hits(primitives, columns, begin, end, position, normal):
    """Write `position` and `normal`, (n, 3), of the hits begin..end of `columns`, `HitColumns`.

    Normals have length 1. Both are NaN for misses and for hits on shapes. `primitives` are those of
    a tree, or `Instanced` of a scene.
    """
    triangles, hits = as_pointers(primitives), as_pointers(columns)
    positions, normals = simd.pointer(position), simd.pointer(normal)
    pairs, count = pairs_at(stack_memory(LANES_BYTES)), np.int64(0)
    for i in range(begin, end):
        prim = _triangle_of(triangles, hits, i)
        if prim >= 0:
            simd.poke(pairs.prims, count, prim)
            simd.poke(pairs.rows, count, i)
            count += 1
        else:
            for k in range(3 * i, 3 * i + 3):
                simd.poke(positions, k, NAN)
                simd.poke(normals, k, NAN)
        if count == HALF or (count > 0 and i == end - 1):
            # The last vector is filled with copies of its first hit.
            for k in range(count, HALF):
                simd.poke(pairs.prims, k, simd.peek(pairs.prims, np.int64(0)))
                simd.poke(pairs.rows, k, simd.peek(pairs.rows, np.int64(0)))
            _write_points(triangles, hits, pairs, positions, normals)
            count = np.int64(0)


@by_type()
def _interval(primitives, prim, o, d):
    """Return (hit, near, far) of the line of a ray, (o, d), and the sphere or capsule `prim`.

    `hit` tells whether the line meets the shape; it enters at t = `near` and leaves at t = `far`.
    """
    if primitives.instance_class is Instanced:
        return lambda primitives, prim, o, d: instanced_round(primitives, prim, o, d)
    interval = KINDS[primitives.instance_class].interval
    return lambda primitives, prim, o, d: interval(primitives.points, prim, o, d)


@entry
def find_far_ends(tree_row, ray_arrays, which, prims, far):
    """Write to `far` (n,) the t where rays leave round shapes that they hit; NaN beyond t_max.

    `which` (n,) are numbers of rays in `ray_arrays`, and `prims` (n,) the shape that each one hits:
    its id in the tree of `tree_row`, in a scene its code.
    """
    tree, rays, out = as_pointers(tree_row), as_pointers(ray_arrays), simd.pointer(far)
    for i in range(len(which)):
        o, d, _, t_max = read_ray(rays, simd.peek(simd.pointer(which), i))
        _, _, t = _interval(tree.primitives, simd.peek(simd.pointer(prims), i), o, d)
        simd.poke(out, i, t if t <= t_max else NAN)
