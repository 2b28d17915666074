"""Drop-in replacement for VTK's `vtkOBBTree` and cell locators: the same methods, exact answers.

It needs PyVista, which reads data sets of VTK.
"""

from typing import Any

import numpy as np

from bvh.compat.followed_meshes import FollowedDataSet, crossings
from bvh.queries.hierarchy import BVH

__all__ = ["CellLocator", "OBBTree"]
__dir__ = __all__.copy


class CellLocator:
    """Locator with two queries of ``vtkCellLocator`` and ``vtkStaticCellLocator``.

    Its tree follows changes of the data set; `tree` has other queries. The surface is searched:
    solid cells have no inside. Lines, or else points, count where there are no faces; cellId is
    then the number of the segment or point.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> locator = CellLocator()  # doctest: +SKIP
    >>> locator.SetDataSet(pv.Sphere())  # doctest: +SKIP
    >>> locator.BuildLocator()  # doctest: +SKIP
    """

    # What `IntersectWithLine` returns where the first of all crossings is from the inside.
    _from_inside = 1

    def __init__(self) -> None:
        self._data: Any = None
        self._followed = FollowedDataSet()

    def SetDataSet(self, data: Any) -> None:
        """Set the data set of VTK or PyVista whose surface is searched."""
        self._data, self._followed = data, FollowedDataSet()

    def GetDataSet(self) -> Any:
        """Return the data set."""
        return self._data

    def BuildLocator(self) -> None:
        """Build the tree, if there is none or the data set has changed."""
        _ = self.tree

    Update = BuildLocator

    @property
    def tree(self) -> BVH:
        """The tree over the surface as it is now; its `face_of` returns the cells of triangles."""
        if self._data is None:
            raise ValueError("SetDataSet must be called first")
        return self._followed.tree_of(self._data)

    def IntersectWithLine(self, p1: Any, p2: Any, *out: Any) -> int:
        """Find the first crossing of a segment, or all; return 0 if there is none, else 1.

        As in VTK, `out` is ``(tol, t, x, pcoords, subId[, cellId[, cell]])`` for the first
        crossing, where t, subId and cellId are references (``vtkmodules.vtkCommonCore.mutable``), x
        and pcoords lists, and cell a ``vtkGenericCell``; without one, subId becomes 0 and cellId
        -1. It is ``([tol,] points, cellIds[, cell])`` for all crossings, with None for a list that
        is not needed. `tol` has no effect, pcoords are u and v of a triangle, and subId is 0.
        """
        tree = self.tree
        if len(out) < 5:
            lists = out[1:3] if len(out) > 2 else out
            front = _write_crossings(tree, p1, p2, *lists)
            return 0 if front is None else (1 if front else self._from_inside)
        start = np.asarray(p1, np.float64)
        hit = tree.closest_hit(start, np.asarray(p2, np.float64) - start, t_max=1.0)
        _, t, position, coordinates, sub, *cell = out
        if hit:
            t.set(float(hit.t))
            position[:], coordinates[:] = hit.position.tolist(), [float(hit.u), float(hit.v), 0.0]
        sub.set(0)
        self._set_cell(tree, hit.prim_id, *cell)
        return int(bool(hit))

    def FindClosestPoint(self, x: Any, closest: Any, *out: Any) -> None:
        """Find the nearest point to `x`: ``(x, closestPoint, [cell,] cellId, subId, dist2)``.

        The list `closest` is filled, the ``vtkGenericCell`` as well, and the references are set:
        cellId, subId to 0, dist2 to the squared distance.
        """
        tree = self.tree
        near = tree.closest_point(np.asarray(x, np.float64))
        closest[:] = np.asarray(near.position).tolist()
        *cell, number, sub, square = out
        self._set_cell(tree, near.prim_id, number, *cell)
        sub.set(0)
        square.set(float(near.distance) ** 2)

    def _set_cell(self, tree: BVH, prim: Any, number: Any = None, cell: Any = None) -> None:
        """Set the reference `number` to the cell of a primitive, -1 for -1; copy it to `cell`."""
        if number is not None:
            number.set(int(tree.face_of(prim)))
        if cell is not None and prim >= 0 and tree.kind == "triangles":
            self._data.GetCell(int(tree.face_of(prim)), cell)


class OBBTree(CellLocator):
    """Locator with these methods and ``InsideOrOutside`` of ``vtkOBBTree``, on any surface.

    For all crossings, `IntersectWithLine` returns 1 if the segment begins outside and -1 if it
    begins inside, as in VTK by the side of the first face that is crossed.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> tree = OBBTree()  # doctest: +SKIP
    >>> tree.SetDataSet(pv.Sphere())  # doctest: +SKIP
    >>> tree.InsideOrOutside([0, 0, 0])  # doctest: +SKIP
    -1
    """

    _from_inside = -1

    def InsideOrOutside(self, point: Any) -> int:
        """Return -1 for a point inside a closed surface, 1 for one outside, by exact parity."""
        return -1 if self.tree.contains(np.asarray(point, np.float64)) else 1


def _write_crossings(tree: BVH, start: Any, end: Any, points: Any, cells: Any) -> bool | None:
    """Write the crossings of the segment from `start` to `end` to vtkPoints and a vtkIdList.

    Either may be None. Return whether the first crossing is from the front; None if there is none.
    """
    hits, faces = crossings(tree, start, end)
    if points is not None:
        points.Reset()
        for position in hits.position.tolist():
            points.InsertNextPoint(position)
    if cells is not None:
        cells.Reset()
        for cell in faces.tolist():
            cells.InsertNextId(cell)
    return bool(hits.front[0]) if len(faces) else None
