"""Closest points of spheres and capsules: rationals, one solid at a time, and sorted by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from tests.geometry.test_boxes import nudged, signed
from tests.geometry.test_spheres import WHOLE, square_root
from tests.oracles.confirmed import confirm, digest, is_confirmed

pytestmark = pytest.mark.answers


def exact_distance(x: Any, p: Any, q: Any, r: float) -> Fraction:
    """Return the distance of a point from a capsule as a fraction, good to hundreds of digits."""
    x, p, q = ([Fraction(a) for a in v] for v in (x, p, q))
    m, v = ([a - b for a, b in zip(w, p, strict=True)] for w in (x, q))
    length = sum(a * a for a in v)
    along = sum(a * b for a, b in zip(m, v, strict=True))
    t = min(max(along / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    off = [a - t * b for a, b in zip(m, v, strict=True)]
    return abs(square_root(sum(a * a for a in off)) - Fraction(r))


def check(x: np.ndarray, p: np.ndarray, q: np.ndarray, r: np.ndarray) -> None:
    """Compare points with a solid each; q of p itself makes spheres."""
    found = np.empty(len(x))
    for i in range(len(x)):
        found[i] = BVH.from_capsules(p[i : i + 1], q[i : i + 1], r[i : i + 1]).distance(x[i])
        if (p[i] == q[i]).all():
            assert BVH.from_spheres(p[i : i + 1], r[i : i + 1]).distance(x[i]) == found[i]
    case = digest("points and capsules", x, p, q, r, found)
    if is_confirmed(case):
        return
    for i, distance in enumerate(found.tolist()):
        given = x[i].tolist(), p[i].tolist(), q[i].tolist(), float(r[i])
        wanted = exact_distance(*given)
        assert (distance == 0.0) == (wanted == 0), given
        assert abs(Fraction(distance) - wanted) <= 4 * Fraction(math.ulp(distance)), given
    confirm(case)


# Seeds, and numbers of points.
SIZES = [(0, 50), *(pytest.param(seed, 300, marks=pytest.mark.long) for seed in range(2))]


@pytest.mark.parametrize(("seed", "n"), SIZES)
def test_exactly(seed: int, n: int) -> None:
    """At all scales, next to the surface, on lattices, at seams and on axes."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-60, 60, (n, 1))
    p = rng.normal(size=(n, 3)) * scale
    q = np.where(rng.random((n, 1)) < 0.3, p, p + rng.normal(size=(n, 3)) * scale)
    r = rng.random(n) * scale[:, 0]
    way = rng.normal(size=(n, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    check(p + way * r[:, None] * 10.0 ** rng.uniform(-3, 3, (n, 1)), p, q, r)
    check(p + way * r[:, None], p, q, r)
    normal = signed(rng, WHOLE[rng.integers(0, len(WHOLE), n)].astype(float))
    r = np.sqrt((normal**2).sum(axis=1))
    p = rng.integers(-5, 6, (n, 3)).astype(float)
    q = p + np.cross(normal, rng.integers(-2, 3, (n, 3)))
    place = p + (q - p) * rng.choice([-0.5, 0.0, 0.5, 1.0, 1.5], (n, 1))
    x = place + normal * rng.choice([0.0, 0.5, 1.0, 2.0], (n, 1))
    check(x, p, q, r)
    check(nudged(rng, x), nudged(rng, p), q, r)
    # Next to the ends of the doubles' range.
    for k in (1015, -990):
        unit = 2.0**k
        check(x[:60] * unit, p[:60] * unit, q[:60] * unit, r[:60] * unit)


@pytest.mark.parametrize(("seed", "n"), SIZES)
def test_unlike_sizes(seed: int, n: int) -> None:
    """Axes, radii and distances that are unlike by up to 300 orders."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-150, 150, (4, n))
    p, q, x = np.zeros((3, n, 3))
    q[:, 0] = size[0]
    x[:, 0] = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0], n) * size[0]
    r = np.where(rng.random(n) < 0.3, 0.0, size[1])
    x[:, 1] = np.where(rng.random(n) < 0.5, r, size[2])
    x[:, 2] = rng.choice([0.0, 1.0], n) * size[3]
    check(x, p, q, r)
    check(nudged(rng, x), p, q, r)
    check(x, q * [1.0, -0.5, 0.25], q, r)


@pytest.mark.parametrize("kind", ["spheres", "capsules"])
def test_trees(kind: str, rng: np.random.Generator) -> None:
    """The least of all by (distance, id), the k nearest, within limits; positions; bad points."""
    p, x = rng.random((200, 3)), rng.random((300, 3)) * 1.5 - 0.25
    q, r = p + rng.normal(size=p.shape) * 0.1, rng.random(200) * 0.05
    p[::40], r[::50] = np.nan, -1.0
    p[3], q[3], r[3] = p[2], q[2], r[2]
    x[5], x[6:9] = np.nan, np.where(np.isnan(p[11:14]), 0.0, p[11:14])

    def tree_of(some: Any) -> BVH:
        if kind == "spheres":
            return BVH.from_spheres(p[some], r[some])
        return BVH.from_capsules(p[some], q[some], r[some])

    tree = tree_of(slice(None))
    good = np.flatnonzero(np.isfinite(p).all(axis=1) & (r >= 0.0))
    every = np.full((len(x), len(p)), np.inf)
    for k in good:
        every[:, k] = tree_of(slice(k, k + 1)).distance(x)
    order = np.argsort(every, axis=1, kind="stable")[:, :5]
    wanted = np.take_along_axis(every, order, axis=1)
    near = tree.closest_point(x)
    hit = np.isfinite(wanted[:, 0])
    assert np.array_equal(near.distance, wanted[:, 0])
    assert np.array_equal(near.prim_id, np.where(hit, order[:, 0], -1))
    assert np.isnan(near.u).all()
    assert np.abs(np.linalg.norm(near.position - x, axis=1) - near.distance)[hit].max() < 1e-12
    assert tree.distance(near.position[hit]).max() < 1e-12
    several = tree.closest_point(x, k=5)
    assert np.array_equal(several.distance, wanted)
    assert np.array_equal(several.prim_id, np.where(np.isinf(wanted), -1, order))
    limits = rng.random(len(x)) * 0.1
    limits[:3] = wanted[:3, 0]
    within = tree.distance(x, limits)
    assert np.array_equal(within, np.where(wanted[:, 0] <= limits, wanted[:, 0], np.inf))
    one = tree.closest_point(x[0])
    assert (one.distance, one.prim_id) == (near.distance[0], near.prim_id[0])
    assert np.isinf(tree.distance(x, mask=0)).all()
