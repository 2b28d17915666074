"""Which instances of a scene touch: against the flattened mesh, and against rational numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH, Scene
from bvh.queries.batches import overlap_batches
from bvh.traversal.pairs import meeting_pairs
from tests.oracles import scene_overlaps as oracle
from tests.scene.test_scene_overlaps import UNIT, scene_of, transforms, tree_of

BOX = BVH.from_triangles(
    np.array([[x, y, z] for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)]),
    [[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4],
     [2, 6, 3], [3, 6, 7], [0, 4, 2], [2, 4, 6], [1, 3, 5], [3, 7, 5]],
)  # fmt: skip


def shifted(*by: float) -> np.ndarray:
    """Return a translation."""
    matrix = np.eye(4)
    matrix[:3, 3] = by
    return matrix


def flat_collisions(scene: Scene) -> list[list[int]]:
    """Return the pairs of instances that touch in the flattened mesh."""
    vertices, faces, leaf, _ = scene.flattened()
    tree = BVH.from_triangles(vertices, faces)
    pairs = scene.leaves.instance_id[leaf[tree.overlap_tree(tree)]]
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0).tolist()


@pytest.mark.parametrize("far", [0.0, 1e7])
@pytest.mark.parametrize("threads", [1, 2])
def test_collisions_equal_the_flattened_mesh(
    far: float, threads: int, rng: np.random.Generator
) -> None:
    """Nested scenes, reflections, instances out of sight, moved after the first answer."""
    scene = scene_of(rng, 40, faces=12, far=far, wide=8.0)
    for _ in range(2):
        found = scene.collisions(threads=threads)
        assert found.dtype == np.int32 and found.shape[1] == 2
        assert found.tolist() == flat_collisions(scene)
        assert 0 < len(found) < len(scene) * (len(scene) - 1) // 2
        some = rng.choice(scene.ids, 7, replace=False)
        scene.set_transforms(some, transforms(rng, 7, far, 8.0))


def test_small_scenes_equal_rational_numbers(rng: np.random.Generator) -> None:
    """Faces on grids, that touch in vertices, edges and areas."""
    total = 0
    for _ in range(8):
        scene = Scene()
        scene.add_many(tree_of(rng, 4, grid=True), transforms(rng, 5, wide=0.4))
        faces = oracle.faces(scene)
        wanted = {(a.instance, b.instance) for a, b in oracle.pairs(faces, faces)}
        wanted = {(i, j) for i, j in wanted if i < j}
        assert list(map(tuple, scene.collisions().tolist())) == sorted(wanted)
        total += len(wanted)
    assert total > 2


@pytest.mark.parametrize("step", [0.1, 1.0 / 3.0, 1e-9, 1e9])
def test_touching_is_enough_and_a_gap_is_none(step: float) -> None:
    """Boxes that share a vertex, an edge, a face; one rounding apart; the same box twice."""
    scene = Scene()
    scaled = np.diag([step, step, step, 1.0])
    scene.add(BOX, scaled)
    for by in ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]):
        matrix = scaled.copy()
        matrix[:3, 3] = np.array(by) * step
        number = scene.add(BOX, matrix)
        assert scene.collisions().tolist() == [[0, number]]
        matrix[:3, 3] = np.nextafter(matrix[:3, 3], np.where(np.array(by) > 0, np.inf, 0.0))
        if any(by):
            scene.set_transform(number, matrix)
            assert len(scene.collisions()) == 0
        scene.remove(number)
    # Inside is not touching.
    scene.add(BOX, shifted(*[0.25 * step] * 3) @ np.diag([step / 2, step / 2, step / 2, 1.0]))
    assert len(scene.collisions()) == 0


def test_a_nested_scene_is_one_instance() -> None:
    """Its parts touch each other, which does not count; both of two copies' parts do."""
    pair, scene = Scene(), Scene()
    pair.add(BOX), pair.add(BOX, shifted(0.5, 0.0, 0.0))
    assert pair.collisions().tolist() == [[0, 1]]
    scene.add(pair)
    assert scene.collisions().shape == (0, 2)
    scene.add_many(pair, [shifted(1.5, 0.0, 0.0), shifted(9.0, 0.0, 0.0)])
    assert scene.collisions().tolist() == [[0, 1]]
    scene.set_visible(1, False)
    assert scene.collisions().tolist() == []
    scene.set_visible(1, True)
    scene.set_mask(0, 0)
    assert scene.collisions().tolist() == []
    # Who moves a part of the nested scene moves it in all.
    scene.set_mask(0, 1)
    pair.set_transform(1, shifted(8.0, 0.0, 0.0))
    assert scene.collisions().tolist() == [[0, 2], [1, 2]]


def test_pairs_to_ignore() -> None:
    """By id, by name, either way round, by names that several have, and by arrays."""
    scene = Scene()
    for name in ("a", "b", None, "b"):
        scene.add(BOX, name=name)
    every = [[i, j] for i in range(4) for j in range(i + 1, 4)]
    assert scene.collisions().tolist() == every
    cases: list[tuple[object, list[list[int]]]] = [
        ([(1, 0)], [[0, 1]]),
        ([("a", 2)], [[0, 2]]),
        ([("b", "a")], [[0, 1], [0, 3]]),
        ([("b", "b")], [[1, 3]]),
        (np.array([[0, 1], [3, 2]]), [[0, 1], [2, 3]]),
        (iter([("a", np.int64(2)), [2, "b"]]), [[0, 2], [1, 2], [2, 3]]),
        ((), []), ({(0, 1)}, [[0, 1]]), ([(2, 2)], []), (np.empty((0, 2), int), []),
    ]  # fmt: skip
    for ignore, gone in cases:
        found = scene.collisions(ignore=ignore).tolist()  # type: ignore[arg-type]
        assert found == [pair for pair in every if pair not in gone]


def test_empty_scenes_and_boxes() -> None:
    """Nothing touches nothing; what is not of triangles is named."""
    scene, calls = Scene(), []
    assert scene.collisions(progress=lambda *call: calls.append(call)).shape == (0, 2)
    scene.add(BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)))
    scene.add(BVH.from_triangles(np.full((3, 3), np.nan), [[0, 1, 2]]))
    scene.add(BVH.from_triangles(UNIT, [[0, 1, 2]]))
    assert scene.collisions(progress=lambda *call: calls.append(call)).shape == (0, 2)
    assert all(done == total for done, total in calls[-1:])
    scene.add(BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
    with pytest.raises(TypeError, match="collisions needs triangles"):
        scene.collisions()


def test_searches_that_pause(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Whole pairs of leaves, and parts of them, go on where they were after every step."""
    scene = scene_of(rng, 30, faces=40, wide=6.0)
    wanted = flat_collisions(scene)
    assert wanted
    for steps in (1, 2, 3):
        monkeypatch.setattr(meeting_pairs, "STEPS", steps)
        for tasks in (1, 10**6):
            monkeypatch.setattr(overlap_batches, "TASKS", tasks)
            assert scene.collisions(threads=2).tolist() == wanted


def test_pairs_of_leaves_that_boxes_rule_out(rng: np.random.Generator) -> None:
    """With several threads, a pair whose boxes are apart in one tree's frame hides no other."""
    corners = np.array([[0, 0, 0], [2, 0, 0], [0, 2, 0], [0, 0, 2.0]])
    solid = BVH.from_triangles(corners, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
    for _ in range(200):
        maps = np.tile(np.eye(4), (3, 1, 1))
        maps[:, :3, :3] = np.linalg.qr(rng.normal(size=(3, 3, 3)))[0]
        maps[:, :3, 3] = rng.normal(size=(3, 3))
        scene = Scene()
        scene.add_many(solid, maps)
        alone = scene.collisions(threads=1)
        assert np.array_equal(scene.collisions(threads=2), alone)
        assert np.array_equal(scene.collisions(threads=4), alone)
