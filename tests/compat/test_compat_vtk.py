"""VTK's locators beside ours: the same calls, references and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pv = pytest.importorskip("pyvista")
vtk = pytest.importorskip("vtk")

from bvh.compat.vtk import CellLocator, OBBTree  # noqa: E402


def located(kind: Any, mesh: Any) -> Any:
    """Return a locator of a mesh."""
    locator = kind()
    locator.SetDataSet(mesh)
    locator.BuildLocator()
    return locator


def crossings(locator: Any, a: np.ndarray, b: np.ndarray) -> tuple[int, list[Any], list[int]]:
    """Return what OBBTree.IntersectWithLine says and writes."""
    points, cells = vtk.vtkPoints(), vtk.vtkIdList()
    code = locator.IntersectWithLine(a.tolist(), b.tolist(), points, cells)
    return (
        code, [points.GetPoint(i) for i in range(points.GetNumberOfPoints())],
        [cells.GetId(i) for i in range(cells.GetNumberOfIds())],
    )  # fmt: skip


def test_obb_tree(rng: np.random.Generator) -> None:
    """All crossings, the code that tells where the line begins, inside or outside."""
    mesh = pv.Sphere()
    theirs, ours = located(vtk.vtkOBBTree, mesh), located(OBBTree, mesh)
    same = 0
    for _ in range(200):
        a, b = rng.normal(size=(2, 3)) * 0.5
        x, y = crossings(theirs, a, b), crossings(ours, a, b)
        if x[2] == y[2]:
            assert x[0] == y[0]
            assert np.allclose(np.reshape(x[1], (-1, 3)), np.reshape(y[1], (-1, 3)), atol=1e-5)
            same += 1
        assert theirs.InsideOrOutside(a.tolist()) == ours.InsideOrOutside(a.tolist())
    assert same >= 190
    assert ours.IntersectWithLine([0, 0, 2], [0, 0, -2], None, None) == 1


def test_cell_locator(rng: np.random.Generator) -> None:
    """The first crossing and the nearest point, by references."""
    mesh = pv.Sphere()
    theirs, ours = located(vtk.vtkStaticCellLocator, mesh), located(CellLocator, mesh)
    for _ in range(100):
        a, b = (rng.normal(size=(2, 3)) * 0.7).tolist()
        found = []
        for locator in (theirs, ours):
            t, sub, cell = vtk.reference(0.0), vtk.reference(0), vtk.reference(0)
            x, weights = [0.0] * 3, [0.0] * 3
            code = locator.IntersectWithLine(a, b, 1e-9, t, x, weights, sub, cell)
            near, square = [0.0] * 3, vtk.reference(0.0)
            other = vtk.reference(0)
            locator.FindClosestPoint(a, near, other, sub, square)
            found.append((code, x if code else None, cell.get() if code else None,
                          near, other.get(), square.get()))  # fmt: skip
        assert found[0][0] == found[1][0]
        if found[0][0]:
            assert np.allclose(found[0][1], found[1][1], atol=1e-6)
            assert found[0][2] == found[1][2]
        assert np.allclose(found[0][3], found[1][3], atol=1e-6)
        assert found[0][5] == pytest.approx(found[1][5], abs=1e-9)


def everything(locator: Any, a: list[float], b: list[float]) -> list[Any]:
    """Return what all other signatures of IntersectWithLine and FindClosestPoint say and write."""
    found = []
    for extra in range(3):
        t, sub, number = vtk.reference(-5.0), vtk.reference(-5), vtk.reference(-5)
        x, weights, cell = [7.0] * 3, [7.0] * 3, vtk.vtkGenericCell()
        more = [number, cell][:extra]
        code = locator.IntersectWithLine(a, b, 1e-9, t, x, weights, sub, *more)
        found += [code, t.get(), *x, *weights, sub.get(), number.get(), cell.GetCellType()]
    for given in ([1e-9], [1e-9, vtk.vtkGenericCell()], []):
        points, cells = vtk.vtkPoints(), vtk.vtkIdList()
        found.append(locator.IntersectWithLine(a, b, *given[:1], points, cells, *given[1:]))
        found += [cells.GetId(i) for i in range(cells.GetNumberOfIds())]
    near, cell = [7.0] * 3, vtk.vtkGenericCell()
    number, sub, square = vtk.reference(-5), vtk.reference(-5), vtk.reference(-5.0)
    locator.FindClosestPoint([0.25, 0.25, 0.4], near, cell, number, sub, square)
    corners = [cell.GetPointId(i) for i in range(cell.GetNumberOfPoints())]
    return [*found, *near, number.get(), sub.get(), square.get(), cell.GetCellType(), *corners]


@pytest.mark.parametrize("theirs", [vtk.vtkOBBTree, vtk.vtkCellLocator, vtk.vtkStaticCellLocator])
def test_all_signatures(theirs: Any) -> None:
    """With and without cells, from outside, from inside, and where nothing is crossed."""
    mesh, is_tree = pv.Sphere(theta_resolution=13, phi_resolution=11), theirs is vtk.vtkOBBTree
    for a, b in ([0.1, 0.03, 5.0], [0.1, 0.03, -5.0]), ([0.1, 0.03, 0.0], [0.1, 0.03, -5.0]):
        one, other = located(theirs, mesh), located(OBBTree if is_tree else CellLocator, mesh)
        if is_tree:  # It has no FindClosestPoint.
            one.FindClosestPoint = located(vtk.vtkCellLocator, mesh).FindClosestPoint
        assert everything(other, a, b) == pytest.approx(everything(one, a, b), abs=1e-6)
    if not is_tree:
        a, b = [3.0, 3.0, 5.0], [3.0, 3.0, -5.0]
        assert everything(other, a, b) == pytest.approx(everything(one, a, b), abs=1e-6)


def test_lines_and_solid_cells() -> None:
    """Segments of lines have their numbers, and no cell; of solid cells the surface counts."""
    lines, number, sub = (
        pv.Spline(np.arange(12.0).reshape(4, 3), 9),
        vtk.reference(0),
        vtk.reference(0),
    )
    grid, cell, square = (
        pv.ImageData(dimensions=(3, 3, 3)),
        vtk.vtkGenericCell(),
        vtk.reference(0.0),
    )
    near = [0.0] * 3
    located(CellLocator, lines).FindClosestPoint([9.0, 10.0, 11.0], near, cell, number, sub, square)
    assert (near, number.get(), cell.GetNumberOfPoints()) == ([9.0, 10.0, 11.0], 7, 0)
    located(CellLocator, grid).FindClosestPoint([0.3, 0.4, 0.25], near, cell, number, sub, square)
    assert (square.get(), number.get(), cell.GetNumberOfPoints()) == (0.0625, 0, 8)


def test_changes_and_refusals() -> None:
    """The tree follows the data set; without one there is none."""
    mesh = pv.Cube()
    locator = located(OBBTree, mesh)
    assert locator.InsideOrOutside([0.9, 0, 0]) == 1
    mesh.points = np.asarray(mesh.points) * 2.0
    assert locator.InsideOrOutside([0.9, 0, 0]) == -1
    with pytest.raises(ValueError, match="SetDataSet must be called"):
        OBBTree().BuildLocator()
    assert located(OBBTree, vtk.vtkPolyData()).IntersectWithLine([0] * 3, [1] * 3, None, None) == 0
