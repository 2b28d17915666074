"""Rays in the local frame of a tree on a device, with the margins of their tests.

A ray is brought into the tree's local frame, clipped to its box and counted from there, as
`traversal.rays.ray_setup` does it, whose margins hold here; nothing is fused, which they allow.
Rays that they do not cover, far beyond the tree's size or of extreme lengths, are left to the CPU.

The bounds of the filter of triangles are at most 25 e B times sizes (see `tree.triangle_groups`).
As nothing is fused, products of t with den are rounded once more, by 2.1 e B: 32 e B covers all.
"""

import warp as wp

from bvh.devices.exact import floats
from bvh.devices.exact.floats import INF, LARGEST, ONE, SMALLEST, TWO, ZERO, f4, f8
from bvh.devices.layout import STACK, Part
from bvh.traversal.rays import instanced_rays, ray_setup
from bvh.tree import triangle_groups
from bvh.tree.triangle_groups import UNIT

# States of a local ray: it misses the box of the tree, meets it, or is left to the CPU.
MISSES, MEETS, OTHER = 0, 1, 2

# The limits and margins that `ray_setup` explains; `*_SHARE`, `T_ULP` and `SLACK_ENTRY` cover the
# rounding of one or a few operations.
FAR_ORIGIN = f8(ray_setup.NEAR_ORIGIN)
STEEPEST, LEAST_SLOPE = f8(ray_setup.STEEPEST), f8(1.0 / ray_setup.STEEPEST)
MARGIN = f8(ray_setup.MARGIN)
CLIP_MARGIN, CLIP_SHARE = f8(ray_setup.CLIP_MARGIN), f8(2.0**-50)
T_ULP, LENGTH_UP, LENGTH_SHARE = f8(2.0**-52), f8(ray_setup.UP), f8(2.0**-20)
SLACK_ENTRY, SLACK_BOUND = f8(2.0**-51), f8(32.0 * UNIT)
FILTER = f8(32.0 * UNIT)
# The largest error of a ray in a leaf, as a share of the size of its tree.
WORST, OVER_UNIT = f8(instanced_rays.WORST), f8(1.0 / UNIT)
TINY = f4(float(triangle_groups.TINY))


@wp.struct
class LocalRay:
    """A ray in the local frame of a tree, from where it enters the tree's box.

    Its parameter is tau = t * 2**shift - entry: points are p + tau * d.
    """

    p: wp.vec3  # the point at tau = 0
    d: wp.vec3
    inverse: wp.vec3  # 1 / d
    # The ray meets the lower plane x = c of a box at tau = c * inverse[0] + lower[0], the upper one
    # at c * inverse[0] + upper[0], with the box widened by a margin; other axes likewise.
    lower: wp.vec3
    upper: wp.vec3
    # Bounds of errors in the filter of a triangle: of the tests of edges, as a multiple of the
    # triangle's tolerance, and of t, as a multiple of its size (see `tree.triangle_groups`).
    edge: wp.float32
    t_error: wp.float32
    # The range of tau, widened by `slack`; `end` is lowered to the closest hit.
    low: wp.float32
    end: wp.float32
    entry: wp.float64
    slack: wp.float64
    shift: int
    state: wp.int32  # MISSES, MEETS or OTHER; the rest is set for MEETS alone


@wp.func
def _local_bound(t: wp.float64, shift: int, sign: wp.float64):
    """Return t * 2**shift, lowered (sign -1) or raised (sign 1) by what rounding of t may hide.

    The result is infinite if abs(t) is the largest double or infinite.
    """
    if t >= LARGEST or t <= -LARGEST:
        return wp.where(t > ZERO, INF, -INF)
    return floats.scale_by(t + sign * (wp.abs(t) * T_ULP + SMALLEST), shift)


@wp.func
def local_ray(
    tree: Part, o: wp.vec3d, d: wp.vec3d, t_min: wp.float64, t_max: wp.float64, error: wp.float64
):  # fmt: skip
    """Return the `LocalRay` of o + t d, t in t_min..t_max, whose state tells if it meets the box.

    o and d are in the coordinates of the tree. The ray may be off by `error` anywhere in the box:
    margins are those of a larger tree, whose rounding errors would be as much.
    """
    ray = LocalRay()
    ray.state = OTHER
    # Directions are scaled to a largest component from 1 to 2.
    k = floats.exponent(floats.largest(d))
    shift = tree.exponent + k
    s = floats.power_of_two(tree.exponent)
    p = (o - tree.centre) * s
    distance = floats.largest(p)
    # Powers of two of other exponents could over- or underflow.
    usual = wp.abs(k) < 900 and wp.abs(shift) < 900
    if tree.depth >= STACK or not (usual and distance <= FAR_ORIGIN):
        return ray
    q = d * floats.power_of_two(-k)
    start, stop = _local_bound(t_min, shift, -ONE), _local_bound(t_max, shift, ONE)
    extra = TWO * error * s
    bound = tree.bound + extra * OVER_UNIT
    if not extra <= WORST * tree.bound:
        return ray
    # Clip the range to the box, moved outward by what rounding may hide.
    margin = distance * CLIP_SHARE + CLIP_MARGIN * tree.bound + extra
    entry, leave = start, stop
    for axis in range(3):
        # 1 / q, its size limited.
        inverse = ONE / q[axis]
        if wp.abs(q[axis]) < LEAST_SLOPE:
            inverse = wp.where(q[axis] < ZERO, -STEEPEST, STEEPEST)
        ray.inverse[axis] = f4(inverse)
        a = ((tree.lower[axis] - p[axis]) - margin) * inverse
        b = ((tree.upper[axis] - p[axis]) + margin) * inverse
        entry, leave = wp.max(entry, wp.min(a, b)), wp.min(leave, wp.max(a, b))
    if entry > leave:
        ray.state = MISSES
        return ray
    p = p + entry * q
    ray.state = MEETS
    ray.entry = entry
    ray.shift = shift
    ray.slack = wp.abs(entry) * SLACK_ENTRY + SLACK_BOUND * bound
    ray.low = f4(wp.max(start - entry, -tree.bound) - ray.slack)
    ray.end = f4((leave - entry) * LENGTH_UP + ray.slack)
    ray.edge = f4(floats.sum_of(q) * FILTER * LENGTH_UP * bound)
    ray.t_error = f4(FILTER * LENGTH_UP * bound)
    ray.p = wp.vec3(p)
    ray.d = wp.vec3(q)
    # Moved outward, whatever the sign of a direction.
    origin, margins = wp.cw_mul(ray.p, ray.inverse), ray.inverse * f4(MARGIN * LENGTH_UP * bound)
    ray.lower = -origin - margins
    ray.upper = -origin + margins
    return ray


@wp.func
def is_ray(o: wp.vec3d, d: wp.vec3d, t_min: wp.float64, t_max: wp.float64):
    """Return whether a ray is finite, its direction is not 0, and its range is not empty."""
    return wp.isfinite(o) and wp.isfinite(d) and floats.largest(d) > ZERO and t_min <= t_max


@wp.func
def sure_range(ray: LocalRay, t_min: wp.float64, t_max: wp.float64):
    """Return (first, last): t is surely in t_min..t_max, as rounded, for tau from first to last."""
    # Bounds are moved inward by what `_local_bound` and `slack` move them outward.
    first, last = f4(-wp.inf), f4(wp.inf)
    if t_min > -LARGEST:
        x = floats.scale_by(t_min + (wp.abs(t_min) * T_ULP + SMALLEST), ray.shift) - ray.entry
        first = f4(x + wp.abs(x) * LENGTH_SHARE + ray.slack)
    if t_max < LARGEST:
        x = floats.scale_by(t_max - (wp.abs(t_max) * T_ULP + SMALLEST), ray.shift) - ray.entry
        x = wp.min(x, LARGEST)
        last = f4(x - wp.abs(x) * LENGTH_SHARE - ray.slack)
    return first, last


@wp.func
def in_world(ray: LocalRay, tau: wp.float32, sign: wp.float64):
    """Return t of a parameter tau, lowered (sign -1) or raised (1) by what rounding may hide."""
    x = wp.float64(tau) + ray.entry
    return floats.scale_by(x + sign * wp.abs(x) * T_ULP, -ray.shift) + sign * SMALLEST
