"""Nodes under a reflection: the outside of their meshes stays outside, however they are read."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from PIL import Image

import bvh
from bvh import Scene
from bvh.io.mesh_files import read_file
from bvh.pictures import render

Rng = np.random.Generator
# Volume of the balls that `wheels` returns.
VOLUME = trimesh.creation.icosphere(subdivisions=2).volume * (1.0 + 1.0 + 8.0 + 1.0)


def wheels(rng: Rng) -> trimesh.Scene:
    """Return balls: one as it is, two under reflections, one under two of them."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    ball.visual = trimesh.visual.TextureVisuals(
        uv=rng.random((len(ball.vertices), 2)),
        material=trimesh.visual.material.PBRMaterial(
            baseColorTexture=Image.effect_mandelbrot((8, 8), (-2, -1, 1, 1), 20).convert("RGB")
        ),
    )
    assert ball.vertex_normals.shape == ball.vertices.shape
    scene = trimesh.Scene()
    scene.add_geometry(ball, node_name="plain", geom_name="ball")
    for name, parent, scales, shift in (
        ("mirrored", "world", [-1, 1, 1], 4), ("large", "world", [-2, -2, -2], 9),
        ("twice", "mirrored", [1, -1, 1], 10),
    ):  # fmt: skip
        matrix = np.diag([*map(float, scales), 1.0])
        matrix[1, 3] = shift
        scene.graph.update(name, frame_from=parent, matrix=matrix, geometry="ball")
    return scene


@pytest.fixture
def path(rng: Rng, tmp_path: Path) -> Path:
    """Return the same as a file."""
    wheels(rng).export(tmp_path / "wheels.glb")
    return tmp_path / "wheels.glb"


@pytest.fixture(params=["scene of trimesh", "load_scene", "saved", "mapped", "pickled", "copied"])
def scene(request: pytest.FixtureRequest, rng: Rng, path: Path) -> Any:
    """Return them as a scene, read in all ways."""
    if request.param == "scene of trimesh":
        return Scene.from_trimesh(wheels(rng))
    scene = bvh.load_scene(path)
    if request.param in ("saved", "mapped"):
        scene.save(path.with_suffix(".bvh"))
        return bvh.load(path.with_suffix(".bvh"), mmap=request.param == "mapped")
    if request.param == "pickled":
        return pickle.loads(pickle.dumps(scene))
    return copy.deepcopy(scene) if request.param == "copied" else scene


def test_sides(scene: Scene, path: Path, rng: Rng) -> None:
    """Rays from outside meet fronts; volumes are right; and the file is the same as one mesh."""
    tree = bvh.BVH.from_file(path)
    vertices, faces = scene.flattened()[:2]
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    assert mesh.is_winding_consistent and mesh.volume == pytest.approx(VOLUME, rel=1e-6)
    assert trimesh.Trimesh(tree.vertices, tree.faces, process=False).volume == pytest.approx(
        VOLUME, rel=1e-6
    )
    centres = np.array([one.transform[:3, 3] for one in scene])
    away = rng.normal(size=(100, 4, 3))
    away *= 40.0 / np.linalg.norm(away, axis=2, keepdims=True)
    rays = (centres + away).reshape(-1, 3), -away.reshape(-1, 3)
    for what in (scene, tree):
        hits, culled = what.closest_hit(*rays), what.closest_hit(*rays, cull="back")
        assert hits.front.all() and np.array_equal(hits.t, culled.t)
        assert (np.einsum("ij,ij->i", hits.normal, rays[1]) < 0.0).all()
        assert (what.closest_hit(*rays, cull="front").t > hits.t).all()
        assert what.winding_number(centres) == pytest.approx(1.0, abs=0.01)
        for method in ("parity", "winding"):
            assert what.contains(centres, method=method).all()
            assert not what.contains(centres + [0.0, 0.0, 3.0], method=method).any()
        assert (what.signed_distance(centres) < 0.0).all()
    assert np.allclose(scene.closest_hit(*rays).t, tree.closest_hit(*rays).t, rtol=1e-9)


def test_trees(scene: Scene) -> None:
    """One more tree stands for all reflected nodes; attributes and faces keep their numbers."""
    assert len(scene.leaves.trees) == 2
    plain, mirrored = (scene[scene.find(name)[0]].child for name in ("plain", "mirrored"))
    assert scene[scene.find("large")[0]].child is mirrored
    assert scene[scene.find("twice")[0]].child is plain
    assert np.array_equal(mirrored.vertices, plain.vertices)
    assert np.array_equal(mirrored.faces, plain.faces[:, ::-1])
    one, other = scene.attributes(plain), scene.attributes(mirrored)
    assert other.reversed and not one.reversed and len(other) == 3
    assert np.array_equal(one.uv, other.uv)
    assert np.array_equal(one.vertex_normals, other.vertex_normals)
    assert one.material.image.tobytes() == other.material.image.tobytes()


def test_picks_and_pictures(scene: Scene) -> None:
    """A mirrored node looks as the plain one does in a mirror."""
    pictures, picks = [], []
    for name, x in (("plain", 1.0), ("mirrored", -1.0)):
        number = scene.find(name)[0]
        centre = scene[number].transform[:3, 3]
        eye = centre + [5.0 * x, 1.0, 2.0]
        camera = bvh.Camera.look_at(eye, centre, [0, 0, 1], 15.0, 65, 65)
        pixels = render(scene, camera, "material", lamp=eye).pixels.astype(float)
        pictures.append(pixels if x > 0.0 else pixels[:, ::-1])
        pick = scene.pick(camera, 32.5 + 7.0 * x, 30.5)
        assert pick is not None and pick.name == name and pick.front
        assert pick.normal @ (np.array(eye) - centre) > 0.0
        picks.append(pick)
    assert picks[0].prim_id == picks[1].prim_id
    assert np.allclose(picks[0].uv, picks[1].uv, atol=1e-6)
    # Light comes from the camera's left in both.
    assert np.corrcoef(pictures[0].ravel(), pictures[1].ravel())[0, 1] > 0.9
    assert len(np.unique(pictures[0][..., 0])) > 50


def test_nested(path: Path) -> None:
    """What users add themselves is its mesh with every vertex moved, its faces as they are."""
    outer, inner = Scene(), bvh.load_scene(path)
    flip = np.diag([1.0, 1.0, -1.0, 1.0])
    outer.add(inner, flip)
    ball = inner[inner.find("plain")[0]].child
    outer.add(ball, flip @ np.diag([1.0, 1.0, 1.0, 1.0]) + np.eye(4, k=3) * 9.0, name="own")
    vertices, faces = inner.flattened()[:2]
    found = outer.flattened()
    assert np.array_equal(found[0][: len(vertices)], vertices * [1.0, 1.0, -1.0])
    assert np.array_equal(found[1][: len(faces)], faces)
    centres = np.array([leaf.transform[:3, 3] for leaf in outer.leaves])
    hits = outer.closest_hit(centres + [0.1, 0.2, 9.0], [0, 0, -1])
    assert not hits.front.any()
    # Reflected ones are turned back for this, and only for this.
    assert outer.contains(centres, method="winding").all()
    assert outer.winding_number(centres) == pytest.approx(-1.0, abs=0.01)


def test_format(path: Path, rng: Rng) -> None:
    """Reversed trees come back without materials, and without any other attribute."""
    saved = path.with_suffix(".bvh")
    shape = trimesh.Scene()
    shape.add_geometry(trimesh.creation.box(), transform=np.diag([-1.0, 1.0, 1.0, 1.0]))
    scene = Scene.from_trimesh(shape)
    scene._attributes = {k: (tree, type(a)()) for k, (tree, a) in scene._attributes.items()}
    scene.save(saved)
    again = bvh.load(saved)
    assert isinstance(again, Scene) and again.attributes(again[0].child).reversed


def test_exact_signs(rng: Rng) -> None:
    """Whether a matrix reflects is decided exactly, also of one that is nearly singular."""
    for sign in (1.0, -1.0):
        matrix = np.eye(4)
        matrix[:3, :3] = [[1.0, 1.0, 0.0], [1.0, 1.0 + sign * 2.0**-52, 0.0], [0.0, 0.0, 1.0]]
        shape = trimesh.Scene()
        shape.add_geometry(trimesh.creation.box(), transform=matrix)
        scene = Scene.from_trimesh(shape)
        assert scene.attributes(scene[0].child).reversed == (sign < 0.0)
        tree = bvh.BVH.from_mesh(shape)
        assert np.array_equal(tree.faces, scene.flattened()[1])
        assert np.array_equal(tree.vertices, scene.flattened()[0])


def test_no_rounding(path: Path) -> None:
    """A scene as one mesh is bit for bit what the scene flattens to."""
    read: Any = read_file(path, "a scene")
    vertices, faces = Scene.from_trimesh(read).flattened()[:2]
    tree = bvh.BVH.from_mesh(read)
    assert np.array_equal(tree.vertices, vertices) and np.array_equal(tree.faces, faces)
