"""All hits of rays with spheres and capsules: where they enter one, and where they leave it.

Kernels find where a ray first crosses each shape. The closest `max_hits` of all hits are on the
`max_hits` shapes that kernels find first, because a ray leaves a shape after it has entered it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries import results
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import CrossingCounter, RaySearch
from bvh.queries.query_arguments import RayBatch, RayOptions
from bvh.queries.results import AllHits
from bvh.runtime.arguments import CountResult, Cull, cull_code, kernel_input, shaped
from bvh.traversal.rays.hit_points import find_far_ends
from bvh.traversal.rays.ray_batch import Rays
from bvh.tree.instanced import CODE_BITS, Instanced


class RoundSearch(RaySearch):
    """Target of rays that may hit spheres and capsules."""

    def side_to_cull(self, cull: Cull | None) -> int:
        """Return the side to ignore: 1, the back, where rays leave a shape; -1, the front; or 0."""
        return cull_code(cull)

    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None = None
    ) -> Any:
        """Return all hits of each ray, or the `limit` closest; if `once`, one for each crossing.

        With a filter, or if a side is culled, a ray has only its first hit of each shape.
        """
        hits = super().all_hits(batch, options, once, limit)
        if options.accept is not None or options.cull != 0:
            return hits
        with_ends = self._with_ends(hits, batch, limit)
        vars(with_ends)["_source"] = vars(hits)["_source"]
        return with_ends

    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult:
        """Return the number of hits of each ray, as many as `all_hits` returns."""
        if options.accept is not None or options.cull != 0:
            return super().count_hits(batch, options, once)
        return shaped(batch.shape, np.diff(self.all_hits(batch, options, once).offsets))[0]

    def crossing_counter(self, like: Rays) -> CrossingCounter:
        """Return a counter of hits by `count_hits`, for rays with the ranges and mask of `like`."""

        def count(
            origins: NDArray[np.float64], directions: NDArray[np.float64], counts: NDArray[np.int64]
        ) -> None:
            rays = like._replace(origins=origins, directions=directions)
            counts[:] = self.count_hits(RayBatch(rays, (len(counts),)), RayOptions(), once=True)

        return count

    def _with_ends(self, hits: Any, batch: RayBatch, limit: int | None) -> AllHits:
        """Return `hits` with the far ends added: hits where rays leave a shape that they enter.

        Far ends beyond the range of a ray are left out; a `limit` leaves that many hits of each
        ray, the closest.
        """
        ray_of = np.repeat(np.arange(batch.size), np.diff(hits.offsets))
        codes, enters = hits.prim_id, hits.front
        in_scene = isinstance(self.arrays.primitives, Instanced)
        if in_scene:
            # Only hits on leaves over spheres and capsules have far ends.
            view: Any = self.owner
            enters = enters & view.round_trees[view.tree_of[hits.leaf]]
            codes = hits.leaf.astype(np.int64) << CODE_BITS | codes
        # `far` is the t at which a ray leaves the shape; NaN if that is beyond its range.
        rows = np.flatnonzero(enters)
        far = np.empty(len(rows))
        codes_of_rows = kernel_input(codes[rows].astype(np.int64))
        find_far_ends(self.arrays.row, batch.rays, kernel_input(ray_of[rows]), codes_of_rows, far)
        rows, far = rows[~np.isnan(far)], far[~np.isnan(far)]
        # All hits: those given, then the far ends of `rows`. `given` has for each the row in `hits`
        # of itself, or of the hit whose far end it is.
        given = np.append(np.arange(len(ray_of)), rows)
        t, ray_of, codes = np.append(hits.t, far), ray_of[given], codes[given]
        # Of equal distances, where a ray enters comes first: the order is stable.
        order = np.lexsort((codes, t, ray_of))
        counts = np.bincount(ray_of, minlength=batch.size)
        begins = np.concatenate([[0], np.cumsum(counts)])
        if limit is not None:
            order = order[np.arange(len(order)) - begins[ray_of[order]] < limit]
            begins = np.concatenate([[0], np.cumsum(np.minimum(counts, limit))])
        # Far ends are numbered after all of `hits`; they have u and v NaN, and front False.
        is_far, given = order >= len(hits.t), given[order]
        u, v = (np.where(is_far, np.nan, column[given]) for column in (hits.u, hits.v))
        front = hits.front[given] & ~is_far
        columns = hits.prim_id[given], t[order], u, v, front, begins, batch.shape
        if not in_scene:
            return results.all_hits_of(columns)
        return results.scene_all_hits_of((*columns, hits.instance_id[given], hits.leaf[given]))


def ray_search_of(searched: Searched, *given: Any, **more: Any) -> RaySearch:
    """Return a `RaySearch` of the given fields, or a `RoundSearch` if shapes may be round."""
    return (RoundSearch if searched.rounded else RaySearch)(*given, **more)
