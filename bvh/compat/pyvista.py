"""Accessor `mesh.bvh` of PyVista's data sets: queries of `BVH`, and some with PyVista's signatures.

PyVista 0.48 and later finds it by its entry point; `from bvh.compat import pyvista` registers it
with any version that has accessors.
"""

from inspect import isfunction
from typing import Any, Literal

import numpy as np
import pyvista as pv
from numpy.typing import ArrayLike, NDArray

from bvh.compat.followed_meshes import FollowedDataSet, crossings
from bvh.queries.hierarchy import BVH

__all__ = ["Accessor"]
__dir__ = __all__.copy

# Methods of `BVH` that are not queries of its surface, which accessors do not have.
UNSUPPORTED = {"refit", "save", "stats", "to", "validate"}
QUERIES = {name for name in dir(BVH) if not name.startswith("_") and isfunction(getattr(BVH, name))}


@pv.register_dataset_accessor("bvh", pv.DataSet)
class Accessor:
    """Queries of the surface of a data set, whose tree follows changes.

    It has all queries of `bvh.BVH`. The tree is built by the first one, and refitted or built again
    after changes. Each query compares checksums of points and cells, in some 10 ms for two million
    triangles; ``tree = mesh.bvh.tree`` does so once, for loops of single rays. `prim_id` numbers
    triangles; `face_of` gives cells.

    Examples
    --------
    >>> import pyvista as pv  # doctest: +SKIP
    >>> pv.Sphere().bvh.closest_hit([0, 0, 5], [0, 0, -1]).t  # doctest: +SKIP
    4.5
    """

    def __init__(self, dataset: Any) -> None:
        self._mesh, self._followed = dataset, FollowedDataSet()

    @property
    def tree(self) -> BVH:
        """The tree over the surface as it is now."""
        return self._followed.tree_of(self._mesh)

    def __getattr__(self, name: str) -> Any:
        # Python calls this for names that the class lacks: queries of the tree.
        if name in QUERIES - UNSUPPORTED:
            return getattr(self.tree, name)
        raise AttributeError(f"the accessor bvh has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *QUERIES} - UNSUPPORTED)

    def signed_distance(self, points: Any, **options: Any) -> Any:
        """As `BVH.signed_distance`, for points or for the points of a data set.

        A data set is returned, with the distances as its point data "signed_distance".
        """
        return self._written(points, "signed_distance", self.tree.signed_distance, options)

    def contains(self, points: Any, **options: Any) -> Any:
        """As `BVH.contains`, for points or for the points of a data set.

        A data set is returned, with the answers as its point data "contains".
        """
        return self._written(points, "contains", self.tree.contains, options)

    def deviation_from(self, other: Any) -> NDArray[np.float64]:
        """Return the signed distance of each point from another mesh, negative inside.

        It is also stored, as the data set's point data "deviation".
        """
        result = np.asarray(_tree_of(other).signed_distance(np.asarray(self._mesh.points, float)))
        self._mesh.point_data["deviation"] = result
        return result

    def thickness(self, method: Literal["ray", "sphere"] = "ray") -> NDArray[np.float64]:
        """Return the least `BVH.thickness` of each cell, and store it as cell data "thickness".

        It is measured by `method` at the middles of a cell's triangles; NaN for cells without any.
        """
        tree = self.tree
        each, result = tree.thickness(method=method), np.full(self._mesh.n_cells, np.nan)
        # fmin ignores NaN.
        np.fmin.at(result, tree.face_of(np.arange(len(tree))), each)
        self._mesh.cell_data["thickness"] = result
        return result

    @staticmethod
    def _written(points: Any, name: str, query: Any, options: dict[str, Any]) -> Any:
        """Return the answer of `query`, called with `options`, for an array of points.

        If `points` is a data set, store the answer as its point data `name`; return the data set.
        """
        if not isinstance(points, pv.DataSet):
            return query(points, **options)
        points.point_data[name] = query(np.asarray(points.points, np.float64), **options)
        return points

    def ray_trace(
        self, origin: ArrayLike, end_point: ArrayLike, first_point: bool = False,
        plot: bool = False, off_screen: bool | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:  # fmt: skip
        """As `pyvista.PolyData.ray_trace`: points (n, 3) and cells (n,) that a segment crosses.

        With `first_point`, the first point (3,) and all cells. Points are float64, whatever those
        of the mesh are. `plot` and `off_screen` are ignored.
        """
        hits, cells = crossings(self.tree, origin, end_point)
        points = np.asarray(hits.position)
        return points[0] if first_point and len(cells) else points, cells

    def multi_ray_trace(
        self, origins: ArrayLike, directions: ArrayLike, first_point: bool = False,
        retry: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
        """As `pyvista.PolyData.multi_ray_trace`: points (n, 3), rays (n,) and cells (n,) of hits.

        They are ordered by ray and t. With `first_point`, only the first hit of each ray. `retry`
        has no effect. A mesh may have any cells, and a ray may be the only one.
        """
        tree = self.tree
        if first_point:
            hits: Any = tree.closest_hit(np.atleast_2d(origins), directions)
            rays, hits = np.flatnonzero(hits.mask), hits[hits.mask]
        else:
            hits = tree.all_hits(origins, directions, edges="once")
            rays = hits.ray_id
        cells = np.asarray(tree.face_of(hits.prim_id), np.int64)
        return np.asarray(hits.position), np.asarray(rays, np.int64), cells

    def intersect_with_line(
        self, pointa: ArrayLike, pointb: ArrayLike, *, tolerance: float | None = None,
        deduplicate_points: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:  # fmt: skip
        """As `pyvista.DataSet.intersect_with_line`; options have no effect: answers are exact."""
        return self.ray_trace(pointa, pointb)

    def select_interior_points(
        self, surface: Any, *, method: str = "signed_distance", inside_out: bool = False,
        check_surface: bool = True, locator_tolerance: float | None = None,
    ) -> Any:  # fmt: skip
        """As `pyvista.DataSet.select_interior_points`: a copy with "selected_points".

        It says which points are inside `surface` or on it, or outside with `inside_out`. Exact
        parity decides, so `method` and `locator_tolerance` have no effect. A surface that is not
        closed raises a RuntimeError, unless `check_surface` is False.
        """
        tree = _tree_of_surface(surface)
        if check_surface and not tree.is_closed:
            raise RuntimeError("surface is not closed: pass check_surface=False, or repair it")
        inside = np.asarray(tree.contains(np.asarray(self._mesh.points, np.float64)))
        result = self._mesh.copy()
        result.point_data["selected_points"] = inside ^ inside_out
        result.set_active_scalars("selected_points")
        return result

    def select_enclosed_points(
        self, surface: Any, tolerance: float = 0.001, inside_out: bool = False,
        check_surface: bool = True, progress_bar: bool = False,
    ) -> Any:  # fmt: skip
        """As `pyvista.DataSet.select_enclosed_points`: a copy with "SelectedPoints", 0 or 1.

        `tolerance` and `progress_bar` have no effect: exact parity decides.
        """
        selected = self.select_interior_points(
            surface, inside_out=inside_out, check_surface=check_surface
        )
        result = self._mesh.copy()
        # Unlike "selected_points", they become the active scalars only if there were none.
        inside = selected.point_data["selected_points"]
        result.point_data["SelectedPoints"] = inside.astype(np.uint8)
        return result

    def compute_implicit_distance(self, surface: Any, inplace: bool = False) -> Any:
        """As `pyvista.DataSet.compute_implicit_distance`: a copy, or itself if `inplace`.

        Its point data "implicit_distance" is the distance from `surface`, negative inside.
        """
        result = self._mesh if inplace else self._mesh.copy()
        points = np.asarray(self._mesh.points, np.float64)
        distance = _tree_of_surface(surface).signed_distance(points)
        result.point_data["implicit_distance"] = distance
        return result


def _tree_of_surface(surface: Any) -> BVH:
    """Return the tree over a surface; a TypeError, as PyVista's, for what is no surface."""
    if not isinstance(surface, pv.PolyData):
        raise TypeError(f"surface must be PolyData, got {type(surface).__name__}")
    return _tree_of(surface)


def _tree_of(other: Any) -> BVH:
    """Return the tree over `other`: of a data set, the tree of its accessor; else a new one."""
    return other.bvh.tree if isinstance(other, pv.DataSet) else BVH.from_mesh(other)
