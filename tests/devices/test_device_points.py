"""Closest points, containment and signed distances on a device: the CPU's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.devices.calls import PointCall
from meshes.organic import organic
from tests.cases.families import FAMILIES, build
from tests.oracles.devices import DEVICE, assert_same

pytestmark = pytest.mark.answers


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore::bvh.BVHWarning")
def test_families(name: str, rng: np.random.Generator) -> None:
    """Points of rays, of vertices, on edges and beyond them."""
    family = build(name)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    there, points = tree.to(DEVICE), [family.origins]
    if len(family.vertices):
        a, b = family.vertices[rng.integers(0, len(family.vertices), (2, 60))]
        with np.errstate(all="ignore"):
            points += [a, 0.5 * a + 0.5 * b, a + (b - a) * rng.normal(size=(60, 3))]
    places = np.concatenate(points)
    near = tree.closest_point(places)
    assert_same(there.closest_point(places), near)
    with np.errstate(all="ignore"):
        limits = near.distance * rng.choice([0.5, 1.0, 2.0], len(places))
    assert_same(there.closest_point(places, limits), tree.closest_point(places, limits))
    assert_same(there.contains(places), tree.contains(places), "contains")
    assert_same(there.signed_distance(places), tree.signed_distance(places), "signed")


def test_open_meshes() -> None:
    """Whoever asks for inside or outside of one is warned, once for a tree."""
    there = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]).to(DEVICE)
    with pytest.warns(bvh.BVHWarning, match="has open edges"):
        there.contains([0.0, 0.0, 0.0])


def test_a_mesh(rng: np.random.Generator) -> None:
    """Points near and far, of any shape, with masks; few are left to the CPU."""
    vertices, faces = organic(6)
    tree = bvh.BVH.from_triangles(vertices, faces, groups=rng.integers(0, 4, len(faces)))
    there, reach = tree.to(DEVICE), np.abs(vertices).max()
    points = rng.normal(size=(3000, 3)) * reach
    assert_same(there.closest_point(points), tree.closest_point(points))
    assert there.undecided <= 3
    assert_same(there.distance(points, reach / 4), tree.distance(points, reach / 4))
    for mask in (1, 2, 0):
        assert_same(there.closest_point(points, mask=mask), tree.closest_point(points, mask=mask))
        assert_same(there.contains(points, mask=mask), tree.contains(points, mask=mask))
    grid = points[:24].reshape(2, 3, 4, 3)
    assert_same(there.signed_distance(grid), tree.signed_distance(grid))
    assert repr(there.closest_point(points[0])) == repr(tree.closest_point(points[0]))
    far = points * 10.0 ** rng.uniform(0, 6, (3000, 1))
    assert_same(there.closest_point(far), tree.closest_point(far))
    # Many triangles as far away: more than candidates are kept of.
    ball = bvh.BVH.from_mesh(trimesh.creation.icosphere(3))
    assert_same(ball.to(DEVICE).closest_point(points * 1e-9), ball.closest_point(points * 1e-9))


def test_one_state(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """A refit of the tree between distances and signs is seen by the next query."""
    ball, points = trimesh.creation.icosphere(2), rng.normal(size=(500, 3))
    tree = bvh.BVH.from_mesh(ball)
    there, before, nearest = tree.to(DEVICE), tree.signed_distance(points), PointCall._nearest

    def refitted(call: PointCall, wanted: Any) -> Any:
        found = nearest(call, wanted)
        tree.refit(ball.vertices * 3.0)
        return found

    with monkeypatch.context() as patches:
        patches.setattr(PointCall, "_nearest", refitted)
        assert_same(there.signed_distance(points), before)
    assert_same(there.signed_distance(points), tree.signed_distance(points))
    assert not np.array_equal(tree.signed_distance(points), before)
