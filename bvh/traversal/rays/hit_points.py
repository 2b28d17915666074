"""Hit points: where hits on triangles are, and the unit normals there, HALF hits side by side.

A position is ((1 - u - v) v0 + u v1) + v v2, the weights' sum from left to right. A normal is the
cross product of the edges from v0, of length 1 each, scaled to length 1. Every operation is rounded
as written, so that the results do not depend on lanes, threads or CPUs. In a scene the vertices are
the moved ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import NAN
from bvh.geometry.arithmetic.vectors import cross, minus
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.rays.blocks import HALF
from bvh.traversal.rays.hit_details import LANES_BYTES, pairs_at, vertices_of
from bvh.tree.instanced import by_scene, code_of, kind_of
from bvh.tree.rows import TRIANGLES


class HitColumns(NamedTuple):
    """Hits of a tree or scene, column by column; pointers inside kernels."""

    leaf: NDArray[np.int32]  # rows of instanced trees; empty for a tree
    prim_id: NDArray[np.int32]
    u: NDArray[np.float64]
    v: NDArray[np.float64]


def _id_of_face(primitives, hits, i):
    """Return the id of the triangle of hit i, in a scene its code; -1 for misses and shapes."""
    return np.int64(simd.peek(hits.prim_id, i))


def _code_of_face(primitives, hits, i):
    leaf, prim = np.int64(simd.peek(hits.leaf, i)), simd.peek(hits.prim_id, i)
    if prim < 0 or kind_of(primitives, leaf) != TRIANGLES:
        return np.int64(-1)
    return code_of(leaf, prim)


_face_of = by_scene(_id_of_face, _code_of_face)


@inlined
def _unit(a):
    """Return vectors scaled to length 1; NaN for zero vectors."""
    largest = simd.greater(abs(a[0]), simd.greater(abs(a[1]), abs(a[2])))
    x, y, z = a[0] / largest, a[1] / largest, a[2] / largest
    length = simd.sqrt((x * x + y * y) + z * z)
    return x / length, y / length, z / length


@kernel
def _write_points(primitives, hits, pairs, positions, normals):
    """Write the positions and normals of the hits of the first HALF pairs."""
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
    """Write the positions and normals of the hits begin..end; NaN for misses and hits on shapes."""
    triangles, hits = as_pointers(primitives), as_pointers(columns)
    positions, normals = simd.pointer(position), simd.pointer(normal)
    pairs, count = pairs_at(stack_memory(LANES_BYTES)), np.int64(0)
    for i in range(begin, end):
        face = _face_of(triangles, hits, i)
        if face >= 0:
            simd.poke(pairs.prims, count, face)
            simd.poke(pairs.rows, count, i)
            count += 1
        else:
            for at in range(3 * i, 3 * i + 3):
                simd.poke(positions, at, NAN)
                simd.poke(normals, at, NAN)
        if count == HALF or (count > 0 and i == end - 1):
            # The last vector is filled with copies of its first hit.
            for k in range(count, HALF):
                simd.poke(pairs.prims, k, simd.peek(pairs.prims, np.int64(0)))
                simd.poke(pairs.rows, k, simd.peek(pairs.rows, np.int64(0)))
            _write_points(triangles, hits, pairs, positions, normals)
            count = np.int64(0)
