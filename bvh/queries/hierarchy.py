"""`BVH`: a tree over triangles, boxes or custom primitives, and its constructors."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.meshes import surface_of
from bvh.queries.refitting import Refitting, obb_points
from bvh.queries.tree_queries import TreeQueries
from bvh.runtime.arguments import (
    MAX_PRIMITIVES,
    face_rows,
    owned,
    rows,
    thread_count,
)
from bvh.runtime.jit import alone, warms
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.runtime.user_calls import INTERSECT, user_data, user_function
from bvh.tree.build import build
from bvh.tree.primitives import Boxes, Custom, Obbs, Primitives, Triangles


class BVH(Refitting, TreeQueries):
    """Bounding volume hierarchy over triangles, boxes, oriented boxes or custom primitives.

    Create one with `from_triangles`, `from_mesh`, `from_boxes`, `from_obbs` or `from_custom`. A
    tree owns read-only copies of its input (except the data of `from_custom`) and changes only by
    `refit`. It can be pickled, and queried from several threads at once and after a fork.

    Queries take Dask arrays, too, for what may be an array of one entry a ray, point or shape. The
    result is then lazy: its fields are Dask arrays of the same chunks, and `threads` is 1 by
    default. Of `all_hits` and overlap queries it is a `LazyLists`.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> tree
    BVH(1 triangles, 1 nodes)
    >>> tree.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
    Hits(t=1.0, prim_id=0, u=0.25, v=0.25, front=True)
    """

    __slots__ = ()

    @classmethod
    def from_triangles(
        cls,
        vertices: ArrayLike,
        faces: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:
        """Build a tree over triangles.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Coordinates, converted to float64. Faces with a NaN or infinite vertex are ignored
            (other faces keep their ids) and counted in `stats`.
        faces : array_like of int, shape (m, 3)
            Vertex indices; the normal is (v1-v0) x (v2-v0).
        quality : {"low", "medium", "high"}
            Builder: "medium" is binned SAH; "low" builds in half the time and is a little slower
            to query; "high" also splits large triangles between nodes, which is worthwhile for long
            oblique ones, and takes several times as long to build.
        threads : int, optional
            Threads to use; one for each CPU by default. The tree does not depend on it.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in primitives, a few times a second. True shows a bar
            of rich or tqdm; a bar or the class of tqdm is accepted, too.

        Returns
        -------
        BVH

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape, type or range; the message names it.
        """
        points = rows("vertices", vertices)
        index = face_rows("faces", faces, len(points))
        primitives = Triangles(owned(points), owned(index, np.int32))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:
        """Build a tree over a mesh.

        Parameters
        ----------
        mesh : object
            One of these:

            - (vertices, faces), with faces an array (m, 3) of triangles, (m, 4) of quads, (m, n) of
              polygons, or a list of lists of any lengths;
            - ``trimesh.Trimesh``, or ``trimesh.Scene``, which is flattened, its instances in the
              order of its graph;
            - ``pyvista.PolyData``, other data sets of PyVista, whose surface is taken, and
              ``MultiBlock``, flattened;
            - ``open3d.geometry.TriangleMesh``, ``open3d.t.geometry.TriangleMesh``;
            - ``meshio.Mesh``: its surface;
            - anything else with arrays ``vertices`` and ``faces``.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH
            Over triangles. If faces were cut into triangles, or are numbered as cells, `face_ids`
            gives the face or cell of each triangle, and `face_of` that of a hit.

        Raises
        ------
        ValueError, TypeError
            If the mesh is something else, or a face has an index without a vertex.

        Notes
        -----
        A polygon of n corners becomes n - 2 triangles with its corners and winding. They share its
        edges with the neighbours, so that closed meshes stay closed. A convex polygon becomes a fan
        about its first corner. Others are cut by ear clipping with exact signs, projected along
        the axis nearest to the polygon's normal; if the projection is simple, no triangles overlap
        (Meisters 1975, "Polygons have ears"). A polygon that crosses itself or has no area gives
        n - 2 triangles, too, which may overlap. Repeated corners count once, and fewer than three
        corners give no triangle. All triangles of a polygon with a vertex that is not finite have
        that vertex, so they are ignored.

        The surface of solid cells, such as tetrahedra, consists of the facets that belong to one
        cell only, numbered by their cells. Cells of PyVista and meshio are numbered through all
        blocks, as in the libraries' arrays of cell data; curved cells are reduced to their corners.
        Cells whose surface is unknown, such as polyhedra, are skipped with a `BVHWarning`.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [2, 0, 0], [2, 2, 0], [1, 1, 0], [0, 2, 0], [3, 0, 0]]
        >>> tree = bvh.BVH.from_mesh((vertices, [[1, 5, 2], [0, 1, 2, 3, 4]]))
        >>> tree.face_ids
        array([0, 1, 1, 1], dtype=int32)
        >>> tree.any_hit([[1, 1.5, 9], [0.5, 1.2, 9]], [0, 0, -1])
        array([False,  True])
        """
        surface = surface_of(mesh, threads)
        tree = cls.from_triangles(
            surface.vertices, surface.faces, quality=quality, threads=threads, progress=progress
        )
        if surface.face_ids is not None:
            tree._face_ids = owned(surface.face_ids, np.int32)
        return tree

    @classmethod
    def from_boxes(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:
        """Build a tree over axis-aligned boxes, solid and closed.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners. A box with lower > upper on an axis, or with a coordinate that is not finite,
            is ignored (other boxes keep their ids) and counted in `stats`.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
        >>> tree.closest_hit([9.0, 0.5, 0.5], [-1.0, 0.0, 0.0]).prim_id
        1
        """
        low, high = _corner_rows(lower, upper)
        primitives = Boxes(owned(np.hstack([low, high])))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def from_obbs(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        transforms: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:
        """Build a tree over oriented boxes: axis-aligned boxes, each under its own transform.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners in local coordinates, as in `from_boxes`.
        transforms : array_like, shape (n, 4, 4)
            Affine matrices from local to world coordinates: rotation, scale, shear, reflection.
            `ray_obb` says what is exact.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH

        Raises
        ------
        ValueError
            If a matrix is singular, not finite, or not affine.
        """
        low, high = _corner_rows(lower, upper)
        primitives = Obbs(owned(obb_points(low, high, transforms)))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def from_custom(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        intersect: Any,
        data: Any = None,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:
        """Build a tree over custom primitives: spheres, capsules, patches.

        All ray queries work on it, except with `cull`; point and overlap queries do not, and it
        cannot be saved. The intersection function is compiled by the first query.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners of a bounding box of each primitive. Empty or not finite boxes are ignored.
        intersect : function compiled with numba.njit
            ``intersect(prim_id, origin, direction, t_min, t_max, data) -> (t, u, v)``: the smallest
            t in the range at which a ray meets the primitive, and two numbers of your choice, all
            float64; a t that is infinite, NaN or out of range is a miss. Origin and direction are
            tuples. It is called from several threads, possibly twice for one hit, and must return
            the same result. A hit may be outside its box by at most 1e-8 of the scene's size.
        data : object, optional
            The last argument of `intersect`: an array, a number, or a tuple of them. It is not
            copied and must not change.
        threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH

        Examples
        --------
        >>> import bvh, math, numba, numpy as np
        >>> @numba.njit
        ... def disc(prim_id, origin, direction, t_min, t_max, radii):
        ...     t = -origin[2] / direction[2]
        ...     x, y = origin[0] + t * direction[0], origin[1] + t * direction[1]
        ...     return (t, x, y) if x * x + y * y <= radii[prim_id] ** 2 else (math.inf, x, y)
        >>> tree = bvh.BVH.from_custom([[-2, -2, 0]], [[2, 2, 0]], disc, np.array([2.0]))
        >>> tree.closest_hit([1.5, 0.0, 1.0], [0.0, 0.0, -1.0]).t
        1.0
        """
        low, high = _corner_rows(lower, upper)
        function = user_function("intersect", intersect, INTERSECT)
        primitives = Custom(owned(np.hstack([low, high])), function, user_data(data))
        return cls._build(primitives, "medium", threads, progress)

    @classmethod
    def _build(
        cls,
        primitives: Primitives,
        quality: str,
        threads: int | None,
        progress: ProgressLike | None,
    ) -> BVH:
        """Build a tree over checked primitives."""
        workers = thread_count(threads)
        began = time.perf_counter()
        with heard(progress) as report:
            arrays, bounds = build(primitives, quality, workers, report)
        # The object comes last, so that no tree is ever half built.
        tree = object.__new__(cls)
        tree._set_arrays(arrays)
        tree._bounds = bounds
        tree._quality, tree._face_ids = quality, None
        tree._build_seconds = time.perf_counter() - began
        return tree


def _corner_rows(
    lower: ArrayLike, upper: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = rows("lower", lower), rows("upper", upper)
    if len(low) > MAX_PRIMITIVES:
        raise ValueError(f"lower must have at most {MAX_PRIMITIVES} rows, got {len(low)}")
    if low.shape != high.shape:
        raise ValueError(f"upper must have the shape of lower, {low.shape}, got {high.shape}")
    return low, high


@warms("trees and queries")
def _warm() -> None:
    """Compile builders and queries."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    rays = np.ones((2, 3)), -np.ones((2, 3))
    corners = np.zeros((1, 3)), np.ones((1, 3))
    for any_tree in (tree, BVH.from_boxes(*corners), BVH.from_obbs(*corners, np.eye(4)[None])):
        any_tree.closest_hit(*rays)
        any_tree.closest_hit(*rays, sort=True)
        any_tree.any_hit(*rays)
        any_tree.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
    tree.closest_hit(*rays, counters=True)
    for limit in (None, 1):
        tree.all_hits(*rays, max_hits=limit)


@warms("point queries")
def _warm_points() -> None:
    """Compile what points need."""
    tree, points = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), np.zeros((1, 3))
    for count in (None, 1):
        tree.closest_point(points, k=count)
    tree.contains(points)
    tree.winding_number(points)


@alone
def _any_hit_counts(ray_id, prim_id, t, u, v, data):
    return True


@alone
def _plane_through_1(prim_id, origin, direction, t_min, t_max, data):
    return (1.0 - origin[0]) / direction[0], 0.0, 0.0


@warms("filters and custom primitives")
def _warm_users_code() -> None:
    """Compile the queries that call users' functions."""
    tree, rays = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), (np.ones((2, 3)), -np.ones((2, 3)))
    tree.closest_hit(*rays, filter=_any_hit_counts)
    tree.any_hit(*rays, filter=_any_hit_counts)
    own = BVH.from_custom(np.zeros((1, 3)), np.ones((1, 3)), _plane_through_1)
    own.closest_hit(*rays)
    own.any_hit(*rays)
    own.all_hits(*rays)
    own.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
