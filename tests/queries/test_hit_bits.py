"""Positions and normals of hits, bit for bit: of any number, on threads, of kinds side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.answers import locations
from tests.queries.test_hit_points import placed, rays_at, soup

Rng = np.random.Generator


def same_bits(got: Any, wanted: Any) -> bool:
    """Return whether all numbers are the same, and all else is NaN."""
    return np.array_equal(np.asarray(got).reshape(-1, 3), wanted, equal_nan=True)


def test_to_the_last_bit(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the formula says, of any number of hits and on threads; ties and zeros among vertices."""
    monkeypatch.setattr(locations, "AT_ONCE", 64)
    vertices, faces = soup(rng, 60)
    vertices[::2] = np.round(4.0 * vertices[::2]) / 4.0
    vertices[::3, 2] = 0.0
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    for matrix in (
        np.eye(4), np.diag([*rng.uniform(0.5, 2.0, 3), 1.0]), np.diag([2.0, -0.25, 4.0, 1.0]),
        placed(rng, False), placed(rng, True), 1e-9 * placed(rng, True),
    ):  # fmt: skip
        matrix[3, 3] = 1.0
        scene.add(tree, matrix)
    whole, index, leaf, prim = scene.flattened()
    row = {key: k for k, key in enumerate(zip(leaf.tolist(), prim.tolist(), strict=True))}
    for count in (1, 2, 7, 8, 9, 16, 31, 700):
        origins, directions = rays_at(rng, (count,))
        for hits in (
            tree.closest_hit(origins, directions), scene.closest_hit(origins, directions),
            tree.all_hits(origins, directions), scene.all_hits(origins, directions),
        ):  # fmt: skip
            corners = vertices[faces[hits.prim_id]]
            if "leaf" in vars(hits):
                keys = zip(hits.leaf.tolist(), hits.prim_id.tolist(), strict=True)
                corners = whole[index[[row.get(key, 0) for key in keys]]]
            corners[hits.prim_id < 0] = np.nan
            assert same_bits(hits.position, locations.positions_on(corners, hits.u, hits.v))
            assert same_bits(hits.normal, locations.normals_of(corners))
    for k in range(len(origins)):
        for target in (tree, scene):
            one, many = (
                target.closest_hit(origins[k], directions[k]),
                target.closest_hit(origins[k : k + 1], directions[k : k + 1]),
            )
            assert same_bits(one.normal, many.normal) and same_bits(one.position, many.position)


def test_all_kinds_in_one_scene(rng: Rng) -> None:
    """Each hit has what it has where its leaf is alone."""
    lower, mixed = rng.uniform(-2.0, 2.0, (30, 3)), bvh.Scene()
    turned = np.stack([placed(rng, k % 2 == 1) for k in range(30)])
    trees = [
        bvh.BVH.from_triangles(*soup(rng, 20)), bvh.BVH.from_boxes(lower, lower + 0.5),
        bvh.BVH.from_obbs(lower, lower + 0.5, turned),
    ]  # fmt: skip
    lone = []
    for tree in trees:
        matrix = placed(rng, len(lone) == 1)
        mixed.add(tree, matrix)
        lone.append(bvh.Scene())
        lone[-1].add(tree, matrix)
    origins, directions = rays_at(rng, (300,))
    hits = mixed.closest_hit(origins, directions)
    assert set(hits.leaf.tolist()) >= {0, 1, 2}
    for name in ("normal", "position"):
        fresh = mixed.closest_hit(origins, directions)
        for k, scene in enumerate(lone):
            rows = hits.leaf == k
            alone = getattr(scene.closest_hit(origins[rows], directions[rows]), name)
            assert same_bits(getattr(fresh, name)[rows], alone)
        assert same_bits(getattr(fresh, name), getattr(hits, name))
    for k in range(20):
        one = mixed.closest_hit(origins[k], directions[k])
        assert same_bits(one.normal, hits.normal[k : k + 1])
