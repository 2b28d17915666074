"""`ray_sphere` against rational arithmetic, and what it promises about shapes and messages."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from tests.geometry.test_boxes import INF, LARGEST, NAN, POOL, nudged, rounded, signed
from tests.oracles.confirmed import confirm, digest, is_confirmed

MISS = (False, INF, -INF)

# Integer vectors with integer lengths.
WHOLE = np.array([[1, 2, 2], [2, 3, 6], [1, 4, 8], [3, 4, 0], [0, 5, 12], [0, 0, 1], [4, 4, 7]])


def square_root(x: Fraction, bits: int = 1500) -> Fraction:
    """Return the square root, exact or good to 2**-bits of a unit and of itself."""
    root = math.isqrt((x.numerator * x.denominator) << (2 * bits))
    return Fraction(root, x.denominator << bits)


def exact_interval(o: Any, d: Any, center: Any, r: float) -> Any:
    """Return (hit, near, far, exact root?) of a ray in a ball, as fractions."""
    o, d, center = ([Fraction(x) for x in v] for v in (o, d, center))
    m = [x - y for x, y in zip(o, center, strict=True)]
    a = sum(x * x for x in d)
    b = sum(x * y for x, y in zip(d, m, strict=True))
    c = sum(x * x for x in m) - Fraction(r) ** 2
    discriminant = b * b - a * c
    if discriminant < 0:
        return MISS
    root = square_root(discriminant)
    # The root that cancels comes from the product of both, c / a.
    big = -b - root if b >= 0 else -b + root
    ends = (big / a, c / big) if big else (Fraction(0), Fraction(0))
    return True, min(ends), max(ends)


def is_close(t: float, exact: Fraction) -> bool:
    """Tell whether t is the nearest double; among denormal ones and such, within two units."""
    near = rounded(exact)
    if exact == 0 or abs(near) == LARGEST or abs(near) > 1e-300:
        return t == near
    return t != 0 and abs(Fraction(t) - exact) <= 2 * Fraction(math.ulp(near))


def check(o: Any, d: Any, center: Any, radius: Any) -> Any:
    """Compare a batch of lines with the rational answers, and return them."""
    got = bvh.ray_sphere(o, d, center, radius, -INF, INF)
    o, d, center = np.broadcast_arrays(*(np.asarray(x, float) for x in (o, d, center)))
    radius = np.broadcast_to(radius, len(o)).tolist()
    case = digest("spheres", o, d, center, radius, got.hit, got.t_near, got.t_far)
    if is_confirmed(case):
        return got
    for i in range(len(o)):
        ball = o[i].tolist(), d[i].tolist(), center[i].tolist(), radius[i]
        hit, near, far = exact_interval(*ball)
        mine = got.hit[i], got.t_near[i], got.t_far[i]
        if not hit:
            assert mine == MISS, f"ray {i}: {ball}"
        else:
            assert mine[0] and mine[1] <= mine[2], f"ray {i}: {ball}"
            assert near != far or mine[1] == mine[2], f"ray {i}: {ball}"
            assert is_close(mine[1], near) and is_close(mine[2], far), f"ray {i}: {ball} {mine}"
    confirm(case)
    return got


@pytest.mark.parametrize("seed", range(2))
def test_random_balls_at_all_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1000
    scale = 10.0 ** rng.uniform(-150, 150, (n, 1))
    center = rng.normal(size=(n, 3)) * scale
    o = center + rng.normal(size=(n, 3)) * scale * 10.0 ** rng.uniform(-8, 8, (n, 1))
    radius = rng.uniform(0, 2, n) * scale[:, 0] * 10.0 ** rng.uniform(-3, 3, n)
    d = center + rng.normal(size=(n, 3)) * radius[:, None] - o
    d = d / np.abs(d).max(axis=1, keepdims=True) * 10.0 ** rng.uniform(-200, 200, (n, 1))
    got = check(o, d, center, radius)
    assert 100 < np.count_nonzero(got.hit) < n - 100


@pytest.mark.parametrize("seed", range(2))
def test_lattice_tangents(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 800
    # The line passes the point center + normal at right angles to the normal.
    normal = signed(rng, rng.permuted(WHOLE[rng.integers(0, len(WHOLE), n)], axis=1).astype(float))
    d = np.cross(normal, rng.integers(-3, 4, (n, 3)))
    d[(d == 0).all(axis=1)] = [1.0, 1.0, 0.0]
    radius = np.sqrt(np.sum(normal**2, axis=1))
    center = rng.integers(-9, 10, (n, 3)).astype(float)
    o = center + normal + d * rng.integers(-5, 6, (n, 1))
    got = check(o, d, center, radius)
    assert np.count_nonzero(got.hit & (got.t_near == got.t_far)) > 300
    check(o * 2.0**-480, d * 2.0**640, center * 2.0**-480, radius * 2.0**-480)
    # One ulp off, or off by something so small that it needs all of the exact arithmetic.
    o, d, center = (np.where(x == 0, 1e-120, nudged(rng, x)) for x in (o, d, center))
    check(o, d, center, nudged(rng, radius))
    # Origins on the surface, where one end is exactly zero.
    turned = signed(rng, rng.normal(size=(n, 3)))
    center = np.rint(center)
    got = check(center + normal, turned, center, radius)
    assert np.all((got.t_near == 0.0) | (got.t_far == 0.0))
    # In floats, off the lattice.
    check(o / 3, d / 7, center / 3, radius / 3)


@pytest.mark.parametrize("seed", range(2))
def test_a_zero_radius_is_a_point(seed: int) -> None:
    rng = np.random.default_rng(seed)
    center = rng.integers(-9, 10, (500, 3)).astype(float)
    d = rng.integers(-4, 5, (500, 3)).astype(float)
    d[(d == 0).all(axis=1)] = 1.0
    o = center - d * rng.integers(-2, 3, (500, 1))
    assert np.all(check(o, d, center, 0.0).hit)
    check(nudged(rng, o), d, center, signed(rng, np.zeros(500)))
    check(o, d, nudged(rng, center), 5e-324)


def test_a_closest_point_next_to_the_origin() -> None:
    """The place where a line touches, far below the smallest double in units of the radius."""
    o = np.array(
        [[2.0**500, x * 2.0**-560, y] for x in (1.2345, -0.1, 1 / 3) for y in (0.0, 1e-120)]
    )
    got = check(o, np.array([0.0, 1.0, 0.0]), np.zeros(3), np.full(len(o), 2.0**500))
    assert got.hit.tolist() == [True, False] * 3
    assert got.t_near[got.hit].tolist() == (-o[got.hit, 1]).tolist()


@pytest.mark.parametrize("seed", range(2))
def test_hostile_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1500
    pool = POOL[4:]
    o, d, center = signed(rng, rng.choice(np.append(pool, 0.0), (3, n, 3)))
    d[(d == 0).all(axis=1)] = 1.0
    check(o, d, center, rng.choice(pool, n))
    # Where only the decision is promised: 600 orders of magnitude between the components.
    o, d, center = signed(rng, rng.choice(np.append(POOL, LARGEST), (3, n, 3)))
    d[(d == 0).all(axis=1)] = LARGEST
    radius = rng.choice(np.append(POOL, LARGEST), n)
    got = bvh.ray_sphere(o, d, center, radius, -INF, INF)
    want = [exact_interval(*x)[0] for x in zip(o, d, center, radius, strict=True)]
    assert got.hit.tolist() == want
    assert np.all(got.t_near[got.hit] <= got.t_far[got.hit])
    assert np.all(np.isfinite(got.t_near[got.hit]) & np.isfinite(got.t_far[got.hit]))


@pytest.mark.parametrize(
    "change",
    [
        # One for all is refused.
        {"radius": [-1.0]},
        {"radius": [NAN]},
        {"radius": [INF]},
        {"center": [0, NAN, 0]},
        {"center": [INF, 0, 0]},
        {"origins": [NAN, 0, 0]},
        {"origins": [0, 0, INF]},
        {"directions": [0, 0, NAN]},
        {"directions": [INF, 0, 0]},
        {"directions": [0, -0.0, 0]},
        {"t_min": NAN},
        {"t_max": NAN},
        {"t_min": 1.0, "t_max": 0.5},
        {"t_min": 4.0},
        {"t_max": -4.0, "t_min": -9.0},
    ],
)
def test_what_can_only_miss(change: Any) -> None:
    good = {"origins": [0, 0, 0], "directions": [1, 0, 0], "center": [0, 0, 0], "radius": 3}
    assert bvh.ray_sphere(**good) == (True, 0.0, 3.0)
    got = bvh.ray_sphere(**(good | change))
    assert tuple(np.ravel(x)[0].item() for x in got) == MISS


def test_the_range_is_closed_to_the_last_ulp() -> None:
    rng = np.random.default_rng(0)
    o, d, center = rng.normal(size=(3, 500, 3))
    got = bvh.ray_sphere(o, d, center, 2.0, -INF)
    o, d, center, near, far = (x[got.hit] for x in (o, d, center, got.t_near, got.t_far))
    assert np.all(bvh.ray_sphere(o, d, center, 2.0, -INF, near).hit)
    assert np.all(bvh.ray_sphere(o, d, center, 2.0, far, INF).hit)
    assert not np.any(bvh.ray_sphere(o, d, center, 2.0, -INF, np.nextafter(near, -INF)).hit)
    assert not np.any(bvh.ray_sphere(o, d, center, 2.0, np.nextafter(far, INF), INF).hit)
    clipped = bvh.ray_sphere(o, d, center, 2.0, (near + far) / 2, far)
    assert np.array_equal(clipped.t_near, (near + far) / 2)
    assert np.array_equal(clipped.t_far, far)


def test_a_discriminant_below_the_denormals() -> None:
    # From the surface, almost along it: c = 0, and the root is b itself.
    slant = 1.1 * 2.0**-530
    near = bvh.ray_sphere([1, 0, 0], [slant, 1, 0], [0, 0, 0], 1, -INF)
    assert near == (True, -2 * slant, 0.0)
    far = bvh.ray_sphere([1, 0, 0], [-slant, 1, 0], [0, 0, 0], 1, -INF)
    assert far == (True, 0.0, 2 * slant)


def test_an_origin_next_to_the_surface_of_a_huge_ball() -> None:
    o, d, r = [2.0**-52, 0, 0], [1, 0.5, 0], 2.0**500
    near, far = exact_interval(o, d, [0, -r, 0], r)[1:]
    got = bvh.ray_sphere(o, d, [0, -r, 0], r, -INF)
    assert got.hit and is_close(got.t_near, near) and is_close(got.t_far, far)


def test_shapes() -> None:
    hit, near, far = bvh.ray_sphere([-2, 0, 0], [1, 0, 0], [0, 0, 0], 1)
    assert (type(hit), type(near), type(far)) == (bool, float, float)
    got = bvh.ray_sphere(np.zeros((4, 1, 3)), [[1, 0, 0], [0, 1, 0]], [3, 0, 0], [1, 2])
    assert got.hit.shape == got.t_near.shape == got.t_far.shape == (4, 2)
    assert got.hit[0].tolist() == [True, False] and got.hit.dtype == bool
    assert bvh.ray_sphere(np.empty((0, 3)), [1, 0, 0], [0, 0, 0], 1).hit.shape == (0,)
    assert bvh.ray_sphere([0, 0, 0], [1, 0, 0], [0, 0, 0], np.ones((2, 3))).hit.shape == (2, 3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"center": [0, 0]}, ValueError, r"center must have shape \(\.\.\., 3\), got \(2,\)"),
        ({"radius": "wide"}, TypeError, "radius must be real numbers"),
        ({"radius": None}, TypeError, "radius must be an array"),
        ({"radius": -1}, ValueError, "radius must be a finite number of at least 0, got -1"),
        ({"radius": NAN}, ValueError, "radius must be a finite number of at least 0, got nan"),
        ({"radius": INF}, ValueError, "radius must be a finite number of at least 0, got inf"),
        ({"radius": [1, 2], "center": np.ones((3, 3))}, ValueError, r"radius \(2,\)"),
    ],
)
def test_messages_name_the_argument(change: Any, error: type[Exception], message: str) -> None:
    good = {"origins": [0, 0, 0], "directions": [1, 0, 0], "center": [1, 0, 0], "radius": 1}
    with pytest.raises(error, match=message):
        bvh.ray_sphere(**(good | change))
