"""Point queries of trees and scenes: closest points, distances, containment, winding numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.queries.batches import quick_calls
from bvh.queries.query_arguments import (
    check_method,
    is_foreign,
    plain_point,
    point_batch,
    with_progress,
)
from bvh.queries.results import ClosestPoints
from bvh.queries.targets import PointTarget
from bvh.queries.verbs import Merge, verb
from bvh.runtime import arguments
from bvh.runtime.arguments import FloatResult, InsideRule, TruthResult, shaped, thread_count
from bvh.runtime.caller_warnings import warn_caller
from bvh.runtime.foreign_arrays import foreign_answer
from bvh.runtime.progress_bars import ProgressLike

PARITY_WARNING = (
    "{} counts crossings of a closed surface; with holes, use winding_number, or method='winding' "
    "(this warning is given once for each tree)"
)


class PointQueries:
    """Point queries of `BVH`, `Scene` and `Parts`, which supply the target."""

    __slots__ = ()

    # Returns the target for the name of a query, used in errors, and a mask.
    _point_target: Callable[[str, int | None], PointTarget]
    # Returns, for a mask, a description of a surface with open edges to warn about, or None.
    _open_surface: Callable[[int | None], str | None]
    # A `Searched`, for single calls; None where there are only batches, as of meshes in parts.
    _quick: Any = None

    @verb({"points": (3,), "max_distance": ()}, ClosestPoints, Merge.LEAST)
    def closest_point(
        self, points: ArrayLike, max_distance: ArrayLike = np.inf, *, k: int | None = None,
        mask: int | None = None, threads: int | None = None, progress: ProgressLike | None = None,
    ) -> ClosestPoints:  # fmt: skip
        """Find the closest point of the surface for each point.

        The face with the smallest distance; of equal distances, the one with the lowest id. The
        distance is the real one to 4 units in the last place, at any scale and far from the origin,
        and 0.0 only on the surface; one too large or too small for a double is the largest or the
        smallest positive one. It depends on the point and the face alone: not on the tree, on
        threads, or on the batch. A face without area is treated as a segment or a point.

        In a scene, points are in its coordinates, and the answer is that for the mesh that
        `flattened` returns, bit for bit: of equal distances, the leaf that comes first, which has
        the lowest instance_id. Nothing is flattened, whatever the number of instances.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            Points with a coordinate that is not finite miss.
        max_distance : array_like, shape (...)
            Largest distance of a closest point, included; broadcast against the points. A single
            number must be at least 0; in an array, points whose entry is NaN or negative miss.
        k : int, optional
            Find the closest points in this many faces, closest first, on one more axis.
        mask : int, optional
            32 bits; faces whose `groups`, and instances whose mask, share none of them are ignored.
            Faces without groups have all bits, as queries have by default.
        threads, progress
            Number of threads, and callback or bar, as in `closest_hit`; progress counts points.

        Returns
        -------
        ClosestPoints
            With fields of the points' leading shape; scalars for a single point. A miss has
            distance +inf, prim_id -1, NaN elsewhere. In a scene also `instance_id` and `leaf`.

        Notes
        -----
        A face whose height is below 2**-90 of its length is treated as its edges.

        Leaves of a scene are discarded by distances in the world: scaling along the axes of a tree,
        rotation and reflection cost nothing; shear makes boxes seem nearer than they are, by the
        root of the least eigenvalue of the cosines between the map's columns.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> near = tree.closest_point([0.25, 0.25, 2.0])
        >>> near.distance, near.prim_id, near.u, near.v
        (2.0, 0, 0.25, 0.25)
        >>> tree.closest_point([[3.0, 0.0, 0.0], [0.5, 0.5, 0.5]], max_distance=1.0).prim_id
        array([-1,  0], dtype=int32)
        """
        if (
            mask is None and threads is None and progress is None
            and type(max_distance) is float and max_distance >= 0.0
        ):  # fmt: skip
            # A single point takes less time than the preparation of a batch.
            searched, point = self._quick, plain_point(points)
            if searched is not None and point is not None:
                one = quick_calls.closest_point(searched, point, max_distance, k)
                if one is not None:
                    return one
        if is_foreign(points, max_distance):
            return foreign_answer(self.closest_point, locals())
        target = self._point_target("closest_point", mask)
        batch, workers = point_batch(points, max_distance), thread_count(threads)
        count = None if k is None else arguments.whole_number("k", k)
        return with_progress(target.closest_points, progress, batch, count, workers)

    @verb({"points": (3,), "max_distance": ()}, np.float64, Merge.LOWEST)
    def distance(
        self, points: ArrayLike, max_distance: ArrayLike = np.inf, *, mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> FloatResult:  # fmt: skip
        """Return the distance of each point from the surface; arguments are as in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            +inf for points that miss.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.distance([[1.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
        array([0.70710678, 2.        ])
        """
        if (
            mask is None and threads is None and progress is None
            and type(max_distance) is float and max_distance >= 0.0
        ):  # fmt: skip
            searched, point = self._quick, plain_point(points)
            if searched is not None and point is not None:
                one = quick_calls.distance(searched, point, max_distance)
                if one is not None:
                    return one
        if is_foreign(points, max_distance):
            return foreign_answer(self.distance, locals())
        target = self._point_target("distance", mask)
        batch, workers = point_batch(points, max_distance), thread_count(threads)
        flat = with_progress(target.distances, progress, batch, workers)
        return shaped(batch.shape, flat)[0]

    @verb({"points": (3,)}, np.float64)
    def signed_distance(
        self, points: ArrayLike, *, method: InsideRule = "parity", mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> FloatResult:  # fmt: skip
        """Return the distance of each point from a closed surface, negative inside.

        The sign is that of `contains`, so it is right where the closest point is on an edge or a
        vertex. Points on the surface have 0.0. Where instances of a scene overlap, the distance is
        still that from the nearest surface, even if it is within another instance.

        Parameters
        ----------
        points, mask, threads, progress
            Points (..., 3), bits of faces, threads, and callback or bar, as in `closest_point`.
        method : {"parity", "winding"}
            How the inside is decided, as in `contains`; parity with open edges gives a warning.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            +inf for points that are not finite, or if there is no surface.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> tree.signed_distance([[0.25, 0.25, 0.125], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])
        array([-0.125,  1.   ,  0.   ])
        """
        check_method(method)
        if mask is None and threads is None and progress is None and method == "parity":
            searched, point = self._quick, plain_point(points)
            if searched is not None and point is not None:
                unsigned = quick_calls.distance(searched, point, np.inf)
                if unsigned is not None:
                    warn_if_open(self, None, "the sign of signed_distance")
                    # Distances of 0 and inf have no sign. At others, the point is not on the
                    # surface, so `inside_one` need not test that.
                    has_sign = 0.0 < unsigned < np.inf
                    from bvh.queries.batches.containment import inside_one

                    within = has_sign and inside_one(searched, point, surface=False)
                    if within is not None:
                        return -unsigned if within else unsigned
        if is_foreign(points):
            return foreign_answer(self.signed_distance, locals())
        target = self._point_target(_of_method("signed_distance", method), mask)
        if method == "parity":
            warn_if_open(self, mask, "the sign of signed_distance")
        batch, workers = point_batch(points), thread_count(threads)
        flat = with_progress(target.distances, progress, batch, workers)
        # A point on the surface is neither inside nor outside: its distance is 0.
        if method == "winding":
            inside = target.inside_by_winding(batch.points, workers)
        else:
            inside = target.inside(batch.points, workers, surface=False)
        np.negative(flat, out=flat, where=inside & (flat > 0.0) & (flat < np.inf))
        return shaped(batch.shape, flat)[0]

    @verb({"points": (3,)}, np.bool_)
    def contains(
        self, points: ArrayLike, *, method: InsideRule = "parity", mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> TruthResult:  # fmt: skip
        """Return for each point whether it is inside the surface, or at least one leaf of a scene.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            Points that are not finite are outside.
        method : {"parity", "winding"}
            "parity" counts how often a ray from the point crosses the surface: correct for closed
            meshes with faces of any orientation, and in a scene also where they overlap; a point
            on a face with an area is inside. A point in or on a sphere or capsule is inside, also
            where these overlap. For open meshes, parity depends on the direction of the ray, and so
            on the box of the whole tree, for any mask. A `BVHWarning` is then given, once for each
            tree; the first query checks `is_closed`, in some 20 ms for each million faces.
            "winding" tests whether `winding_number` exceeds 0.5: for meshes with holes, gaps and
            overlaps whose normals point outward, and for instances that are closed only together;
            the faces of reflected ones are reversed.
        mask, threads, progress
            Bits of faces, number of threads, and callback or bar, as in `closest_point`.

        Returns
        -------
        ndarray of bool or bool, shape (...)

        Examples
        --------
        >>> import bvh, numpy as np
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> points = [[0.1, 0.1, 0.1], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]]
        >>> tree.contains(points)
        array([ True, False, False])
        >>> scene = bvh.Scene()
        >>> scene.add(tree), scene.add(tree, np.diag([2.0, 2.0, 2.0, 1.0]))
        (0, 1)
        >>> scene.contains(points)
        array([ True,  True, False])
        """
        check_method(method)
        if mask is None and threads is None and progress is None and method == "parity":
            searched, point = self._quick, plain_point(points)
            if searched is not None and point is not None and searched.for_points() is not None:
                warn_if_open(self, None, "contains")
                from bvh.queries.batches.containment import inside_one

                within = inside_one(searched, point)
                if within is not None:
                    return within
        if is_foreign(points):
            return foreign_answer(self.contains, locals())
        target = self._point_target(_of_method("contains", method), mask)
        if method == "parity":
            warn_if_open(self, mask, "contains")
        batch, workers = point_batch(points), thread_count(threads)
        search = target.inside if method == "parity" else target.inside_by_winding
        inside = with_progress(search, progress, batch.points, workers)
        return shaped(batch.shape, inside)[0]

    @verb({"points": (3,)}, np.float64, Merge.SUM)
    def winding_number(
        self, points: ArrayLike, accuracy: float = 2.0, *, mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> FloatResult:  # fmt: skip
        """Return the winding number of the surface around each point.

        It is the sum of the faces' solid angles over 4 pi: 1 inside a closed surface whose normals
        point outward, 0 outside of it, and for a surface with holes a smooth function in between.
        In a scene it is the sum over the leaves: 2 where two closed leaves overlap, and -1 in a
        leaf that is reflected, whose faces are turned over.

        The number is exactly an integer if equally many faces use each edge in either direction:
        for every closed mesh with outward normals, even if it crosses itself, or has edges with
        four faces. Otherwise it is good to 4 units in the last place, for meshes of more than some
        60 open edges only with an infinite `accuracy`.

        Parameters
        ----------
        points : array_like, shape (..., 3)
        accuracy : float
            Of meshes of more than some 60 open edges: clusters of faces further away than this many
            times their radius are summed up as one, by the first five terms of a series. At least
            1; infinite for the exact sum. See Notes.
        mask, threads, progress
            Bits of faces, number of threads, and callback or bar, as in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            NaN for points that are not finite. On the surface, the value next to the point in the
            direction (1, 0, 0) or, if that is along a face, (1, e, e**2) with an infinitesimal e;
            by the series, any value between those on both sides.

        Notes
        -----
        The exact result is how often a ray crosses the surface from its back, less from its front,
        plus angles over the open edges (arXiv 2605.01536, 2026). That takes each point one ray, and
        some 20 ns for each open edge: with thousands of these, as in a soup of triangles, much
        longer than the series. The error of the series is less than 0.001 for an accuracy of 2, and
        less than 2e-5 for 4: the largest found on scans, parts, soups, and in the centre of balls,
        where errors add up, are 0.0008 and 0.00001 (Barill, Dickson, Schmidt, Levin and Jacobson
        2018, "Fast winding numbers for soups and clouds", with two more terms).

        The result is the same bit for bit on every CPU, and depends on the point and the faces
        alone, not on the tree, threads or batch.

        Solid angles change under affine maps, so this query alone flattens a scene: the first one
        builds a tree of all faces, which is cached until the scene changes.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> tree.winding_number([[0.1, 0.1, 0.1], [1.0, 1.0, 1.0]])
        array([1., 0.])
        """
        if is_foreign(points):
            return foreign_answer(self.winding_number, locals())
        target, limit = self._point_target("winding_number", mask), _accuracy(accuracy)
        batch, workers = point_batch(points), thread_count(threads)
        flat = with_progress(target.winding_numbers, progress, batch.points, limit, workers)
        return shaped(batch.shape, flat)[0]


def warn_if_open(
    searched: PointQueries, mask: int | None, query: str, consequence: str = PARITY_WARNING
) -> None:
    """Warn, once for each tree or scene, if its faces that `mask` selects have open edges.

    The text ends with `consequence`, where `query` takes the place of ``{}``.
    """
    surface = searched._open_surface(mask)
    if surface is not None:
        warn_caller(f"{surface}: {consequence.format(query)}")


def _of_method(query: str, method: InsideRule) -> str:
    """Return a query's name for errors and for `_point_target`: winding numbers need triangles."""
    return query if method == "parity" else f"{query} with method='winding'"


def _accuracy(accuracy: float) -> float:
    """Return a checked accuracy, at least 1: below 1 the series for clusters diverges."""
    if isinstance(accuracy, (bool, str)) or not isinstance(accuracy, (int, float, np.number)):
        raise TypeError(f"accuracy must be a number, got {accuracy!r}")
    if not accuracy >= 1.0:
        raise ValueError(f"accuracy must be at least 1, got {accuracy!r}")
    # In float32, no cluster is as far away as 1e6 times its radius: then the sum is exact.
    return float(accuracy) if accuracy < 1e6 else np.inf
