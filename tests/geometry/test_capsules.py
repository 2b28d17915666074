"""A ray and a capsule against rational arithmetic: hits exactly, t to the nearest double."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from tests.geometry.test_boxes import nudged, signed
from tests.geometry.test_spheres import WHOLE, exact_interval, is_close, square_root
from tests.oracles.confirmed import confirm, digest, is_confirmed

Rows = np.ndarray


def times(a: list[Fraction], b: list[Fraction]) -> Fraction:
    """Return the dot product."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def exact_crossings(o: Any, d: Any, p: Any, q: Any, r: float) -> list[Fraction]:
    """Return where a line enters and leaves a capsule: the least and the largest t on it."""
    # What of its cylinder is between the ends, and both balls, are convex and cover it.
    ends = [interval[1:] for c in (p, q) if (interval := exact_interval(o, d, c, r))[0]]
    o, d, p, q = ([Fraction(x) for x in v] for v in (o, d, p, q))
    m, v = ([x - y for x, y in zip(a, p, strict=True)] for a in (o, q))
    vv, dv, mv = times(v, v), times(d, v), times(m, v)
    a = times(d, d) * vv - dv * dv
    b = times(d, m) * vv - dv * mv
    c = (times(m, m) - Fraction(r) ** 2) * vv - mv * mv
    if a and b * b >= a * c:
        root = square_root(b * b - a * c)
        big = -b - root if b >= 0 else -b + root
        near, far = sorted((big / a, c / big) if big else (Fraction(0), Fraction(0)))
        if dv:
            near, far = (
                max(near, min(-mv / dv, (vv - mv) / dv)),
                min(far, max(-mv / dv, (vv - mv) / dv)),
            )
        if near <= far and (dv or 0 <= mv <= vv):
            ends.append((near, far))
    return [min(t for t, _ in ends), max(t for _, t in ends)] if ends else []


def check(o: Rows, d: Rows, p: Rows, q: Rows, r: Rows) -> int:
    """Compare lines and capsules one by one; return how many are hit."""
    near, far = np.empty((2, len(o)))
    for i in range(len(o)):
        tree = BVH.from_capsules(p[i : i + 1], q[i : i + 1], r[i : i + 1])
        near[i] = tree.closest_hit(o[i], d[i], t_min=-np.inf).t
        far[i] = tree.closest_hit(o[i], -d[i], t_min=-np.inf).t
    hit = np.isfinite(near)
    case = digest("lines and capsules", o, d, p, q, r, near, far)
    if is_confirmed(case):
        return int(hit.sum())
    for i in range(len(o)):
        given = o[i].tolist(), d[i].tolist(), p[i].tolist(), q[i].tolist(), float(r[i])
        wanted = exact_crossings(*given)
        assert hit[i] == bool(wanted), f"ray {i}: {given}"
        if wanted:
            assert is_close(near[i], wanted[0]), f"ray {i}: {given} {near[i]}"
            assert is_close(-far[i], wanted[1]), f"ray {i}: {given} {far[i]}"
    confirm(case)
    return int(hit.sum())


@pytest.mark.parametrize(
    ("seed", "n"), [(0, 150), *(pytest.param(k, 400, marks=pytest.mark.long) for k in range(2))]
)
def test_random_capsules_at_all_scales(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-60, 60, (n, 1))
    p = rng.normal(size=(n, 3)) * scale
    q = p + rng.normal(size=(n, 3)) * scale * 10.0 ** rng.uniform(-6, 1, (n, 1))
    r = rng.uniform(0, 2, n) * scale[:, 0] * 10.0 ** rng.uniform(-3, 1, n)
    o = p + rng.normal(size=(n, 3)) * scale * 10.0 ** rng.uniform(-4, 6, (n, 1))
    aim = p + rng.random((n, 1)) * (q - p) + rng.normal(size=(n, 3)) * r[:, None] * 0.6
    d = (aim - o) / scale
    assert n * 0.3 < check(o, d, p, q, r) < n * 0.95


@pytest.mark.parametrize(
    ("seed", "n"), [(0, 50), *(pytest.param(k, 300, marks=pytest.mark.long) for k in range(2))]
)
def test_lattices(seed: int, n: int) -> None:
    """Touching lines, lines through the seams of cylinder and balls, parallel ones, points."""
    rng = np.random.default_rng(seed)
    normal = signed(rng, rng.permuted(WHOLE[rng.integers(0, len(WHOLE), n)], axis=1).astype(float))
    r = np.sqrt((normal**2).sum(axis=1))
    p = rng.integers(-5, 6, (n, 3)).astype(float)
    across = np.cross(normal, rng.integers(-2, 3, (n, 3)))
    q = p + across * rng.integers(0, 3, (n, 1))
    # The line passes where the normal leads from a place of the axis, often an end.
    place = p + (q - p) * rng.choice([-0.5, 0.0, 0.5, 1.0, 1.5], (n, 1))
    turn = np.where(rng.random((n, 1)) < 0.3, across, np.cross(normal, rng.integers(-2, 3, (n, 3))))
    d = np.where(rng.random((n, 1)) < 0.5, turn, rng.integers(-2, 3, (n, 3)))
    d[(d == 0).all(axis=1)] = [1.0, 0.0, 1.0]
    o = place + normal - d * rng.integers(-3, 4, (n, 1))
    assert check(o, d, p, q, r) > n // 3
    check(nudged(rng, o), d, nudged(rng, p), q, nudged(rng, r))
    check(o, d, p, np.where(q == 0.0, 1e-90, q), r * 0.0)
    check(o / 3, d / 7, p / 3, q / 3, r / 3)


def test_extremes() -> None:
    """Numbers at both ends of the doubles' range."""
    rng = np.random.default_rng(0)
    n = 60
    p, q, o = (rng.integers(-3, 4, (n, 3)) * 1.0 for _ in range(3))
    d = rng.integers(-2, 3, (n, 3)) * 1.0
    d[(d == 0).all(axis=1)] = 1.0
    r = rng.integers(0, 3, n) * 1.0
    for lengths in (2.0**-1060, 2.0**900, 2.0**1018):
        for size in (2.0**-1060, 2.0**1018) if lengths < 1.0 else (1.0, 2.0**900):
            if math.isfinite(lengths * size) or lengths > 1.0:
                check(o * lengths, d * size, p * lengths, q * lengths, r * lengths)


@pytest.mark.parametrize(
    ("o", "p", "q", "t"),
    [
        ([0.0, 1e60, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], 1e60),
        ([0.0, 1e88, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0], 1e88),
        ([0.0, 3.0, 0.0], [-1e-100, 0.0, 0.0], [1e-100, 0.0, 0.0], 2.0),
        ([0.0, 3.0, 0.0], [-1e-80, 0.0, 0.0], [1e-80, 0.0, 0.0], 2.0),
        ([0.0, 3.0, 0.0], [-1e-300, 0.0, 0.0], [1e-300, 0.0, 0.0], 2.0),
        ([0.0, 3.0, 0.0], [-1e300, 0.0, 0.0], [1e300, 0.0, 0.0], 2.0),
    ],
)
def test_far_origins_and_axes_of_any_length(
    o: list[float], p: list[float], q: list[float], t: float
) -> None:
    assert BVH.from_capsules([p], [q], 1.0).closest_hit(o, [0.0, -1.0, 0.0]).t == t


@pytest.mark.parametrize("seed", range(2))
def test_unlike_sizes(seed: int) -> None:
    """Origin, axis and radius of sizes unlike by up to 150 orders; half of the lines touch."""
    rng = np.random.default_rng(seed)
    n = 150
    size = 10.0 ** rng.uniform(-100, 100, (n, 1))
    length, r = size * 10.0 ** rng.uniform(-150, 150, (2, n, 1))
    axis = rng.integers(0, 3, n)
    # Along an axis, so that what is large hides nothing of what is small.
    p, q, o = np.zeros((3, n, 3))
    rows, across, away = np.arange(n), (axis + 1) % 3, (axis + 2) % 3
    q[rows, axis] = length[:, 0]
    p[rows, axis] = -length[:, 0] * rng.integers(0, 2, n)
    r = np.where(rng.random(n) < 0.2, size[:, 0], r[:, 0])
    o[rows, across] = np.where(rng.random(n) < 0.5, r, nudged(rng, r))
    o[rows, axis] = rng.choice([0.0, 0.5, 1.0, 1.5], n) * length[:, 0]
    o[rows, away] = size[:, 0] * rng.integers(-1, 2, n)
    d = np.zeros((n, 3))
    d[rows, away] = 10.0 ** rng.uniform(-20, 20, n)
    d[rows, axis] = d[rows, away] * rng.choice([0.0, 0.0, 1e-3, 1.0, 1e90], n)
    assert check(o, d, p, q, r) > 20
    # Anywhere, towards a point within.
    p, q, o = rng.normal(size=(3, n, 3)) * np.stack([length * 0.0, length, size + length])
    check(o, rng.random((n, 1)) * q + rng.normal(size=(n, 3)) * r[:, None] * 0.6 - o, p, q, r)
