"""Instances by their names: looked up, changed and removed; names that are missing or repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh

UNIT = [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]
LIFTED = np.eye(4)
LIFTED[2, 3] = 2.0


@pytest.fixture
def scene() -> bvh.Scene:
    """Return a scene of three named instances and one without a name."""
    made = bvh.Scene()
    made.add_many(UNIT, np.tile(np.eye(4), (4, 1, 1)), ["car 1", "car 2", "car 3", None])
    return made


def test_changed_by_name(scene: bvh.Scene) -> None:
    """All that takes an id takes the name of one instance."""
    assert scene["car 3"].id == 2 and scene.instance("car 1").id == 0
    assert "car 3" in scene and "car 4" not in scene
    scene.set_transform("car 3", LIFTED)
    assert scene[2].transform[2, 3] == 2.0 and scene[1].transform[2, 3] == 0.0
    scene.set_transforms(["car 1", "car 2"], np.stack([LIFTED, LIFTED]))
    scene.set_transforms(scene.names([1]), np.eye(4)[None])
    assert [scene[k].transform[2, 3] for k in range(3)] == [2.0, 0.0, 2.0]
    scene.set_visible("car 2", False)
    scene.set_mask(np.array(["car 1", "car 3"]), [2, 4])
    assert [(one.visible, one.mask) for one in scene][:3] == [
        (True, 2), (False, 2**32 - 1), (True, 4),
    ]  # fmt: skip
    scene.rename("car 1", "bus")
    scene.replace("bus", bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
    assert scene["bus"].id == 0 and scene[0].child.kind == "boxes"
    scene.remove("car 2")
    scene.remove(["bus", "car 3"])
    assert scene.ids.tolist() == [3] and "bus" not in scene


def test_missing_and_repeated_names(scene: bvh.Scene) -> None:
    """A name of no instance is an error that tells the closest; one of several tells their ids."""
    scene.rename(1, "car 1")
    changes: list[Any] = [
        scene.instance, scene.remove, lambda n: scene.set_transform(n, LIFTED),
        lambda n: scene.set_transforms([n], [LIFTED]), lambda n: scene.set_visible(n, True),
        lambda n: scene.remove(["car 3", n]),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(KeyError, match="no instance is named 'cat 3'; did you mean 'car 3'"):
            change("cat 3")
        with pytest.raises(KeyError, match=r"no instance is named 'tree'\""):
            change("tree")
        with pytest.raises(KeyError, match=r"'ca'; \d+ names begin so, such as 'car"):
            change("ca")
        with pytest.raises(KeyError, match=r"2 instances are named 'car 1'.* \[0, 1\]"):
            change("car 1")
    assert len(scene) == 4
    with pytest.raises(TypeError, match="ids must be"):
        scene.set_visible(1.5, True)
    with pytest.raises(TypeError, match="instance_id must be"):
        scene.instance(None)  # type: ignore[arg-type]


def test_many_names(scene: bvh.Scene) -> None:
    """In any order, repeated, and beside ids."""
    for ids in (["car 3", "car 1", "car 3"], [2, "car 1"], np.array(["car 3", "car 1"])):
        scene.set_visible(range(4), True)
        scene.set_visible(ids, False)
        assert [each.visible for each in scene] == [False, True, False, True]
