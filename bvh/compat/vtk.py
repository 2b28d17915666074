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
    """Locator with the methods of ``vtkCellLocator`` and ``vtkStaticCellLocator``.

    Its tree follows changes of the data set.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> locator = CellLocator()  # doctest: +SKIP
    >>> locator.SetDataSet(pv.Sphere())  # doctest: +SKIP
    >>> locator.BuildLocator()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._data, self._followed = None, FollowedDataSet()

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

    def IntersectWithLine(self, p1: Any, p2: Any, tol: float, *out: Any) -> int:
        """Find the first crossing of a segment; return 1 if there is one, else 0.

        As in VTK: ``(p1, p2, tol, t, x, pcoords, subId[, cellId[, cell]])``, where t, subId and
        cellId are references (``vtkmodules.vtkCommonCore.mutable``), x and pcoords lists that are
        filled; or ``(p1, p2, tol, points, cellIds)`` for all crossings. `tol` has no effect.
        """
        tree = self.tree
        if len(out) == 2:
            return int(_write_crossings(tree, p1, p2, *out) is not None)
        start = np.asarray(p1, np.float64)
        hit = tree.closest_hit(start, np.asarray(p2, np.float64) - start, t_max=1.0)
        if hit:
            t, position, coordinates, sub, *cell = out
            t.set(float(hit.t))
            position[:], coordinates[:] = hit.position.tolist(), [float(hit.u), float(hit.v), 0.0]
            sub.set(0)
            if cell:
                cell[0].set(int(tree.face_of(hit.prim_id)))
        return int(bool(hit))

    def FindClosestPoint(self, x: Any, closest: Any, *out: Any) -> None:
        """Find the nearest point to `x`: ``(x, closestPoint, [cell,] cellId, subId, dist2)``.

        The list `closest` is filled, and the references in `out` are set: cellId, subId to 0, dist2
        to the squared distance. A `cell` is ignored.
        """
        tree = self.tree
        near = tree.closest_point(np.asarray(x, np.float64))
        closest[:] = np.asarray(near.position).tolist()
        cell, sub, square = out[-3:]
        cell.set(int(tree.face_of(near.prim_id)))
        sub.set(0)
        square.set(float(near.distance) ** 2)


class OBBTree(CellLocator):
    """Locator with the methods of ``vtkOBBTree``, on any surface.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> tree = OBBTree()  # doctest: +SKIP
    >>> tree.SetDataSet(pv.Sphere())  # doctest: +SKIP
    >>> tree.InsideOrOutside([0, 0, 0])  # doctest: +SKIP
    -1
    """

    def IntersectWithLine(self, a0: Any, a1: Any, *out: Any) -> int:
        """Find all crossings of a segment, as ``(a0, a1, vtkPoints, vtkIdList)``.

        Either list may be None; other signatures are those of `CellLocator`. Returns 0 without a
        crossing, 1 if a0 is outside and -1 if it is inside, as in VTK by the side of the first
        face that is crossed.
        """
        if len(out) != 2:
            return super().IntersectWithLine(a0, a1, *out)
        front = _write_crossings(self.tree, a0, a1, *out)
        return 0 if front is None else (1 if front else -1)

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
