"""What builders and queries refuse is refused, and changes nothing; what is next to it is not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, BVHWarning
from tests.cases.partitions import parts_of
from tests.cases.refused_calls import (
    CAMERA,
    CORNERS,
    EYE,
    FACE,
    NOT_LENGTHS,
    ONE,
    POINT_QUERIES,
    RAY,
    RAY_QUERIES,
    RAYS,
    TABLE,
    ZERO,
    Rows,
    never,
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Return a triangle as a tree, a scene and parts, trees of all kinds, scenes, lazy rays."""
    tree = BVH.from_triangles(*FACE)
    scene, mixed, nested, inner = (bvh.Scene() for _ in range(4))
    scene.add(tree, name="it")
    scene.remove(scene.add(tree))
    boxes = BVH.from_boxes(*CORNERS)
    mixed.add(tree)
    inner.add(boxes)
    nested.add(tree)
    nested.add(inner)
    try:
        from dask.array import from_array
    except ImportError:
        lazy = []
    else:
        lazy = [(from_array(np.ones((4, 3))), RAY[1])]
    return SimpleNamespace(
        tree=tree, scene=scene, boxes=boxes, mixed=mixed, nested=nested, lazy=lazy,
        parts=parts_of(tmp_path_factory.mktemp("refused") / "parts", *FACE, np.zeros(1, int)),
        obbs=BVH.from_obbs(*CORNERS, EYE[None]), balls=BVH.from_spheres([ZERO], [1.0]),
        custom=BVH.from_custom(*CORNERS, never), box=mixed.add(boxes, mask=4),
        unit=BVH.from_mesh(trimesh.creation.box()), many=np.ones((2, 3000, 3)),
    )  # fmt: skip


@pytest.mark.parametrize("rows", TABLE, ids=lambda rows: rows.__name__)
def test_refused(rows: Callable[[Any], Rows], made: SimpleNamespace) -> None:
    """By the right error; trees and scenes stay as they were."""

    def state() -> tuple[Any, ...]:
        one = made.scene[0]
        return repr(made.scene), one.name, one.transform.tolist(), made.scene.ids.tolist()

    before, arrays, count = state(), made.tree.arrays, 0
    for call, given, options, error, message in rows(made):
        with pytest.raises(error, match=message):
            call(*given, **options)
            print("not refused:", getattr(call, "__qualname__", call), given, options)
        count += 1
    assert count > 0 and state() == before and made.tree.arrays is arrays


def test_what_is_taken(made: SimpleNamespace) -> None:
    """Values next to those that are refused."""
    tree, scene, parts = made.tree, made.scene, made.parts
    assert tree.any_hit(np.zeros(3), np.ones(3), threads=np.int8(2)) is True
    for other in made.boxes, made.obbs:
        assert other.any_hit(np.zeros(3), np.ones(3), cull=None) is True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BVHWarning)
        for name in POINT_QUERIES:
            getattr(tree, name)(RAY[0], mask=None)
            # What is over boxes is out of the mask.
            getattr(made.mixed, name)(ZERO, mask=3)
    for target, ray in product((tree, scene, parts), (RAY, RAYS, *made.lazy)):
        for name in RAY_QUERIES:
            getattr(target, name)(*ray, validate_rays=np.True_)
            if target is tree:
                tree.closest_hit(*ray, mask=None, sort=np.False_)
    # The end of memory is not reached for as many threads as somebody names.
    assert tree.overlap_tree(tree, threads=10**9).tolist() == [[0, 0]]
    assert isinstance(bvh.Scene().overlap_frustum([]), bvh.Overlaps)
    assert len(scene.pick_lasso(CAMERA, np.full((3, 2), -9.0))) == 0
    assert made.custom.stats().primitives == len(made.custom)
    assert made.unit.relation(trimesh.creation.box()) == "equal"


@pytest.mark.parametrize("bad", NOT_LENGTHS)
def test_lengths_of_many(bad: Any, made: SimpleNamespace) -> None:
    """Of many, one that is no length finds nothing, alone; 0 is one."""
    points, many = np.array([[0.3, 0.3, 0.3], [0.4, 0.4, 0.4]]), [bad, 9.0]
    for target in made.tree, made.scene, made.parts:
        assert target.closest_point(points, many).mask.tolist() == [False, True]
        assert np.isinf(target.distance(points, many)).tolist() == [True, False]
        assert target.overlap_sphere(points, many).counts.tolist() == [0, 1]
        for p in points[0], points:
            target.closest_point(p, 0.0), target.closest_point(p, 0.0, k=2)
            target.distance(p, 0.0), target.overlap_sphere(p, 0.0)
    made.tree.distance_to(made.tree, max_distance=0.0), made.scene.clearances(0.0)
    made.tree.visible(points[0], points, margin=0.0)
    assert bvh.ray_sphere(points, [1, 0, 0], points, many).hit.tolist() == [False, True]


def test_boxes_that_are_turned(made: SimpleNamespace) -> None:
    """One of several with lower > upper meets nothing, alone; a NaN is bad data, as in a point."""
    low, high, turned = ZERO, ONE, [0.0, 2.0, 0.0]
    for target in made.tree, made.scene, made.parts:
        assert target.overlap_box([turned, low], high).counts.tolist() == [0, 1]
        assert target.overlap_box([turned], [high]).counts.tolist() == [0]
        assert len(target.overlap_box([np.nan, 0.0, 0.0], high)) == 0
        assert len(target.overlap_box(low, low)) == 0
    ray = [-1.0, 0.5, 0.5], [1.0, 0.0, 0.0]
    # There it is the empty box, which all rays miss.
    assert not bvh.ray_box(*ray, turned, high).hit
    assert not bvh.ray_obb(*ray, turned, high, EYE).hit
