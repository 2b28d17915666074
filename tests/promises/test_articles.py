"""The examples that articles teach ray picking with: their flaw, shown, and our answer.

Each naive function is the code as such articles print it, reduced to its point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh

Array = NDArray[np.float64]

LOWER, UPPER = np.full(3, 0.5), np.full(3, 2.0)


def test_five_rays_against_one_box() -> None:
    origins = [
        [-1, 1, 1],  # through the box
        [-1, 3, 1],  # past it
        [-1, 1, 1],  # pointing away
        [1, 1, 1],  # starting inside
        [-1, 1, 2.25],  # parallel, beside it
    ]
    directions = [[1, 0.1, 0.1], [1, 0.1, 0.1], [-1, -0.1, -0.1], [0.3, 0.2, 0.1], [1, 0, 0]]
    hit, near, far = bvh.ray_box(origins, directions, LOWER, UPPER)
    assert hit.tolist() == [True, False, False, True, False]
    assert near.tolist() == [1.5, math.inf, math.inf, 0.0, math.inf]
    assert far.tolist() == [3.0, -math.inf, -math.inf, 1 / 0.3, -math.inf]


def naive_pick(hits: Any) -> int | None:
    """Return the first box in the list that the ray hits, and stop looking."""
    picked = None
    for i, hit in enumerate(hits):
        if hit:
            picked = i
            break
    return picked


def test_the_picking_loop_that_breaks_at_the_first_box() -> None:
    rng = np.random.default_rng(0)
    n = 100
    transforms = np.tile(np.eye(4), (n, 1, 1))
    transforms[:, :3, :3] = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    # All overlap: each contains a ball of radius 1 around a centre near the axis.
    transforms[:, :3, 3] = np.column_stack([rng.uniform(10, 12, n), rng.normal(size=(n, 2)) * 0.1])
    hits, near, _ = bvh.ray_obb([0, 0, 0], [1, 0, 0], [-1, -1, -1], [1, 1, 1], transforms)
    assert hits.all()
    nearest = int(near.argmin())
    first = naive_pick(hits)
    assert first == 0 != nearest
    assert near[first] > near[nearest]
    # Nothing at all is met one ulp before it.
    before = np.nextafter(near[nearest], 0.0)
    earlier = bvh.ray_obb(
        [0, 0, 0], [1, 0, 0], [-1, -1, -1], [1, 1, 1], transforms, t_max=before
    ).hit
    assert not earlier.any()


def naive_slabs(o: Any, d: Any, lower: Any, upper: Any) -> bool:
    """Choose near and far by `if d >= 0`, and multiply by 1/d."""
    t_near, t_far = -math.inf, math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        for axis in range(3):
            inverse = 1.0 / np.float64(d[axis])
            if d[axis] >= 0:
                t0 = (lower[axis] - o[axis]) * inverse
                t1 = (upper[axis] - o[axis]) * inverse
            else:
                t0 = (upper[axis] - o[axis]) * inverse
                t1 = (lower[axis] - o[axis]) * inverse
            if t0 > t_far or t1 < t_near:
                return False
            t_near, t_far = max(t_near, t0), min(t_far, t1)
    return bool(t_near <= t_far and t_far >= 0)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_direction_with_minus_zero(zero: float) -> None:
    o, d = [-1.0, 1.0, 1.0], [1.0, zero, zero]
    # -0.0 >= 0 holds, but 1 / -0.0 is -inf: near and far change places, and the box is lost.
    assert naive_slabs(o, d, LOWER, UPPER) == (math.copysign(1.0, zero) > 0)
    assert bvh.ray_box(o, d, LOWER, UPPER) == (True, 1.5, 3.0)


def naive_min_max(o: Any, d: Any, lower: Any, upper: Any) -> bool:
    """Order both crossings of each slab by min and max."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t0 = (np.asarray(lower) - o) / np.asarray(d, float)
        t1 = (np.asarray(upper) - o) / np.asarray(d, float)
    near, far = np.minimum(t0, t1).max(), np.maximum(t0, t1).min()
    return bool(near <= far and far >= 0)


@pytest.mark.parametrize("face", [0.5, 2.0])
def test_an_origin_on_a_face_plane(face: float) -> None:
    o, d = [-1.0, face, 1.0], [1.0, 0.0, 0.0]
    # (face - face) / 0 is NaN, and every comparison with it fails.
    assert naive_min_max(o, d, LOWER, UPPER) is False
    assert bvh.ray_box(o, d, LOWER, UPPER) == (True, 1.5, 3.0)
    # It is as solid where the plane is given to `ray_obb`.
    assert bvh.ray_obb(o, d, LOWER, UPPER, np.eye(4)) == (True, 1.5, 3.0)


def test_a_segment_that_stops_short() -> None:
    p, q = np.array([-1.0, 1.0, 1.0]), np.array([0.25, 1.0, 1.0])
    # The ray goes on to the box, the segment does not.
    assert naive_min_max(p, q - p, LOWER, UPPER) is True
    assert bvh.ray_box(p, q - p, LOWER, UPPER, 0.0, 1.0) == (False, math.inf, -math.inf)
    # One that ends on the face touches it, one that ends an ulp before does not.
    assert bvh.ray_box(p, [1.5, 0, 0], LOWER, UPPER, 0.0, 1.0) == (True, 1.0, 1.0)
    assert not bvh.ray_box(p, [np.nextafter(1.5, 0), 0, 0], LOWER, UPPER, 0.0, 1.0).hit


def naive_obb(o: Array, d: Array, lower: Array, upper: Array, matrix: Array) -> bool:
    """Intersect slabs along the box's axes, from 0 to 100000."""
    t_near, t_far = 0.0, 100000.0
    delta = matrix[:3, 3] - o
    for axis in range(3):
        e, f = matrix[:3, axis] @ delta, matrix[:3, axis] @ d
        if abs(f) > 0.001:
            t0, t1 = sorted([(e + lower[axis]) / f, (e + upper[axis]) / f])
            t_near, t_far = max(t_near, t0), min(t_far, t1)
            if t_far < t_near:
                return False
        elif lower[axis] + e > 0 or upper[axis] + e < 0:
            return False
    return True


def test_a_box_a_million_units_away() -> None:
    matrix = np.eye(4)
    matrix[:3, 3] = 1e6, 0, 0
    o, d = np.zeros(3), np.array([1.0, 0.0, 0.0])
    box = np.full(3, -1.0), np.full(3, 1.0)
    assert naive_obb(o, d, *box, matrix) is False
    assert bvh.ray_obb(o, d, *box, matrix) == (True, 999999.0, 1000001.0)
    # Its `abs(f) > 0.001` takes a slanting ray for a parallel one.
    matrix[:3, 3] = 5000, 4, 0
    slanting = np.array([1.0, 0.0008, 0.0])
    assert naive_obb(o, slanting, *box, matrix) is False
    assert bvh.ray_obb(o, slanting, *box, matrix).hit


def naive_plane(o: Array, d: Array, normal: Array, offset: float) -> float | None:
    """Meet a plane only from its front."""
    denominator = -(normal @ d)
    if denominator > 1e-6:
        t = (normal @ o + offset) / denominator
        return float(t) if t >= 0 else None
    return None


def test_a_plane_has_two_sides() -> None:
    normal = np.array([0.0, 0.0, 1.0])
    above, below = np.array([0.0, 0.0, 3.0]), np.array([0.0, 0.0, -3.0])
    assert naive_plane(above, -normal, normal, 0.0) == 3.0
    assert naive_plane(below, normal, normal, 0.0) is None
    assert bvh.ray_plane([above, below], [-normal, normal], normal, 0.0).t.tolist() == [3.0, 3.0]
    # One-sided is a choice.
    assert not bvh.ray_plane(below, normal, normal, 0.0, cull="back").hit
    # And 1e-6 is no measure of an angle: directions have any length.
    assert naive_plane(above, normal * -1e-7, normal, 0.0) is None
    assert bvh.ray_plane(above, normal * -(2.0**-24), normal, 0.0).t == 3 * 2.0**24


def naive_mixed(o: Any, d: Any, lower: Any, upper: Any) -> bool:
    """Copy the x slab for y and forget one of its names."""
    t_near, t_far = -math.inf, math.inf
    for axis, bound in ((0, 0), (1, 0), (2, 2)):  # the y slab reads lower.x and upper.x
        t0 = (lower[bound] - o[axis]) / d[axis]
        t1 = (upper[bound] - o[axis]) / d[axis]
        t_near, t_far = max(t_near, min(t0, t1)), min(t_far, max(t0, t1))
    return bool(t_near <= t_far and t_far >= 0)


def test_a_y_slab_that_reads_x() -> None:
    o, d = [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]
    # A cube on the diagonal, the box that everyone tries, cannot show it.
    assert naive_mixed(o, d, LOWER, UPPER) is True
    # A box that is not as wide as it is high shows it both ways.
    lower, upper = [0.5, 5.0, 0.5], [2.0, 6.0, 2.0]
    assert naive_mixed(o, d, lower, upper) is True
    assert bvh.ray_box(o, d, lower, upper).hit is False
    climbing = [1.0, 3.0, 1.0]
    assert naive_mixed([-1.0, 0.5, -1.0], climbing, lower, upper) is False
    assert bvh.ray_box([-1.0, 0.5, -1.0], climbing, lower, upper) == (True, 1.5, 5.5 / 3)
