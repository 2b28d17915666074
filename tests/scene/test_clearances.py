"""How near instances of a scene are: against all pairs of faces, in float64 and exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh import BVH, Clearances, Scene
from tests.cases import sizes
from tests.oracles import points, scenes
from tests.oracles import scene_clearances as oracle
from tests.scene.test_collisions import BOX, shifted
from tests.scene.test_scene_overlaps import UNIT, scene_of, transforms, tree_of


def brute(scene: Scene) -> dict[tuple[int, int], float]:
    """Return the distance of each pair of instances in float64, by all pairs of their faces."""
    corners: dict[int, list[np.ndarray]] = {}
    for leaf in scenes.leaves(scene):
        moved = scenes.moved(leaf.tree.vertices, leaf.matrix)[leaf.tree.faces]
        moved = moved[np.isfinite(moved).all(axis=(1, 2))]
        if leaf.mask and len(moved):
            corners.setdefault(leaf.path[0], []).append(moved)
    found, ids = {}, sorted(corners)
    for k, i in enumerate(ids):
        for j in ids[k + 1 :]:
            a, b = np.concatenate(corners[i]), np.concatenate(corners[j])
            found[i, j] = float(oracle.triangle_distances(a, b)[0].min())
    return found


def rows(found: Clearances) -> list[tuple[int, int]]:
    """Return the pairs of instances."""
    assert found.instance_id.dtype == found.leaf.dtype == found.prim_id.dtype == np.int32
    count = len(found)
    assert found.distance.shape == (count,) and found.position.shape == (count, 2, 3)
    assert found.instance_id.shape == found.leaf.shape == found.prim_id.shape == (count, 2)
    return [(int(i), int(j)) for i, j in found.instance_id]


def check_positions(scene: Scene, found: Clearances) -> None:
    """Positions are on the faces that are named, and as far apart as the distance."""
    leaves = scene.leaves
    assert np.array_equal(leaves.instance_id[found.leaf], found.instance_id)
    for side in range(2):
        for k in range(len(found)):
            leaf = leaves[int(found.leaf[k, side])]
            corners = scenes.moved(
                leaf.tree.vertices[leaf.tree.faces[found.prim_id[k, side]]], leaf.transform
            )
            place, size = found.position[k, side], float(np.abs(corners).max())
            square = points.squared_distance(place.tolist(), *corners.tolist())
            assert float(square) ** 0.5 <= 1e-14 * size
    gaps = np.linalg.norm(found.position[:, 0] - found.position[:, 1], axis=1)
    size = float(np.abs(scene.bounds).max())
    assert np.allclose(gaps, found.distance, rtol=1e-12, atol=1e-14 * size)


@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("threads", [1, 2])
def test_clearances_equal_all_pairs(far: float, threads: int, rng: np.random.Generator) -> None:
    """Nested scenes, reflections, shared trees, instances out of sight, moved in between."""
    scene = scene_of(rng, 12, faces=8, far=far, wide=8.0)
    for _ in range(2):
        found, wanted = scene.clearances(threads=threads), brute(scene)
        touching = set(map(tuple, scene.collisions(threads=threads).tolist()))
        assert rows(found) == sorted(wanted)
        for pair, distance in zip(rows(found), found.distance.tolist(), strict=True):
            assert (distance == 0.0) == (pair in touching)
            if distance:
                assert distance == pytest.approx(wanted[pair], rel=1e-9, abs=1e-12 * (1 + far))
        check_positions(scene, found)
        # Those within a distance, which is that of one of them.
        for limit in (0.0, *rng.choice(found.distance, 3).tolist()):
            near, kept = scene.clearances(limit), found.distance <= limit
            for name in ("instance_id", "leaf", "prim_id", "distance", "position"):
                assert np.array_equal(getattr(near, name), getattr(found[kept], name))
        some = rng.choice(scene.ids, 4, replace=False)
        scene.set_transforms(some, transforms(rng, 4, far, 8.0))


def test_small_scenes_equal_rational_numbers(rng: np.random.Generator) -> None:
    """Distances within two units in the last place, ties at their lowest pair of faces."""
    ties = apart = 0
    for _ in range(4):
        scene = Scene()
        scene.add_many(tree_of(rng, 4, grid=True), transforms(rng, 4, wide=3.0))
        found, wanted = scene.clearances(), oracle.clearances(scene)
        assert rows(found) == sorted(wanted)
        for k, (square, ends) in enumerate(wanted.values()):
            assert points.ulps_off(float(found.distance[k]), square) <= 2.0
            got = np.stack([found.leaf[k], found.prim_id[k]], axis=1).ravel().tolist()
            assert tuple(got) == ends[0]
            ties += len(ends) > 1
            apart += square > 0
    assert ties > 2 and apart > 2


def test_touching_is_at_distance_zero() -> None:
    """In a vertex, an edge, a face, or all over; and one rounding apart it is not."""
    scene = Scene()
    scene.add(BOX)
    for by in ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        number = scene.add(BOX, shifted(*by))
        found = scene.clearances()
        assert found.distance.tolist() == [0.0] and rows(found) == [(0, number)]
        assert np.array_equal(found.position[0, 0], found.position[0, 1])
        if any(by):
            scene.set_transform(number, shifted(*np.nextafter(by, np.where(by, 9.0, 0.0))))
            ulp = 2.0**-52
            wanted = ulp * np.sqrt(np.count_nonzero(by))
            assert scene.clearances().distance[0] == pytest.approx(wanted, rel=1e-15)
        scene.remove(number)


def test_ignored_pairs_and_what_is_not_there() -> None:
    """By name and id; trees without faces, instances out of sight, a scene of nothing."""
    scene = Scene()
    assert len(scene.clearances()) == 0 and "0 pairs" in repr(scene.clearances())
    for k, name in enumerate(("a", "b", "c", "b")):
        scene.add(BOX, shifted(2.0 * k, 0.0, 0.0), name=name)
    assert rows(scene.clearances(1.0)) == [(0, 1), (1, 2), (2, 3)]
    assert rows(scene.clearances(1.0, ignore=[("b", 2)])) == [(0, 1)]
    assert rows(scene.clearances(3.0, ignore=[("b", "b"), (0, 1)])) == [(0, 2), (1, 2), (2, 3)]
    with pytest.raises(ValueError, match="no instance 9"):
        scene.clearances(ignore=[(9, 0)])
    scene.set_visible(1, False)
    scene.add(BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)))
    scene.add(BVH.from_triangles(np.full((3, 3), np.nan), [[0, 1, 2]]))
    found = scene.clearances()
    assert rows(found) == [(0, 2), (0, 3), (2, 3)] and found.distance.tolist() == [3.0, 5.0, 1.0]
    assert "3 pairs of instances, 0 touching, distance 1 to 5" in repr(found)
    assert rows(found[found.distance < 4.0]) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("family", sizes.FAMILIES)
def test_any_size(family: Any, rng: np.random.Generator) -> None:
    """Instances beside the smallest double and up to the largest, reflected and moved."""
    scene, f = Scene(), np.arange(6).reshape(2, 3)
    for turn in (np.eye(4), np.diag([-1.0, 1.0, 0.5, 1.0]), np.eye(4)[[1, 2, 0, 3]]):
        scene.add(BVH.from_triangles(family(rng, 6), f), turn)
    wanted = oracle.clearances(scene)
    found, nearest = scene.clearances(), scene.clearances(0.0)
    assert rows(found) == sorted(wanted)
    for k, (square, _) in enumerate(wanted.values()):
        assert points.ulps_off(float(found.distance[k]), square) <= 2.0
    touching = [pair for pair, (square, _) in wanted.items() if square == 0]
    assert rows(nearest) == touching == list(map(tuple, scene.collisions().tolist()))


def test_coincident_instances_and_nested_ones() -> None:
    """Parts of a nested scene are not measured against each other."""
    inner, scene = Scene(), Scene()
    inner.add(BOX), inner.add(BOX, shifted(3.0, 0.0, 0.0))
    scene.add(inner), scene.add(inner), scene.add(BOX, shifted(5.5, 0.0, 0.0))
    found = scene.clearances()
    assert rows(found) == [(0, 1), (0, 2), (1, 2)]
    assert found.distance.tolist() == [0.0, 1.5, 1.5]
    assert found.leaf.tolist() == [[0, 2], [1, 4], [3, 4]]


def test_progress() -> None:
    """It ends at its total."""
    scene, calls = Scene(), []
    scene.add_many(BVH.from_triangles(UNIT, [[0, 1, 2]]), [shifted(k, 0, 0) for k in range(9)])
    found = scene.clearances(progress=lambda *call: calls.append(call))
    assert len(found) == 36 and calls[-1] == (36, 36)


def test_limits_beside_overflow() -> None:
    """Where the terms of a map overflow and its vertices do not, pairs within a limit are found."""
    scene, face = Scene(), [[0, 1, 1]]
    scene.add(
        ([[0.0, 1.0, 0.25], [-1e308, 0.0, 0.0]], face),
        [[-1.3, 0.0, -0.2, 0.0], [0.8, 0.9, -0.4, 0.0], [-0.7, -0.1, -0.6, 0.0], [0, 0, 0, 1]],
    )
    scene.add(([[-0.5, 1.0, 0.25], [-1e308, -0.75, -0.5]], face))
    (distance,) = scene.clearances().distance
    assert 0.0 < distance < 2.0
    for limit in (distance, 2.0, 1e10, 1e200):
        assert rows(scene.clearances(limit)) == [(0, 1)], limit


def test_single_pairs() -> None:
    """A pair alone is true within the limit, and shows its fields."""
    scene = Scene()
    scene.add_many(BVH.from_triangles(UNIT, [[0, 1, 2]]), [shifted(0, 0, 2 * k) for k in range(3)])
    found = scene.clearances()
    assert [float(pair.distance) for pair in found] == [2.0, 4.0, 2.0] and all(found)
    assert "instance_id=array([0, 2]" in repr(found[1])
    assert repr(found[:1]) == "Clearances(1 pair of instances, 0 touching, distance 2 to 2)"
