"""Formulas of derivatives, with arrays of NumPy, against rational arithmetic and each other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh
from bvh.gradients import formulas
from bvh.gradients.formulas import ArrayLibrary
from tests.cases.families import FAMILIES, build
from tests.oracles.derivatives import ExactRates

NUMPY = ArrayLibrary(np, lambda x: x, partial(formulas.zero_unless_finite, np), lambda: False)
Array = NDArray[np.float64]

# Numbers that the package makes no promises for.
WILD = ("beyond", "chaos_bits")


def corners_of(tree: bvh.BVH, found: Any) -> Array:
    """Return the corners of the faces that were found, 0 for misses."""
    corners = np.zeros((len(found), 3, 3))
    corners[found.mask] = tree.vertices[tree.faces[found.prim_id[found.mask]]]
    return corners


def hits_of(family: Any) -> tuple[Any, ...]:
    """Return a family's directions, the corners of its hits, (t, u, v), and which rays hit."""
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    hits = tree.closest_hit(
        family.origins, family.directions, family.t_min, family.t_max, cull=family.cull
    )
    return family.directions, corners_of(tree, hits), (hits.t, hits.u, hits.v), hits.mask


@pytest.mark.parametrize("name", FAMILIES)
def test_rates_of_hits_are_exact(name: str, seed: int) -> None:
    """To what float64 allows; 0 for misses, and where it leaves the sign of n . d open."""
    directions, corners, found, hit = hits_of(build(name, seed))
    with np.errstate(all="ignore"):
        rates = formulas.hit_rates(NUMPY, directions, corners, found, hit)
    rows = np.stack([rates.t, rates.u, rates.v], axis=1)
    assert np.isfinite(rows).all()
    assert not rows[~rates.usable].any() and not rates.usable[~hit].any()
    if name.startswith(WILD):
        return
    for i in np.flatnonzero(hit)[:40]:
        truth = ExactRates(directions[i], corners[i])
        if rates.usable[i]:
            assert truth.within(rows[i]), f"ray {i}"
        elif np.isfinite(found[0][i]):
            beyond = any(abs(x) > 1e300 for row in truth.rows for x in row)
            assert truth.certainty < 2.0**-46 or beyond, f"ray {i}"


def is_transposed(gradients: Any, pulled: Any, tangents: Any, pushed: Any) -> Any:
    """Return for each query whether the two are the same linear map, to rounding."""

    def products(some: Any, others: Any) -> list[Array]:
        pairs = zip(some, others, strict=True)
        return [x.reshape(len(x), -1) * y.reshape(len(x), -1) for x, y in pairs]

    left, right = products(gradients, pushed), products(tangents, pulled)
    terms = np.hstack([*left, *right])
    assert np.isfinite(terms).all()
    sums = sum(x.sum(axis=1) for x in left) - sum(x.sum(axis=1) for x in right)
    return np.abs(sums) <= 1e-12 * np.abs(terms).max(axis=1)


def test_both_directions_are_one_map(rng: np.random.Generator) -> None:
    """Of gradients backward and tangents forward, for rays and points."""
    family = build("inside_sphere", 1)
    directions, corners, found, hit = hits_of(family)
    n = len(hit)
    gradients = [rng.normal(size=(n, *shape)) for shape in ((), (), (), (3,))]
    tangents = [rng.normal(size=(n, *shape)) for shape in ((3,), (3,), (3, 3))]
    rays = NUMPY, directions, corners, *found, hit
    pulled = formulas.pull_hit(*rays, tuple(gradients))
    pushed = formulas.push_hit(*rays, tuple(tangents))
    assert is_transposed(gradients, pulled, tangents, pushed).all()

    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    points = rng.normal(size=(n, 3))
    near = tree.closest_point(points)
    corners = corners_of(tree, near)
    for signed in (False, True):
        value = tree.signed_distance(points) if signed else near.distance
        given = NUMPY, points, corners, value, near.u, near.v, near.mask
        gradients = [rng.normal(size=(n, *shape)) for shape in ((), (), (), (3,))]
        tangents = [rng.normal(size=(n, *shape)) for shape in ((3,), (3, 3))]
        pulled = formulas.pull_point(*given, tuple(gradients), signed=signed)
        pushed = formulas.push_point(*given, tuple(tangents), signed=signed)
        assert is_transposed(gradients, pulled, tangents, pushed).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_of_distances(name: str, seed: int) -> None:
    """Of length 1, along p - q, or 0 on the surface and for misses; finite for any mesh."""
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    points = family.origins
    near = tree.closest_point(points)
    found = near.distance, near.u, near.v
    with np.errstate(all="ignore"):
        given = NUMPY, points, corners_of(tree, near)
        rates = formulas.point_rates(*given, found, near.mask, False)
        ones = np.ones(len(points)), np.ones((len(points), 3))
        gradients = ones[0], ones[0], ones[0], ones[1]
        pulled = formulas.pull_point(*given, *found, near.mask, gradients, signed=False)
    assert np.isfinite(rates.away).all()
    assert not any(np.isnan(x).any() for x in pulled)
    assert not rates.away[~near.mask | (near.distance == 0.0)].any()
    if name.startswith(WILD):
        return
    assert all(np.isfinite(x).all() for x in pulled)
    size = np.abs(tree.vertices[np.isfinite(tree.vertices).all(axis=1)]).max(initial=0.0)
    far = near.mask & (near.distance > 1e-6 * (size + np.abs(points).max(axis=1)))
    offsets = (points[far] - near.position[far]) / near.distance[far][:, None]
    np.testing.assert_allclose(rates.away[far], offsets, atol=1e-9)
