"""`ray_plane` against rational arithmetic, and what it promises about shapes and messages."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from tests.geometry.test_boxes import INF, LARGEST, NAN, POOL, nudged, rounded, signed
from tests.oracles.confirmed import confirm, digest, is_confirmed

IGNORED = {None: 0, "back": 1, "front": -1}


def exact(a: Any, b: Any) -> Fraction:
    """Return the dot product of two vectors of doubles."""
    return sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))


def expected(o: Any, d: Any, n: Any, c: float, t_min: float, t_max: float, cull: Any) -> Any:
    """Return what `ray_plane` must give for one ray."""
    finite = np.isfinite([*o, *d, *n, c]).all()
    if not finite or not any(d) or not any(n) or not t_min <= t_max:
        return False, INF
    height, slope = -exact(n, o) - Fraction(c), exact(n, d)
    if slope == 0:
        return False, (NAN if height == 0 else INF)
    if (slope > 0) - (slope < 0) == IGNORED[cull]:
        return False, INF
    t = rounded(height / slope)
    return (True, t) if t_min <= t <= t_max else (False, INF)


def check(
    o: Any, d: Any, normal: Any, offset: Any, t_min: Any = 0.0, t_max: Any = INF, cull: Any = None
) -> Any:
    """Compare a batch with the rational answers, and return them."""
    got = bvh.ray_plane(o, d, normal, offset, t_min, t_max, cull=cull)
    o, d, normal = np.broadcast_arrays(*(np.asarray(x, float) for x in (o, d, normal)))
    offset, low, high = (np.broadcast_to(x, len(o)).tolist() for x in (offset, t_min, t_max))
    case = digest("planes", o, d, normal, offset, low, high, str(cull), got.hit, got.t)
    if is_confirmed(case):
        return got
    for i in range(len(o)):
        ray = o[i].tolist(), d[i].tolist(), normal[i].tolist(), offset[i]
        hit, t = expected(*ray, low[i], high[i], cull)
        same = got.t[i] == t or (math.isnan(t) and math.isnan(got.t[i]))
        assert got.hit[i] == hit and same, f"ray {i}: {ray}"
        assert t != 0.0 or math.copysign(1.0, got.t[i]) == 1.0
    confirm(case)
    return got


@pytest.mark.parametrize("seed", range(2))
def test_random_planes_at_all_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1500
    scale = 10.0 ** rng.uniform(-150, 150, (n, 1))
    o = rng.normal(size=(n, 3)) * scale
    d = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-200, 200, (n, 1))
    normal = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-150, 150, (n, 1))
    through = o + rng.normal(size=(n, 3)) * scale * 10.0 ** rng.uniform(-16, 0, (n, 1))
    offset = -np.sum(normal * through, axis=1)
    for cull in (None, "back", "front"):
        got = check(o, d, normal, offset, -INF, INF, cull)
        assert np.count_nonzero(got.hit) == n or cull is not None
    check(o, d, normal, offset, rng.normal(size=n), rng.normal(size=n))


@pytest.mark.parametrize("seed", range(2))
def test_lattice_rays_in_and_beside_planes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 3000
    o, d, normal = signed(rng, rng.integers(0, 4, (3, n, 3)).astype(float))
    offset = rng.integers(-3, 4, n).astype(float)
    got = check(o, d, normal, offset, -INF)
    assert np.count_nonzero(np.isnan(got.t)) > 10
    # The same at another scale, where no product is a float64 integer.
    check(o * 2.0**-500, d * 2.0**-660, normal * 2.0**430, offset * 2.0**-70, -INF)
    # A plane through the origin of the ray, and a slope that is zero but for one ulp.
    offset = -np.sum(o * normal, axis=1)
    check(o, d, normal, offset)
    check(nudged(rng, o), nudged(rng, d), nudged(rng, normal), nudged(rng, offset), -INF)
    d = np.cross(normal, rng.normal(size=(n, 3)))
    check(o, d, normal, offset + 1.0, -INF)


@pytest.mark.parametrize("seed", range(2))
def test_hostile_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 4000
    o, d, normal = signed(rng, rng.choice(np.append(POOL, LARGEST), (3, n, 3)))
    offset = signed(rng, rng.choice(np.append(POOL, LARGEST), n))
    check(o, d, normal, offset, -INF)


def test_not_finite() -> None:
    rng = np.random.default_rng(0)
    pool = [-INF, -1.0, 0.0, 1.0, 2.0, 2.0, INF, NAN]
    o, d, normal = rng.choice(pool, (3, 3000, 3), p=[0.05, 0.3, 0.1, 0.2, 0.1, 0.15, 0.05, 0.05])
    offset, low, high = rng.choice(pool, (3, 3000))
    check(o, d, normal, offset, low, high)
    check([[0.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 0.0, -0.0]], 0.0)


def test_both_sides_unless_culled() -> None:
    along = {"origins": [0, 0, 0], "directions": [0, 0, 2], "normal": [0, 0, 1], "offset": -4}
    against = along | {"normal": [0, 0, -1], "offset": 4}
    for plane, ignored, seen in ((along, "back", "front"), (against, "front", "back")):
        assert bvh.ray_plane(**plane) == (True, 2.0)
        assert bvh.ray_plane(**plane, cull=seen) == (True, 2.0)
        assert bvh.ray_plane(**plane, cull=ignored) == (False, INF)


def test_the_range_is_closed() -> None:
    for low, high, hit in ((2, 2, True), (2, 9, True), (-9, 2, True), (2 + 5e-16, 9, False)):
        got = bvh.ray_plane([0, 0, 0], [0, 0, 1], [0, 0, 1], -2, low, high)
        assert got == (hit, 2.0 if hit else INF)


def test_a_quotient_never_leaves_the_reals() -> None:
    assert bvh.ray_plane([0, 0, 0], [1e200, 0, 0], [1, 0, 0], -1e-200).t == 5e-324
    assert bvh.ray_plane([0, 0, 0], [1e-200, 0, 0], [1, 0, 0], -1e150).t == LARGEST
    assert bvh.ray_plane([0, 0, 0], [1e200, 0, 0], [1, 0, 0], 1e-200).hit is False


def test_shapes() -> None:
    hit, t = bvh.ray_plane([0, 0, 0], [1, 0, 0], [1, 0, 0], -1)
    assert (type(hit), type(t)) == (bool, float)
    got = bvh.ray_plane(np.zeros((4, 1, 3)), [[1, 0, 0], [0, 1, 0]], [1, 0, 0], [-1, 0])
    assert got.hit.shape == got.t.shape == (4, 2) and got.hit.dtype == bool
    assert bvh.ray_plane(np.empty((0, 3)), [1, 0, 0], [1, 0, 0], 0).t.shape == (0,)
    assert bvh.ray_plane([0, 0, 0], [1, 0, 0], [1, 0, 0], np.zeros((2, 3))).t.shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"normal": [0, 0]}, ValueError, r"normal must have shape \(\.\.\., 3\), got \(2,\)"),
        ({"offset": "far"}, TypeError, "offset must be real numbers"),
        ({"offset": None}, TypeError, "offset must be an array"),
        ({"offset": [1, 2], "normal": np.ones((3, 3))}, ValueError, r"offset \(2,\)"),
        ({"cull": "both"}, ValueError, "cull must be None, 'back' or 'front', got 'both'"),
    ],
)
def test_messages_name_the_argument(change: Any, error: type[Exception], message: str) -> None:
    good = {"origins": [0, 0, 0], "directions": [1, 0, 0], "normal": [1, 0, 0], "offset": 1}
    with pytest.raises(error, match=message):
        bvh.ray_plane(**(good | change))
