"""Inside or outside by parity: whatever the point is near to, and on the surface itself."""

from __future__ import annotations

import numpy as np
import pytest

import bvh
from meshes.hostile import needle_prism
from meshes.sphere import geodesic_sphere
from tests.cases import aims
from tests.cases.family_parts import cube


def test_lattice_of_a_cube() -> None:
    """Points on faces, edges and corners are inside, and so are all within."""
    tree = bvh.BVH.from_triangles(*cube(1.0))
    axis = np.arange(-2.0, 2.25, 0.25)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    assert np.array_equal(tree.contains(points), (np.abs(points) <= 1.0).all(axis=-1))
    near = np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)
    assert tree.contains([[near[0], 0.5, 0.5], [near[1], 0.5, 0.5]]).tolist() == [False, True]


@pytest.mark.parametrize("quality", ["medium", "high"])
@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (1e7, -2e7, 3e7)])
def test_beside_every_feature(
    quality: str, offset: tuple[float, float, float], rng: np.random.Generator
) -> None:
    """A little within and a little without every vertex and edge of a convex mesh."""
    vertices, faces = geodesic_sphere(8, offset=offset)
    tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
    center = np.asarray(offset)
    arms = aims.features(vertices, faces, rng) - center
    step = 1e-9 if offset[0] == 0.0 else 1e-6
    assert np.all(tree.contains(center + arms * (1.0 - step)))
    assert not np.any(tree.contains(center + arms * (1.0 + step)))
    assert np.all(tree.contains(vertices))


def test_strange_points() -> None:
    """Far, not finite, none; and a mesh of nothing."""
    tree = bvh.BVH.from_triangles(*needle_prism())
    points = np.array([[1e300, 0, 0], [np.nan, 0, 0], [np.inf, 0, 0], [0, -1e-300, 1e200]])
    assert not tree.contains(points).any()
    calls: list[tuple[int, int]] = []
    none = tree.contains(np.zeros((0, 3)), progress=lambda *call: calls.append(call))
    assert (none.shape, calls) == ((0,), [(0, 0)])
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert nothing.contains([0.0, 0.0, 0.0]) is False


def test_a_hole_in_the_middle() -> None:
    """A shell: its inside is outside again, however its faces are turned."""
    outer, faces = geodesic_sphere(6)
    for inner_faces in (faces, faces[:, ::-1]):
        tree = bvh.BVH.from_triangles(
            np.vstack([outer, 0.5 * outer]), np.vstack([faces, inner_faces + len(outer)])
        )
        assert tree.contains([[0.0, 0, 0], [0.7, 0, 0], [1.5, 0, 0]]).tolist() == [
            False, True, False
        ]  # fmt: skip


@pytest.mark.slow
def test_parity_of_three_hundred_thousand_rays(rng: np.random.Generator) -> None:
    """Rays at every feature: an odd number from inside, an even one from outside, 0 wrong."""
    vertices, faces = geodesic_sphere(32)
    for scale in ((1.0, 1.0, 1.0), (1.0, 1e-3, 1e-6)):
        for quality in ("medium", "high"):
            tree = bvh.BVH.from_triangles(vertices * scale, faces, quality=quality)
            targets = aims.features(vertices * scale, faces, rng)
            for origin in np.array([[0.0, 0, 0], [0.3, 0.2, 0.1], [3, -2, 1], [0.5, 4, 9]]):
                counts = tree.count_hits(origin * scale, targets - origin * scale)
                inside = np.linalg.norm(origin) < 1.0
                assert np.count_nonzero(counts % 2 != inside) == 0


@pytest.mark.slow
def test_a_hundred_thousand_points_beside_features(rng: np.random.Generator) -> None:
    """1e-9 of the size within and without every vertex and edge: 0 wrong, signs included."""
    vertices, faces = geodesic_sphere(32)
    tree = bvh.BVH.from_triangles(vertices, faces)
    targets = aims.features(vertices, faces, rng)
    for step, parity in ((-1e-9, True), (1e-9, False)):
        points = targets * (1.0 + step)
        assert np.all(tree.contains(points) == parity)
        assert np.all((tree.signed_distance(points) < 0.0) == parity)
