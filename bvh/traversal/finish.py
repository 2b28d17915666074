"""From the primitive that a ray hits to the hit: correctly rounded t, weights and side.

The winners of a block are solved side by side in double-doubles; what those cannot decide, a ray
alone does exactly.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import by_type, inlined, kernel
from bvh.placed import Placed
from bvh.primitives import Triangles, corners
from bvh.simd import WIDTH, convert, gather, gather_ints, lane, load, mask_bits, peek, poke
from bvh.traversal.block import HALF, PRIM, number_of
from bvh.traversal.offers import closest_primitive
from bvh.traversal.scene_finish import (
    finish_placed,
    finish_placed_alone,
    finish_placed_pairs,
)
from bvh.traversal.solving import finish_one, read_rows, solve, solve_exactly


def finish_alone(primitives, tree, found, o, d, low, high):
    """Return (t, u, v, front) of a ray's hit with a primitive."""


def _finish_triangle(primitives, tree, found, o, d, low, high):
    v0, v1, v2 = corners(primitives, found)
    good, t, u, v, front = solve(v0, v1, v2, o, d)
    if good:
        return t, u, v, front
    return solve_exactly(tree, found, o, d, low, high)


def _finish_solid(primitives, tree, found, o, d, low, high):
    return solve_exactly(tree, found, o, d, low, high)


def _finish_placed(primitives, tree, found, o, d, low, high):
    return finish_placed_alone(primitives, tree, found, o, d, low, high)


@by_type(finish_alone)
def _choose_finish_alone(primitives, tree, found, o, d, low, high):
    ways = {Triangles: _finish_triangle, Placed: _finish_placed}
    return ways.get(primitives.instance_class, _finish_solid)


def finish(primitives, tree, rays, block, winners, count, out):
    """Write the hits of the rays `winners[:count]` of a block."""


def _finish_solids(primitives, tree, rays, block, winners, count, out):
    for j in range(count):
        r = peek(winners, j)
        i = peek(block.which, number_of(r))
        finish_one(tree, rays, i, closest_primitive(primitives, block, r), i, out)


def _finish_triangles(primitives, tree, rays, block, winners, count, out):
    points, faces = primitives.points, primitives.faces
    # Fill the last vector with copies of the last winner.
    for j in range(count, count + HALF):
        poke(winners, j, peek(winners, max(count - 1, 0)))
    for j in range(0, count, HALF):
        _finish_lanes(tree, rays, block, winners, j, count, out, points, faces)


@inlined
def _solve_lanes(points, faces, rays, which, face):
    """Solve HALF pairs of a ray and a triangle.

    Returns (t, u, v, front, good), the last two as bits; where not good, nothing is decided.
    """
    v0 = read_rows(points, convert(gather(faces, face, 3, 0), np.int64(0)), 1)
    v1 = read_rows(points, convert(gather(faces, face, 3, 1), np.int64(0)), 1)
    v2 = read_rows(points, convert(gather(faces, face, 3, 2), np.int64(0)), 1)
    o = read_rows(rays.origins, which, rays.o_step)
    d = read_rows(rays.directions, which, rays.d_step)
    good, t, u, v, front = solve(v0, v1, v2, o, d)
    return t, u, v, mask_bits(front), mask_bits(good)


@kernel
def _finish_lanes(tree, rays, block, winners, j, count, out, points, faces):
    """Write the hits of up to HALF triangles."""
    r = load(winners, j, HALF)
    which = gather(block.which, number_of(r), 1, 0)
    face = gather_ints(block.lanes, r, PRIM * WIDTH)
    t, u, v, front, good = _solve_lanes(points, faces, rays, which, face)
    for k in range(min(HALF, count - j)):
        i = peek(block.which, number_of(peek(winners, j + k)))
        if good >> k & 1:
            poke(out.t, i, lane(t, k))
            poke(out.u, i, lane(u, k))
            poke(out.v, i, lane(v, k))
            poke(out.front, i, np.uint8(front >> k & 1))
        else:
            finish_one(tree, rays, i, lane(face, k), i, out)


@by_type(finish)
def _choose_finish(primitives, tree, rays, block, winners, count, out):
    ways = {Triangles: _finish_triangles, Placed: finish_placed}
    return ways.get(primitives.instance_class, _finish_solids)


def finish_pairs(primitives, tree, rays, which, prims, count, out):
    """Write the hits of the rays `which[:count]`, each with its own of the `prims`, side by side.

    Both arrays have room for HALF more entries.
    """


def _finish_pairs_of_solids(primitives, tree, rays, which, prims, count, out):
    for j in range(count):
        finish_one(tree, rays, peek(which, j), np.int64(peek(prims, j)), j, out)


def _finish_pairs_of_triangles(primitives, tree, rays, which, prims, count, out):
    points, faces = primitives.points, primitives.faces
    # Fill the last vector with copies of the last pair.
    for j in range(count, count + HALF):
        poke(which, j, peek(which, max(count - 1, 0)))
        poke(prims, j, peek(prims, max(count - 1, 0)))
    for j in range(0, count, HALF):
        face = convert(load(prims, j, HALF), np.int64(0))
        t, u, v, front, good = _solve_lanes(points, faces, rays, load(which, j, HALF), face)
        for k in range(min(HALF, count - j)):
            if good >> k & 1:
                poke(out.t, j + k, lane(t, k))
                poke(out.u, j + k, lane(u, k))
                poke(out.v, j + k, lane(v, k))
                poke(out.front, j + k, np.uint8(front >> k & 1))
            else:
                finish_one(tree, rays, peek(which, j + k), lane(face, k), j + k, out)


@by_type(finish_pairs)
def _choose_finish_pairs(primitives, tree, rays, which, prims, count, out):
    ways = {Triangles: _finish_pairs_of_triangles, Placed: finish_placed_pairs}
    return ways.get(primitives.instance_class, _finish_pairs_of_solids)
