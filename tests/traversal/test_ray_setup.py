"""Rays that are set up side by side, in float32, answer as those that are set up alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import bvh
from bvh.runtime.threads import _chunks


def ball(rng: np.random.Generator) -> bvh.BVH:
    """Return a tree over small triangles near a sphere."""
    centres = rng.normal(size=(2000, 3))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    corners = centres[:, None] + rng.normal(scale=0.05, size=(2000, 3, 3))
    return bvh.BVH.from_triangles(corners.reshape(-1, 3), np.arange(6000).reshape(-1, 3))


@pytest.mark.parametrize("distance", [0.5, 3.0, 14.0, 40.0, 1e3, 9e5, 3e6, 1e12])
def test_origins_near_and_far(distance: float, rng: np.random.Generator) -> None:
    tree, n = ball(rng), 203
    o = rng.normal(size=(n, 3))
    o *= distance / np.linalg.norm(o, axis=1, keepdims=True)
    d = (rng.uniform(-0.7, 0.7, (n, 3)) - o) * 2.0 ** rng.integers(-30, 30, (n, 1))
    hits = tree.closest_hit(o, d)
    # Ends at hits, and next to them.
    t = np.where(hits.mask, hits.t, 1.0)
    near, far = t * rng.choice([0.0, 0.5, 1.0 - 1e-15, 1.0, 1.0 + 1e-15], n), t * 1.5
    for low, high in ((np.zeros(n), np.full(n, np.inf)), (near, far), (np.zeros(n), near)):
        found, some = tree.closest_hit(o, d, t_min=low, t_max=high), tree.any_hit(o, d, low, high)
        for i in range(n):
            alone = tree.closest_hit(o[i], d[i], t_min=low[i], t_max=high[i])
            row = found.t[i], found.prim_id[i], found.front[i]
            assert row == (alone.t, alone.prim_id, alone.front)
            assert np.array_equal([found.u[i], found.v[i]], [alone.u, alone.v], equal_nan=True)
            assert some[i] == (alone.prim_id >= 0)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 16, 17, 100, 5000])
def test_chunks_cover_all(count: int, threads: int) -> None:
    for size, least in ((16, 0), (64, 16), (512, 16)):
        chunks = _chunks(count, size, threads, least)
        assert chunks[0][0] == 0
        assert all(a[1] == b[0] for a, b in pairwise(chunks))
        assert chunks[-1][1] == count
        assert all(0 < stop - start <= size for start, stop in chunks)
