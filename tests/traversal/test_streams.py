"""Streams: groups of rays, the bounds of their memory, and the trials that choose them."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import ray_batches
from bvh.runtime.threads import Shelf
from bvh.traversal.rays import streams
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.closest_hit import Scratch, new_scratch
from bvh.traversal.rays.ray_batch import PACKETS, SINGLES, STREAMS, Order
from bvh.traversal.rays.trials import FASTER, UNMEASURED, next_way, record
from tests.traversal.test_kernels import (
    NO_PERMUTATION,
    Batch,
    Rng,
    assert_brute,
    directions,
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
    assert_brute(tree, rays, [Order(n, 0, NO_PERMUTATION, STREAMS)], monkeypatch)


def test_memory(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of as many triangles as there can be, which all rays of all groups may hit."""
    memory: list[np.ndarray] = []

    def guarded(count: int, dtype: type) -> np.ndarray:
        memory.append(np.zeros(count + GUARD, dtype))
        return memory[-1][:count]

    monkeypatch.setattr(streams, "aligned", guarded)
    shelf: Shelf[Scratch] = Shelf(new_scratch)
    monkeypatch.setattr(ray_batches, "SHELF", shelf)
    n = 3 * BLOCK
    corners = np.repeat(rng.random((4, 3, 3)), 200, axis=0)
    tree = BVH.from_triangles(corners.reshape(-1, 3), np.arange(2400).reshape(-1, 3))
    inside = rng.dirichlet(np.ones(3), n)
    at = np.einsum("ij,ijk->ik", inside, corners[rng.integers(0, 800, n)])
    d = directions(n, rng)
    rays = Batch(at - d, d, np.full(n, -np.inf), np.full(n, np.inf))
    wanted = assert_brute(tree, rays, [Order(n, 0, NO_PERMUTATION, STREAMS)], monkeypatch)
    assert wanted.mask.mean() > 0.9
    assert memory and not any(kept[-GUARD:].any() for kept in memory)


@pytest.mark.parametrize("packets", [False, True])
@pytest.mark.parametrize("streamed", [False, True])
def test_trials(packets: bool, streamed: bool) -> None:
    """The cheaper of two ways takes most blocks; the other soon does if that changes."""
    measured = UNMEASURED.copy()
    possible = ([SINGLES] + [STREAMS] * streamed + [PACKETS] * packets)[-2:]
    for cheapest in possible:
        ways = np.zeros(300, np.int64)
        take_blocks(measured, packets, streamed, cheapest, ways)
        assert set(ways) <= set(possible)
        assert np.mean(ways[-100:] == cheapest) > 0.9
    assert measured[FASTER] == possible[-1]


@numba.njit
def take_blocks(measured, packets, streamed, cheapest, ways):
    """Take as many blocks as there are `ways`, of which one costs half as much as the others."""
    for i in range(len(ways)):
        ways[i] = next_way(measured, BLOCK, packets, streamed)
        record(measured, BLOCK, ways[i], 100 if ways[i] == cheapest else 200)
