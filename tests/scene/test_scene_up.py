"""What is up in a scene: told by files, kept by copies, followed by cameras, pictures and pages."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Camera, Scene
from bvh.apps.cli.files import opened, opened_scene
from bvh.camera.placement import AXES
from tests.commands import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of glTF: a long box that stands upright."""
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.creation.box(extents=[1, 4, 2]), node_name="tower")
    scene.export(tmp_path / "tower.glb")
    return tmp_path / "tower.glb"


def test_files_tell_what_is_up(path: Path) -> None:
    """It is y in glTF, z in all else, and what one says oneself before that."""
    assert bvh.load_scene(path).up == "y" and bvh.load_scene(path, up="-x").up == "-x"
    read = trimesh.load(path, process=False)
    assert Scene.from_trimesh(read).up == "y" and Scene.from_trimesh(read, up="z").up == "z"
    assert Scene().up == Scene.from_trimesh(trimesh.Scene(trimesh.creation.box())).up == "z"
    for name in ("box.ply", "box.npz"):
        file, box = path.parent / name, trimesh.creation.box()
        if file.suffix == ".ply":
            box.export(file)
        else:
            np.savez(file, vertices=box.vertices, faces=box.faces)
        assert bvh.load_scene(file).up == "z" and bvh.load_scene(file, up="y").up == "y"


def test_it_can_be_set() -> None:
    """To an axis, and to nothing else."""
    scene = Scene()
    for axis in AXES:
        scene.up = axis
        assert scene.up == axis
    with pytest.raises(ValueError, match="up must be one of x, y, z, -x, -y, -z, got 'w'"):
        scene.up = "w"
    for bad in (None, 1, [0, 1, 0]):
        with pytest.raises(TypeError, match="up must be one of x, y, z"):
            scene.up = bad  # type: ignore[assignment]
    assert scene.up == "-z"


def test_it_is_kept(path: Path, tmp_path: Path) -> None:
    """By copies and in saved files; what has z for up is written as it was before."""
    scene = bvh.load_scene(path)
    for other in (copy.copy(scene), copy.deepcopy(scene), pickle.loads(pickle.dumps(scene))):
        assert other.up == "y"
    outer = Scene()
    outer.add(scene)
    for what, version, ups in ((scene, 4, ["y"]), (outer, 4, ["z", "y"])):
        what.save(tmp_path / "scene.bvh")
        assert (tmp_path / "scene.bvh").read_bytes()[8] == version
        loaded: Any = bvh.load(tmp_path / "scene.bvh")
        assert [loaded.up, *(one.child.up for one in loaded if what is outer)] == ups
    scene.up = "z"
    outer.save(tmp_path / "scene.bvh")
    assert (tmp_path / "scene.bvh").read_bytes()[8] == 4
    assert bvh.load(tmp_path / "scene.bvh").up == "z"


def test_cameras_follow_it(path: Path) -> None:
    """Unless they are told otherwise; axes have names there, too."""
    scene, size = bvh.load_scene(path), {"width": 40, "height": 30}
    standing = Camera.framing(scene.bounds, up=[0, 1, 0], **size)
    assert Camera.framing(scene, **size) == Camera.framing(scene, up=[0, 1, 0], **size)
    assert np.array_equal(Camera.framing(scene, **size).forward, standing.forward)
    lying = Camera.framing(scene, up="z", **size)
    assert np.array_equal(lying.forward, Camera.framing(scene.bounds, **size).forward)
    tree = scene[0].child
    assert Camera.framing(tree, **size) == Camera.framing(tree, up="z", **size)
    for axis, direction in AXES.items():
        for make in (Camera.look_at, Camera.orthographic):
            found = make([3, 2, 1], [0, 0, 0], axis, 2.0, 8, 6)
            assert found == make([3, 2, 1], [0, 0, 0], direction, 2.0, 8, 6)
    with pytest.raises(ValueError, match="up must be one of x, y, z, -x, -y, -z or a direction"):
        Camera.framing(scene, up="Y")


def test_pictures_and_pages_follow_it(path: Path) -> None:
    """A tower is higher than wide in a notebook's picture, and on a page's first view."""
    pytest.importorskip("PIL")
    scene = bvh.load_scene(path)
    for up, standing in ((None, True), ("z", False), ([0, 1, 0], True)):
        camera = Camera.framing(scene, up="y" if standing else "z", width=60, height=40)
        wanted = bvh.pictures.render(scene, camera, "normals", samples=2)
        shown = bvh.show(scene, shade="normals", up=up, width=60, height=40)
        assert np.array_equal(shown.pixels, wanted.pixels)
    pytest.importorskip("viser")
    for options, axis in (({}, "y"), ({"up": "z"}, "z"), ({"up": [0, 0, 2]}, "z")):
        with bvh.view(scene, port=0, **options) as viewer:
            assert tuple(viewer._server.initial_camera.up) == AXES[axis]


def test_commands_follow_it(path: Path, run: Run) -> None:
    """Also those that open what another has saved."""
    saved = path.parent / "tower.bvh"
    run("build", str(path), "-o", str(saved))
    assert opened(saved, None)[2] == opened(path, None, flatten=True)[2] == "y"
    assert opened_scene(saved, None).up == "y"
    arguments = ("--size", "20x20", "--shade", "depth", "-o")
    for name, file in (("file.npy", path), ("saved.npy", saved)):
        run("render", str(file), *arguments, str(path.parent / name))
    depths = [np.load(path.parent / name) for name in ("file.npy", "saved.npy")]
    assert np.array_equal(*depths)
