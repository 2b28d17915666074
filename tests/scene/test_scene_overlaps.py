"""What meets regions, trees and scenes: scenes against their flattened meshes, and the slow truth.

Flattened meshes are trees of their own, so their answers, and their order, are a brute force over
the same tests; small scenes are held to rational numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH, Scene
from bvh.queries.results import Overlaps, ScenePairs
from tests.oracles import overlaps
from tests.oracles import scene_overlaps as oracle

Rng = np.random.Generator
UNIT = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def tree_of(rng: Rng, n: int, quality: str = "medium", grid: bool = False) -> BVH:
    """Return a tree over faces, some long and thin or on a grid, one of them not finite."""
    if grid:
        points = rng.integers(0, 4, (n, 3, 3)).astype(float)
    else:
        a = rng.random((n, 3)) * 3.0
        b = a + rng.normal(size=(n, 3)) * 0.6
        points = np.stack([a, b, b + rng.normal(size=(n, 3)) * 0.2], axis=1)
    points[-1, 0] = np.nan
    return BVH.from_triangles(
        points.reshape(-1, 3), np.arange(3 * n).reshape(-1, 3), quality=quality
    )


def transforms(rng: Rng, n: int, far: float = 0.0, wide: float = 4.0) -> np.ndarray:
    """Return affine matrices: turned, scaled, sheared, reflected, some of them exact."""
    found = np.tile(np.eye(4), (n, 1, 1))
    found[:, :3, :3] = rng.normal(size=(n, 3, 3)) * rng.choice([0.1, 1.0, 1.0, 5.0], (n, 1, 3))
    found[:, :3, 3] = rng.normal(size=(n, 3)) * wide
    for k in np.flatnonzero(rng.random(n) < 0.3):
        found[k, :3, :3] = np.eye(3)[rng.permutation(3)] * rng.choice([-2.0, 0.5, 1.0])
        found[k, :3, 3] = rng.integers(-4, 5, 3)
    found[:, :3, 3] += far
    return found


def scene_of(rng: Rng, n: int, faces: int = 30, far: float = 0.0, wide: float = 4.0) -> Scene:
    """Return a scene of n leaves or more, some nested, some out of sight."""
    trees = [
        tree_of(rng, faces, q, grid=grid)
        for q, grid in (("medium", True), ("medium", False), ("high", False))
    ]
    inner, scene = Scene(), Scene()
    for tree in trees:
        inner.add_many(tree, transforms(rng, 2, 0.0, wide), masks=[255, rng.integers(0, 2)])
        each = n // 6 + 1
        scene.add_many(tree, transforms(rng, each, far, wide), visible=rng.random(each) < 0.9)
    deeper = Scene()
    deeper.add_many(inner, transforms(rng, 2, 0.0, wide))
    scene.add_many(inner, transforms(rng, n // 18 + 1, far, wide))
    scene.add_many(deeper, transforms(rng, n // 36 + 1, far, wide))
    scene.remove(int(rng.choice(scene.ids)))
    return scene


class Flat:
    """A scene as one mesh, and where its faces come from."""

    def __init__(self, scene: Scene) -> None:
        vertices, faces, self.leaf, self.prim = scene.flattened()
        self.vertices, self.faces = vertices, faces
        self.tree = BVH.from_triangles(vertices, faces)
        self.owner = scene.leaves.instance_id

    def places(self, rng: Rng, n: int) -> np.ndarray:
        """Return points: corners of faces, points in their middle, and others nearby."""
        corners = self.vertices[self.faces[rng.integers(0, len(self.faces), n)]]
        points = np.where(rng.random((n, 1)) < 0.5, corners[:, 0], corners.mean(axis=1))
        points = np.where(np.isfinite(points), points, 0.0)
        return points + rng.normal(size=(n, 3)) * rng.integers(0, 2, (n, 1))

    def check(self, found: Overlaps, wanted: Any) -> int:
        """Compare what regions meet; return how much that is."""
        assert np.array_equal(found.offsets, wanted.offsets)
        assert np.array_equal(found.leaf, self.leaf[wanted.prim_id])
        assert np.array_equal(found.prim_id, self.prim[wanted.prim_id])
        assert np.array_equal(found.instance_id, self.owner[found.leaf])
        assert found.shape == wanted.shape
        return len(found.prim_id)

    def check_pairs(self, found: ScenePairs, wanted: np.ndarray, other: Flat | None) -> int:
        """Compare pairs; `other` is the second scene, None for a tree."""
        sides: list[Any] = [(self.leaf, self.prim, self.owner)]
        if other is not None:
            sides.append((other.leaf, other.prim, other.owner))
        for k, (leaf, prim, owner) in enumerate(sides):
            assert np.array_equal(found.leaf[:, k], leaf[wanted[:, k]])
            assert np.array_equal(found.prim_id[:, k], prim[wanted[:, k]])
            assert np.array_equal(found.instance_id[:, k], owner[found.leaf[:, k]])
        if other is None:
            assert np.array_equal(found.prim_id[:, 1], wanted[:, 1])
            assert (found.leaf[:, 1] == -1).all() and (found.instance_id[:, 1] == -1).all()
        return len(found)


def planes_of(rng: Rng, at: np.ndarray, size: np.ndarray, k: int) -> np.ndarray:
    """Return polytopes of k planes near points, some through them, some without a normal."""
    n = len(at)
    normals = rng.normal(size=(n, k, 3)) * 10.0 ** rng.uniform(-3, 3, (n, k, 1))
    normals[rng.random((n, k)) < 0.05] = 0.0
    away = normals * size[:, :, None] * rng.integers(0, 2, (n, k, 1))
    offsets = -(normals * (at[:, None] - away)).sum(axis=2, keepdims=True)
    return np.concatenate([normals, offsets], axis=2)


@pytest.mark.parametrize(
    "far", [1e3, *(pytest.param(x, marks=pytest.mark.long) for x in (0.0, 1e7))]
)
def test_regions_equal_the_flattened_mesh(far: float, rng: Rng) -> None:
    """Boxes, balls and polytopes of any size, touching corners and faces, infinite, no numbers."""
    scene = scene_of(rng, 100, far=far)
    flat, n = Flat(scene), 40
    assert len(scene.leaves) >= 100
    at = flat.places(rng, n)
    size = 10.0 ** rng.uniform(-3, 2, (n, 1)) * rng.integers(0, 2, (n, 1))
    low, high = at - size * rng.integers(0, 2, (n, 3)), at + size * rng.integers(0, 2, (n, 3))
    low[0], high[0], low[1, 1], low[2] = -np.inf, np.inf, np.nan, high[2] + 1.0
    met = [flat.check(scene.overlap_box(low, high), flat.tree.overlap_box(low, high))]
    center = at + rng.normal(size=(n, 3)) * size
    radius = np.linalg.norm(center - at, axis=1)
    radius[:6] = 1e9, 1e200, np.inf, -1.0, 0.0, 1e-200
    center[6] = np.nan
    found = scene.overlap_sphere(center, radius, threads=2)
    met.append(flat.check(found, flat.tree.overlap_sphere(center, radius)))
    for k in (0, 1, 6):
        planes = planes_of(rng, at, size, k)
        if k:
            planes[0, 0, 3], planes[1, 0, 3], planes[2, 0, 0] = np.inf, np.nan, 1e200
        found = scene.overlap_frustum(planes)
        met.append(flat.check(found, flat.tree.overlap_frustum(planes)))
    assert min(met) > 50
    one = scene.overlap_box(low[5], high[5])
    assert one.shape == () and isinstance(one.counts, int)
    assert np.array_equal(flat.prim[flat.tree.overlap_box(low[5], high[5])], one.prim_id)


@pytest.mark.parametrize("far", [0.0, 1e7])
@pytest.mark.parametrize("threads", [1, 2])
def test_pairs_equal_the_flattened_meshes(far: float, threads: int, rng: Rng) -> None:
    """Scenes against scenes, trees and themselves, moved or not."""
    scene, other = scene_of(rng, 60, far=far), scene_of(rng, 20, far=far)
    flat, flat2, tree = Flat(scene), Flat(other), tree_of(rng, 100)
    found = scene.self_overlaps(threads=threads)
    met = [flat.check_pairs(found, flat.tree.self_overlaps(), flat)]
    found = scene.overlap_tree(other, threads=threads)
    met.append(flat.check_pairs(found, flat.tree.overlap_tree(flat2.tree), flat2))
    moved = np.eye(4)
    moved[:3, 3] = rng.normal(size=3)
    if far == 0.0:
        moved[:3, :3] = rng.normal(size=(3, 3))
    flattening = moved.copy()
    flattening[:3, 2] = 0.0
    for matrix in (moved, flattening):
        wanted = flat.tree.overlap_tree(flat2.tree, matrix)
        found = scene.overlap_tree(other, matrix, threads=threads)
        met.append(flat.check_pairs(found, wanted, flat2))
    place = transforms(rng, 1, far)[0]
    found = scene.overlap_tree(tree, place, threads=threads)
    met.append(flat.check_pairs(found, flat.tree.overlap_tree(tree, place), None))
    assert min(met[:3]) > 20


def test_small_scenes_equal_rational_numbers(rng: Rng) -> None:
    """Faces on grids and others, moved in rational numbers; regions that touch them."""
    for _ in range(3):
        scene = scene_of(rng, 6, faces=4, wide=1.0)
        faces, n = oracle.faces(scene), 25
        low = rng.integers(-3, 4, (n, 3)).astype(float)
        high = low + rng.integers(0, 4, (n, 3))
        radius = rng.integers(0, 4, n).astype(float)
        planes = rng.integers(-2, 3, (n, 4, 4)).astype(float)
        cases: list[tuple[Overlaps, Any, tuple[np.ndarray, ...]]] = [
            (scene.overlap_box(low, high), overlaps.triangle_meets_box, (low, high)),
            (scene.overlap_sphere(low, radius), overlaps.triangle_meets_sphere, (low, radius)),
            (scene.overlap_frustum(planes), overlaps.triangle_meets_planes, (planes,)),
        ]
        for found, truth, queries in cases:
            for i, query in enumerate(zip(*(q.tolist() for q in queries), strict=True)):
                wanted = [f[:3] for f in faces if truth(f.corners, *query)]
                part = found[i]
                got = zip(part.instance_id, part.leaf, part.prim_id, strict=True)
                assert [tuple(map(int, row)) for row in got] == wanted


def test_small_pairs_equal_rational_numbers(rng: Rng) -> None:
    """Pairs of two scenes, of one with itself, and with a matrix in between."""

    def rows(pairs: ScenePairs) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        table = np.stack([pairs.instance_id, pairs.leaf, pairs.prim_id], axis=2).tolist()
        return [(tuple(a), tuple(b)) for a, b in table]

    total = np.zeros(3, int)
    for k in range(4):
        scene, other = Scene(), Scene()
        places = transforms(rng, 6, wide=0.5)
        scene.add_many(tree_of(rng, 6, grid=k < 3), places[:4])
        other.add_many(tree_of(rng, 6, grid=k < 3), places[2:])
        own, others = oracle.faces(scene), oracle.faces(other)
        matrix = np.eye(4) + np.diag(rng.normal(size=3), 1) * 0.1
        moved = [oracle.placed(face, matrix) for face in others]
        cases = [
            (scene.overlap_tree(other), oracle.pairs(own, others)),
            (scene.overlap_tree(other, matrix), oracle.pairs(own, moved)),
            (scene.self_overlaps(), oracle.self_pairs(own)),
        ]
        for found, wanted in cases:
            assert rows(found) == [(a[:3], b[:3]) for a, b in wanted]
        total += [len(wanted) for _, wanted in cases]
    assert (total > 5).all()


def test_what_moves_is_found_where_it_is(rng: Rng) -> None:
    """Transforms, visibility, masks, trees that are gone."""
    tree = BVH.from_triangles(UNIT, [[0, 1, 2]])
    scene = Scene()
    ids = scene.add_many(tree, np.tile(np.eye(4), (3, 1, 1)))
    box = [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
    assert scene.overlap_box(*box).instance_id.tolist() == [0, 1, 2]
    assert scene.self_overlaps().leaf.tolist() == [[0, 1], [0, 2], [1, 2]]
    up = np.eye(4)
    up[2, 3] = 1.0
    scene.set_transform(0, up)
    assert scene.overlap_box([0, 0, 1], [1, 1, 1]).instance_id.tolist() == [0]
    assert scene.self_overlaps().instance_id.tolist() == [[1, 2]]
    scene.set_visible(1, False)
    scene.set_mask(2, 0)
    for verb, args in (
        ("overlap_box", box), ("overlap_sphere", ([0, 0, 0], 9.0)), ("overlap_frustum", ([],))
    ):  # fmt: skip
        assert getattr(scene, verb)(*args).instance_id.tolist() == [0]
    assert len(scene.self_overlaps()) == 0
    scene.remove(ids)
    assert len(scene.overlap_box(*box).prim_id) == 0
    assert len(scene.overlap_tree(tree)) == len(scene.self_overlaps()) == 0
    assert scene.overlap_sphere(np.zeros((2, 3)), 1.0).counts.tolist() == [0, 0]


def test_shapes_and_progress(rng: Rng) -> None:
    """Batches keep their leading shape; large results go through several buffers."""
    scene = scene_of(rng, 30)
    calls: list[tuple[int, int]] = []
    found = scene.overlap_box(
        np.full((2, 3, 3), -1e9), [1e9] * 3, progress=lambda *c: calls.append(c)
    )  # fmt: skip
    every = len(oracle.faces(scene))
    assert found.shape == (2, 3) and (found.counts == every).all() and calls[-1] == (6, 6)
    assert len(found) == 6 and np.array_equal(found[5].prim_id, found[-6].prim_id)
    assert np.array_equal(found.query_id, np.repeat(np.arange(6), every))
    assert scene.overlap_sphere(np.empty((0, 3)), 1.0).counts.shape == (0,)
    calls.clear()
    pairs = scene.self_overlaps(progress=lambda *c: calls.append(c))
    assert calls[-1][0] == calls[-1][1] and f"{len(pairs)} pairs" in repr(pairs)
    assert "6 of 6 queries" in repr(found)
    with pytest.raises(IndexError):
        found[6]


def test_boxes_out_of_sight() -> None:
    """They do not count."""
    scene, inner = Scene(), Scene()
    inner.add(BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
    scene.add(BVH.from_triangles(UNIT, [[0, 1, 2]]))
    scene.set_visible(scene.add(inner), False)
    assert scene.overlap_box([0, 0, 0], [1, 1, 1]).leaf.tolist() == [0]
