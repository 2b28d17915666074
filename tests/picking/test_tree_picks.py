"""`BVH.pick`: as `Scene.pick` of a scene of the tree alone, without an instance."""

from __future__ import annotations

import json

import numba
import numpy as np
import pytest
import trimesh

import bvh

CAMERA = bvh.Camera.look_at([1, 2, 3], [0, 0, 0], width=80, height=60)
SAME = (
    "t", "prim_id", "u", "v", "front", "position", "local_position", "normal", "face_id",
    "screen_distance",
)  # fmt: skip


@pytest.mark.parametrize("radius", [0.0, 0, 6.0])
def test_as_in_a_scene(radius: float, rng: np.random.Generator) -> None:
    corners = rng.uniform(-1.0, 1.0, (2, 20, 3))
    mesh = trimesh.creation.icosphere(subdivisions=1)
    for tree in (
        bvh.BVH.from_mesh(mesh),
        bvh.BVH.from_boxes(corners.min(axis=0), corners.max(axis=0)),
    ):
        scene, found = bvh.Scene(), 0
        scene.add(tree)
        for x, y in rng.uniform(0.0, [80.0, 60.0], (60, 2)).tolist():
            pick, wanted = tree.pick(CAMERA, x, y, radius), scene.pick(CAMERA, x, y, radius)
            assert (pick is None) == (wanted is None)
            if pick is None or wanted is None:
                continue
            found += 1
            for name in SAME:
                mine, theirs = getattr(pick, name), getattr(wanted, name)
                assert np.array_equal(mine, theirs, equal_nan=True), name
            assert (pick.vertex is None) == (tree.kind == "boxes")
            assert (pick.instance_id, pick.leaf, pick.name, pick.path) == (-1, -1, None, ())
            assert pick.uv is None and pick.smooth_normal is None
            assert repr(pick).startswith("Pick(prim_id=")
            assert json.loads(json.dumps(pick.resolve().as_dict()))["instance_id"] == -1
        assert found > 8


def test_masks_and_refits() -> None:
    square = [[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], [[0, 1, 2, 3]]
    tree = bvh.BVH.from_mesh(square, groups=2)
    x, y, _ = CAMERA.project([0.1, 0.2, 0.0])
    for radius in (0.0, 3.0):
        assert tree.pick(CAMERA, x, y, radius, mask=2).face_id == 0
        assert tree.pick(CAMERA, x, y, radius, mask=1) is None
    tree.refit(np.array(square[0]) + [0.0, 0.0, 1.0])
    assert tree.pick(CAMERA, *CAMERA.project([0.1, 0.2, 1.0])[:2]).position[2] == 1.0


def test_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with a radius: a scene would need the bounds of the whole mesh anew."""

    def refuse(*_: object) -> None:
        raise AssertionError("a scene is built")

    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(subdivisions=4))
    monkeypatch.setattr(bvh.Scene, "add", refuse)
    x, y, _ = CAMERA.project([0.0, 0.0, 1.0])
    for radius in (0.0, 4.0):
        assert tree.pick(CAMERA, x, y, radius).prim_id >= 0
    assert tree.pick(CAMERA, 1.0, 1.0, 4.0) is None


@pytest.mark.parametrize("faces", [4, 4000])
def test_masks_of_selections(faces: int, rng: np.random.Generator) -> None:
    """Faces that share no bit with the mask are not selected, as no ray meets them."""
    corners = rng.uniform(-1.0, 1.0, (faces, 1, 3)) + rng.normal(scale=0.05, size=(faces, 3, 3))
    groups = rng.integers(0, 4, faces)
    rows = np.arange(3 * faces).reshape(-1, 3)
    scene, whole = bvh.Scene(), bvh.Scene()
    scene.add(bvh.BVH.from_triangles(corners.reshape(-1, 3), rows, groups=groups))
    whole.add(bvh.BVH.from_triangles(corners.reshape(-1, 3), rows))
    for mask in (1, 2, 3, 0xFFFFFFFF):
        for rect in ((0, 0, 80, 60), (20, 20, 50, 40)):
            for mode in ("touching", "inside"):
                wanted = whole.pick_rect(CAMERA, *rect, mode=mode).ids
                found = scene.pick_rect(CAMERA, *rect, mode=mode, mask=mask).ids
                np.testing.assert_array_equal(found, wanted[groups[wanted] & mask != 0])
            ids = scene.pick_rect(CAMERA, *rect, what="vertices", mask=mask).ids
            assert (groups[ids // 3] & mask != 0).all()


@numba.njit
def _floor(prim_id, origin, direction, t_min, t_max, data):  # type: ignore[no-untyped-def]
    """Return the hit on the plane z = 0, as a user's primitive."""
    return -origin[2] / direction[2], 0.25, 0.5


def test_custom_primitives() -> None:
    """They have no normals, as hits of rays have none; all else of a pick is known."""
    tree = bvh.BVH.from_custom([[-2, -2, 0]], [[2, 2, 0]], _floor)
    pick = tree.pick(CAMERA, *CAMERA.project([0.5, 0.25, 0.0])[:2])
    assert np.isnan(pick.normal).all() and (pick.u, pick.v) == (0.25, 0.5)
    known = pick.resolve().as_dict()
    assert known["normal"] is None
    assert known["position"] == pytest.approx([0.5, 0.25, 0.0], abs=1e-12)
    json.dumps(known, allow_nan=False)


def test_corners_that_are_no_numbers() -> None:
    """Errors name the argument, as those of scenes do."""
    for source in (bvh.BVH.from_points([[0.0, 0.0, 0.0]]), bvh.Scene()):
        with pytest.raises(ValueError, match="x0 must be a number"):
            source.pick_rect(CAMERA, [1, 2], 0, 1, 1)  # type: ignore[arg-type]
