"""`Parts`: a mesh in parts, each a tree in a file, with the queries of one tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.distributed.out_of_core.open_parts import Part
from bvh.distributed.out_of_core.part_content import PartContent
from bvh.distributed.out_of_core.part_results import Closest, Lists, Nearest, joined, shaped
from bvh.distributed.out_of_core.part_visits import rays_of, some_of
from bvh.queries.containment import ASIDE, DIRECTIONS
from bvh.queries.query_arguments import RayBatch, check_rays, point_batch, ray_batch
from bvh.queries.ray_queries import EDGES
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.runtime.arguments import whole_number
from bvh.runtime.lazy_arrays import is_lazy, lazy_answer
from bvh.runtime.progress_bars import ProgressLike, heard

SMALLEST = np.nextafter(0.0, 1.0)


class Parts(PartContent):
    """A mesh cut into parts by `bvh.partition`, each a tree in a file.

    Queries have the arguments and results of those of `BVH`, and answer bit for bit as one tree
    over the whole mesh. Parts are visited near to far, for a million rays at a time, and mapped
    into memory only while they are needed. Dask arrays give lazy results, with a task for each
    chunk of rays and each group of parts that fits into `memory`.

    Parameters
    ----------
    folder : str or path-like
        What `bvh.partition` has written: a folder, or a URL of fsspec. Files at URLs are fetched
        when they are needed, and kept in the folder that BVH_PARTS_DIR names.
    memory : int or str
        Bytes of parts to be mapped at a time; at least one is.

    Raises
    ------
    ValueError
        If the folder is not finished, or its index damaged; in queries, if the file of a part is
        missing, cut off, damaged or another one. The message names it.

    Notes
    -----
    What differs from `BVH`: `prim_id` is int64 and counts triangles in the order of the source
    (see `source_of`), and there is no `filter`, `sort`, `mask` or `counters`.

    t is the real distance, rounded, to each triangle alone, so that the least of all parts by
    (t, id) is the closest hit. Each part is searched up to and including the least t found before:
    a hit of equal t is found, too, and the lowest id is kept. Distances of `closest_point` are
    compared in the same way.

    Examples
    --------
    >>> import bvh, tempfile, trimesh
    >>> balls = [trimesh.creation.icosphere().apply_translation((3 * i, 0, 0)) for i in range(4)]
    >>> folder = tempfile.TemporaryDirectory()
    >>> parts = bvh.partition(balls, folder.name)
    >>> parts
    Parts(5120 triangles in 1 parts)
    >>> hits = parts.closest_hit([[6.1, 0.2, 5.0], [4.5, 0.2, 5.0]], [0.0, 0.0, -1.0])
    >>> hits.mask, hits.prim_id.dtype
    (array([ True, False]), dtype('int64'))
    >>> parts.contains([9.0, 0.0, 0.5])
    True
    """

    def closest_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> Hits:
        """Find the closest hit of each ray; arguments as in `BVH.closest_hit`."""
        if is_lazy(origins, directions, t_min, t_max):
            return lazy_answer(self, "closest_hit", locals())
        batch = _checked(origins, directions, t_min, t_max, validate_rays)
        found = Closest.misses(batch.size)
        rays = batch.rays

        def visit(part: Part, rows: NDArray[np.int64], entry: NDArray[np.float64]) -> None:
            rows = rows[entry <= found.t[rows]]
            # The range is closed, so that a tie is found and decided by the id.
            limit = np.minimum(some_of(rays.t_max, rows), found.t[rows])
            hits = part.tree.closest_hit(
                *rays_of(batch, rows), some_of(rays.t_min, rows), limit, cull=cull, threads=threads
            )
            columns = part.ids_of(hits.prim_id), hits.u, hits.v, hits.front
            found.take(rows, Closest(hits.t, *columns))

        self._visits.of_rays(batch, visit, progress)
        return found.shaped(batch.shape)

    def any_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return for each ray whether it hits anything; arguments as in `BVH.any_hit`."""
        if is_lazy(origins, directions, t_min, t_max):
            return lazy_answer(self, "any_hit", locals())
        batch = _checked(origins, directions, t_min, t_max, validate_rays)
        found, rays = np.zeros(batch.size, np.bool_), batch.rays

        def visit(part: Part, rows: NDArray[np.int64], _: NDArray[np.float64]) -> None:
            rows = rows[~found[rows]]
            found[rows] = part.tree.any_hit(
                *rays_of(batch, rows), some_of(rays.t_min, rows), some_of(rays.t_max, rows),
                cull=cull, threads=threads,
            )  # fmt: skip

        self._visits.of_rays(batch, visit, progress)
        return shaped(found, batch.shape)

    def count_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        edges: str = "once",
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Count the hits of each ray; arguments as in `BVH.count_hits`."""
        _check_edges(edges)
        if is_lazy(origins, directions, t_min, t_max):
            return lazy_answer(self, "count_hits", locals())
        batch = _checked(origins, directions, t_min, t_max, validate_rays)
        counts, rays = np.zeros(batch.size, np.int64), batch.rays

        def visit(part: Part, rows: NDArray[np.int64], _: NDArray[np.float64]) -> None:
            counts[rows] += part.tree.count_hits(
                *rays_of(batch, rows), some_of(rays.t_min, rows), some_of(rays.t_max, rows),
                edges=edges, cull=cull, threads=threads,
            )  # fmt: skip

        self._visits.of_rays(batch, visit, progress)
        return shaped(counts, batch.shape)

    def all_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        max_hits: int | None = None,
        edges: str = "closed",
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> AllHits:
        """Find all hits of each ray, or the first few; arguments as in `BVH.all_hits`."""
        _check_edges(edges)
        if is_lazy(origins, directions, t_min, t_max):
            return lazy_answer(self, "all_hits", locals())
        limit = None if max_hits is None else whole_number("max_hits", max_hits)
        batch = _checked(origins, directions, t_min, t_max, validate_rays)
        found = [Lists.empty()]
        rays = batch.rays

        def visit(part: Part, rows: NDArray[np.int64], _: NDArray[np.float64]) -> None:
            hits = part.tree.all_hits(
                *rays_of(batch, rows), some_of(rays.t_min, rows), some_of(rays.t_max, rows),
                max_hits=limit, edges=edges, cull=cull, threads=threads,
            )  # fmt: skip
            ids = part.ids_of(hits.prim_id)
            found.append(Lists(rows[hits.ray_id], ids, hits.t, hits.u, hits.v, hits.front))

        self._visits.of_rays(batch, visit, progress)
        return joined(found).sorted(batch.shape, batch.size, limit)

    def closest_point(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> ClosestPoints:
        """Find the closest point for each point; arguments as in `BVH.closest_point`."""
        if is_lazy(points, max_distance):
            return lazy_answer(self, "closest_point", locals())
        batch = point_batch(points, max_distance)
        found = Nearest.misses(batch.size)

        def visit(part: Part, rows: NDArray[np.int64], least: NDArray[np.float64]) -> None:
            rows = rows[least <= found.distance[rows]]
            limit = np.minimum(some_of(batch.limits, rows), found.distance[rows])
            near = part.tree.closest_point(batch.points[rows], limit, threads=threads)
            columns = part.ids_of(near.prim_id), near.u, near.v
            found.take(rows, Nearest(near.distance, near.position, *columns))

        self._visits.of_points(batch, visit, progress)
        return found.shaped(batch.shape)

    def distance(
        self,
        points: ArrayLike,
        max_distance: ArrayLike = np.inf,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return the distance of each point from the surface; arguments as in `BVH.distance`."""
        if is_lazy(points, max_distance):
            return lazy_answer(self, "distance", locals())
        batch = point_batch(points, max_distance)
        found = np.full(batch.size, np.inf)

        def visit(part: Part, rows: NDArray[np.int64], least: NDArray[np.float64]) -> None:
            rows = rows[least <= found[rows]]
            limit = np.minimum(some_of(batch.limits, rows), found[rows])
            near = part.tree.distance(batch.points[rows], limit, threads=threads)
            found[rows] = np.minimum(found[rows], near)

        self._visits.of_points(batch, visit, progress)
        return shaped(found, batch.shape)

    def signed_distance(
        self,
        points: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return distances from a closed surface, negative inside, as in `BVH.signed_distance`."""
        if is_lazy(points):
            return lazy_answer(self, "signed_distance", locals())
        batch = point_batch(points)
        found = np.asarray(self.distance(batch.points, threads=threads, progress=progress))
        inside = self._crossings(batch.points, threads=threads) & 1 == 1
        np.negative(found, out=found, where=inside & (found > 0.0) & (found < np.inf))
        return shaped(found, batch.shape)

    def contains(
        self,
        points: ArrayLike,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Return which points are inside a closed surface or on it, as in `BVH.contains`."""
        if is_lazy(points):
            return lazy_answer(self, "contains", locals())
        batch = point_batch(points)
        with heard(progress) as report:
            inside = self._crossings(batch.points, threads=threads, progress=report) & 1 == 1
        inside |= self._touched(batch.points, threads=threads)
        return shaped(inside, batch.shape)

    def _crossings(
        self,
        points: NDArray[np.float64],
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Any:
        """Count how often a ray to the outside from each of `points` crosses; see `contains`."""
        with np.errstate(all="ignore"):
            depths = np.concatenate([points - self.bounds[0], self.bounds[1] - points], axis=-1)
            soonest = np.argmin(np.where(np.isnan(depths), np.inf, depths), axis=-1)
        return self.count_hits(
            points, DIRECTIONS[soonest], SMALLEST, threads=threads, progress=progress
        )

    def _touched(self, points: NDArray[np.float64], *, threads: int | None = None) -> Any:
        """Return which points (..., 3) are on a face."""
        found = np.zeros(points.shape[:-1], np.bool_)
        for turn in range(3):
            # A ray misses a face that it lies in, but no face holds three directions.
            found |= self.any_hit(points, np.roll(ASIDE, turn), 0.0, 0.0, threads=threads)
        return found


def _check_edges(edges: str) -> None:
    if not isinstance(edges, str) or edges not in EDGES:
        raise ValueError(f"edges must be 'closed' or 'once', got {edges!r}")


def _checked(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike, validate: bool
) -> RayBatch:
    """Check rays and flatten them."""
    batch = ray_batch(origins, directions, t_min, t_max)
    if validate:
        check_rays(batch)
    return batch
