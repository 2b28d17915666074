"""Drop-in replacement for VTK's `vtkOBBTree` and cell locators: the same methods, exact answers.

PyVista must be installed, too: it reads data sets of VTK.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH

__all__ = ["CellLocator", "OBBTree"]
__dir__ = __all__.copy


class CellLocator:
    """Locator of cells, as ``vtkCellLocator`` and ``vtkStaticCellLocator`` have it.

    Its tree follows the data set: it is built again once that has changed.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> locator = CellLocator()  # doctest: +SKIP
    >>> locator.SetDataSet(pv.Sphere())  # doctest: +SKIP
    >>> locator.BuildLocator()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._data: Any = None
        # A `FollowedDataSet`, which needs PyVista.
        self._followed: Any = None

    def SetDataSet(self, data: Any) -> None:
        """Set the data set of VTK or PyVista whose surface is searched."""
        from bvh.compat.followed_data_sets import FollowedDataSet

        self._data, self._followed = data, FollowedDataSet()

    def GetDataSet(self) -> Any:
        """Return the data set."""
        return self._data

    def BuildLocator(self) -> None:
        """Build the tree, if the data set has changed."""
        _ = self.tree

    Update = BuildLocator

    @property
    def tree(self) -> BVH:
        """The tree over the surface; `BVH.face_of` gives cells."""
        if self._data is None:
            raise ValueError("SetDataSet must be called first")
        return self._followed.tree_of(self._data)  # type: ignore[no-any-return]

    def IntersectWithLine(self, p1: Any, p2: Any, tol: float, *out: Any) -> int:
        """Find the first crossing of a segment.

        As VTK's: ``(p1, p2, tol, t, x, pcoords, subId[, cellId[, cell]])``, where t, subId and
        cellId are references (``vtkmodules.vtkCommonCore.mutable``), x and pcoords lists that are
        filled; or ``(p1, p2, tol, points, cellIds)`` for all crossings. `tol` is of no effect.

        Returns
        -------
        int
            1 if there is one, else 0.
        """
        start, tree = np.asarray(p1, np.float64), self.tree
        way = np.asarray(p2, np.float64) - start
        if len(out) == 2:
            return int(_all_crossings(tree, start, way, *out)[0])
        hit = tree.closest_hit(start, way, t_max=1.0)
        if hit:
            _fill(out, float(hit.t), hit.position, (hit.u, hit.v, 0.0), hit.prim_id, tree)
        return int(bool(hit))

    def FindClosestPoint(self, x: Any, closest: Any, *out: Any) -> None:
        """Find the nearest point: ``(x, closestPoint, [cell,] cellId, subId, dist2)``."""
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

        Either list may be None; the other forms are those of `CellLocator`.

        Returns
        -------
        int
            0 if there is none, 1 if a0 is outside, -1 if it is inside. As in VTK, what is outside
            is told by the side of the first face.
        """
        if len(out) != 2:
            return super().IntersectWithLine(a0, a1, *out)
        start = np.asarray(a0, np.float64)
        found, front = _all_crossings(self.tree, start, np.asarray(a1, np.float64) - start, *out)
        return 0 if not found else (1 if front else -1)

    def InsideOrOutside(self, point: Any) -> int:
        """Return -1 for a point inside of a closed surface, 1 outside, by exact parity."""
        return -1 if self.tree.contains(np.asarray(point, np.float64)) else 1


def _all_crossings(
    tree: BVH, start: NDArray[np.float64], way: NDArray[np.float64], points: Any, cells: Any
) -> tuple[bool, bool]:
    """Write the crossings of a segment; return whether there are any, and the first one's side."""
    hits = tree.all_hits(start, way, t_max=1.0, edges="once")
    for made in (points, cells):
        if made is not None:
            made.Reset()
    for position, cell in zip(hits.position.tolist(), tree.face_of(hits.prim_id), strict=True):
        if points is not None:
            points.InsertNextPoint(position)
        if cells is not None:
            cells.InsertNextId(int(cell))
    return len(hits.t) > 0, bool(len(hits.t) and hits.front[0])


def _fill(out: Any, t: float, x: Any, weights: Any, prim: Any, tree: BVH) -> None:
    """Write one crossing to the references and lists of a caller."""
    at, position, coordinates, sub, *cells = out
    at.set(t)
    position[:] = np.asarray(x).tolist()
    coordinates[:] = [float(w) for w in weights]
    sub.set(0)
    if cells:
        cells[0].set(int(tree.face_of(prim)))
