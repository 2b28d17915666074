"""Winding numbers: integers of closed meshes, and sums of solid angles in decimal arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import bvh
from bvh.tree.boundary import boundary_of, edges_of
from bvh.tree.primitives import Triangles
from meshes.cad_part import cad_part
from meshes.organic import organic
from meshes.sphere import geodesic_sphere
from tests.cases.soups import soup
from tests.oracles.solid_angles import ulps, winding_number

CUBE = (
    np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)]),
    np.array([
        [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
        [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
    ]),
)  # fmt: skip
MESHES = {
    "cube": lambda rng: CUBE,
    "ball": lambda rng: geodesic_sphere(2),
    "part": lambda rng: cad_part(16),
    "soup": lambda rng: soup(rng, 20),
}
SMALL = "cube", "ball", "soup"
SCALES = [(1.0, 0.0), (1.0, 1e6), (1e-150, 0.0), (1e140, 0.0)]


def hostile_points(
    vertices: np.ndarray, faces: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return points next to corners, edges and faces, in their planes and lines, and far away."""
    size = np.ptp(vertices, axis=0).max()
    corners = vertices[faces[rng.integers(0, len(faces), 3 * n)]]
    weights = rng.dirichlet(np.ones(3), 3 * n)
    weights[:n, 1:], weights[n : 2 * n, 2] = 0.0, 0.0
    on = np.einsum("nk,nkx->nx", weights / weights.sum(axis=1, keepdims=True), corners)
    near = 10.0 ** rng.choice([-18, -16, -14, -12, -9, -6, -3], (3 * n, 1))
    middle = vertices.mean(axis=0)
    away = 10.0 ** rng.uniform(0, 14, (n, 1))
    a, b, c = np.moveaxis(corners[:n], 1, 0)
    return np.concatenate([
        on[n:], on + rng.normal(size=on.shape) * size * near, 2.0 * a - b, a + b - c, 0.5 * (a + b),
        middle + rng.uniform(-1, 1, (n, 3)) * size, middle + rng.normal(size=(n, 3)) * size * away,
        middle + rng.integers(-4, 5, (n, 3)) * 0.25 * size,
    ])  # fmt: skip


@pytest.mark.parametrize("n", [2, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", [*SMALL, pytest.param("part", marks=pytest.mark.long)])
def test_winding_numbers_are_sums_of_solid_angles(
    name: str, n: int, rng: np.random.Generator
) -> None:
    """Of open meshes to 4 units in the last place, or a bound; of closed ones integers.

    The bound is 2**-90, and 2**-58 next to the surface: see "Errors" of `boundary_angles`.
    """
    for scale, shift in SCALES:
        vertices, faces = (np.asarray(part) for part in MESHES[name](rng))
        vertices = vertices * scale + shift
        for share in (1.0, 0.8, 0.4):
            some = faces[rng.random(len(faces)) < share]
            if not len(some):
                continue
            tree = bvh.BVH.from_triangles(vertices, some, warn=False)
            points = hostile_points(vertices, some, n, rng)
            points = points[tree.distance(points) > 0.0]
            near = tree.distance(points) < 1e-3 * np.ptp(vertices, axis=0).max()
            found = tree.winding_number(points, np.inf)
            if share == 1.0 and name != "soup":
                assert np.array_equal(found, np.rint(found))
            for point, number, bound in zip(
                points, found, np.where(near, 2.0**-58, 2.0**-90), strict=True
            ):
                wanted = winding_number(vertices, some, point)
                assert abs(number - float(wanted)) < bound or ulps(number, wanted) <= 4.0


@pytest.mark.parametrize("rounds", [4, pytest.param(100, marks=pytest.mark.long)])
def test_points_on_the_surface(rounds: int, rng: np.random.Generator) -> None:
    """They have the number of the point moved by (e, e**2, e**3), on open edges, too."""
    checked = 0
    for k in range(rounds):
        faces = CUBE[1][rng.random(12) < (1.0, 0.8, 0.5, 0.3)[k % 4]]
        shear = np.eye(3) if k % 3 == 0 else rng.integers(-2, 3, (3, 3)).astype(float)
        grid = np.reshape(np.meshgrid(*[[0.0, 0.25, 0.5, 1.0]] * 3), (3, -1)).T @ shear
        if not len(faces):
            continue
        tree = bvh.BVH.from_triangles(CUBE[0] @ shear, faces, warn=False)
        grid = rng.permutation(grid[tree.distance(grid) == 0.0])[:20]
        for point, number in zip(grid, tree.winding_number(grid), strict=True):
            wanted = float(winding_number(CUBE[0] @ shear, faces, point, "1e-30"))
            assert abs(number - wanted) < 1e-14
            checked += 1
    assert checked > 20


def test_integers(rng: np.random.Generator) -> None:
    """Crossing, many-sheeted and turned surfaces; edges with four faces; unwelded vertices."""
    vertices, faces = (np.asarray(part) for part in organic(4))
    size = np.ptp(vertices, axis=0).max()
    # Three copies that cross each other, one of them turned.
    sheets = np.concatenate([vertices, vertices + 0.1 * size, vertices * 0.7])
    n = len(vertices)
    turned = np.concatenate([faces, faces + n, faces[:, ::-1] + 2 * n])
    crossed = bvh.BVH.from_triangles(sheets, turned)
    points = rng.uniform(sheets.min(axis=0), sheets.max(axis=0), (500, 3))
    alone = [bvh.BVH.from_triangles(sheets[k * n : (k + 1) * n], faces) for k in range(3)]
    wanted = sum(s * t.contains(points) for s, t in zip((1, 1, -1), alone, strict=True))
    assert np.array_equal(crossed.winding_number(points), wanted)
    unwelded = bvh.BVH.from_triangles(
        sheets[turned].reshape(-1, 3), np.arange(3 * len(turned)).reshape(-1, 3)
    )
    assert np.array_equal(unwelded.winding_number(points), wanted)
    # Two cubes share an edge, which has four faces.
    both = np.concatenate([CUBE[0], CUBE[0] + [1.0, 1.0, 0.0]])
    joined = bvh.BVH.from_triangles(both, np.concatenate([CUBE[1], CUBE[1] + 8]))
    points = rng.integers(-1, 10, (400, 3)) * 0.25
    inner = [((points > k) & (points < 1 + k))[:, :2].all(axis=1) for k in (0, 1)]
    inside = (inner[0] | inner[1]) & (points[:, 2] > 0) & (points[:, 2] < 1)
    clear = joined.distance(points) > 0.0
    assert np.array_equal(joined.winding_number(points)[clear], inside[clear])
    assert set(joined.winding_number(points).tolist()) <= {0.0, 1.0}


def test_boundaries(rng: np.random.Generator) -> None:
    """The directed edges that are left, as loops, whatever the order of faces and vertices."""
    vertices, faces = (np.asarray(part) for part in geodesic_sphere(4))
    assert boundary_of(Triangles(vertices, faces.astype(np.int32))).size == 0
    faces = faces[rng.random(len(faces)) < 0.7].astype(np.int32)
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    pairs = {tuple(pair) for pair in ends.tolist()}
    left = {(a, b) for a, b in pairs if (b, a) not in pairs}
    loops = boundary_of(Triangles(vertices, faces))
    names = {tuple(row): k for k, row in enumerate(vertices.tolist())}
    edges = edges_of(loops)
    found = [(names[tuple(a)], names[tuple(b)]) for a, b in edges.tolist()]
    assert len(found) == len(left) and set(found) == left
    starts = np.flatnonzero(loops.begins)
    assert np.array_equal(loops.points[starts], loops.points[[*(starts[1:] - 1), -1]])
    order = rng.permutation(len(vertices))
    moved = Triangles(vertices[order], np.argsort(order).astype(np.int32)[faces[::-1]])
    assert np.array_equal(boundary_of(moved).points, loops.points)
    # An edge of three faces, all turned alike, is left twice.
    fan = np.array([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [-1, 0, 0]])
    three = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4]], np.int32)
    assert len(edges_of(boundary_of(Triangles(fan, three)))) == 9
