"""Rectangles and lassos over scenes: instances, masks, what is visible."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.picking import marquee
from bvh.picking.placed_trees import PickOptions, TreeFaces
from bvh.picking.region import lasso, rectangle, select_part
from tests.cases.family_parts import sphere
from tests.cases.flat_scene import FlatScene

IDENTITY = np.eye(4)[:3]


def some_scene(rng: np.random.Generator, count: int = 12) -> FlatScene:
    """Return a scene of spheres and soups, some of them masked, two leaves to an instance."""
    ball = bvh.BVH.from_triangles(*sphere(3))
    soup = bvh.BVH.from_triangles(rng.normal(0, 0.5, (60, 3)), np.arange(60).reshape(-1, 3))
    rows = []
    for i in range(count):
        matrix = np.hstack([rng.normal(0, 0.4, (3, 3)), rng.normal(0, 1.5, (3, 1))])
        mask = 0 if i == 5 else (1, 2, 3)[i % 3]
        rows.append((ball if i % 2 else soup, matrix, mask, i // 2))
    return FlatScene(rows)


def some_camera(pixel_ratio: float = 1.0) -> bvh.Camera:
    return bvh.Camera.look_at(
        [4, -5, 2], [0, 0, 0], [0, 0, 1], 50.0, 160, 120, pixel_ratio=pixel_ratio
    )


STAR = [[20, 20], [80, 60], [140, 20], [90, 70], [130, 110], [80, 80], [30, 110], [60, 65]]


@pytest.mark.parametrize("mode", ["touching", "inside"])
def test_scenes_equal_their_leaves_one_by_one(rng: np.random.Generator, mode: str) -> None:
    scene, camera = some_scene(rng), some_camera()
    rectangles = [(10, 10, 150, 110), (60, 40, 90, 75), (70, 50, 70, 50), (-50, -50, 500, 500)]
    selections = [
        (rectangle(camera, *r), lambda r=r, **k: scene.pick_rect(camera, *r, mode=mode, **k))
        for r in rectangles
    ]
    selections.append(
        (lasso(camera, STAR), lambda **k: scene.pick_lasso(camera, STAR, mode=mode, **k))
    )
    for region, ask in selections:
        for mask in (0xFFFFFFFF, 1):
            faces, vertices = ask(mask=mask), ask(mask=mask, what="vertices")
            instances = ask(mask=mask, what="instances")
            whole: dict[int, list[bool]] = {}
            for row in range(len(scene.leaves)):
                if not scene.leaves.masks[row] & mask:
                    assert row not in faces.leaf
                    continue
                leaves = scene.leaves
                tree, matrix = leaves.trees[leaves.tree_of[row]], leaves.matrices[row]
                leaf = TreeFaces(tree)
                options = PickOptions(mode=mode)
                part = select_part(camera, region, leaf, matrix, options).ids
                place = np.flatnonzero(faces.leaf == row)
                told = faces[int(place[0])].tolist() if len(place) else []
                assert told == part.tolist()
                part = select_part(
                    camera, region, leaf, matrix, options._replace(what="vertices")
                ).ids
                place = np.flatnonzero(vertices.leaf == row)
                assert (vertices[int(place[0])].tolist() if len(place) else []) == part.tolist()
                whole.setdefault(row // 2, []).append(
                    len(told) == len(tree) if mode == "inside" else len(told) > 0
                )
            wanted = [k for k, v in whole.items() if (all if mode == "inside" else any)(v)]
            assert instances.instance_id.tolist() == wanted
            assert len(instances) == len(wanted)
            assert faces.instance_id.tolist() == (faces.leaf // 2).tolist()
            assert faces.names == tuple(f"part {k // 2}" for k in faces.leaf)
            assert len(faces.row) == len(faces) == faces.offsets[-1]


def test_boxes_are_selected_whole(rng: np.random.Generator) -> None:
    lower = rng.normal(0, 1, (40, 3))
    upper = lower + rng.random((40, 3))
    transforms = np.tile(np.eye(4), (40, 1, 1))
    transforms[:, :3, :3] = np.linalg.qr(rng.normal(0, 1, (40, 3, 3)))[0]
    camera = some_camera()
    for tree in (
        bvh.BVH.from_boxes(lower, upper), bvh.BVH.from_obbs(lower, upper, transforms)
    ):  # fmt: skip
        scene = FlatScene([(tree, IDENTITY, 1, 0)])
        touching = scene.pick_rect(camera, 60, 40, 110, 80)
        inside = scene.pick_rect(camera, 60, 40, 110, 80, mode="inside")
        assert len(touching) > len(inside) > 0
        assert set(inside.ids) < set(touching.ids)
        bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
        corners = np.where(bits[None] == 1, upper[:, None], lower[:, None])
        if tree.kind == "obbs":
            corners = np.einsum("nij,nkj->nki", transforms[:, :3, :3], corners)
        x, y, _ = camera.project(corners)
        held = (x >= 60) & (x <= 110) & (y >= 40) & (y <= 80)
        assert inside.ids.tolist() == np.flatnonzero(held.all(axis=1)).tolist()
        assert set(np.flatnonzero(held.any(axis=1))) <= set(touching.ids)
        with pytest.raises(TypeError, match="vertices"):
            scene.pick_rect(camera, 60, 40, 110, 80, what="vertices")


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_visible_faces_equal_a_supersampled_id_buffer(
    rng: np.random.Generator, ratio: float
) -> None:
    """What the two do not share shows less than a pixel, and each side's reason is checked."""
    scene, camera = some_scene(rng), some_camera(ratio)
    star = np.array(STAR) / ratio
    region = lasso(camera, star)
    told = scene.pick_lasso(camera, star, visible_only=True)
    ours = set(zip(told.leaf[told.row].tolist(), told.ids.tolist(), strict=True))
    everything = scene.pick_lasso(camera, star)
    touching = set(
        zip(everything.leaf[everything.row].tolist(), everything.ids.tolist(), strict=True)
    )
    assert ours < touching
    # Sixteen rays a pixel, in order; how many of them, and of those at whole pixels, meet a face.
    fine = 4
    x, y = np.meshgrid(
        (np.arange(160 * fine) + 0.5) / fine / ratio, (np.arange(120 * fine) + 0.5) / fine / ratio
    )
    held = held_by(region, x.ravel(), y.ravel())
    hits = scene.closest_hit(*camera.ray(x.ravel()[held], y.ravel()[held]))
    hit = hits.prim_id >= 0
    pairs, counts = np.unique(
        np.stack([hits.leaf[hit], hits.prim_id[hit]]), axis=1, return_counts=True
    )
    buffer = {(int(a), int(b)): int(n) for (a, b), n in zip(pairs.T, counts, strict=True)}
    assert set(buffer) <= touching
    for face in set(buffer) - ours:
        # No ray through the middle of a pixel meets it: it is a sliver, or shows less than a few
        # pixels at the border of the region or behind something.
        assert buffer[face] <= 3 * fine * fine, face
    for face in ours - set(buffer):
        # Seen by its own ray, between all of the buffer's: it is smaller than a pixel, or shows a
        # corner only.
        assert visible_by_own_ray(scene, camera, region, face)
    assert len(ours & set(buffer)) > 100
    assert len(set(buffer) - ours) < 0.05 * len(ours)
    finer = scene.pick_lasso(camera, star, visible_only=True, samples=4)
    more = set(zip(finer.leaf[finer.row].tolist(), finer.ids.tolist(), strict=True))
    # With as many samples nothing of the buffer is missed.
    assert set(buffer) <= more
    assert ours <= more | ours


def held_by(region: Any, x: Any, y: Any) -> Any:
    """Return which points are in a region, by the even-odd rule in float64."""
    odd = np.zeros(len(x), np.bool_)
    p = region.outline[-1]
    for q in region.outline:
        with np.errstate(divide="ignore", invalid="ignore"):
            across = p[0] + (q[0] - p[0]) * (y - p[1]) / (q[1] - p[1])
        odd ^= ((p[1] > y) != (q[1] > y)) & (across > x)
        p = q
    return odd


def visible_by_own_ray(scene: FlatScene, camera: Any, region: Any, face: tuple[int, int]) -> bool:
    """Tell whether a ray at the middle of a face, or next to a corner, meets it first."""
    row = np.flatnonzero((scene.leaf == face[0]) & (scene.prim == face[1]))[0]
    triangle = scene.points[scene.faces[row]]
    e = 2.0**-10
    weights = np.vstack([np.full(3, 1 / 3), (1 - 3 * e) * np.eye(3) + e])
    x, y, _ = camera.project(weights @ triangle)
    hits = scene.closest_hit(*camera.ray(x, y))
    first = (hits.leaf == face[0]) & (hits.prim_id == face[1])
    return bool((first & held_by(region, x, y)).any())


def test_visible_vertices_and_instances() -> None:
    """The near half of a ball is seen, the far half is not, nor is what a wall hides."""
    vertices, faces = sphere(4)
    vertices = vertices / np.linalg.norm(vertices, axis=1, keepdims=True)
    ball = bvh.BVH.from_triangles(vertices, faces)
    wall = bvh.BVH.from_triangles(
        [[-3, -2, -3], [3, -2, -3], [3, -2, 3], [-3, -2, 3.0]], [[0, 1, 2], [0, 2, 3]]
    )
    camera = bvh.Camera.look_at([0, -9, 0], [0, 0, 0], [0, 0, 1], 60.0, 200, 200)
    alone = FlatScene([(ball, IDENTITY, 1, 0)])
    seen = alone.pick_rect(camera, 0, 0, 200, 200, what="vertices", visible_only=True)
    # Of what is convex, vertices are seen that have a face which is seen from its front.
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    toward = ((np.array([0, -9, 0]) - a) * np.cross(b - a, c - a)).sum(axis=1)
    assert set(faces[toward > 1e-9].ravel()) <= set(seen.ids)
    assert not set(seen.ids) - set(faces[toward > -1e-9].ravel())
    told = alone.pick_rect(camera, 0, 0, 200, 200, visible_only=True)
    assert told.ids.tolist() == np.flatnonzero(toward > 0).tolist()
    both = FlatScene([(ball, IDENTITY, 1, 0), (wall, IDENTITY, 2, 3)])
    for what in ("faces", "vertices", "instances"):
        told = both.pick_rect(camera, 0, 0, 200, 200, what=what, visible_only=True)
        assert told.instance_id.tolist() == [3]
        # Through the wall, where it is masked.
        told = both.pick_rect(camera, 0, 0, 200, 200, what=what, visible_only=True, mask=1)
        assert told.instance_id.tolist() == [0]


def test_nothing_is_selected_of_nothing() -> None:
    camera = some_camera()
    empty = FlatScene([(bvh.BVH.from_triangles(np.empty((0, 3)), []), IDENTITY, 1, 0)])
    for scene in (empty, bvh.Scene()):
        for what in ("faces", "vertices", "instances"):
            for mode in ("touching", "inside"):
                for visible in (False, True):
                    told = scene.pick_rect(
                        camera, 0, 0, 9, 9, what=what, mode=mode, visible_only=visible
                    )
                    assert len(told) == len(told.leaf) == 0


@pytest.mark.parametrize("eye", [[9.0, 8.0, 7.0], [2.0, 2.0, 2.0]])
def test_leaves_together(eye: list[float], rng: np.random.Generator, monkeypatch: Any) -> None:
    """Small leaves, tested together in any numbers, give what each of them gives alone."""
    meshes = [
        bvh.BVH.from_mesh(trimesh.creation.icosphere(1)),
        bvh.BVH.from_boxes([[0.0] * 3, [1.0] * 3], [[0.5] * 3, [2.0] * 3]),
        bvh.BVH.from_segments(rng.random((4, 3)), rng.random((4, 3))),
    ]
    scene, camera = bvh.Scene(), bvh.Camera.look_at(eye, [0, 0, 0], width=80, height=60)
    for mesh in meshes:
        for at in rng.uniform(-3.0, 3.0, (5, 3)):
            scene.add(mesh, trimesh.transformations.translation_matrix(at))
    around = [[10, 10], [70, 5], [40, 30], [60, 55], [15, 50]]
    for mode in ("touching", "inside"):
        wanted = scene.pick_lasso(camera, around, mode=mode)
        seen = scene.pick_lasso(camera, around, mode=mode, visible_only=True)
        alone = copy.copy(scene)
        for number in scene.ids.tolist():
            alone.set_visible(scene.ids, False)
            alone.set_visible(number, True)
            (row,) = np.flatnonzero(wanted.instance_id == number).tolist() or (None,)
            found = alone.pick_lasso(camera, around, mode=mode).ids
            assert found.tolist() == ([] if row is None else wanted[row].tolist())
        monkeypatch.setattr(marquee, "BATCH", 50)
        for again, visible in ((wanted, False), (seen, True)):
            found = scene.pick_lasso(camera, around, mode=mode, visible_only=visible)
            np.testing.assert_array_equal(found.ids, again.ids)
            np.testing.assert_array_equal(found.leaf, again.leaf)
        monkeypatch.undo()
