"""Meshes with open edges: told once for each tree, and closed ones never."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.queries import tree_base
from bvh.scene import scene_queries
from bvh.tree.open_edges import is_closed, is_oriented
from bvh.tree.primitives import Triangles

BALL = trimesh.creation.icosphere(subdivisions=3)
VERTICES, FACES = np.array(BALL.vertices), np.array(BALL.faces, np.int32)
OPEN = r"BVH\(1279 triangles, .*\) has open edges: .*winding_number"
POINT = [0.1, 0.2, 0.3]


def closed(vertices: Any, faces: Any) -> bool:
    return is_closed(Triangles(np.asarray(vertices, float), np.asarray(faces, np.int32)))


def open_ball() -> bvh.BVH:
    """Return a ball without its first face."""
    return bvh.BVH.from_triangles(VERTICES, FACES[1:])


def test_as_edges_counted_one_by_one(rng: np.random.Generator) -> None:
    """By the positions of their ends, on round coordinates, whose bits are mostly zeros."""
    for _ in range(100):
        points = rng.integers(0, 3, (6, 3)) * rng.choice([1.0, 0.5, 1e300, -0.0])
        faces = rng.integers(0, 6, (rng.integers(0, 9), 3))
        if rng.random() < 0.5:
            # All twice, in any order: closed.
            faces = rng.permutation(np.concatenate([faces, faces[:, [1, 0, 2]]]))
        times: dict[Any, int] = {}
        for face in faces:
            for k in range(3):
                ends = frozenset(tuple(points[i] + 0.0) for i in (face[k], face[k - 1]))
                if len(ends) == 2:
                    times[ends] = times.get(ends, 0) + 1
        # Points and segments bound no volume.
        is_thin = len(faces) > 0 and bool((faces[:, 1] == faces[:, 2]).all())
        even = all(count % 2 == 0 for count in times.values())
        assert closed(points, faces) == (even and not is_thin)


def test_windings_counted_one_by_one(rng: np.random.Generator) -> None:
    """Few vertices, some at one place, faces twice and degenerate: every edge by its two ways."""
    seen = set()
    for _ in range(100):
        points = rng.integers(0, 2, (5, 3)).astype(float)
        ball, faces = rng.random() < 0.5, rng.integers(0, 5, (rng.integers(1, 7), 3))
        if ball:
            points, faces = (
                BALL.vertices,
                BALL.faces[rng.random(len(BALL.faces)) < rng.choice([0.97, 1.0])],
            )
            turned = rng.random(len(faces)) < rng.choice([0.0, 0.01])
            faces = np.where(turned[:, None], faces[:, ::-1], faces)
        places = [tuple(p) for p in np.asarray(points).tolist()]
        ways: dict[tuple[Any, Any], int] = {}
        for face in faces.tolist():
            for a, b in zip(face, face[1:] + face[:1], strict=True):
                way = places[a], places[b]
                ways[way] = ways.get(way, 0) + (way[0] != way[1])
        wanted = all(abs(n - ways.get((b, a), 0)) <= (n + ways.get((b, a), 0)) % 2
                     for (a, b), n in ways.items())  # fmt: skip
        primitives = Triangles(np.asarray(points, float), np.asarray(faces, np.int32))
        assert is_oriented(primitives) == wanted
        seen.add((ball, wanted))
    assert len(seen) == 4
    assert bvh.BVH.from_triangles(np.eye(3), np.empty((0, 3), int), warn=False).is_oriented


def test_meshes() -> None:
    """Shared vertices or a vertex a corner; not finite, repeated and no faces; large meshes."""
    assert closed(VERTICES, FACES) and closed(VERTICES + 1e6, FACES[:, ::-1])
    corners, own = VERTICES[FACES].reshape(-1, 3), np.arange(FACES.size).reshape(-1, 3)
    assert closed(corners, own) and not closed(corners, own[:-1])
    for k in (1, 7, 1279):
        assert not closed(VERTICES, np.delete(FACES, k, axis=0))
    assert closed(VERTICES, np.vstack([FACES, FACES[:1], FACES[:1]])) and closed(
        VERTICES, FACES[:0]
    )
    # A face without area, of a vertex and an edge, has no edges of its own.
    assert closed(VERTICES, np.vstack([FACES, [[5, 5, 9]]]))
    lost = VERTICES.copy()
    lost[3] = np.nan
    assert not closed(lost, FACES)
    assert closed(
        np.vstack([VERTICES, [[np.inf] * 3]]), np.vstack([FACES, [[0, 1, len(VERTICES)]]])
    )
    large = trimesh.creation.icosphere(subdivisions=6)
    assert closed(large.vertices, large.faces) and not closed(large.vertices, large.faces[:-1])


def test_points_and_segments_bound_no_volume() -> None:
    """They are named as such, are not closed, and warn where a solid is needed."""
    cloud, wires = bvh.BVH.from_points(VERTICES), bvh.BVH.from_segments(VERTICES, -VERTICES)
    box = bvh.BVH.from_mesh(trimesh.creation.box())
    for tree, kind in ((cloud, "points"), (wires, "segments")):
        assert tree.kind == kind and not tree.is_closed and len(tree.open_edges()) == 0
        with pytest.warns(
            bvh.BVHWarning, match=f"{len(tree)} {kind}, .* bounds no volume: contains"
        ):
            assert not tree.contains(POINT)
        with pytest.raises(ValueError, match=f"needs closed meshes, but .* is over {kind}"):
            box.overlap_volume(tree)


@pytest.mark.parametrize("query", ["contains", "signed_distance"])
def test_told_once(query: str) -> None:
    for target in (open_ball(), bvh.Scene()):
        if isinstance(target, bvh.Scene):
            target.add(open_ball())
            target.add(BALL)
        with pytest.warns(bvh.BVHWarning, match=OPEN) as told:
            getattr(target, query)(POINT)
        # At the line of the caller.
        assert len(told) == 1 and told[0].filename == __file__
        for again in ("contains", "signed_distance"):
            getattr(target, again)([POINT, POINT])


def test_never_told() -> None:
    """For closed meshes, however they are stored, and queries that need none."""
    tree = bvh.BVH.from_mesh(BALL)
    scene = bvh.Scene()
    scene.add(tree)
    scene.add(open_ball(), mask=2)
    hidden = scene.add(open_ball())
    scene.set_visible(hidden, False)
    for target in (tree, pickle.loads(pickle.dumps(tree)), copy.copy(tree)):
        assert target.contains(POINT) and target.signed_distance(POINT) < 0.0
    assert scene.contains(POINT, mask=1)
    rest = open_ball()
    assert rest.contains(POINT, method="winding")
    assert rest.signed_distance(POINT, method="winding") < 0.0
    assert rest.winding_number(POINT) > 0.9 and rest.distance(POINT) < 1.0
    with pytest.warns(bvh.BVHWarning, match=f"an instance of {OPEN}"):
        scene.contains(POINT)
    # What was hidden is asked when it is shown.
    scene.set_visible(hidden, True)
    with pytest.warns(bvh.BVHWarning, match=f"an instance of {OPEN}"):
        scene.contains(POINT)
    scene.set_visible(hidden, False)
    assert scene.contains(POINT)


def test_groups() -> None:
    """Of the faces that count: the mask may choose a closed part of an open whole."""
    groups = np.append(np.full(len(FACES), 1), 2)
    tree = bvh.BVH.from_triangles(VERTICES, np.vstack([FACES, FACES[:1]]), groups=groups)
    assert tree.contains(POINT, mask=1)
    with pytest.warns(bvh.BVHWarning, match="has open edges: contains counts"):
        tree.contains(POINT)
    assert not tree.contains(POINT, mask=2)


def test_files_and_refits(tmp_path: Path) -> None:
    """Mapped trees are asked, too; trees that move are not asked again."""
    path = tmp_path / "open.bvh"
    open_ball().save(path)
    tree = bvh.load(path, mmap=True)
    with pytest.warns(bvh.BVHWarning, match=OPEN):
        tree.signed_distance(POINT)
    moving = bvh.BVH.from_mesh(BALL)
    assert moving.contains(POINT)
    moving.refit(VERTICES * 2.0)
    assert moving.contains([0.0, 0.0, 1.5])


def test_as_an_error() -> None:
    """As an error it stops the query; the next one answers."""
    tree = open_ball()
    with warnings.catch_warnings():
        warnings.simplefilter("error", bvh.BVHWarning)
        with pytest.raises(bvh.BVHWarning):
            tree.contains(POINT)
    assert tree.contains(POINT) is True


def test_answers_are_kept_for_some_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for every mask that was ever asked for, in trees, scenes and scenes as one tree."""
    monkeypatch.setattr(tree_base, "MAX_CLOSED", 8)
    monkeypatch.setattr(scene_queries, "MAX_CLOSED", 8)
    tree, scene = bvh.BVH.from_triangles(VERTICES, FACES, groups=1), bvh.Scene()
    scene.add(tree)
    for mask in range(1, 60):
        assert tree.contains(POINT, mask=mask) == scene.contains(POINT, mask=mask) == mask % 2
        scene.winding_number(POINT, mask=mask)
    assert len(tree._closed) <= 8 and len(scene._current().seen_closed) <= 8
    assert len(scene.view().one_trees) <= scene_queries.MAX_WINDINGS
