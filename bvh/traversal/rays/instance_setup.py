"""Setup of rays at an instance: bounds of the errors of their transform, and float32 limits.

The local transform x'' = A x' + b maps the frame of the TLAS to that of the BLAS (see `instanced`).
Directions are scaled by powers of two there, so t'' = t' * 2**k. The rest is as in
`ray_setup.set_up_ray`, with one more error: *delta*, the distance that a primitive, in its float32
rows, may be away from its exact position relative to the ray. `instanced_rays` transforms and clips
one ray, its axes side by side, and `moved_rays` several rays side by side; functions here take
either. The transform of an instance begins at index `at` of `transforms`.

With a the largest row sum of abs(A) and B the bound of the tree's frame, delta is the sum of

- the origin's: P = o' + entry d' in the TLAS is off by eta <= 2**-51 (max(abs(P)) +
  2 abs(entry)) (far origins are summed in double-doubles), and A P + b by a eta, by 2**-50 a
  max(abs(P)) for its own rounding and that of A, and by the error of b;
- the direction's: A d' is off by 2**-49 a a component, which over a length of
  max(abs(A P + b)) + 4 B moves the ray by that many times 2**-49 a / max(abs(A d')), and by 2**-50
  of it for the clipping; 1 / max(abs(A d')) is at most 2**-k;
- delta_v: a vertex moved to the world by the map M is rounded by 2**-53 of its coordinates, so its
  image in the BLAS is off by 2**-53 abs(M**-1) times these.

Bounds of the filter (extending those of `triangle_groups`). C is off by delta more: that is
delta D s for U and V. Edges are off by 2 delta_v: N by 2 delta_v s + 8 delta_v**2 a component,
U and V by 25.2 B D delta_v + 12 delta D delta_v in sum, den by D times that of N. So W, the worst,
needs 3 delta D tolerance + 27.5 B D delta_v more, and T and t * den together
delta M + 26 B delta_v tolerance + 105 B delta_v**2.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from bvh.runtime.jit import inlined
from bvh.runtime.simd import Vec, as_floats, full_like, greater, lesser, peek
from bvh.traversal.rays import ray_numbers
from bvh.traversal.rays.ray_numbers import Limits, largest_of
from bvh.traversal.rays.ray_setup import UP
from bvh.tree import frame as frames
from bvh.tree.instanced import BOUND, NORM, SHIFT_ERROR, VERTEX_ERROR
from bvh.tree.triangle_groups import EDGE_ERROR, T_BOUND, TINY, UNIT

F = np.float32
# Scales of instances within which nothing over- or underflows.
MIN_SCALE, MAX_SCALE = 2.0**-400, 2.0**400

# A number of one ray, or of several side by side.
Scalars: TypeAlias = float | Vec


class Stay(NamedTuple):
    """Distances along a ray in units of a BLAS, from where it enters the TLAS; inside kernels."""

    start: Scalars  # of t_min
    stop: Scalars  # of t_max
    entry: Scalars  # where it enters the box of the BLAS's root
    leave: Scalars  # where it leaves that box, or is behind the closest hit so far
    lost: Scalars  # error of a distance in the TLAS, without its own rounding


# 2**k; callers reject the rays whose k is not within -1022..1023.
power = inlined(lambda k: as_floats((k + 1023) << 52))
# t within +-2**500, which keeps infinities out of differences: nothing that a ray meets is farther.
limited = inlined(lambda t: lesser(greater(t, -(2.0**500)), 2.0**500))


@inlined
def enter_tlas(p, x, entry):
    """Return (P, eta): the point p + entry * x where a ray enters the TLAS, and its error bound.

    The origin p, within NEAR_ORIGIN, and the direction x are in the frame of the TLAS. The bound
    covers roundings, by 2**-53 each, of p, of x, of its product with `entry`, and of the sum.
    """
    p = p[0] + entry * x[0], p[1] + entry * x[1], p[2] + entry * x[2]
    return p, largest_of(p) * 2.0**-51 + abs(entry) * 2.0**-50


@inlined
def delta_of(transforms, at, error, largest, unit):
    """Return delta: by how far primitives of an instance may be off, relative to a moved ray.

    error : eta + 2**-50 max(abs(P)), for the point P where the ray enters the TLAS.
    largest : the largest coordinate of the moved point A P + b.
    unit : the power of two, 2**-k, by which the moved direction A d' is scaled.
    """
    bound, norm = peek(transforms, at + BOUND), peek(transforms, at + NORM)
    # Of the symbols at the top, a is `norm`, B is `bound`. a `error` is the error of the origin,
    # `travel` that of the direction, `rest` that of b and delta_v.
    travel = (largest + 4.0 * bound) * (unit * (2.0**-49 * norm) + 2.0**-50)
    rest = peek(transforms, at + SHIFT_ERROR) + peek(transforms, at + VERTEX_ERROR)
    return ((error * norm + travel) + rest) * UP


@inlined
def widened(tree, scale, before, start, last):
    """Return (lost, start, last): an error bound, and the interval start..last widened by it.

    `lost` bounds the errors of distances in the TLAS. All three are in units of the BLAS, `scale`
    times a distance in the TLAS; `before` is the distance in the TLAS where the ray enters it.
    2**-50 covers a few roundings of 2**-53.
    """
    lost = (abs(before) + 4.0 * frames.bound(tree.frame)) * scale * 2.0**-50
    return lost, start - abs(start) * 2.0**-50 - lost, last + abs(last) * 2.0**-50 + lost


@inlined
def write_local_limits(memory, place, stride, transforms, at, spread, delta, stay, first):
    """Write the rows from EDGE on of a ray in a BLAS to `memory`.

    place, stride : row 0 of the ray is at index `place` of `memory`, and rows are `stride` apart.
    transforms, at : the numbers of the instance's transform begin at index `at`.
    spread : the sum of the absolute values of the components of the ray's direction.
    delta, stay : the error from `delta_of`, and the `Stay` of the ray in the BLAS.
    first : the distance at which the interval of the closest hit so far begins; inf without a hit.
    """
    bound, vertex_error = peek(transforms, at + BOUND), peek(transforms, at + VERTEX_ERROR)
    entry = stay.entry
    # Widen the bounds of the filter by the errors of vertices and ray (see the top of this file).
    slack = ((abs(entry) + 4.0 * bound) * 2.0**-50 + stay.lost) + 16.0 * UNIT * bound
    # `low` and `end` stay finite: they will be multiplied by den, which may be zero. A tree that is
    # tiny in its scene has a larger slack, but nothing that a ray meets is farther than 2**100.
    finite = lesser(slack, 2.0**100)
    limits = Limits(
        spread * ((delta * 3.0 + EDGE_ERROR * bound) * UP),
        (delta * 1.1 + T_BOUND * bound) * UP,
        greater(stay.start - entry, full_like(entry, -bound)) - finite,
        (stay.leave - entry) * UP + finite,
        stay.start + abs(stay.start) * 2.0**-50 - entry + slack,
        stay.stop - abs(stay.stop) * 2.0**-50 - entry - slack,
        slack,
        first - entry - slack,
    )
    ray_numbers.write_limits(memory, place, stride, limits)
    slope = np.float64(F(26.0 * bound * vertex_error * UP))
    floor = np.float64(F(105.0 * bound * vertex_error * vertex_error * UP) + TINY)
    edge = spread * (27.5 * bound * vertex_error * UP)
    slope, floor = full_like(entry, slope), full_like(entry, floor)
    ray_numbers.write_floors(memory, place, stride, edge, slope, floor)
