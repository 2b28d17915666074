"""glTF files as VTK reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.gltf_files import ONES, SQUARE, SQUARE_FACES, GltfFile


def read_by_vtk(path: Path) -> np.ndarray:
    """Return the corners (m, 3, 3) of all triangles that VTK reads."""
    module = pytest.importorskip("vtkmodules.vtkIOGeometry")
    to_numpy = pytest.importorskip("vtkmodules.util.numpy_support").vtk_to_numpy
    reader = module.vtkGLTFReader()
    reader.SetFileName(str(path))
    reader.Update()
    parts, found = reader.GetOutput().NewIterator(), []
    parts.InitTraversal()
    while not parts.IsDoneWithTraversal():
        part = parts.GetCurrentDataObject()
        points = to_numpy(part.GetPoints().GetData()).astype(np.float64)
        corners = to_numpy(part.GetPolys().GetConnectivityArray()).reshape(-1, 3)
        found.append(points[corners])
        parts.GoToNextItem()
    return np.concatenate(found)


def integers(kind: str) -> GltfFile:
    """Return a file of normalized integers."""
    file = GltfFile()
    values = (SQUARE * ONES[kind]).astype(kind)
    place = file.accessor(values, stride=8, bounds=True, normalized=True)
    file.mesh({"attributes": {"POSITION": place}, "indices": file.accessor(SQUARE_FACES)})
    return file


def sparse() -> GltfFile:
    """Return a file of sparse positions."""
    file = GltfFile()
    points = SQUARE + np.float32([1, 1, 1])
    place = file.accessor(points, rows=[1, 2, 3])
    file.mesh({"attributes": {"POSITION": place}, "indices": file.accessor(SQUARE_FACES)})
    return file


def morphed() -> GltfFile:
    """Return a file with a morph target and a default weight."""
    file = GltfFile()
    up = file.accessor(np.zeros((4, 3), "f4") + np.float32([0, 0, 2]))
    file.mesh(file.square(targets=[{"POSITION": up}]), weights=[0.5])
    return file


FILES: dict[str, Any] = {kind: lambda kind=kind: integers(kind) for kind in ONES}
# Without a bufferView, VTK reads no sparse accessors.
FILES |= {"sparse": sparse, "morph": morphed}


@pytest.mark.parametrize("name", FILES)
def test_vtk(name: str, tmp_path: Path) -> None:
    """The triangles are the same, in the same order, below two nodes."""
    file = FILES[name]()
    turn = [0.0, 0.6, 0.0, 0.8]
    file.node(children=[1], rotation=turn, translation=[1, 2, 3])
    file.node(root=False, mesh=0, scale=[2, 3, 4])
    path = file.save(tmp_path / "a.glb")
    wanted = read_by_vtk(path)
    for vertices, faces in (
        bvh.load_scene(path).flattened()[:2],
        (lambda tree: (tree.vertices, tree.faces))(bvh.BVH.from_file(path)),
    ):
        assert np.allclose(vertices[faces], wanted, rtol=0.0, atol=1e-5)
