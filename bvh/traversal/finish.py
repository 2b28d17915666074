"""From the primitive that a ray hits to the hit: correctly rounded t, weights and side.

The winners of a block are solved side by side in double-doubles; what those cannot decide, a ray
alone does exactly.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import by_type, inlined, kernel
from bvh.numerics import round_quotient, two_sum
from bvh.primitives import FRONT, Triangles, corners, test, weights
from bvh.simd import (
    WIDTH,
    convert,
    gather,
    gather_ints,
    lane,
    load,
    mask_bits,
    peek,
    peek_int,
    poke,
)
from bvh.traversal.block import HALF, PRIM, number_of
from bvh.traversal.query import read_ray
from bvh.triangles import scaled_ray, solve_plane, solve_weights

# Double-doubles lose a few times 2**-1074 to underflow, and that times a component of the next
# product: below 2**-860 with this, where their bounds need 2**-800 (see `round_quotient`).
LARGEST_COMPONENT = 2.0**200


@inlined
def _finish_exactly(tree, found, o, d, low, high):
    """Return (t, u, v, front) of a hit, whatever it takes."""
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    t, side = test(tree.primitives, found, o, d, scaled, low, high, 0)
    u, v = weights(tree.primitives, found, o, d, scaled, low, high)
    return t, u, v, side == FRONT


@inlined
def finish_one(tree, rays, i, found, out):
    """Write the hit of ray i with a primitive, exactly."""
    o, d, low, high = read_ray(rays, i)
    t, u, v, front = _finish_exactly(tree, found, o, d, low, high)
    poke(out.t, i, t)
    poke(out.front, i, np.uint8(front))
    poke(out.u, i, u)
    poke(out.v, i, v)


def finish_alone(primitives, tree, found, o, d, low, high):
    """Return (t, u, v, front) of a ray's hit with a primitive."""


def _finish_triangle(primitives, tree, found, o, d, low, high):
    v0, v1, v2 = corners(primitives, found)
    ray = (d[0], 0.0), (d[1], 0.0), (d[2], 0.0)
    a, p, q = _difference(v0, o), _difference(v1, v0), _difference(v2, v0)
    along, along_size, whole, whole_size = solve_plane(a, p, q, ray)
    decided, t = round_quotient(along, along_size, whole, whole_size)
    weighed, u, v = solve_weights(a, p, q, ray, whole, whole_size)
    if decided and weighed and _is_moderate(a, p, q, ray):
        return t, u, v, whole[0] < 0.0
    return _finish_exactly(tree, found, o, d, low, high)


def _finish_solid(primitives, tree, found, o, d, low, high):
    return _finish_exactly(tree, found, o, d, low, high)


@by_type(finish_alone)
def _choose_finish_alone(primitives, tree, found, o, d, low, high):
    return _finish_triangle if primitives.instance_class is Triangles else _finish_solid


def finish(primitives, tree, rays, block, winners, count, out):
    """Write the hits of the rays `winners[:count]` of a block."""


def _finish_solids(primitives, tree, rays, block, winners, count, out):
    for j in range(count):
        r = peek(winners, j)
        i = peek(block.which, number_of(r))
        finish_one(tree, rays, i, np.int64(peek_int(block.lanes, r + PRIM * WIDTH)), out)


@inlined
def _difference(a, b):
    """Return a - b as a vector of double-doubles."""
    return two_sum(a[0], -b[0]), two_sum(a[1], -b[1]), two_sum(a[2], -b[2])


@inlined
def _is_moderate(a, p, q, r):
    """Tell whether no component of four vectors is so large that an underflow could show."""
    result = abs(a[0][0]) < LARGEST_COMPONENT
    for vector in (a, p, q, r):
        for axis in range(3):
            result = result & (abs(vector[axis][0]) < LARGEST_COMPONENT)
    return result


@inlined
def _rows(array, index, step):
    """Return rows of an (n, 3) array as three vectors of lanes."""
    return (
        gather(array, index, 3 * step, 0),
        gather(array, index, 3 * step, 1),
        gather(array, index, 3 * step, 2),
    )


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
    v0 = _rows(points, convert(gather(faces, face, 3, 0), np.int64(0)), 1)
    v1 = _rows(points, convert(gather(faces, face, 3, 1), np.int64(0)), 1)
    v2 = _rows(points, convert(gather(faces, face, 3, 2), np.int64(0)), 1)
    o = _rows(rays.origins, which, rays.o_step)
    d = _rows(rays.directions, which, rays.d_step)
    zero = d[0] * 0.0
    ray = (d[0], zero), (d[1], zero), (d[2], zero)
    a, p, q = _difference(v0, o), _difference(v1, v0), _difference(v2, v0)
    along, along_size, whole, whole_size = solve_plane(a, p, q, ray)
    decided, t = round_quotient(along, along_size, whole, whole_size)
    weighed, u, v = solve_weights(a, p, q, ray, whole, whole_size)
    # The ray opposes the normal: a sign that the test of the weights has made sure of.
    front = mask_bits(whole[0] < 0.0)
    return t, u, v, front, mask_bits(decided & weighed & _is_moderate(a, p, q, ray))


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
            finish_one(tree, rays, i, lane(face, k), out)


@by_type(finish)
def _choose_finish(primitives, tree, rays, block, winners, count, out):
    return _finish_triangles if primitives.instance_class is Triangles else _finish_solids


def finish_pairs(primitives, tree, rays, which, prims, count, out):
    """Write the hits of the rays `which[:count]`, each with its own of the `prims`, side by side.

    Both arrays have room for HALF more entries.
    """


def _finish_pairs_of_solids(primitives, tree, rays, which, prims, count, out):
    for j in range(count):
        _finish_pair(tree, rays, peek(which, j), np.int64(peek(prims, j)), j, out)


@inlined
def _finish_pair(tree, rays, i, prim, j, out):
    o, d, low, high = read_ray(rays, i)
    t, u, v, front = _finish_exactly(tree, prim, o, d, low, high)
    poke(out.t, j, t)
    poke(out.u, j, u)
    poke(out.v, j, v)
    poke(out.front, j, np.uint8(front))


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
                _finish_pair(tree, rays, peek(which, j + k), lane(face, k), j + k, out)


@by_type(finish_pairs)
def _choose_finish_pairs(primitives, tree, rays, which, prims, count, out):
    if primitives.instance_class is Triangles:
        return _finish_pairs_of_triangles
    return _finish_pairs_of_solids
