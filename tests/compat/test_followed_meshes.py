"""Trees of data sets after edits of all kinds, through the accessor, the locators and alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pv = pytest.importorskip("pyvista")

from vtkmodules.util.numpy_support import vtk_to_numpy  # noqa: E402

from bvh import BVH  # noqa: E402
from bvh.compat.followed_meshes import FollowedDataSet, checksum  # noqa: E402
from bvh.compat.vtk import OBBTree  # noqa: E402


def _by_an_operator(mesh: Any) -> None:
    points = mesh.points
    points *= 2


def _by_an_output(mesh: Any) -> None:
    np.multiply(mesh.points, [1, 2, 3], out=mesh.points)


def _beside_the_subclass(mesh: Any) -> None:
    np.asarray(mesh.points)[0] = 3.0


def _told(mesh: Any) -> None:
    np.asarray(mesh.points)[:] *= 2
    mesh.Modified()


def _in_another_order(mesh: Any) -> None:
    points = np.asarray(mesh.points)
    np.copyto(points, points[::-1].copy())


def _two_points(mesh: Any) -> None:
    points = np.asarray(mesh.points)
    points[[20, 400]] = points[[400, 20]]


def _by_assignment(mesh: Any) -> None:
    mesh.points = np.asarray(mesh.points) * 2


def _by_a_slice(mesh: Any) -> None:
    mesh.points[:] = mesh.points * 2


def _regular_faces(mesh: Any) -> None:
    if not hasattr(type(mesh), "regular_faces"):
        pytest.skip("since PyVista 0.42")
    mesh.regular_faces[:60] = mesh.regular_faces[0]


def _connectivity(mesh: Any) -> None:
    vtk_to_numpy(mesh.GetPolys().GetConnectivityArray())[:180] = 0


def _strips(mesh: Any) -> None:
    vtk_to_numpy(mesh.GetStrips().GetConnectivityArray())[:50] = 0


def _faces(mesh: Any) -> None:
    mesh.faces = np.asarray(mesh.faces).reshape(-1, 4)[:300].reshape(-1)


def _cell_types(mesh: Any) -> None:
    np.asarray(mesh.celltypes)[:4] = pv.CellType.EMPTY_CELL


def _nodes(mesh: Any) -> None:
    vtk_to_numpy(mesh.GetCells().GetConnectivityArray())[:32] = 0


def _spacing(mesh: Any) -> None:
    mesh.spacing = 2.0, 1.0, 1.0


def _coordinates(mesh: Any) -> None:
    vtk_to_numpy(mesh.GetXCoordinates())[1:] *= 2.0


def _hidden(mesh: Any) -> None:
    mesh.hide_cells([0, 1, 2], inplace=True)


def _hidden_in_place(mesh: Any) -> None:
    vtk_to_numpy(mesh.GetCellGhostArray())[5:] = 32


def _grid() -> Any:
    return pv.ImageData(dimensions=(4, 4, 4), origin=(-1.5, -1.5, -1.5))


def _structured() -> Any:
    return _grid().cast_to_structured_grid()


def _partly_hidden() -> Any:
    grid = _structured()
    grid.hide_cells([0], inplace=True)
    return grid


Make, Edit = Callable[[], Any], Callable[[Any], None]
POINTS = (
    _by_an_operator, _by_an_output, _beside_the_subclass, _told, _by_assignment, _by_a_slice,
)  # fmt: skip
SPHERE = _in_another_order, _two_points, _regular_faces, _connectivity, _faces
CASES: list[tuple[Make, Edit]] = [
    *((pv.Sphere, edit) for edit in (*POINTS, *SPHERE)),
    *((lambda: _grid().cast_to_unstructured_grid(), edit) for edit in (*POINTS, _cell_types)),
    *((_structured, edit) for edit in (*POINTS, _hidden)),
    (lambda: pv.Sphere().strip(), _strips), (lambda: _grid().cast_to_unstructured_grid(), _nodes),
    (_grid, _spacing), (lambda: _grid().cast_to_rectilinear_grid(), _coordinates),
    (_partly_hidden, _hidden_in_place),
]  # fmt: skip


@pytest.mark.parametrize(("make", "edit"), CASES, ids=[edit.__name__ for _, edit in CASES])
def test_edits(make: Make, edit: Edit, rng: np.random.Generator) -> None:
    """After an edit, a tree answers as one that is built anew."""
    mesh, alone, locator = make(), FollowedDataSet(), OBBTree()
    locator.SetDataSet(mesh)
    trees = [lambda: alone.tree_of(mesh), lambda: locator.tree]
    if hasattr(pv, "register_dataset_accessor"):
        import bvh.compat.pyvista

        trees.append(lambda: mesh.bvh.tree)
    rays = rng.standard_normal((2000, 3)) * 3
    before = [tree().closest_hit(rays, -rays).t for tree in trees]
    edit(mesh)
    right = bvh.BVH.from_mesh(mesh).closest_hit(rays, -rays).t
    assert not np.array_equal(before[0], right)
    for tree in trees:
        np.testing.assert_array_equal(tree().closest_hit(rays, -rays).t, right)


def test_triangles_that_depend_on_the_points() -> None:
    """A quad that becomes concave is cut along its other diagonal; a cell inside out is turned."""
    quad = pv.PolyData([[0.0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], faces=[4, 0, 1, 2, 3])
    cell = pv.UnstructuredGrid([4, 0, 1, 2, 3], [pv.CellType.TETRA], np.eye(4, 3)[[3, 0, 1, 2]])
    for mesh, row, place in ((quad, 1, [0.4, 0.8, 0.0]), (cell, 3, [0.0, 0.0, -1.0])):
        followed = FollowedDataSet()
        before = followed.tree_of(mesh).faces.copy()
        np.asarray(mesh.points)[row] = place
        tree, right = followed.tree_of(mesh), BVH.from_mesh(mesh)
        assert np.array_equal(tree.faces, right.faces) and not np.array_equal(before, right.faces)
        assert np.array_equal(tree.face_ids, right.face_ids)


def test_points_that_move() -> None:
    """The tree is refitted while its triangles stay the same, also those of quads."""
    for mesh in (pv.Sphere(), _grid().cast_to_unstructured_grid()):
        followed = FollowedDataSet()
        tree = followed.tree_of(mesh)
        np.asarray(mesh.points)[:] *= 1.5
        assert followed.tree_of(mesh) is tree and np.array_equal(tree.vertices, mesh.points)


def test_what_changes_nothing() -> None:
    """Times that have changed, and arrays of data, lead to no other tree."""
    for mesh in (pv.Sphere(), _grid().cast_to_unstructured_grid()):
        followed = FollowedDataSet()
        tree = followed.tree_of(mesh)
        arrays = tree.arrays
        mesh["height"] = np.asarray(mesh.points)[:, 2]
        mesh.GetPoints().Modified()
        mesh.Modified()
        assert followed.tree_of(mesh) is tree
        assert tree.arrays is arrays


def test_blocks() -> None:
    """Blocks are followed, too, and data sets of VTK itself."""
    blocks, followed = (
        pv.MultiBlock([pv.Cube(), None, pv.Cube(center=(3, 0, 0))]),
        FollowedDataSet(),
    )
    assert followed.tree_of(blocks).bounds[1, 0] == 3.5
    np.asarray(blocks[2].points)[:] += 1.0
    assert followed.tree_of(blocks).bounds[1, 0] == 4.5
    plain = pv.vtkPolyData() if hasattr(pv, "vtkPolyData") else pv.Cube()
    plain.ShallowCopy(pv.Cube())
    followed = FollowedDataSet()
    assert followed.tree_of(plain).bounds[1, 0] == 0.5
    vtk_to_numpy(plain.GetPoints().GetData())[:] *= 2.0
    assert followed.tree_of(plain).bounds[1, 0] == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_checksums(dtype: Any, rng: np.random.Generator) -> None:
    """Each number counts, and the order of any two; also of arrays that are no whole rows."""
    for count in (0, 1, 3, 4096, 10_001):
        array = rng.integers(1, 99, (count, 3)).astype(dtype)
        known, flat = checksum(array), array.reshape(-1)
        assert checksum(array.copy()) == checksum(np.asfortranarray(array)) == known
        for k in rng.integers(0, len(flat), 50).tolist() if count else []:
            was = flat[k]
            flat[k] += 1
            assert checksum(array) != known
            flat[k] = was
            j = int(rng.integers(len(flat)))
            flat[[k, j]] = flat[[j, k]]
            assert (checksum(array) != known) == (flat[j] != flat[k])
            flat[[k, j]] = flat[[j, k]]
        assert checksum(array) == known
