"""Scenes on a device: rays among moved instances, the CPU's answers bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from tests.devices.test_device_rays import compare
from tests.oracles.devices import DEVICE

pytestmark = pytest.mark.answers


def map_of(kind: int, rng: np.random.Generator) -> np.ndarray:
    """Return any map, a rotation, or a permutation of axes with scales and mirrors on a grid."""
    matrix = np.eye(4)
    if kind == 0:
        matrix[:3, :3] = rng.normal(size=(3, 3))
    elif kind == 1:
        matrix = trimesh.transformations.random_rotation_matrix(rng.random(3))
    else:
        matrix[:3, :3] = np.diag(rng.choice([-1.0, 1.0, 2.0], 3))[rng.permutation(3)]
    matrix[:3, 3] = rng.integers(-6, 7, 3) if kind == 2 else rng.normal(size=3) * 5
    return matrix


def rays_of(rng: np.random.Generator, count: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Return rays among instances, a third of them on a lattice."""
    o, aims = rng.normal(size=(count, 3)) * 8, rng.normal(size=(count, 3)) * 4
    o[::3], aims[::3] = np.rint(2 * o[::3]) / 2, np.rint(2 * aims[::3]) / 2
    d = aims - o
    d[~d.any(axis=1)] = 1.0
    return o, d


def test_instances(rng: np.random.Generator) -> None:
    """All maps; then some are moved, hidden, added, and a tree is refitted."""
    shapes = [
        trimesh.creation.icosphere(2), trimesh.creation.box(), trimesh.creation.torus(1.0, 0.3),
    ]  # fmt: skip
    trees = [bvh.BVH.from_mesh(shape) for shape in shapes]
    scene, kinds = bvh.Scene(), rng.integers(0, 3, 40)
    for kind in kinds:
        scene.add(trees[rng.integers(3)], map_of(kind, rng))
    there = scene.to(DEVICE)
    assert compare(scene, there, rays_of(rng)) == 0
    before = there.target.boxes
    moved = np.arange(0, 40, 3)
    there.set_transforms(moved, np.array([map_of(kinds[i], rng) for i in moved]))
    compare(scene, there, rays_of(rng))
    assert there.target.boxes is before  # trees were not sent again
    scene.set_visible([1, 2], False)
    scene.set_mask(5, 2)
    compare(scene, there, rays_of(rng), mask=1)
    compare(scene, there, (*rays_of(rng), 0.5, 2.0), cull="back")
    nested = bvh.Scene()
    nested.add_many(trees[1], [map_of(2, rng), map_of(0, rng)])
    scene.add(nested, map_of(1, rng))
    compare(scene, there, rays_of(rng))
    trees[0].refit(trees[0].vertices * [1.0, 0.5, 2.0])
    compare(scene, there, rays_of(rng))
    o, d = rays_of(rng, 90)
    hits, wanted = there.closest_hit(o, d), scene.closest_hit(o, d)
    assert np.array_equal(hits.position, wanted.position, equal_nan=True)


@pytest.mark.parametrize("shift", [0.0, 5e6])
def test_one_or_no_leaf(shift: Any, rng: np.random.Generator) -> None:
    """Scenes of nothing and of one leaf; far from the origin."""
    scene = bvh.Scene()
    o, d = rays_of(rng, 60)
    compare(scene, scene.to(DEVICE), (o, d))
    matrix = map_of(1, rng)
    matrix[:3, 3] = shift
    scene.add(trimesh.creation.icosphere(2), matrix)
    compare(scene, scene.to(DEVICE), (o + shift, d))
    scene.add(bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
    with pytest.raises(TypeError, match="only scenes of triangles"):
        scene.to(DEVICE)
