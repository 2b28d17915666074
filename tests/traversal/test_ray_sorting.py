"""Rays that are taken in another order: the same answers, in the caller's order."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import ray_batches
from bvh.runtime.arguments import kernel_input
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.ray_batch import Rays
from bvh.traversal.rays.trials import OF_WINDOWS, TURN, UNMEASURED
from bvh.traversal.rays.windows import (
    FEWEST,
    KEYS,
    SMALLEST,
    WINDOW,
    is_coherent,
    new_window,
    sort_window,
)
from tests.cases.family_parts import sphere

FIELDS = ("t", "prim_id", "u", "v", "front")


def hostile_rays(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rays at a sphere, some of which can only miss."""
    o, d = rng.normal(size=(n, 3)) * 3.0, rng.normal(size=(n, 3))
    d[: n // 2] -= o[: n // 2]
    o[::50], d[7::50], d[9::50, 1] = np.nan, 0.0, -0.0
    o[11::50] *= 1e200
    return o, d


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("sort", [None, True])
def test_answers(
    turn: int, sort: bool | None, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting, wanted or tried, changes no answer; progress counts every ray once."""
    tree = BVH.from_triangles(*sphere(3))
    o, d = hostile_rays(rng, (2 * WINDOW + SMALLEST) * BLOCK + 77)
    wanted, hit = tree.closest_hit(o, d, sort=False), tree.any_hit(o, d, sort=False)
    measured = UNMEASURED.copy()
    measured[OF_WINDOWS + TURN] = turn
    monkeypatch.setattr(ray_batches, "UNMEASURED", measured)
    told: list[tuple[int, int]] = []
    for threads in (1, 2):
        hits = tree.closest_hit(o, d, sort=sort, threads=threads)
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(hits, field), getattr(wanted, field))
    tree.closest_hit(o, d, sort=sort, progress=lambda *p: told.append(p))
    assert told == sorted(told) and told[-1] == (len(o), len(o))
    np.testing.assert_array_equal(tree.any_hit(o, d, sort=sort, threads=1), hit)


@pytest.mark.parametrize("n", [HALF, HALF + 1, 3 * BLOCK - 1, WINDOW * BLOCK])
def test_places(n: int, rng: np.random.Generator) -> None:
    """Every ray has one place; rays of an octant that enter in one corner lie side by side."""
    tree = BVH.from_triangles(*sphere(3))
    o, d = hostile_rays(rng, 100 + n)
    rays = Rays(o, d, np.zeros(1), np.full(1, np.inf))
    batch, window = Rays(*map(kernel_input, rays)), new_window()
    sort_rays(batch, tree.arrays.frame, window, 100, n)
    places = window.permutation[:n]
    np.testing.assert_array_equal(np.sort(places), np.arange(100, 100 + n))
    octants = (d[places] < 0.0) @ [1, 2, 4]
    assert (np.diff(octants) >= 0).all()
    assert window.keys[:n].min() >= 0 and window.keys[:n].max() < KEYS


@numba.njit
def sort_rays(rays, frame, window, begin, count):
    """Sort the rays of a window."""
    sort_window(as_pointers(rays), frame, as_pointers(window), begin, count)


@pytest.mark.parametrize("n", [1000, WINDOW * BLOCK])
def test_coherent_windows(n: int, rng: np.random.Generator) -> None:
    """Rays to neighbouring pixels are coherent; shuffled ones, and random ones, are not."""
    tree, window = BVH.from_triangles(*sphere(3)), new_window()
    # Tiles of 4 x 4 pixels, one after another, 64 in a row.
    tile, pixel = np.divmod(np.arange(n), 16)
    x, y = 4 * (tile % 64) + pixel % 4, 4 * (tile // 64) + pixel // 4
    d = np.stack([x / 128.0 - 1.0, y / 128.0 - 1.0, np.full(n, -3.0)], axis=1)
    o = np.array([[0.0, 0.0, 3.0]])
    answers = []
    for origins, directions in ((o, d), (o, rng.permutation(d)), hostile_rays(rng, n)):
        rays = Rays(*map(kernel_input, (origins, directions, np.zeros(1), np.full(1, np.inf))))
        answers.append(coherent(rays, tree.arrays.frame, window, 0, n))
        assert not coherent(rays, tree.arrays.frame, window, 1, FEWEST - 1)
    assert answers == [True, False, False]


@numba.njit
def coherent(rays, frame, window, begin, count):
    """Return whether the rays of a window are coherent."""
    return is_coherent(as_pointers(rays), frame, as_pointers(window), begin, count)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_rays(n: int) -> None:
    """A batch smaller than any vector can be sorted, too; so can rays at nothing."""
    rays = np.zeros((n, 3)), np.tile([0.0, 0.0, 1.0], (n, 1))
    tree = BVH.from_triangles(*sphere(1))
    assert np.array_equal(tree.closest_hit(*rays, sort=True).t, tree.closest_hit(*rays).t)
    nothing = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int))
    assert not nothing.closest_hit(*rays, sort=True).mask.any()
