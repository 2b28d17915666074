"""Triangles that are tiny beside their tree: edges that are tested from points near them."""

from __future__ import annotations

import numpy as np
import pytest

import bvh
from tests.cases.family_parts import terrain
from tests.oracles import rays as oracle

CELLS = 400


@pytest.mark.parametrize("kind", ["flat", "hills", "far_origins", "long_directions"])
@pytest.mark.parametrize("few", [10, pytest.param(40, marks=pytest.mark.long)])
def test_rays_beside_edges(kind: str, few: int, rng: np.random.Generator) -> None:
    """At distances from an edge that margins of the whole frame, or none, leave undecided."""
    heights = np.zeros((CELLS + 1) ** 2)
    if kind != "flat":
        heights = rng.uniform(0.0, 0.3, len(heights))
    vertices, faces = terrain(CELLS, heights)
    tree = bvh.BVH.from_triangles(vertices, faces)
    picked = faces[rng.integers(0, len(faces), 3000)]
    a, b = vertices[picked[:, 0]], vertices[picked[:, 1]]
    target = a + rng.uniform(0.0, 1.0, (3000, 1)) * (b - a)
    target[:, :2] += rng.choice([-1.0, 1.0], (3000, 2)) * 10.0 ** rng.uniform(-14, -1, (3000, 2))
    d = rng.normal(size=target.shape) * [0.2, 0.2, 0.0] - [0.0, 0.0, 1.0]
    o = target - d * rng.uniform(1.0, 50.0, (3000, 1))
    if kind == "far_origins":
        o = target - d * 10.0 ** rng.uniform(3, 12, (3000, 1))
    if kind == "long_directions":
        d = d * 10.0 ** rng.uniform(-250, 250, (3000, 1))
    hits, every = tree.closest_hit(o, d), tree.all_hits(o, d)
    # All hits are decided without those points.
    first = every.offsets[:-1]
    some = np.diff(every.offsets) > 0
    assert np.array_equal(hits.prim_id >= 0, some) and some.mean() > 0.9
    assert np.array_equal(hits.prim_id[some], every.prim_id[first[some]])
    assert np.array_equal(hits.t[some], every.t[first[some]])
    assert np.array_equal(tree.any_hit(o, d), some)
    for side in ("front", "back"):
        assert np.array_equal(tree.any_hit(o, d, cull=side), tree.count_hits(o, d, cull=side) > 0)
    # The same of a few by rational numbers, among the triangles around.
    for i in rng.choice(3000, few):
        near = np.abs(vertices[faces].mean(axis=1) - target[i])[:, :2].max(axis=1) < 4.0
        ids = np.flatnonzero(near)
        want = oracle.closest_hit(vertices, faces[ids], o[i : i + 1], d[i : i + 1])
        assert hits.t[i] == want.t[0]
        assert hits.prim_id[i] == (ids[want.prim_id[0]] if want.prim_id[0] >= 0 else -1)
