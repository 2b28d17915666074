"""Closed meshes do not leak: rays from inside, aimed exactly at what other libraries lose."""

from __future__ import annotations

import numpy as np
import pytest

import bvh
from meshes.hostile import needle_prism
from meshes.sphere import geodesic_sphere
from tests.cases import aims

# 20 * 32**2 = 20 480 faces; vertices, edge midpoints and edge points are 71 682 aims an origin.
FREQUENCY = 32

SOLIDS = {
    "sphere": lambda: geodesic_sphere(FREQUENCY),
    "squashed": lambda: geodesic_sphere(FREQUENCY, scale=(1.0, 1e-3, 1e-6)),
    "offset": lambda: geodesic_sphere(FREQUENCY, offset=(1e7, -2e7, 3e7)),
    "tiny": lambda: geodesic_sphere(8, scale=(1e-150, 1e-150, 1e-150)),
    "huge": lambda: geodesic_sphere(8, scale=(1e150, 1e150, 1e150)),
    "needle": needle_prism,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name == "squashed" else name for name in SOLIDS],
)
def test_no_ray_leaves_a_closed_mesh(name: str, rng: np.random.Generator) -> None:
    """Every ray from three origins inside hits, for closest_hit and any_hit alike."""
    vertices, faces = SOLIDS[name]()
    tree = bvh.BVH.from_triangles(vertices, faces)
    tree.validate()
    targets = aims.features(vertices, faces, rng)
    # A vertex mean is inside a convex mesh; the others lie between it and vertices.
    center = vertices.mean(axis=0)
    corners = vertices[rng.integers(0, len(vertices), 2)]
    for origin in (center, *(center + 0.4 * (corners - center))):
        directions = targets - origin
        aimed = np.abs(directions).max(axis=1) > 0.0
        hits = tree.closest_hit(origin, directions[aimed])
        assert np.count_nonzero(~hits.mask) == 0
        assert np.all(tree.any_hit(origin, directions[aimed]))
        assert np.all(hits.t > 0.0)


def test_directions_do_not_have_to_be_exact(rng: np.random.Generator) -> None:
    """The same with directions of any length, which t undoes."""
    vertices, faces = geodesic_sphere(12)
    tree = bvh.BVH.from_triangles(vertices, faces)
    targets = aims.features(vertices, faces, rng)
    plain = tree.closest_hit(np.zeros(3), targets)
    for exponent in (-660, -200, -1, 3, 500, 660):
        scaled = tree.closest_hit(np.zeros(3), targets * 2.0**exponent)
        assert np.array_equal(scaled.prim_id, plain.prim_id)
        assert np.array_equal(scaled.t * 2.0**exponent, plain.t)
        assert np.array_equal(scaled.u, plain.u)
        assert np.array_equal(scaled.v, plain.v)


def test_flat_grid_seen_along_its_lines() -> None:
    """Rays straight down at every vertex, edge and diagonal of a grid, and from one point."""
    n = 48
    x, y = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0))
    vertices = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], axis=1) * 0.1
    corner = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).ravel()
    faces = np.concatenate(
        [np.stack([corner, corner + 1, corner + n + 2], axis=1),
         np.stack([corner, corner + n + 2, corner + n + 1], axis=1)]
    )  # fmt: skip
    tree = bvh.BVH.from_triangles(vertices, faces)
    targets = aims.features(vertices, faces, np.random.default_rng(0))
    down = tree.closest_hit(targets + [0.0, 0.0, 3.0], [0.0, 0.0, -1.0])
    assert down.mask.all() and np.all(down.t == 3.0)
    # A border can only be hit where the aim is exact: at vertices.
    eye = np.array([2.0, 1.5, 7.0])
    interior = (targets[:, :2] > 0.05).all(axis=1) & (targets[:, :2] < 0.1 * n - 0.05).all(axis=1)
    assert tree.any_hit(eye, targets[interior] - eye).all()
