"""Handles of mapped scenes: the file by path and checksum, unless the scene has been changed."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed import handles
from bvh.distributed.handles import handle_of
from tests.cases.families import sphere
from tests.cases.handles import RAYS, checksum_of, kind_of, lazily, there, trees_of

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
dumps = pytest.importorskip("cloudpickle").dumps
tokenize = pytest.importorskip("dask.base").tokenize

LAST = np.diag([0.0, 0.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    handles.mapped_content.cache_clear()
    handles._maps.clear()


@pytest.fixture
def scene_path(tmp_path: Path) -> Path:
    """Return the file of a scene with a nested one."""
    inner, scene = bvh.Scene(), bvh.Scene()
    inner.add(bvh.BVH.from_triangles(*sphere(3)), name="ball")
    moved = np.eye(4)
    moved[2, 3] = 0.5
    scene.add_many(inner, [np.eye(4), moved], ["one", "two"])
    scene.add(bvh.BVH.from_boxes(-np.ones((1, 3)), np.ones((1, 3))), 0.1 * np.eye(4) + 0.9 * LAST)
    scene.save(tmp_path / "scene.bvh")
    return tmp_path / "scene.bvh"


@pytest.mark.parametrize("used", [False, True])
def test_a_mapped_scene_travels_as_path_and_checksum(
    used: bool, scene_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it has been used or not; a process opens the file once."""
    scene: Any = bvh.load(scene_path, mmap=True)
    wanted = bvh.load(scene_path).closest_hit(*RAYS)
    if used:
        scene.closest_hit(*RAYS)
    handle = handle_of(scene)
    assert kind_of(handle) == "mapped scene" and len(pickle.dumps(handle)) < 300
    again: Any = bvh.load(scene_path, mmap=True)
    assert tokenize(handle) == tokenize(handle_of(again)) == tokenize(there(handle))
    opened: list[str] = []
    load = handles.loaded_from
    monkeypatch.setattr(
        handles, "loaded_from", lambda *a, **k: opened.append(a[0]) or load(*a, **k)
    )
    first, second = there(handle).open(), there(handle).open()
    assert first is second and opened == [str(scene_path)]
    for one in (first, handle.open()):
        found = one.closest_hit(*RAYS)
        np.testing.assert_array_equal(found.t, wanted.t)
        np.testing.assert_array_equal(found.instance_id, wanted.instance_id)
    assert handle.open() is not scene


def test_a_mapped_scene_on_a_cluster(scene_path: Path, cluster: Any) -> None:
    """Its answers are those of the scene; the graph has no content of it."""
    scene: Any = bvh.load(scene_path, mmap=True)
    lazy = lazily(scene)
    assert sum(len(dumps(task)) for task in dict(dask.optimize(lazy)[0].dask).values()) < 50_000
    with cluster.as_current():
        np.testing.assert_array_equal(lazy.compute(), bvh.load(scene_path).closest_hit(*RAYS).t)


CHANGES: dict[str, Any] = {
    "moved": lambda scene: scene.set_transform(0, np.diag([2.0, 2.0, 2.0, 1.0])),
    "hidden": lambda scene: scene.set_visible(0, False),
    "masked": lambda scene: scene[0].child.set_mask(0, 6),
    "removed": lambda scene: scene.remove(1),
    "added": lambda scene: scene.add(scene[0].child),
    "added to one within": lambda scene: scene[0].child.add(scene[2].child),
    "replaced": lambda scene: scene.replace(0, scene[2].child),
    "renamed": lambda scene: scene[0].child.rename(0, "other"),
    "up": lambda scene: setattr(scene, "up", "x"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_scene_travels_without_its_trees(name: str, scene_path: Path) -> None:
    """With what has been changed, and as it was then; its trees are parts of the file."""
    scene: Any = bvh.load(scene_path, mmap=True)
    before = handle_of(scene)
    CHANGES[name](scene)
    wanted = scene.closest_hit(*RAYS)
    handle = handle_of(scene)
    assert kind_of(before) == "mapped scene" and kind_of(handle) == "scene"
    assert {kind_of(tree) for tree in trees_of(handle)} == {"mapped tree"}
    assert len(pickle.dumps(handle)) < 5_000
    found = there(handle).open()
    assert repr(found) == repr(scene) and found.up == scene.up
    np.testing.assert_array_equal(found.closest_hit(*RAYS).t, wanted.t)
    np.testing.assert_array_equal(
        before.open().closest_hit(*RAYS).t, bvh.load(scene_path).closest_hit(*RAYS).t
    )
    # A tree of it alone, too; and all trees share a map.
    alone = handle_of(scene.leaves.trees[0])
    assert kind_of(alone) == "mapped tree" and len(pickle.dumps(alone)) < 300
    tree = there(alone).open()
    assert len(handles._maps) == 1 and tree.kind == scene.leaves.trees[0].kind


def test_a_refitted_tree_of_a_mapped_scene_is_held(scene_path: Path) -> None:
    scene: Any = bvh.load(scene_path, mmap=True)
    ball = scene[0].child[0].child
    ball.refit(ball.vertices * 2.0)
    handle = handle_of(scene)
    assert kind_of(handle) == "scene"
    assert sorted(map(kind_of, trees_of(handle))) == ["bytes", "mapped tree"]
    wanted = scene.closest_hit(*RAYS).t
    np.testing.assert_array_equal(there(handle).open().closest_hit(*RAYS).t, wanted)


def test_another_scene_in_the_place_of_a_mapped_one(scene_path: Path) -> None:
    """The error names the file and both checksums; what is here goes on."""
    scene: Any = bvh.load(scene_path, mmap=True)
    handle, alone = handle_of(scene), handle_of(scene.leaves.trees[0])
    assert kind_of(handle) == "mapped scene" and kind_of(alone) == "mapped tree"
    was, other = checksum_of(handle), bvh.Scene()
    other.add(bvh.BVH.from_triangles(*sphere(1)))
    path = scene_path.with_name("ball.bvh")
    bvh.BVH.from_triangles(*sphere(2)).save(path)
    for save in (other.save, lambda place: shutil.copy(path, place)):
        save(scene_path)
        with pytest.raises(ValueError, match=rf"scene\.bvh with checksum {was}; the f"):
            there(handle).open()
        with pytest.raises(ValueError, match=rf"checksum {checksum_of(alone)}; the file here"):
            there(alone).open()
    scene_path.unlink()
    with pytest.raises(ValueError, match=rf"no such file here: .*checksum {was}"):
        there(handle).open()
    assert handle.open().closest_hit(*RAYS).mask.any()
