"""t, weights and side of a ray's hit with a primitive: in double-doubles, or exactly.

Operands may be doubles, or vectors of doubles with a pair of a ray and a triangle in each lane.
"""

from __future__ import annotations

import numpy as np

from bvh.jit import inlined
from bvh.numerics import round_quotient, two_sum
from bvh.primitives import FRONT, test, weights
from bvh.simd import gather, peek, poke
from bvh.traversal.query import read_ray
from bvh.triangles import scaled_ray, solve_plane, solve_weights

# Double-doubles lose a few times 2**-1074 to underflow, and that times a component of the next
# product: below 2**-860 with this, where their bounds need 2**-800 (see `round_quotient`).
LARGEST_COMPONENT = 2.0**200


@inlined
def solve_exactly(tree, found, o, d, low, high):
    """Return (t, u, v, front) of a hit, whatever it takes."""
    scaled = scaled_ray(o, d, peek(tree.frame, 4))
    t, side = test(tree.primitives, found, o, d, scaled, low, high, 0)
    u, v = weights(tree.primitives, found, o, d, scaled, low, high)
    return t, u, v, side == FRONT


@inlined
def finish_one(tree, rays, i, found, j, out):
    """Write the hit of ray i with a primitive, exactly, to place j."""
    o, d, low, high = read_ray(rays, i)
    t, u, v, front = solve_exactly(tree, found, o, d, low, high)
    poke(out.t, j, t)
    poke(out.u, j, u)
    poke(out.v, j, v)
    poke(out.front, j, np.uint8(front))


@inlined
def difference(a, b):
    """Return a - b as a vector of double-doubles."""
    return two_sum(a[0], -b[0]), two_sum(a[1], -b[1]), two_sum(a[2], -b[2])


@inlined
def is_moderate(a, p, q, r):
    """Tell whether no component of four vectors is so large that an underflow could show."""
    result = abs(a[0][0]) < LARGEST_COMPONENT
    for vector in (a, p, q, r):
        for axis in range(3):
            result = result & (abs(vector[axis][0]) < LARGEST_COMPONENT)
    return result


@inlined
def read_rows(array, index, step):
    """Return rows of an (n, 3) array as three vectors of lanes."""
    return (
        gather(array, index, 3 * step, 0),
        gather(array, index, 3 * step, 1),
        gather(array, index, 3 * step, 2),
    )


@inlined
def solve(v0, v1, v2, o, d):
    """Return (good, t, u, v, front) of rays and triangles; where not good, nothing is decided."""
    zero = d[0] * 0.0
    ray = (d[0], zero), (d[1], zero), (d[2], zero)
    a, p, q = difference(v0, o), difference(v1, v0), difference(v2, v0)
    along, along_size, whole, whole_size = solve_plane(a, p, q, ray)
    decided, t = round_quotient(along, along_size, whole, whole_size)
    weighed, u, v = solve_weights(a, p, q, ray, whole, whole_size)
    # The ray opposes the normal: a sign that the test of the weights has made sure of.
    return decided & weighed & is_moderate(a, p, q, ray), t, u, v, whole[0] < 0.0
