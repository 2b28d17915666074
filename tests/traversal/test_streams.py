"""Streams: groups of rays, the bounds of their memory, and the trials that choose them."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import ray_batches
from bvh.runtime.memory import Shelf
from bvh.traversal.rays import streams
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.closest_hit import Scratch, new_scratch
from bvh.traversal.rays.ray_batch import SINGLES, STREAMS, Order
from bvh.traversal.rays.trials import FASTER, TURN, TURNS, UNMEASURED, next_way, record
from tests.traversal.test_kernels import (
    Batch,
    Rng,
    assert_brute,
    directions,
    orders,
    organic,
    spots,
)

GUARD = 4096


@pytest.mark.parametrize("octants", [1, 2, 8])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, BLOCK - 1, BLOCK])
def test_groups(n: int, octants: int, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that are full, or of one ray, of one octant or all."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    signs = np.array([[i & 1, i >> 1 & 1, i >> 2] for i in range(octants)]) * 2 - 1
    d = np.abs(directions(n, rng)) * signs[rng.integers(0, octants, n)]
    rays = Batch(spots(mesh, n, rng) - 0.7 * d, d, np.zeros(n), np.full(n, np.inf))
    assert_brute(tree, rays, [Order(n, 0, STREAMS)], monkeypatch)


def guarded_memory(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return the memory of streams that will be made, with numbers behind it to look at."""
    memory: list[np.ndarray] = []

    def guarded(count: int, dtype: type) -> np.ndarray:
        memory.append(np.zeros(count + GUARD, dtype))
        return memory[-1][:count]

    monkeypatch.setattr(streams, "aligned", guarded)
    shelf: Shelf[Scratch] = Shelf(new_scratch)
    monkeypatch.setattr(ray_batches, "SHELF", shelf)
    return memory


def test_memory(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of as many triangles as there can be, which all rays of all groups may hit."""
    memory = guarded_memory(monkeypatch)
    n = 3 * BLOCK
    corners = np.repeat(rng.random((4, 3, 3)), 200, axis=0)
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(2400).reshape(-1, 3))
    inside = rng.dirichlet(np.ones(3), n)
    at = np.einsum("ij,ijk->ik", inside, corners[rng.integers(0, 800, n)])
    d = directions(n, rng)
    rays = Batch(at - d, d, np.full(n, -np.inf), np.full(n, np.inf))
    wanted = assert_brute(tree, rays, [Order(n, 0, STREAMS)], monkeypatch)
    assert wanted.mask.mean() > 0.9
    assert memory and not any(kept[-GUARD:].any() for kept in memory)


@pytest.mark.parametrize("away", [0.0, 1.5, 30.0, 1e6])
def test_shadows(away: float, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments to a lamp that is inside the mesh, near it or far away."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    o = spots(mesh, 520, rng)
    o = o[np.lexsort(np.floor(4.0 * o).T)] + rng.choice([0.0, 1e-9, 0.3])
    lamp = away * np.array([0.7, -0.5, 1.1]) + 0.01
    for t_max in (1.0, 1e-3):
        rays = Batch(o, (lamp - o) / t_max, np.zeros(len(o)), np.full(len(o), t_max))
        assert_brute(tree, rays, orders(rays, rng), monkeypatch)


def test_mixed_axes(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of rays along several axes, forwards and backwards."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    d = -np.eye(3)[rng.integers(0, 3, 600)] * rng.choice([1.0, 1e-30], (600, 1))
    o = spots(mesh, 600, rng) + 1e-3 * rng.normal(size=(600, 3)) - d / np.abs(d).max()
    for t_max in (np.inf, 3.0):
        rays = Batch(o, d, np.zeros(600), np.full(600, t_max))
        assert_brute(tree, rays, orders(rays, rng), monkeypatch)


@pytest.mark.parametrize(
    "counts", [(64, 20, 64, 0), (64, 64, 64, 20), (20, 64, 0, 64), (64, 0, 0, 9)]
)
def test_blocks_too_sparse_for_a_trial(
    counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of rays in a block had been changed for a trial that did not take place."""
    tree = BVH.from_triangles([[0, 0, 0], [9, 0, 0], [0, 9, 0]], [[0, 1, 2]])
    seen = np.concatenate([np.arange(64) < count for count in counts])
    o = np.where(seen, 1.0, 99.0)[:, None] + np.linspace(0.0, 1.0, 256)[:, None] * [1, 1, 0]
    d = np.tile([0.001, 0.002, -1.0], (256, 1))
    for turn in range(TURNS + 2):
        measured = UNMEASURED.copy()
        measured[TURN] = turn
        monkeypatch.setattr(ray_batches, "UNMEASURED", measured)
        assert tree.closest_hit(o, d, threads=1).mask.tolist() == seen.tolist()
        assert tree.any_hit(o, d, threads=1).tolist() == seen.tolist()


def test_rays_of_other_axes(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rays that do not move along an axis at all tell unused lanes of nodes from children."""
    memory = guarded_memory(monkeypatch)
    corners = rng.random((3000, 1, 3)) + 0.01 * rng.random((3000, 3, 3))
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(9000).reshape(-1, 3))
    n = 640
    d = np.eye(3)[rng.integers(0, 3, n)]
    length = rng.uniform(0.5, 2.0, n)
    rays = Batch(0.5 - d * length[:, None], d, np.full(n, -np.inf), length)
    assert_brute(tree, rays, [Order(n, 0, STREAMS)], monkeypatch)
    assert memory and not any(kept[-GUARD:].any() for kept in memory)


def test_trials() -> None:
    """The cheaper of two ways takes most blocks; the other soon does if that changes."""
    measured = UNMEASURED.copy()
    for cheapest in (SINGLES, STREAMS):
        ways = np.zeros(300, np.int64)
        take_blocks(measured, cheapest, ways)
        assert set(ways) <= {SINGLES, STREAMS}
        assert np.mean(ways[-100:] == cheapest) > 0.9
    assert measured[FASTER] == STREAMS


@numba.njit
def take_blocks(measured, cheapest, ways):
    """Take as many blocks as there are `ways`, of which one costs half as much as the others."""
    for i in range(len(ways)):
        ways[i] = next_way(measured, BLOCK, STREAMS)
        record(measured, BLOCK, ways[i], 100 if ways[i] == cheapest else 200)
