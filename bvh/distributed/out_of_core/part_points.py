"""Point queries of a mesh in parts: closest points, distances, containment, winding numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.distributed.out_of_core.open_parts import Part
from bvh.distributed.out_of_core.part_content import PartContent
from bvh.distributed.out_of_core.part_results import Nearest, shaped
from bvh.distributed.out_of_core.part_visits import Floats, Rows, some_of
from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.batches.containment import ASIDE, POINTS_AT_ONCE, ways_out
from bvh.queries.hierarchy import BVH
from bvh.queries.query_arguments import check_method, one_mask, point_batch
from bvh.queries.results import ClosestPoints
from bvh.runtime.arguments import FloatResult, InsideRule, TruthResult, thread_count, whole_number
from bvh.runtime.foreign_arrays import foreign_answer, is_foreign
from bvh.runtime.progress_bars import ProgressLike


class PartPoints(PartContent):
    """Point queries of `Parts`, which has those of rays."""

    any_hit: Callable[..., Any]
    count_hits: Callable[..., Any]

    def closest_point(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        k: int | None = None,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> ClosestPoints:
        """Find the closest points for each point; arguments as in `BVH.closest_point`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     near = parts.closest_point([0.25, 0.25, 2.0])
        >>> near.distance, near.position
        (2.0, array([0.25, 0.25, 0.  ]))
        """
        if is_foreign(points, max_distance):
            return foreign_answer(self.closest_point, locals())
        count = None if k is None else whole_number("k", k)
        bits = one_mask(mask)
        batch, threads = point_batch(points, max_distance), thread_count(threads)
        found = Nearest.misses(batch.size, count)

        def wanted(rows: Rows, least: Floats) -> NDArray[np.bool_]:
            return least <= found.reach(rows)

        def visit(part: Part, rows: Rows, _: int) -> None:
            limits = np.minimum(some_of(batch.limits, rows), found.reach(rows))
            answer = part.tree.closest_point(
                batch.points[rows], limits, k=k, mask=mask, threads=threads
            )
            columns = part.ids_of(answer.prim_id), answer.u, answer.v
            found.take(rows, Nearest(answer.distance, answer.position, *columns))

        self._visits.of_points(batch, visit, progress, wanted, count, bits)
        return found.shaped(batch.shape)

    def distance(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> FloatResult:
        """Return the distance of each point from the surface; arguments as in `BVH.distance`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.distance([[0.25, 0.25, 2.0], [-3.0, 0.0, 4.0]])
        array([2., 5.])
        """
        if is_foreign(points, max_distance):
            return foreign_answer(self.distance, locals())
        bits = one_mask(mask)
        batch, threads = point_batch(points, max_distance), thread_count(threads)
        found = np.full(batch.size, np.inf)

        def wanted(rows: Rows, least: Floats) -> NDArray[np.bool_]:
            return least <= found[rows]

        def visit(part: Part, rows: Rows, _: int) -> None:
            limits = np.minimum(some_of(batch.limits, rows), found[rows])
            near = part.tree.distance(batch.points[rows], limits, mask=mask, threads=threads)
            found[rows] = np.minimum(found[rows], near)

        self._visits.of_points(batch, visit, progress, wanted, mask=bits)
        return shaped(found, batch.shape)

    def signed_distance(
        self,
        points: ArrayLike,
        *,
        method: InsideRule = "parity",
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> FloatResult:
        """Return signed distances, negative inside; arguments as in `BVH.signed_distance`.

        Examples
        --------
        >>> import bvh, tempfile, trimesh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(trimesh.creation.box(), folder)
        ...     parts.signed_distance([[0.0, 0.0, 0.25], [0.0, 0.0, 1.5]])
        array([-0.25,  1.  ])
        """
        check_method(method)
        if is_foreign(points):
            return foreign_answer(self.signed_distance, locals())
        batch = point_batch(points)
        found = self.distance(batch.points, mask=mask, threads=threads, progress=progress)
        if method == "winding":
            inside = self.contains(batch.points, method=method, mask=mask, threads=threads)
        else:
            inside = self._crossings(batch.points, mask=mask, threads=threads) & 1 == 1
        np.negative(found, out=found, where=inside & (found > 0.0) & (found < np.inf))
        return shaped(found, batch.shape)

    def contains(
        self,
        points: ArrayLike,
        *,
        method: InsideRule = "parity",
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> TruthResult:
        """Return which points are inside the surface; arguments as in `BVH.contains`.

        With method "winding" it is decided by the parts' `winding_number`: see there. Open edges
        are not looked for, so no warning tells of them.

        Examples
        --------
        >>> import bvh, tempfile, trimesh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(trimesh.creation.box(), folder)
        ...     parts.contains([[0.0, 0.0, 0.25], [0.0, 0.0, 1.5]])
        array([ True, False])
        """
        check_method(method)
        if is_foreign(points):
            return foreign_answer(self.contains, locals())
        if method == "winding":
            found = self.winding_number(points, mask=mask, threads=threads, progress=progress)
            return found > 0.5
        one_mask(mask)
        batch = point_batch(points)
        crossings = self._crossings(batch.points, mask=mask, threads=threads, progress=progress)
        inside = crossings & 1 == 1
        outside = np.flatnonzero(~inside)
        inside[outside] = self._touched(batch.points[outside], mask=mask, threads=threads)
        return shaped(inside, batch.shape)

    def winding_number(
        self,
        points: ArrayLike,
        accuracy: float = 2.0,
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> FloatResult:
        """Return how often the surface winds around each point.

        Arguments as in `BVH.winding_number`.

        Notes
        -----
        The sum of the numbers of all parts, each of which is opened: clusters of faces that are
        summed up as one are those of the parts' trees. So this alone is not bit for bit the answer
        of one tree; the bounds of the error are the same. With ``accuracy=numpy.inf`` the order of
        the sum differs, and so may the last bits. The same holds for groups of parts in a cluster.

        Examples
        --------
        >>> import bvh, tempfile, trimesh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(trimesh.creation.box(), folder)
        ...     parts.winding_number([[0.0, 0.0, 0.25], [0.0, 0.0, 1.5]]).round(3) + 0.0
        array([1., 0.])
        """
        if is_foreign(points):
            return foreign_answer(self.winding_number, locals())
        batch, bits = point_batch(points), one_mask(mask)
        found = np.where(np.isfinite(batch.points).all(axis=1), 0.0, np.nan)

        def visit(part: Part) -> None:
            numbers = part.tree.winding_number(batch.points, accuracy, mask=mask, threads=threads)
            np.add(found, numbers, found)

        self._visits.of_all(batch.size, visit, progress, bits)
        return shaped(found, batch.shape)

    def _crossings(
        self,
        points: NDArray[np.float64],
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Count how often a ray to the outside from each of `points` crosses; see `containment`."""
        # One tree over all has the frame of its box, which decides the directions.
        box, flat = BVH._of_boxes(*self.bounds[:, None]), points.reshape(-1, 3)
        directions = np.empty(flat.shape)
        for begin in range(0, len(flat), POINTS_AT_ONCE):
            some = slice(begin, begin + POINTS_AT_ONCE)
            directions[some] = ways_out(box.arrays, flat[some])
        rays = points, directions.reshape(points.shape), SMALLEST
        return self.count_hits(*rays, mask=mask, threads=threads, progress=progress)

    def _touched(
        self,
        points: NDArray[np.float64],
        *,
        mask: int | None = None,
        threads: int | None = None,
    ) -> Any:
        """Return which points (..., 3) are on a face."""
        found = np.zeros(points.shape[:-1], np.bool_)
        for turn in range(3):
            # A ray misses a face that it lies in, but no face holds three directions.
            direction = np.roll(ASIDE, turn)
            found |= self.any_hit(points, direction, 0.0, 0.0, mask=mask, threads=threads)
        return found
