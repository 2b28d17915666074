"""`Parts`: a mesh in parts, each a tree in a file, with the queries of one tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.distributed.out_of_core.open_parts import Part
from bvh.distributed.out_of_core.part_pictures import PartPictures
from bvh.distributed.out_of_core.part_results import Closest, Lists, joined, offsets_of, shaped
from bvh.distributed.out_of_core.part_visits import Floats, Rows, masks_of, rays_of, some_of
from bvh.queries.methods.overlap_queries import box_regions, plane_regions, sphere_regions
from bvh.queries.query_arguments import (
    RayBatch,
    check_options,
    check_rays,
    edge_rule,
    masked,
    one_mask,
    ray_batch,
)
from bvh.queries.results import AllHits, Hits, Overlaps
from bvh.runtime.arguments import (
    CountResult,
    Cull,
    EdgeRule,
    TruthResult,
    cull_code,
    thread_count,
    whole_number,
)
from bvh.runtime.foreign_arrays import foreign_answer, is_foreign
from bvh.runtime.progress_bars import ProgressLike


class Parts(PartPictures):
    """A mesh cut into parts by `bvh.partition`, each a tree in a file.

    Queries have the arguments and results of those of `BVH`, and answer bit for bit as one tree
    over the whole mesh. Parts are visited near to far, for a million rays at a time, and mapped
    into memory only while they are needed. Dask arrays give lazy results, with a task for each
    chunk of rays and each group of parts that fits into `memory`; arrays of other libraries, such
    as PyTorch's, give arrays of their library.

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
        If the folder is not finished, or its index damaged; in queries, if the file of a part,
        which is named, is not the one of the index. `validate` checks every byte.

    Notes
    -----
    What differs from `BVH`: `prim_id` is int64 and counts triangles in the order of the source
    (see `source_of`), and winding numbers are not equal bit for bit (see `winding_number`). Parts
    have no `filter`, `counters`, `caster`, `overlap_tree`, `self_overlaps`, `visible`, `pick` or
    `refit`. `position` and `normal` of hits open the parts that were hit. `groups_of` gives the
    bits of faces. Parts without a face that counts for a `mask` are not opened.

    The closest hit is the least of all parts by (t, id): each is searched up to and including the
    least t found before, so that the lowest id of equal t is kept. So does `closest_point`.

    Examples
    --------
    >>> import bvh, tempfile, trimesh
    >>> balls = [trimesh.creation.icosphere().apply_translation((3 * i, 0, 0)) for i in range(4)]
    >>> folder = tempfile.TemporaryDirectory()
    >>> parts = bvh.partition(balls, folder.name)
    >>> parts
    Parts(5120 triangles in 1 part)
    >>> parts.any_hit([[6.1, 0.2, 5.0], [4.5, 0.2, 5.0]], [0.0, 0.0, -1.0])
    array([ True, False])
    """

    def closest_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: Cull | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        sort: bool | None = None,
    ) -> Hits:
        """Find the closest hit of each ray; arguments as in `BVH.closest_hit`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     hits = parts.closest_hit([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
        >>> hits.t, hits.prim_id
        (array([ 5., inf]), array([ 0, -1]))
        """
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.closest_hit, locals())
        batch = _checked(origins, directions, t_min, t_max, mask, validate_rays, sort)
        options = _options(cull, threads)
        found, rays = Closest.misses(batch.size), batch.rays

        def wanted(rows: Rows, entry: Floats) -> NDArray[np.bool_]:
            return entry <= found.t[rows]

        def visit(part: Part, rows: Rows, number: int) -> None:
            # The range is closed, so that a tie is found and decided by the id.
            limit = np.minimum(some_of(rays.t_max, rows), found.t[rows])
            hits = part.tree.closest_hit(
                *rays_of(batch, rows), some_of(rays.t_min, rows), limit,
                mask=masks_of(batch, rows), sort=sort, **options,
            )  # fmt: skip
            columns = part.ids_of(hits.prim_id), hits.u, hits.v, hits.front
            found.take(rows, Closest(hits.t, *columns, np.full(len(rows), number, np.int32)))

        self._visits.of_rays(batch, visit, progress, wanted)
        return found.shaped(batch.shape, self._open)

    def any_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: Cull | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        sort: bool | None = None,
    ) -> TruthResult:
        """Return for each ray whether it hits anything; arguments as in `BVH.any_hit`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.any_hit([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
        array([ True, False])
        """
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.any_hit, locals())
        batch = _checked(origins, directions, t_min, t_max, mask, validate_rays, sort)
        options = _options(cull, threads)
        found, rays = np.zeros(batch.size, np.bool_), batch.rays

        def wanted(rows: Rows, _: Floats) -> NDArray[np.bool_]:
            return ~found[rows]

        def visit(part: Part, rows: Rows, _: int) -> None:
            found[rows] = part.tree.any_hit(
                *rays_of(batch, rows), some_of(rays.t_min, rows), some_of(rays.t_max, rows),
                mask=masks_of(batch, rows), sort=sort, **options,
            )  # fmt: skip

        self._visits.of_rays(batch, visit, progress, wanted)
        return shaped(found, batch.shape)

    def count_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        edges: EdgeRule = "once",
        cull: Cull | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> CountResult:
        """Count the hits of each ray; arguments as in `BVH.count_hits`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.count_hits([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
        array([1, 0])
        """
        edge_rule(edges)
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.count_hits, locals())
        batch = _checked(origins, directions, t_min, t_max, mask, validate_rays)
        options = _options(cull, threads)
        counts, rays = np.zeros(batch.size, np.int64), batch.rays

        def visit(part: Part, rows: Rows, _: int) -> None:
            counts[rows] += part.tree.count_hits(
                *rays_of(batch, rows), some_of(rays.t_min, rows), some_of(rays.t_max, rows),
                mask=masks_of(batch, rows), edges=edges, **options,
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
        edges: EdgeRule = "closed",
        cull: Cull | None = None,
        mask: ArrayLike | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
    ) -> AllHits:
        """Find all hits of each ray, or the first few; arguments as in `BVH.all_hits`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     hits = parts.all_hits([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
        >>> hits.counts, hits.t
        (array([1, 0]), array([5.]))
        """
        edge_rule(edges)
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.all_hits, locals())
        limit = None if max_hits is None else whole_number("max_hits", max_hits)
        batch = _checked(origins, directions, t_min, t_max, mask, validate_rays)
        options = _options(cull, threads)
        rays, done, found = batch.rays, [Lists.empty()], list[Lists]()
        # Behind which no hit of a ray counts.
        reach = np.full(1 if limit is None else batch.size, np.inf)

        def wanted(rows: Rows, entry: Floats) -> NDArray[np.bool_]:
            return entry <= some_of(reach, rows)

        def visit(part: Part, rows: Rows, number: int) -> None:
            high = np.minimum(some_of(rays.t_max, rows), some_of(reach, rows))
            hits = part.tree.all_hits(
                *rays_of(batch, rows), some_of(rays.t_min, rows), high,
                max_hits=limit, mask=masks_of(batch, rows), edges=edges, **options,
            )  # fmt: skip
            ids = part.ids_of(hits.prim_id)
            columns = hits.t, hits.u, hits.v, hits.front, np.full(len(ids), number, np.int32)
            found.append(Lists(rows[hits.ray_id], ids, *columns))
            if limit is not None:
                # Where a part has as many as are wanted, nothing counts behind the last of them.
                full = np.flatnonzero(hits.counts == limit)
                last = hits.t[hits.offsets[full + 1] - 1]
                reach[rows[full]] = np.minimum(reach[rows[full]], last)

        def finish() -> None:
            done.append(joined([Lists.empty(), *found]).sorted(limit))
            found.clear()

        self._visits.of_rays(batch, visit, progress, wanted, finish)
        return joined(done).shaped(batch.shape, batch.size, self._open)

    def overlap_box(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Overlaps:
        """Find the triangles that overlap a box; arguments as in `BVH.overlap_box`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.overlap_box([0, 0, -1], [1, 1, 1]).prim_id
        array([0])
        """
        if is_foreign(lower, upper):
            return foreign_answer(self.overlap_box, locals())
        boxes, shape = box_regions(lower, upper, self.bounds)

        def may_meet(low: Floats, high: Floats) -> NDArray[np.bool_]:
            return np.asarray(((boxes.lower <= high) & (boxes.upper >= low)).all(axis=1))

        return self._overlaps("overlap_box", boxes, shape, may_meet, mask, threads, progress)

    def overlap_sphere(
        self,
        center: ArrayLike,
        radius: ArrayLike,
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Overlaps:
        """Find the triangles that overlap a ball; arguments as in `BVH.overlap_sphere`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.overlap_sphere([0.0, 0.0, 1.0], 2.0).prim_id
        array([0])
        """
        if is_foreign(center, radius):
            return foreign_answer(self.overlap_sphere, locals())
        balls, shape = sphere_regions(center, radius)

        def may_meet(low: Floats, high: Floats) -> NDArray[np.bool_]:
            # Rounding keeps the order of a gap and a radius.
            with np.errstate(all="ignore"):
                gaps = np.maximum(low - balls.center, balls.center - high)
            return np.asarray(gaps.max(axis=1) <= balls.radius)

        return self._overlaps("overlap_sphere", balls, shape, may_meet, mask, threads, progress)

    def overlap_frustum(
        self,
        planes: ArrayLike,
        *,
        mask: int | None = None,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Overlaps:
        """Find the triangles that overlap a polytope; arguments as in `BVH.overlap_frustum`.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.overlap_frustum([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, -1.0, 1.0]]).prim_id
        array([0])
        """
        if is_foreign(planes):
            return foreign_answer(self.overlap_frustum, locals())
        regions, shape = plane_regions(planes)
        normals, offsets = regions.planes[..., :3], regions.planes[..., 3]

        def may_meet(low: Floats, high: Floats) -> NDArray[np.bool_]:
            with np.errstate(all="ignore"):
                terms = np.maximum(normals * low, normals * high)
                highest = terms.sum(axis=-1) + offsets
                # Seven roundings of 2**-53 each, and denormal products.
                margin = 2.0**-49 * (np.abs(terms).sum(axis=-1) + np.abs(offsets)) + 2.0**-1070
                outside = highest < -margin
            return np.asarray(~outside.any(axis=-1))

        given = regions[:1], shape, may_meet, mask, threads, progress
        return self._overlaps("overlap_frustum", *given)

    def _overlaps(
        self, verb: str, regions: tuple[NDArray[np.float64], ...], shape: tuple[int, ...],
        may_meet: Callable[[Floats, Floats], NDArray[np.bool_]], mask: int | None,
        threads: int | None, progress: ProgressLike | None,
    ) -> Overlaps:  # fmt: skip
        """Find what overlaps regions, in those parts that they may meet."""
        count, threads, bits = len(regions[0]), thread_count(threads), one_mask(mask)
        query, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]

        def visit(part: Part, rows: Rows) -> None:
            met = getattr(part.tree, verb)(*(r[rows] for r in regions), mask=mask, threads=threads)
            query.append(rows[met.query_id])
            ids.append(part.ids_of(met.prim_id))

        self._visits.of_regions(count, may_meet, visit, progress, bits)
        of, prim_id = np.concatenate(query), np.concatenate(ids)
        order = np.lexsort((prim_id, of))
        found: Any = prim_id[order]
        return Overlaps(found, offsets_of(of, count), shape)


def _options(cull: Cull | None, threads: int | None) -> dict[str, Any]:
    """Return checked options of a query of rays, which are those of the parts' trees."""
    cull_code(cull)
    return {"cull": cull, "threads": thread_count(threads)}


def _checked(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike,
    mask: ArrayLike | None, validate: bool, sort: bool | None = None,
) -> RayBatch:  # fmt: skip
    """Check rays and flatten them."""
    check_options(sort, validate, None, None)
    batch = ray_batch(origins, directions, t_min, t_max)
    if mask is not None:
        batch = masked(batch, mask)
    if validate:
        check_rays(batch)
    return batch
