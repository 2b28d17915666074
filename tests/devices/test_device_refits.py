"""Trees whose vertices move on a device: refits and rebuilds there, and the tree on the CPU."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from meshes.organic import organic
from tests.devices.test_device_stages import compare, rays_at
from tests.oracles.devices import DEVICE, assert_same


def placed(vertices: Any) -> Any:
    """Return vertices on the device."""
    return wp.array(vertices, dtype=wp.vec3d, device=DEVICE)


def check(there: Any, vertices: Any, faces: Any, rng: np.random.Generator, n: int = 20) -> None:
    """Compare a tree on a device with a new one; the tree on the CPU is not needed for that."""
    wanted = bvh.BVH.from_triangles(vertices, faces, groups=there._tree.groups, warn=False)
    shown = np.where(np.isfinite(vertices).all(axis=1, keepdims=True), vertices, 0.0)
    o, d = rays_at(shown, faces, n, rng)
    compare(wanted, there, o, d)
    compare(wanted, there, o, d, mask=2, t_max=0.5, cull="back")
    points = np.concatenate([o, shown])
    assert_same(there.closest_point(points), wanted.closest_point(points))
    assert_same(
        there.closest_point(points, 0.25, mask=1), wanted.closest_point(points, 0.25, mask=1)
    )
    found, hits = there.closest_hit(o, d), wanted.closest_hit(o, d)
    assert_same(found.position, hits.position)
    assert_same(found[:5].normal, hits[:5].normal)
    assert_same(there.all_hits(o, d).position, wanted.all_hits(o, d).position)


@pytest.mark.answers
@pytest.mark.parametrize("quality", ["medium", "high"])
def test_a_deformed_mesh(quality: str, rng: np.random.Generator) -> None:
    """Refits, rebuilds and both after each other; masks; the tree on the CPU follows when read."""
    vertices, faces = organic(4)
    tree = bvh.BVH.from_triangles(
        vertices, faces, groups=rng.integers(1, 4, len(faces)), quality=quality
    )
    there, (o, d) = tree.to(DEVICE), rng.normal(size=(2, 50, 3))
    for k, query in enumerate(["refit", "rebuild", "refit", "rebuild"]):
        old, before = copy(there), vertices
        vertices = vertices * [1.0, 1.5, 0.7] + 0.2 * np.sin(9 * vertices[:, ::-1])
        ratio = getattr(there, query)(placed(vertices))
        assert (ratio is None) == (query == "rebuild") and (ratio is None or ratio > 0.5)
        new = bvh.BVH.from_triangles(vertices, faces)
        assert_same(there.closest_hit(o, d), new.closest_hit(o, d))
        assert_same(there.closest_hit(o, d).position, new.closest_hit(o, d).position)
        assert_same(there.contains(o), new.contains(o))
        # The tree on the CPU has not been needed; a copy has its own vertices.
        assert np.array_equal(tree.vertices, before)
        assert_same(old.closest_hit(o, d), tree.closest_hit(o, d))
        assert np.array_equal(old.vertices, before)
        check(there, vertices, faces, rng)
        if k % 2:
            assert there.host is tree and np.array_equal(tree.vertices, vertices)
        else:
            there.refit(vertices)
        check(there, vertices, faces, rng)
    tree.refit(2.0 * vertices)
    check(there, 2.0 * vertices, faces, rng)


@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_few_and_equal_triangles(scale: float, rng: np.random.Generator) -> None:
    """One, two and some triangles; many in one place, whose codes are the same; none."""
    corners = np.eye(3) * scale
    for count in (0, 1, 2, 4, 5, 300):
        faces = np.arange(3 * count).reshape(-1, 3)
        there = bvh.BVH.from_triangles(np.tile(corners, (count, 1)), faces, warn=False).to(DEVICE)
        moved = rng.normal(size=(3 * count, 3)) * scale
        for vertices in (np.tile(corners[::-1] * 2.0, (count, 1)), moved):
            there.rebuild(placed(vertices))
            assert there.target.top.depth <= 64
            if count:
                check(there, vertices, faces, rng, 5)
            else:
                assert not there.any_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0])
            assert np.array_equal(there.host.vertices, vertices)


@pytest.mark.parametrize("query", ["refit", "rebuild"])
def test_lost_faces(query: str, rng: np.random.Generator) -> None:
    """Faces are ignored while a vertex is not finite, and come back, in any order of changes."""
    mesh = trimesh.creation.icosphere(2)
    vertices, faces = np.array(mesh.vertices), np.array(mesh.faces)
    tree = bvh.BVH.from_triangles(vertices, faces)
    there = tree.to(DEVICE)
    lost, inf, none = vertices.copy(), vertices.copy(), np.full_like(vertices, np.nan)
    lost[vertices[:, 2] > 0.1] = np.nan
    inf[vertices[:, 0] < 0.0, 1] = np.inf
    for rows in (lost, 2.0 * vertices, inf, none, vertices, lost, inf):
        getattr(there, query)(placed(rows))
        check(there, rows, faces, rng, 5)
    # Whole leaves are lost on the CPU, too.
    for rows in (lost, none, vertices):
        tree.refit(rows)
        check(there, rows, faces, rng, 5)
    tree.refit(lost)
    for rows in (vertices, inf):
        getattr(there, query)(placed(rows))
        check(there, rows, faces, rng, 5)


def test_a_copy_is_refitted_alone() -> None:
    """What the CPU does for a call of a copy does not change the tree that was copied."""
    mesh = trimesh.creation.icosphere(1)
    vertices, ray = np.array(mesh.vertices), ([0.1, 0.2, 9.0], [0.0, 0.0, -1.0])
    there = bvh.BVH.from_triangles(vertices, mesh.faces).to(DEVICE)
    other = copy(there)
    shown = other.host
    other.refit(placed(2.0 * vertices))
    there.refit(placed(3.0 * vertices))
    wanted = bvh.BVH.from_triangles(3.0 * vertices, mesh.faces).closest_hit(*ray).t
    # As in another thread, while the device answers a call of the copy.
    shown.refit(4.0 * vertices)
    assert np.array_equal(other._on_cpu().vertices, 2.0 * vertices)
    assert there.closest_hit(*ray).t == wanted


def test_refusals() -> None:
    """Vertices of another number; faces that no leaf has; arrays that are on no device."""
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, np.nan]])
    tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2], [1, 2, 3]], warn=False)
    there = tree.to(DEVICE)
    for query in (there.refit, there.rebuild):
        with pytest.raises(ValueError, match=r"vertices must have shape \(4, 3\), got \(3, 3\)"):
            query(placed(vertices[:3]))
        with pytest.raises(ValueError, match=r"vertices: .*build a new tree"):
            query(placed(np.nan_to_num(vertices)))
        query(placed(vertices))
        assert there.closest_hit([0.2, 0.2, 1.0], [0.0, 0.0, -1.0]).t == 1.0
    with pytest.raises(TypeError, match="vertices must be numbers"):
        there.rebuild(["a"])
