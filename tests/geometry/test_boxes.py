"""`ray_box` against rational arithmetic, and what it promises about shapes and messages."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from tests.oracles.confirmed import confirm, digest, is_confirmed
from tests.oracles.rays import round_fraction

INF, NAN = math.inf, math.nan
LARGEST = np.finfo(np.float64).max
UNIT_ROWS = np.eye(3, 4)
MISS = (False, INF, -INF)

# Doubles with which float tests go wrong.
POOL = np.array(
    [0.0, 5e-324, 3e-310, 1e-200, 1e-17, 0.1, 0.5, 1 - 2**-53, 1.0, 1 + 2**-52, 3.0, 1e17, 1e150]
)


def rounded(x: Fraction | float) -> float:
    """Round a fraction like the kernels do; infinity stays."""
    return x if isinstance(x, float) else round_fraction(x)


def exact_interval(o: Any, d: Any, lower: Any, upper: Any, rows: Any = UNIT_ROWS) -> Any:
    """Return (hit, near, far) of {t : lower <= W (o + t d) + w <= upper}, as fractions."""
    near: Any = -INF
    far: Any = INF
    o, d = [Fraction(x) for x in o], [Fraction(x) for x in d]
    for w, low, high in zip(rows, lower, upper, strict=True):
        if not low <= high or low == INF or high == -INF:
            return MISS
        w = [Fraction(x) for x in w]
        at = w[3] + sum(w[i] * o[i] for i in range(3))
        slope = sum(w[i] * d[i] for i in range(3))
        if slope == 0:
            if not low <= at <= high:
                return MISS
            continue
        first, last = (low, high) if slope > 0 else (high, low)
        if math.isfinite(first):
            near = max(near, (Fraction(first) - at) / slope)
        if math.isfinite(last):
            far = min(far, (Fraction(last) - at) / slope)
    return (True, near, far) if near <= far else MISS


def expected(o: Any, d: Any, lower: Any, upper: Any, t_min: float, t_max: float, rows: Any) -> Any:
    """Return what `ray_box` and `ray_obb` must give for one ray."""
    finite = np.isfinite(o).all() and np.isfinite(d).all()
    if not finite or not np.any(d) or not t_min <= t_max:
        return MISS
    hit, near, far = exact_interval(o.tolist(), d.tolist(), lower.tolist(), upper.tolist(), rows)
    near, far = rounded(near), rounded(far)
    if not hit or near > t_max or far < t_min:
        return MISS
    return True, max(t_min, near), min(t_max, far)


def check(o: Any, d: Any, lower: Any, upper: Any, t_min: Any = 0.0, t_max: Any = INF) -> Any:
    """Compare a batch with the rational answers, and return them."""
    got = bvh.ray_box(o, d, lower, upper, t_min, t_max)
    o, d, lower, upper = np.broadcast_arrays(*(np.asarray(x, float) for x in (o, d, lower, upper)))
    low, high = np.broadcast_to(t_min, len(o)).tolist(), np.broadcast_to(t_max, len(o)).tolist()
    case = digest("boxes", o, d, lower, upper, low, high, got.hit, got.t_near, got.t_far)
    if is_confirmed(case):
        return got
    for i in range(len(o)):
        want = expected(o[i], d[i], lower[i], upper[i], low[i], high[i], UNIT_ROWS)
        mine = got.hit[i], got.t_near[i], got.t_far[i]
        assert mine == want, f"ray {i}: {o[i]!r} {d[i]!r} {lower[i]!r} {upper[i]!r}"
        if not math.isinf(mine[1]) and mine[1] == 0.0 and low[i] < 0.0:
            assert math.copysign(1.0, mine[1]) == 1.0
    confirm(case)
    return got


def signed(rng: np.random.Generator, x: Any) -> Any:
    """Give each number a random sign (zeros, too)."""
    return x * rng.choice([-1.0, 1.0], np.shape(x))


def boxes(rng: np.random.Generator, n: int, scale: Any = 1.0) -> Any:
    """Return random boxes, a few of them flat."""
    a, b = rng.normal(size=(2, n, 3)) * scale
    b = np.where(rng.random((n, 3)) < 0.1, a, b)
    return np.minimum(a, b), np.maximum(a, b)


def nudged(rng: np.random.Generator, x: Any) -> Any:
    """Move half of the numbers by one unit in the last place."""
    step = rng.integers(-1, 2, np.shape(x))
    return np.where(step == 0, x, np.nextafter(x, np.where(step > 0, INF, -INF)))


@pytest.mark.parametrize("seed", range(2))
def test_random_rays_at_all_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1500
    scale = 10.0 ** rng.uniform(-150, 150, (n, 1))
    lower, upper = boxes(rng, n, scale)
    o = rng.normal(size=(n, 3)) * scale * 3
    target = rng.uniform(-1, 1, (n, 3)) * scale
    d = (target - o) / scale * 10.0 ** rng.uniform(-200, 200, (n, 1))
    got = check(o, d, lower, upper, -INF)
    assert 100 < np.count_nonzero(got.hit) < n - 100


@pytest.mark.parametrize("seed", range(2))
def test_lattice_rays_graze_edges_and_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 3000
    a, b = rng.integers(-3, 4, (2, n, 3)).astype(float)
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    # Oblique through a corner or an edge point, from a lattice point: ties that are exact.
    corner = np.where(rng.random((n, 3)) < 0.5, lower, upper)
    d = signed(rng, rng.integers(0, 4, (n, 3)).astype(float))
    o = corner - d * rng.integers(-2, 5, (n, 1))
    got = check(o, d, lower, upper)
    assert np.count_nonzero(got.t_near == got.t_far) > 100
    # The same, where o + t d is not representable, and at other scales.
    check(o, d / 3 * 2.0 ** rng.integers(-600, 600, (n, 1)), lower, upper)
    check(o * 2.0**480, d * 2.0**-640, lower * 2.0**480, upper * 2.0**480)
    check(o + 0.1, d, lower + 0.1, upper + 0.1)


@pytest.mark.parametrize("seed", range(2))
def test_one_ulp_off_an_edge_or_corner(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2000
    lower, upper = boxes(rng, n)
    corner = np.where(rng.random((n, 3)) < 0.5, lower, upper)
    on_edge = rng.random((n, 3)) < 0.3
    target = np.where(on_edge, (lower + upper) / 2, corner)
    o = np.where(rng.random((n, 1)) < 0.2, target, rng.normal(size=(n, 3)))
    d = np.where(rng.random((n, 3)) < 0.2, signed(rng, np.zeros((n, 3))), target - o)
    got = check(nudged(rng, o), nudged(rng, d), lower, upper, -INF)
    assert 200 < np.count_nonzero(got.hit) < n - 200


@pytest.mark.parametrize("seed", range(2))
def test_hostile_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 4000
    o, d = signed(rng, rng.choice(POOL, (n, 3))), signed(rng, rng.choice(POOL, (n, 3)))
    a, b = signed(rng, rng.choice(POOL, (2, n, 3)))
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    got = check(o, d, lower, upper, signed(rng, rng.choice(POOL, n)), INF)
    assert np.count_nonzero(got.hit) > 100
    check(o, signed(rng, rng.choice([0.0, 1.0, LARGEST], (n, 3))), lower, upper, -INF)


@pytest.mark.parametrize("seed", range(2))
def test_not_finite_and_inverted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 3000
    pool = np.array([-INF, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, INF, LARGEST, -LARGEST])
    lower, upper = rng.choice(pool, (2, n, 3))
    upper[rng.random((n, 3)) < 0.05] = NAN
    lower[rng.random((n, 3)) < 0.05] = NAN
    o, d = rng.choice(pool[1:7], (2, n, 3))
    o[:50, 0], o[50:100, 2], d[100:150, 1], d[150:200, 0] = NAN, INF, NAN, -INF
    low, high = rng.choice(np.append(pool, NAN), (2, n))
    check(o, d, lower, upper, low, high)
    check(o, d, lower, upper, -INF, INF)
    assert bvh.ray_box([1, 2, 3], [1, 0, 0], [-INF] * 3, [INF] * 3, -INF) == (True, -INF, INF)


@pytest.mark.parametrize("seed", range(2))
def test_the_range_is_closed_to_the_last_ulp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1000
    lower, upper = boxes(rng, n)
    o = rng.normal(size=(n, 3)) * 3
    d = rng.uniform(lower, upper) - o
    hit, near, far = check(o, d, lower, upper, -INF)
    # Flat boxes are missed, or met in a single point.
    hit &= near < far
    o, d, lower, upper, near, far = (x[hit] for x in (o, d, lower, upper, near, far))
    assert np.all(bvh.ray_box(o, d, lower, upper, -INF, near).hit)
    assert np.all(bvh.ray_box(o, d, lower, upper, far, INF).hit)
    assert not np.any(bvh.ray_box(o, d, lower, upper, -INF, np.nextafter(near, -INF)).hit)
    assert not np.any(bvh.ray_box(o, d, lower, upper, np.nextafter(far, INF), INF).hit)
    inside = np.nextafter(near, INF)
    assert np.array_equal(bvh.ray_box(o, d, lower, upper, inside, INF).t_near, inside)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_rays_in_face_planes_and_along_edges_hit(zero: float) -> None:
    for y in (1.0, 2.0):
        assert bvh.ray_box([-1, y, 1.5], [1, zero, zero], [1, 1, 1], [2, 2, 2]) == (True, 2, 3)
        assert bvh.ray_box([-1, y, 1], [1, zero, zero], [1, 1, 1], [2, 2, 2]) == (True, 2, 3)
    for y in (np.nextafter(1, 0), np.nextafter(2, 3)):
        assert not bvh.ray_box([-1, y, 1.5], [1, zero, zero], [1, 1, 1], [2, 2, 2]).hit


def test_a_quotient_never_leaves_the_reals() -> None:
    tiny = bvh.ray_box([0, 0, 0], [1e200, 0, 0], [1e-200, 0, 0], [1, 0, 0])
    assert tiny == (True, 5e-324, 1e-200)
    huge = bvh.ray_box([0, 0, 0], [1e-200, 0, 0], [1e150, 0, 0], [INF, 0, 0])
    assert huge == (True, LARGEST, INF)
    far_apart = bvh.ray_box([-LARGEST, 0, 0], [1, 0, 0], [LARGEST, 0, 0], [LARGEST, 0, 0])
    assert far_apart == (True, LARGEST, LARGEST)


def test_shapes() -> None:
    hit, near, far = bvh.ray_box([0, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 0])
    assert (type(hit), type(near), type(far)) == (bool, float, float)
    o, d = np.zeros((4, 1, 3)), np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0]])
    got = bvh.ray_box(o, d, [1, 0, 0], [2, 1, 1], t_max=np.full((5, 1, 1), 3.0))
    assert got.hit.shape == got.t_near.shape == got.t_far.shape == (5, 4, 3)
    assert got.hit.dtype == bool and got.hit[0, 0].tolist() == [True, False, False]
    assert bvh.ray_box(np.empty((0, 3)), [1, 0, 0], [0, 0, 0], [1, 1, 1]).hit.shape == (0,)
    # Views of any layout, integers, lists.
    lower = np.asfortranarray(np.arange(12.0).reshape(4, 3))[::-2]
    assert bvh.ray_box([0, 0, 0], [1, 1, 1], lower, lower + 3).hit.tolist() == [True, True]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"lower": [0, 0]}, ValueError, r"lower must have shape \(\.\.\., 3\), got \(2,\)"),
        ({"upper": "abc"}, TypeError, "upper must be real numbers"),
        ({"upper": None}, TypeError, "upper must be an array"),
        ({"origins": 1.0}, ValueError, "origins must have shape"),
        ({"t_min": "0"}, TypeError, "t_min must be real numbers"),
        ({"lower": np.zeros((2, 3)), "upper": np.ones((3, 3))}, ValueError, r"upper \(3,\)"),
    ],
)
def test_messages_name_the_argument(change: Any, error: type[Exception], message: str) -> None:
    good = {"origins": [0, 0, 0], "directions": [1, 0, 0], "lower": [0, 0, 0], "upper": [1, 1, 1]}
    with pytest.raises(error, match=message):
        bvh.ray_box(**(good | change))
