"""Extents of trees hold every vertex of every instance, and little else."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import trimesh

from bvh import BVH, Scene, ray_obb
from bvh.geometry.obbs import inverses
from bvh.tree.hulls import polytope
from bvh.tree.world_bounds import MAX_BOXES, Extents, extent_of, gathered, instance_bounds
from tests.cases.scans import SCANS
from tests.cases.soups import soup
from tests.oracles.rays import round_fraction

Rng = np.random.Generator
SCAN_FILES = sorted(SCANS.glob("*.ply"))


def extents_of(*trees: BVH) -> Extents:
    """Return the extents of trees."""
    return gathered([extent_of(tree.arrays, tree.bounds) for tree in trees])


def vertices_of(tree: BVH) -> np.ndarray:
    """Return the vertices of all faces that can be hit."""
    corners = tree.vertices[tree.faces]
    return np.unique(corners[np.isfinite(corners).all(axis=(1, 2))].reshape(-1, 3), axis=0)


def maps(rng: Rng, n: int) -> np.ndarray:
    """Return affine maps: turned, sheared, scaled, mirrored, and moved far away."""
    turned = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    linear = turned * np.exp(rng.normal(size=(n, 1, 3)))
    linear[::3] = rng.normal(size=(len(linear[::3]), 3, 3))
    linear *= 10.0 ** rng.integers(-6, 7, (n, 1, 1))
    shift = rng.normal(size=(n, 3, 1)) * 10.0 ** rng.integers(-6, 7, (n, 1, 1))
    return np.concatenate([linear, shift], axis=2)


def moved_vertex(matrix: np.ndarray, v: np.ndarray) -> list[float]:
    """Return M v, every coordinate rounded once."""
    x = [*map(Fraction, v.tolist()), Fraction(1)]
    rows = [[*map(Fraction, row)] for row in matrix.tolist()]
    return [round_fraction(sum(map(operator.mul, row, x), Fraction())) for row in rows]


def assert_held(tree: BVH, matrices: np.ndarray) -> None:
    """Check bounds against the vertices that reach farthest, moved exactly."""
    found = instance_bounds(extents_of(tree), np.zeros(len(matrices), np.int32), matrices)
    points = vertices_of(tree)
    for matrix, box in zip(matrices, found, strict=True):
        for axis in range(3):
            along = points @ matrix[axis, :3]
            for k in (along.argmin(), along.argmax()):
                exact = np.array(moved_vertex(matrix, points[k]))
                assert (box[:3] <= exact).all() and (exact <= box[3:]).all()


MESHES: dict[str, Callable[[Rng], np.ndarray]] = {
    "soup": lambda rng: soup(rng, 300)[0],
    "few": lambda rng: rng.normal(size=(9, 3)),
    "flat": lambda rng: rng.normal(size=(300, 3)) * [1.0, 0.0, 1.0],
    "a line": lambda rng: rng.normal(size=(300, 1)) * [[1.0, 2.0, -1.0]],
    "a point": lambda rng: np.tile([0.1, 0.2, 0.3], (300, 1)),
    "far": lambda rng: rng.normal(size=(300, 3)) + 1e9,
    "large": lambda rng: rng.normal(size=(300, 3)) * 1e150,
    "small": lambda rng: rng.normal(size=(300, 3)) * 1e-150,
    "thin": lambda rng: rng.normal(size=(300, 3)) @ np.diag([1.0, 1e-8, 1e8]),
    "ball": lambda rng: trimesh.creation.icosphere(3).triangles.reshape(-1, 3),
    "holes": lambda rng: np.where(rng.random((300, 1)) < 0.1, np.nan, rng.normal(size=(300, 3))),
}  # fmt: skip


@pytest.mark.parametrize("mesh", MESHES)
def test_every_vertex_is_held(mesh: str, rng: Rng) -> None:
    """Moved vertices, correctly rounded, lie in the box of their instance."""
    points = MESHES[mesh](rng)
    tree = BVH.from_triangles(points, np.arange(len(points)).reshape(-1, 3))
    assert 0 < len(extent_of(tree.arrays, tree.bounds)) <= MAX_BOXES
    assert_held(tree, np.concatenate([maps(rng, 60), np.eye(3, 4)[None]]))


def test_exact_maps_are_tight(rng: Rng) -> None:
    """Where axes stay axes, bounds are those of the vertices but for rounding."""
    for tree in (BVH.from_triangles(*soup(rng, n)) for n in (5, 400)):
        matrices = np.zeros((50, 3, 4))
        for m in matrices:
            m[np.arange(3), rng.permutation(3)] = rng.choice([-2.0, -1.0, 0.5, 1.0, 4.0], 3)
            m[:, 3] = rng.integers(-9, 10, 3)
        found = instance_bounds(extents_of(tree), np.zeros(50, np.int32), matrices)
        for matrix, box in zip(matrices, found, strict=True):
            moved = vertices_of(tree) @ matrix[:, :3].T + matrix[:, 3]
            wanted = np.concatenate([moved.min(axis=0), moved.max(axis=0)])
            assert np.allclose(box, wanted, rtol=0, atol=1e-10)


def volumes(boxes: np.ndarray) -> np.ndarray:
    """Return the volumes of boxes."""
    return (boxes[:, 3:] - boxes[:, :3]).prod(axis=1)


@pytest.mark.parametrize("path", ["ball", *SCAN_FILES], ids=lambda p: getattr(p, "stem", p))
def test_turned_meshes(path: str | Path, rng: Rng) -> None:
    """Boxes of turned meshes are at most half again as large as need be, root boxes twice."""
    mesh = trimesh.creation.icosphere(4) if path == "ball" else trimesh.load(path)
    tree = BVH.from_mesh(mesh)
    turns = np.concatenate(
        [np.linalg.qr(rng.normal(size=(50, 3, 3)))[0], np.zeros((50, 3, 1))], axis=2
    )
    none = np.zeros(50, np.int32)
    found = instance_bounds(extents_of(tree), none, turns)
    whole = instance_bounds(gathered([tree.bounds.reshape(1, 6)]), none, turns)
    points = vertices_of(tree)
    moved = [points @ turn[:, :3].T for turn in turns]
    need = volumes(np.array([np.hstack([p.min(axis=0), p.max(axis=0)]) for p in moved]))
    ratio, root = (float((volumes(boxes) / need).mean()) for boxes in (found, whole))
    print(f"{ratio:.3f} of the vertices' boxes, root boxes {root:.3f}")
    assert 1.0 <= ratio < 1.5 < root


def test_other_primitives(rng: Rng) -> None:
    """Trees over boxes and oriented boxes have extents, too."""
    lower = rng.random((200, 3))
    turns = np.tile(np.eye(4), (200, 1, 1))
    turns[:, :3, :3] += 0.3 * rng.normal(size=(200, 3, 3))
    matrices = maps(rng, 40)
    for tree, linear in (
        (BVH.from_boxes(lower, lower + 0.1), np.tile(np.eye(4), (200, 1, 1))),
        (BVH.from_obbs(lower, lower + 0.1, turns), turns),
    ):
        found = instance_bounds(extents_of(tree), np.zeros(40, np.int32), matrices)
        where = rng.random((200, 100, 3)) * 0.1 + lower[:, None]
        inside = np.einsum("nij,nkj->nki", linear[:, :3, :3], where) + linear[:, None, :3, 3]
        for matrix, box in zip(matrices, found, strict=True):
            moved = inside.reshape(-1, 3) @ matrix[:, :3].T + matrix[:, 3]
            room = 1e-12 * np.abs(box).max()
            assert (moved >= box[:3] - room).all() and (moved <= box[3:] + room).all()


def test_many_trees(rng: Rng) -> None:
    """Each instance has the extent of its tree; an empty tree bounds nothing."""
    trees = [BVH.from_triangles(*soup(rng, n)) for n in (1, 0, 7, 500, 90)]
    matrices, tree_of = maps(rng, 5_000), rng.integers(5, size=5_000).astype(np.int32)
    extents = extents_of(*trees)
    found = instance_bounds(extents, tree_of, matrices)
    assert np.array_equal(
        found[tree_of == 1, :1] * [1, -1], np.tile([np.inf, -np.inf], ((tree_of == 1).sum(), 1))
    )
    for i, tree in enumerate(trees):
        mine = tree_of == i
        alone = instance_bounds(extents_of(tree), np.zeros(mine.sum(), np.int32), matrices[mine])
        assert alone.tobytes() == found[mine].tobytes()


def test_maps_too_large(rng: Rng) -> None:
    """Where vertices leave the range of doubles, whatever is left is held."""
    tree = BVH.from_triangles(*soup(rng, 300))
    matrix = np.eye(3, 4)[None] * 1e308 * 1.7
    box = instance_bounds(extents_of(tree), np.zeros(1, np.int32), matrix)[0]
    assert np.array_equal(box, np.finfo(np.float64).max * np.array([-1, -1, -1, 1, 1, 1.0]))


def test_polytopes(rng: Rng) -> None:
    """They hold all points in any direction, and say so where they have too many vertices."""
    points = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3))
    used = rng.random(500) < 0.9
    some = points[used]
    bounds = np.stack([some.min(axis=0), some.max(axis=0)])
    vertices = polytope(points, used, bounds, 64)
    assert vertices is not None and 8 <= len(vertices) <= 48
    directions = rng.normal(size=(2_000, 3))
    assert ((vertices @ directions.T).max(axis=0) >= (some @ directions.T).max(axis=0)).all()
    assert polytope(points, used, bounds, 7) is None


def test_polytopes_of_huge_points(rng: Rng) -> None:
    """They are found as for small ones: all is scaled by powers of two."""
    used = np.ones(200, np.bool_)
    for _ in range(20):
        points = rng.uniform(-1, 1, (200, 3))
        bounds = np.stack([points.min(axis=0), points.max(axis=0)])
        vertices = polytope(points, used, bounds, 64)
        assert vertices is not None
        for size in (2.0**950, 2.0**1022):
            huge = polytope(points * size, used, bounds * size, 64)
            assert huge is not None and np.array_equal(huge, vertices * size)


def nearly_singular(rng: Rng) -> np.ndarray:
    """Return a matrix that is a little more than flat, far from the origin."""
    matrix = np.eye(4)
    a, b = np.linalg.qr(rng.normal(size=(2, 3, 3)))[0]
    matrix[:3, :3] = a @ np.diag([1.0, 1e-6, 1e-12]) @ b
    matrix[:3, 3] = rng.normal(size=3) * 1e3
    return matrix


def corners_of(rows: np.ndarray) -> np.ndarray:
    """Return the corners of the box -1 <= rows (x, 1) <= 1, solved for exactly."""
    a, h = [[*map(Fraction, row[:3])] for row in rows.tolist()], [*map(Fraction, rows[:, 3])]
    n = [
        [a[i - 2][j - 2] * a[i - 1][j - 1] - a[i - 2][j - 1] * a[i - 1][j - 2] for j in range(3)]
        for i in range(3)
    ]
    det = sum(map(operator.mul, a[0], n[0]), Fraction())
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T.tolist()
    return np.array(
        [
            [float(sum((z[i] - h[i]) * n[i][j] for i in range(3)) / det) for j in range(3)]
            for z in signs
        ]
    )


def test_boxes_under_nearly_singular_maps(rng: Rng) -> None:
    """A placed box is where the rounded inverse of its map has it, which may be far off."""
    turn = np.eye(4)
    turn[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0] @ np.diag([1.0, 1e-3, 1e-6])
    low, high = [[-1.0, -1.0, -1.0]], [[1.0, 1.0, 1.0]]
    for _ in range(10):
        matrix = nearly_singular(rng)
        inverse = inverses(matrix[None, :3])[0][0]
        for tree in (BVH.from_boxes(low, high), BVH.from_obbs(low, high, turn[None])):
            scene, rows = Scene(), inverse
            scene.add(tree, matrix)
            if tree.kind == "obbs":
                own = tree.arrays.primitives.points[0, 6:].reshape(3, 4)
                columns = np.vstack([inverse, [0.0, 0.0, 0.0, 1.0]]).T
                rows = np.array([moved_row(row, columns) for row in own])
            corners = corners_of(rows)
            room = 1e-15 * np.abs(corners).max()
            assert (scene.bounds[0] <= corners + room).all()
            assert (scene.bounds[1] >= corners - room).all()
            # Through the middle, from all sides.
            d = rng.normal(size=(50, 3))
            o = corners.mean(axis=0) - 2.0 * d
            if tree.kind == "boxes":
                wanted = ray_obb(o, d, low[0], high[0], transform=matrix)
                hits = scene.closest_hit(o, d)
                assert np.array_equal(hits.mask, wanted.hit)
                assert np.array_equal(hits.t, wanted.t_near)


def moved_row(row: np.ndarray, columns: np.ndarray) -> list[float]:
    """Return a row times a matrix of columns, each entry rounded once."""
    terms = [*map(Fraction, row.tolist())]
    return [
        round_fraction(sum(map(operator.mul, terms, map(Fraction, column)), Fraction()))
        for column in columns.tolist()
    ]
