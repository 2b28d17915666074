"""Scenes from which instances have gone, while they are looked at."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from bvh import BVH, Scene
from bvh.scene.table import table_guard
from tests.scene.test_scene import matrices, tree_of

Rng = np.random.Generator


def test_bounds_cannot_be_changed(rng: Rng) -> None:
    scene = Scene()
    scene.add(tree_of(rng))
    assert not scene.bounds.flags.writeable and np.isfinite(scene.bounds).all()
    scene.remove(0)
    assert not scene.bounds.flags.writeable and np.isnan(scene.bounds).all()


def test_instances_can_go_while_they_are_gone_through(rng: Rng) -> None:
    scene = Scene()
    seen: list[int] = []
    scene.add_many(tree_of(rng), matrices(rng, 6))
    for instance in scene:
        seen.append(instance.id)
        scene.remove(instance.id if instance.id != 2 else [2, 4])
        repr(scene)
    assert seen == [0, 1, 2, 3, 5] and len(scene) == 0


def test_many_look_while_gaps_are_closed(rng: Rng) -> None:
    """The first question after a removal moves rows; who looks at instances meanwhile sees none."""
    tree, n = tree_of(rng), 2000
    wrong: list[int] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            scene = Scene()
            scene.add_many(tree, np.tile(np.eye(4), (n, 1, 1)), [str(k) for k in range(n)])
            scene.remove(np.arange(100))
            together = threading.Barrier(3)

            def look(scene: Scene = scene, together: threading.Barrier = together) -> None:
                together.wait()
                for k in (n - 1, n // 2, 150) * 20:
                    try:
                        if (scene[k].id, scene[k].name, len(scene)) != (k, str(k), n - 100):
                            wrong.append(k)
                    except (IndexError, KeyError):
                        wrong.append(k)

            def ask(scene: Scene = scene, together: threading.Barrier = together) -> None:
                together.wait()
                repr(scene)

            threads = [threading.Thread(target=work) for work in (look, look, ask)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def test_names_wait_while_gaps_are_closed(rng: Rng) -> None:
    """They were looked up by rows that moved meanwhile."""
    scene = Scene()
    found: list[object] = []
    scene.add_many(tree_of(rng), matrices(rng, 3), ["a", "b", "c"])
    scene.remove(0)
    thread = threading.Thread(target=lambda: found.append(scene.names(2)))
    with table_guard.lock:
        thread.start()
        thread.join(0.2)
        assert found == []
    thread.join()
    assert found == ["c"]


@pytest.mark.parametrize("moved", [False, True])
def test_bounds_of_what_is_not_turned(rng: Rng, moved: bool) -> None:
    """They are those of the flattened mesh, to the last bit, also after a move."""
    for size in (1.0, 1e-140, 1e140, 3e-3):
        vertices = rng.normal(size=(500, 3)) * size
        faces = rng.integers(0, 500, (400, 3))
        scene, maps = Scene(), np.tile(np.eye(4), (5, 1, 1))
        scene.add_many(BVH.from_triangles(vertices, faces), maps)
        scene.add(BVH.from_triangles(np.zeros((0, 3)), [], warn=False), maps[0])
        if moved:
            assert np.isfinite(scene.bounds).all()
            maps[:, :3, 3] = rng.normal(size=(5, 3)) * size * 10.0 ** rng.integers(-9, 9, (5, 1))
            scene.set_transforms(np.arange(5), maps)
        flat, used, *_ = scene.flattened()
        corners = flat[used].reshape(-1, 3)
        assert np.array_equal(scene.bounds, [corners.min(axis=0), corners.max(axis=0)])
    low = rng.normal(size=(40, 3))
    boxes, scene = BVH.from_boxes(low, low + rng.random((40, 3))), Scene()
    scene.add(boxes)
    assert np.array_equal(scene.bounds, boxes.bounds)
    turn = np.eye(4)
    turn[:2, :2] = [[0.6, -0.8], [0.8, 0.6]]
    scene.set_transform(0, turn)
    assert not np.array_equal(scene.bounds, boxes.bounds)
