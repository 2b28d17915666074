"""`BVH.from_file`, and errors that name the constructor to call."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import trimesh

import bvh
from bvh.io.mesh_files import READERS

BOX = trimesh.creation.box()


@pytest.mark.parametrize("ending", ["stl", "ply", "obj", "off", "glb", "npz"])
def test_files(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"box.{ending}"
    if ending == "npz":
        np.savez(path, vertices=BOX.vertices, faces=BOX.faces)
    elif ending == "glb":
        trimesh.Scene(BOX).export(path)
    else:
        BOX.export(path)
    tree = bvh.BVH.from_file(path, quality="high", threads=1)
    assert len(tree) == 12 and tree.groups is None
    assert tree.closest_hit([0.1, 0.2, 3.0], [0.0, 0.0, -1.0]).t == 2.5
    assert bvh.BVH.from_file(str(path), groups=2).groups is not None


def test_refusals(tmp_path: Path) -> None:
    """Files that are not there, that hold no mesh, or that something else opens."""
    tree, saved, cloud = bvh.BVH.from_mesh(BOX), tmp_path / "box.bvh", tmp_path / "cloud.ply"
    tree.save(saved)
    trimesh.PointCloud(np.eye(3)).export(cloud)
    (tmp_path / "bad.stl").write_bytes(b"solid")
    (tmp_path / "dem.tif").touch()
    (tmp_path / "chair.binvox").touch()
    for path, kind, message in (
        (tmp_path / "no.stl", FileNotFoundError, "no such file"),
        (saved, ValueError, r"is a saved tree or scene: bvh\.load opens it"),
        (cloud, ValueError, r"holds no triangles \(PointCloud\)"),
        (tmp_path / "bad.stl", ValueError, r"bad\.stl"),
        (tmp_path / "dem.tif", ValueError, r"rasterio, and call BVH\.from_heightfield"),
        (tmp_path / "chair.binvox", ValueError, "it is a grid of voxels"),
        (3, TypeError, "path must be a string or a path, got int"),
    ):
        with pytest.raises(kind, match=message):
            bvh.BVH.from_file(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "options", "named"),
    [
        ((), {}, r"BVH\.from_triangles, from_mesh, from_file, from_boxes"),
        (("x.stl",), {}, r"call BVH\.from_file\(path\)"),
        ((Path("x.stl"),), {"quality": "high"}, r"call BVH\.from_file\(path\)"),
        ((BOX,), {}, r"call BVH\.from_mesh\(mesh\)"),
        ((BOX.vertices, BOX.faces), {}, r"call BVH\.from_triangles\(vertices, faces\)"),
        ((), {"vertices": 1, "faces": 2}, r"call BVH\.from_triangles\(vertices, faces\)"),
    ],
)
def test_errors_name_the_constructor(given: Any, options: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        bvh.BVH(*given, **options)


def test_paths_are_no_meshes() -> None:
    for make in (bvh.BVH.from_mesh, bvh.Scene().add):
        for path in ("x.stl", Path("x.stl")):
            with pytest.raises(TypeError, match=r"call BVH\.from_file for the file .*x\.stl"):
                make(path)


def test_missing_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that trimesh reads with another library names it, and how to get it."""
    path = tmp_path / "part.step"
    path.write_text("ISO-10303-21;")
    monkeypatch.setitem(sys.modules, "cascadio", None)
    for read in (bvh.BVH.from_file, bvh.load_scene):
        with pytest.raises(ImportError, match=r"\.step files, trimesh needs \w+: pip install \w+"):
            read(path)


def test_errors_of_readers_without_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the error stands for it; keys are missing, if they are no sentences."""
    errors: dict[Exception, str] = {
        AssertionError(): "AssertionError",
        KeyError(): "KeyError",
        KeyError("pop from an empty set"): "pop from an empty set",
        KeyError((1, 2)): r"it refers to \(1, 2\), which it does not have",
    }
    path = tmp_path / "box.stl"
    BOX.export(path)
    for error, text in errors.items():
        monkeypatch.setitem(READERS, ".stl", Mock(side_effect=error))
        with pytest.raises(ValueError, match=rf"cannot read .*box\.stl as a mesh: {text}$"):
            bvh.BVH.from_file(path)
    pytest.importorskip("meshio")
    (tmp_path / "empty.vtk").touch()
    with pytest.raises(ValueError, match="meshio finds none of the formats of this ending in it"):
        bvh.BVH.from_file(tmp_path / "empty.vtk")


def test_paths_in_errors(tmp_path: Path) -> None:
    """What is no saved tree has an error that says what reads it; a failed save names its path."""
    trimesh.creation.box().export(tmp_path / "box.stl")
    with pytest.raises(ValueError, match=r"box\.stl: .* bvh\.BVH\.from_file"):
        bvh.load(tmp_path / "box.stl")
    scene = bvh.Scene()
    scene.add(trimesh.creation.box())
    target = tmp_path / "no folder" / "box.bvh"
    for saved in (scene, scene[0].child):
        with pytest.raises(FileNotFoundError) as caught:
            saved.save(target)
        assert caught.value.filename == str(target) and str(caught.value).endswith(f"'{target}'")


def test_paths_of_wrong_types(tmp_path: Path) -> None:
    """Bytes, open files and None are no paths, whichever function takes them."""
    tree, scene = bvh.BVH.from_mesh(BOX), bvh.Scene()
    scene.add(tree)
    calls: list[Any] = [bvh.BVH.from_file, bvh.load, bvh.load_scene, tree.save, scene.save]
    for call in calls:
        for given in (bytes(tmp_path / "box.bvh"), io.BytesIO(), None):
            with pytest.raises(TypeError, match="path must be a string or a path, got"):
                call(given)


# Files of formats of meshio, of which the last bytes are missing: their readers would never end.
CUT = {
    "node": "# nodes\n",
    "dat": 'VARIABLES = "X", "Y"\nZONE NODES=3, ELEMENTS=1, F=FEPOINT, ET=TRIANGLE\n0 0\n',
    "mdpa": "Begin Nodes\n1 0 0 0\n",
    "msh": "(0 ",
    "wkt": "TIN (" + "((0 0 0, 1.25 0 0, 1.25 1.25 0, 0 0 0)), " * 20 + "((0 0 0, 1.25 0 ",
}


@pytest.mark.parametrize("ending", CUT)
def test_cut_files_of_meshio_end(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("meshio")
    (tmp_path / f"cut.{ending}").write_text(CUT[ending])
    (tmp_path / "cut.ele").touch()
    with pytest.raises(ValueError, match=rf"cannot read .*cut\.{ending} as a mesh: it "):
        bvh.BVH.from_file(tmp_path / f"cut.{ending}")


NODES = "*NODE\n1, 0, 0, {z}\n2, 1, 0, {z}\n3, 0, 1, {z}\n*ELEMENT, TYPE=S3\n1, 1, 2, 3\n"
ZONE = "ZONE NODES=3, ELEMENTS=1, DATAPACKING=POINT, ZONETYPE=FETRIANGLE\n0 0\n1 0\n0 1\n1 2 3\n"


def test_old_versions_of_meshio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 5.3, an ending has one format."""
    helpers = pytest.importorskip("meshio")._helpers
    kinds = {".inp": "abaqus"}
    monkeypatch.delattr(helpers, "extension_to_filetypes", raising=False)
    monkeypatch.setattr(helpers, "extension_to_filetype", kinds, raising=False)
    (tmp_path / "a.inp").write_text(NODES.format(z=1))
    assert len(bvh.BVH.from_file(tmp_path / "a.inp")) == 1


def test_what_meshio_leaves_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It keeps the last list of nodes, for all elements: that is refused. Of the rest we warn."""
    pytest.importorskip("meshio")
    path = tmp_path / "a.inp"
    path.write_text("".join(f"*PART, NAME={z}\n{NODES.format(z=z)}*END PART\n" for z in "15"))
    with pytest.raises(ValueError, match=r"a\.inp as a mesh: it has several lists of nodes"):
        bvh.BVH.from_file(path)
    path.write_text(NODES.format(z=1) + "*Instance, name=a, part=1\n 5., 0., 0.\n*NODE OUTPUT\n")
    with pytest.warns(bvh.BVHWarning, match="positions of instances of an Abaqus file"):
        assert bvh.BVH.from_file(path).vertices[:, 2].tolist() == [1.0, 1.0, 1.0]
    (tmp_path / "a.dat").write_text(f'VARIABLES = "X", "Y"\n{ZONE}{ZONE}')
    with pytest.warns(bvh.BVHWarning, match="all zones but the first of a Tecplot file"):
        assert len(bvh.BVH.from_file(tmp_path / "a.dat")) == 1
    path.write_text(NODES.format(z=1).replace("1, 1, 2, 3", "1, 1, 2, 9"))
    with pytest.raises(ValueError, match="it refers to 9, which it does not have"):
        bvh.BVH.from_file(path)
    # The reason is in the error, and nothing is printed.
    (tmp_path / "a.vtk").write_text("# vtk DataFile Version 3.0\na\nASCII\nDATASET POLYDATA\n")
    with pytest.raises(ValueError, match=r"in it: vtk: .*not POLYDATA"):
        bvh.BVH.from_file(tmp_path / "a.vtk")
    assert capfd.readouterr() == ("", "")
