"""Rays that are taken in another order: the same answers, in the caller's order."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import ray_batches
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import KEYS, Rays, sorted_permutation
from tests.cases.family_parts import sphere

FIELDS = ("t", "prim_id", "u", "v", "front")


def hostile_rays(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rays at a sphere, some of which can only miss."""
    o, d = rng.normal(size=(n, 3)) * 3.0, rng.normal(size=(n, 3))
    d[: n // 2] -= o[: n // 2]
    o[::50], d[7::50], d[9::50, 1] = np.nan, 0.0, -0.0
    o[11::50] *= 1e200
    return o, d


@pytest.mark.parametrize("saved", [0.0, 1e9])
@pytest.mark.parametrize("sort", [None, True])
def test_answers(
    saved: float, sort: bool | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting, wanted or found to pay, changes no answer; progress counts every ray once."""
    tree = BVH.from_triangles(*sphere(3))
    o, d = hostile_rays(rng, 5 * BLOCK + 77)
    wanted, hit = tree.closest_hit(o, d, sort=False), tree.any_hit(o, d, sort=False)
    for name, value in (("SORTABLE", 1), ("LARGE_TREE", 0), ("PROBE", 2), ("SAVED", saved)):
        monkeypatch.setattr(ray_batches, name, value)
    told: list[tuple[int, int]] = []
    hits = tree.closest_hit(o, d, sort=sort, progress=lambda *p: told.append(p))
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(hits, field), getattr(wanted, field))
    assert told == sorted(told) and told[-1] == (len(o), len(o))
    np.testing.assert_array_equal(tree.any_hit(o, d, sort=sort), hit)


def test_places(rng: np.random.Generator) -> None:
    """Every ray has one place; rays of an octant that enter in one corner lie side by side."""
    tree = BVH.from_triangles(*sphere(3))
    o, d = hostile_rays(rng, 4000)
    batch = Rays(o, d, np.zeros(1), np.full(1, np.inf))
    places = sorted_permutation(tree.arrays, batch, 100, 4000)
    np.testing.assert_array_equal(np.sort(places), np.arange(100, 4000))
    octants = (d[places] < 0.0) @ [1, 2, 4]
    assert (np.diff(octants) >= 0).all()
    assert KEYS <= 1 << 16


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_rays(n: int) -> None:
    """A batch smaller than any vector can be sorted, too; so can rays at nothing."""
    rays = np.zeros((n, 3)), np.tile([0.0, 0.0, 1.0], (n, 1))
    tree = BVH.from_triangles(*sphere(1))
    assert np.array_equal(tree.closest_hit(*rays, sort=True).t, tree.closest_hit(*rays).t)
    nothing = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int))
    assert not nothing.closest_hit(*rays, sort=True).mask.any()
