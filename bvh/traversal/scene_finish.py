"""From the primitives that rays of a scene hit to the hits: side by side, as in `finish`.

The vertices of a few triangles of different leaves are laid side by side, moved, and solved; what
is not a triangle, or not decided, a ray alone does exactly.
"""

from __future__ import annotations

import numpy as np

from bvh.affine import near_sum
from bvh.jit import inlined, kernel
from bvh.placed import TRIANGLES, kind_of, leaf_of, local_corners, placed_corners
from bvh.references import stack_memory
from bvh.simd import lane, load, mask_bits, peek, pointer_to, poke
from bvh.traversal.block import HALF, number_of
from bvh.traversal.offers import closest_primitive
from bvh.traversal.query import read_ray
from bvh.traversal.solving import read_rows, solve, solve_exactly

# Rows of HALF doubles: the coordinates of three vertices, and a map.
ROWS = 9 + 12
ROWS_BYTES = 8 * ROWS * HALF + 64
F8, I8 = 0.0, np.int64(0)
NUMBERS_BYTES = 24 * HALF


@kernel
def finish_placed_alone(primitives, tree, found, o, d, low, high):
    """Return (t, u, v, front) of a ray's hit with a primitive of a scene."""
    if kind_of(primitives, leaf_of(found)) == TRIANGLES:
        v0, v1, v2 = placed_corners(primitives, found)
        good, t, u, v, front = solve(v0, v1, v2, o, d)
        if good:
            return t, u, v, front
    return solve_exactly(tree, found, o, d, low, high)


@inlined
def _lay_out(primitives, rows, k, code):
    """Lay a triangle and its map into lane k; return whether it is a triangle."""
    leaf = leaf_of(code)
    if kind_of(primitives, leaf) != TRIANGLES:
        return np.int64(0)
    v = local_corners(primitives, code)
    for i in range(3):
        for axis in range(3):
            poke(rows, (3 * i + axis) * HALF + k, v[i][axis])
    for i in range(12):
        poke(rows, (9 + i) * HALF + k, peek(primitives.maps, 12 * leaf + i))
    return np.int64(1)


@inlined
def _moved(rows, vertex):
    """Return (decided, vertex) of the moved vertices in all lanes."""
    at = 3 * vertex * HALF
    v = (load(rows, at, HALF), load(rows, at + HALF, HALF), load(rows, at + 2 * HALF, HALF))
    x_decided, x = _coordinate(rows, 9, v)
    y_decided, y = _coordinate(rows, 13, v)
    z_decided, z = _coordinate(rows, 17, v)
    return x_decided & y_decided & z_decided, (x, y, z)


@inlined
def _coordinate(rows, row, v):
    at = row * HALF
    m = (
        load(rows, at, HALF),
        load(rows, at + HALF, HALF),
        load(rows, at + 2 * HALF, HALF),
        load(rows, at + 3 * HALF, HALF),
    )
    return near_sum(m, v)


@inlined
def _finish_alone(tree, rays, i, found, j, out):
    """Write the hit of ray i with a primitive to place j.

    Where no more than the moving of vertices was undecided, weights must come the same way as side
    by side: the exact way rounds them otherwise.
    """
    o, d, low, high = read_ray(rays, i)
    t, u, v, front = finish_placed_alone(tree.primitives, tree, found, o, d, low, high)
    poke(out.t, j, t)
    poke(out.u, j, u)
    poke(out.v, j, v)
    poke(out.front, j, np.uint8(front))


@kernel
def _finish_few(tree, rays, memory, whiches, codes, places, count, out):
    """Write up to HALF hits: of the rays `whiches` with the primitives `codes`, to `places`."""
    rows = pointer_to(memory, F8)
    triangles = np.int64(0)
    for k in range(HALF):
        code = peek(codes, min(k, count - 1))
        triangles |= _lay_out(tree.primitives, rows, k, code) << k
    good = np.int64(0)
    if triangles != 0:
        d0, v0 = _moved(rows, 0)
        d1, v1 = _moved(rows, 1)
        d2, v2 = _moved(rows, 2)
        which = load(whiches, 0, HALF)
        o = read_rows(rays.origins, which, rays.o_step)
        d = read_rows(rays.directions, which, rays.d_step)
        solved, t, u, v, front = solve(v0, v1, v2, o, d)
        good = np.int64(mask_bits(solved & d0 & d1 & d2)) & triangles
        fronts = mask_bits(front)
        for k in range(count):
            if good >> k & 1:
                j = peek(places, k)
                poke(out.t, j, lane(t, k))
                poke(out.u, j, lane(u, k))
                poke(out.v, j, lane(v, k))
                poke(out.front, j, np.uint8(fronts >> k & 1))
    for k in range(count):
        if good >> k & 1 == 0:
            _finish_alone(tree, rays, peek(whiches, k), peek(codes, k), peek(places, k), out)


def finish_placed(primitives, tree, rays, block, winners, count, out):
    """Write the hits of the rays `winners[:count]` of a block."""
    memory, numbers = stack_memory(ROWS_BYTES), stack_memory(NUMBERS_BYTES)
    memory += -memory & 63
    whiches, codes = pointer_to(numbers, I8), pointer_to(numbers + 8 * HALF, I8)
    for j in range(0, count, HALF):
        few = min(HALF, count - j)
        for k in range(HALF):
            r = peek(winners, j + min(k, few - 1))
            poke(whiches, k, peek(block.which, number_of(r)))
            poke(codes, k, closest_primitive(primitives, block, r))
        _finish_few(tree, rays, memory, whiches, codes, whiches, few, out)


def finish_placed_pairs(primitives, tree, rays, which, prims, count, out):
    """Write the hits of the rays `which[:count]`, each with its own of the `prims`."""
    memory, numbers = stack_memory(ROWS_BYTES), stack_memory(NUMBERS_BYTES)
    memory += -memory & 63
    whiches, codes = pointer_to(numbers, I8), pointer_to(numbers + 8 * HALF, I8)
    places = pointer_to(numbers + 16 * HALF, I8)
    for j in range(0, count, HALF):
        few = min(HALF, count - j)
        for k in range(HALF):
            i = j + min(k, few - 1)
            poke(whiches, k, peek(which, i))
            poke(codes, k, np.int64(peek(prims, i)))
            poke(places, k, i)
        _finish_few(tree, rays, memory, whiches, codes, places, few, out)
