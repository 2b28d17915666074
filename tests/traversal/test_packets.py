"""Packets: their beams, where they give up, and the bounds of their stack."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import ray_batches
from bvh.runtime.threads import Shelf
from bvh.traversal.rays.closest_hit import Scratch, new_scratch
from bvh.traversal.rays.packets import packet_closest
from bvh.traversal.rays.ray_batch import PACKETS, Order
from bvh.traversal.rays.trials import TURN, TURNS, UNMEASURED
from tests.traversal.test_kernels import (
    NO_PERMUTATION,
    Batch,
    Rng,
    assert_brute,
    directions,
    orders,
    organic,
    spots,
)

GUARD = 4096


@pytest.mark.parametrize("away", [0.0, 1.5, 30.0, 1e6])
def test_shadows(away: float, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets go backwards from a lamp that is inside the mesh, near it or far away."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    o = spots(mesh, 520, rng)
    o = o[np.lexsort(np.floor(4.0 * o).T)] + rng.choice([0.0, 1e-9, 0.3])
    lamp = away * np.array([0.7, -0.5, 1.1]) + 0.01
    for t_max in (1.0, 1e-3):
        rays = Batch(o, (lamp - o) / t_max, np.zeros(len(o)), np.full(len(o), t_max))
        assert_brute(tree, rays, orders(rays, rng), monkeypatch)


def test_mixed_axes(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet of rays along several axes, forwards and backwards."""
    mesh = organic(rng)
    tree = BVH.from_triangles(*mesh)
    d = -np.eye(3)[rng.integers(0, 3, 600)] * rng.choice([1.0, 1e-30], (600, 1))
    o = spots(mesh, 600, rng) + 1e-3 * rng.normal(size=(600, 3)) - d / np.abs(d).max()
    for t_max in (np.inf, 3.0):
        rays = Batch(o, d, np.zeros(600), np.full(600, t_max))
        assert_brute(tree, rays, orders(rays, rng), monkeypatch)


def test_parting_rays(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets give up, and single rays go on from the closest hits so far."""
    n = 20000
    corners = rng.normal(size=(n, 1, 3)) + 0.1 * rng.normal(size=(n, 3, 3))
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3))
    d = np.abs(directions(256, rng))
    rays = Batch(rng.normal(size=(256, 3)) - 2.0 * d, d, np.zeros(256), np.full(256, np.inf))
    wanted = assert_brute(tree, rays, orders(rays, rng), monkeypatch)
    assert wanted.mask.mean() > 0.5


@pytest.mark.parametrize(
    "counts", [(64, 20, 64, 0), (64, 64, 64, 20), (20, 64, 0, 64), (64, 0, 0, 9)]
)
def test_blocks_too_sparse_for_a_trial(
    counts: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of rays in a block had been changed for a trial that did not take place.

    Rays of the second packet were then taken for the third's, and not traced.
    """
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
    """A packet's axis is that of its first ray; others may not move along it at all.

    Then no ray could tell unused lanes of nodes from children, and stacks overflowed.
    """
    memory: list[np.ndarray] = []

    def guarded(count: int, dtype: type) -> np.ndarray:
        memory.append(np.zeros(count + GUARD, dtype))
        return memory[-1][:count]

    monkeypatch.setattr(packet_closest, "aligned", guarded)
    shelf: Shelf[Scratch] = Shelf(new_scratch)
    monkeypatch.setattr(ray_batches, "SHELF", shelf)
    corners = rng.random((3000, 1, 3)) + 0.01 * rng.random((3000, 3, 3))
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(9000).reshape(-1, 3))
    n = 640
    d = np.eye(3)[rng.integers(0, 3, n)]
    length = rng.uniform(0.5, 2.0, n)
    rays = Batch(0.5 - d * length[:, None], d, np.full(n, -np.inf), length)
    assert_brute(tree, rays, [Order(n, 0, NO_PERMUTATION, PACKETS)], monkeypatch)
    assert memory and not any(kept[-GUARD:].any() for kept in memory)
