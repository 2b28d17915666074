"""Point queries of a tree: closest points, distances, inside or outside, winding numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.ray_shapes import shaped
from bvh.queries.point_arguments import point_batch
from bvh.queries.results import ClosestPoints
from bvh.queries.targets import Target
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input, thread_count, whole_number
from bvh.runtime.jit import warms
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import build
from bvh.tree.primitives import Triangles

# Many kernels, which only these queries need: they are imported by the first query.
if TYPE_CHECKING:
    from bvh.tree.winding_moments import WindingTerms


class PointQueries(TreeBase):
    """Point queries of a tree over triangles."""

    __slots__ = ()

    def closest_point(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        k: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> ClosestPoints:
        """Find the closest point of the surface for each point.

        The face with the smallest distance; of equal distances, the one with the lowest id. The
        distance is the real one to 4 units in the last place, at any scale and far from the origin,
        and 0.0 on the surface. It depends on the point and the face alone: not on the tree, on
        threads, or on the batch. A face without area is the segment or the point that it is.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            Points with a coordinate that is not finite miss.
        max_distance : array_like, shape (...)
            How far to look, that distance included; broadcast against the points. Points for which
            it is NaN or negative miss.
        k : int, optional
            Find the closest points in this many faces, closest first, on one more axis.
        threads : int, optional
            Threads to use; one for each CPU by default.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in points.

        Returns
        -------
        ClosestPoints
            With fields of the points' leading shape; scalars for a single point. A miss has
            distance +inf, prim_id -1, and NaN for the rest.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type, or the tree is not over triangles.

        Notes
        -----
        A flat face is taken for its edges where its height is below 2**-90 of its length.

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
        target = self._point_target("closest_point")
        found: ClosestPoints = closest_point(target, points, max_distance, k, threads, progress)
        return found

    def distance(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return the distance of each point from the surface, as `closest_point` has it.

        Parameters
        ----------
        points, max_distance, threads, progress
            As in `closest_point`.

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
        return distance(self._point_target("distance"), points, max_distance, threads, progress)

    def signed_distance(
        self,
        points: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return the distance of each point from a closed surface, negative inside.

        The sign is that of `contains`, so it does not depend on normals, and is right where the
        closest point is on an edge or a vertex. Points on the surface have 0.0.

        Parameters
        ----------
        points, threads, progress
            As in `closest_point`.

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
        return signed_distance(self._point_target("signed_distance"), points, threads, progress)

    def contains(
        self,
        points: ArrayLike,
        *,
        method: str = "parity",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return for each point whether it is inside the surface.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            Points that are not finite are outside.
        method : {"parity", "winding"}
            "parity" counts how often a ray from the point crosses the surface: right for closed
            meshes however their faces are turned; a point on a face, one with an area, is inside.
            "winding" tests whether `winding_number` exceeds a half: for meshes with holes, gaps and
            overlaps whose normals point outward.
        threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of bool or bool, shape (...)

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type, or the tree is not over triangles.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> tree.contains([[0.1, 0.1, 0.1], [1.0, 1.0, 1.0]])
        array([ True, False])
        """
        target = self._point_target("contains")
        if by_winding(method):
            return self.winding_number(points, threads=threads, progress=progress) > 0.5
        return contains(target, points, threads, progress)

    def winding_number(
        self,
        points: ArrayLike,
        accuracy: float = 2.0,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return how often the surface winds around each point.

        The sum of the faces' solid angles over 4 pi: 1 inside a closed surface whose normals point
        outward, 0 outside of it, and for a surface with holes a smooth function in between.

        Parameters
        ----------
        points : array_like, shape (..., 3)
        accuracy : float
            Clusters of faces further away than this many times their radius are summed up as one,
            by the first five terms of a series: see Notes. At least 1; `numpy.inf`, or 1e6 and
            above, adds up every face, in time that grows with their number.
        threads, progress
            As in `closest_point`.

        Returns
        -------
        ndarray of float64 or float, shape (...)
            NaN for points that are not finite. On the surface, of the values on its two sides,
            either or the middle.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range, or the tree is not over
            triangles.

        Notes
        -----
        Barill, Dickson, Schmidt, Levin and Jacobson 2018, "Fast winding numbers for soups and
        clouds", with two more terms. The error is less than 0.001 with an accuracy of 2 and less
        than 2e-5 with 4: the largest found on scans, parts, soups, and in the centre of balls,
        where errors add up, are 0.0008 and 0.00001. The result is the same bit for bit on every
        CPU, and depends on the point and the faces alone: not on the tree or its quality, on
        threads, or on the batch.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]])
        >>> tree.winding_number([[0.1, 0.1, 0.1], [1.0, 1.0, 1.0]]).round(3) + 0.0
        array([1., 0.])
        """
        from bvh.queries.batches import point_batches

        self._must_hold("winding_number", Triangles)
        limit, batch = _accuracy(accuracy), point_batch(points)
        workers = thread_count(threads)
        # Another thread may refit the tree meanwhile.
        arrays = self._arrays
        terms = self._winding_terms(arrays, workers)
        with heard(progress) as report:
            flat = point_batches.winding_numbers(terms, batch.points, limit, workers, report)
        return shaped(batch.shape, flat)[0]

    def _winding_terms(self, arrays: TreeArrays, threads: int) -> WindingTerms:
        # Two threads may both sum them up: they find the same. A refit makes them useless.
        from bvh.tree.winding_moments import winding_terms

        known = self._winding
        if known is None or known[0] is not arrays:
            known = self._winding = arrays, winding_terms(arrays.primitives, threads)
        terms: WindingTerms = known[1]
        return terms

    def _point_target(self, query: str) -> Target:
        self._must_hold(query, Triangles)
        return Target(self._arrays, self._quality == "high", self)


def closest_point(
    target: Target, points: ArrayLike, max_distance: ArrayLike, k: int | None,
    threads: int | None, progress: ProgressLike | None,
) -> Any:  # fmt: skip
    """Return the closest points of a tree or a scene, `k` for each point."""
    from bvh.queries.batches import point_batches

    batch, workers = point_batch(points, max_distance), thread_count(threads)
    count = None if k is None else whole_number("k", k)
    with heard(progress) as report:
        return point_batches.find_closest(target, batch, count, workers, report)


def distance(
    target: Target, points: ArrayLike, max_distance: ArrayLike, threads: int | None,
    progress: ProgressLike | None,
) -> Any:  # fmt: skip
    """Return the distances of points from a tree or a scene."""
    from bvh.queries.batches import point_batches

    batch, workers = point_batch(points, max_distance), thread_count(threads)
    with heard(progress) as report:
        flat = point_batches.find_distances(target, batch, workers, report)
    return shaped(batch.shape, flat)[0]


def signed_distance(
    target: Target, points: ArrayLike, threads: int | None, progress: ProgressLike | None
) -> Any:
    """Return the distances of points from a tree or a scene, negative inside."""
    from bvh.queries import containment
    from bvh.queries.batches import point_batches

    batch, workers = point_batch(points), thread_count(threads)
    with heard(progress) as report:
        flat = point_batches.find_distances(target, batch, workers, report)
    # A point on the surface is neither: its distance is 0.
    inside = containment.inside(target, batch.points, workers, surface=False)
    np.negative(flat, out=flat, where=inside & (flat > 0.0) & (flat < np.inf))
    return shaped(batch.shape, flat)[0]


def contains(
    target: Target, points: ArrayLike, threads: int | None, progress: ProgressLike | None
) -> Any:
    """Return which points are inside a tree's surface, or a leaf of a scene, by parity."""
    from bvh.queries import containment

    batch, workers = point_batch(points), thread_count(threads)
    with heard(progress) as report:
        flat: NDArray[np.bool_] = containment.inside(target, batch.points, workers, report)
    return shaped(batch.shape, flat)[0]


def by_winding(method: str) -> bool:
    """Return whether inside and outside are distinguished by winding numbers."""
    if method not in ("parity", "winding"):
        raise ValueError(f"method must be 'parity' or 'winding', got {method!r}")
    return method == "winding"


def _accuracy(accuracy: float) -> float:
    """Check what must be a number of at least 1; below it, a node would be far from itself."""
    if isinstance(accuracy, (bool, str)) or not isinstance(accuracy, (int, float, np.number)):
        raise TypeError(f"accuracy must be a number, got {accuracy!r}")
    if not accuracy >= 1.0:
        raise ValueError(f"accuracy must be at least 1, got {accuracy!r}")
    # Nothing is further away than this in float32.
    return float(accuracy) if accuracy < 1e6 else np.inf


@warms("point queries")
def _warm() -> None:
    """Compile what points need."""
    from bvh.queries import containment
    from bvh.queries.batches import point_batches
    from bvh.tree.winding_moments import winding_terms

    points, faces = kernel_input(np.eye(3)), np.arange(3, dtype=np.int32).reshape(1, 3)
    arrays, _ = build(Triangles(points, kernel_input(faces)), "medium", 1, None)
    batch = point_batch(np.zeros((1, 3)))
    for count in (None, 1):
        point_batches.find_closest(Target(arrays), batch, count, 1, None)
    containment.inside(Target(arrays), batch.points, 1)
    terms = winding_terms(arrays.primitives)
    point_batches.winding_numbers(terms, batch.points, 2.0, 1, None)
