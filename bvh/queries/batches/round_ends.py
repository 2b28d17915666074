"""All hits of rays with spheres and capsules: where they enter one, and where they leave it.

Kernels find where a ray first crosses each shape. The first `max_hits` of all ends are on the first
`max_hits` shapes that kernels find, because a ray leaves a shape after it has entered it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.queries import results
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.query_arguments import RayBatch, RayOptions
from bvh.queries.results import AllHits
from bvh.runtime.arguments import CountResult, Cull, cull_code, kernel_input, shaped
from bvh.traversal.rays.hit_points import find_far_ends
from bvh.tree.instanced import CODE_BITS, Instanced


class RoundSearch(RaySearch):
    """Target of rays that may hit spheres and capsules."""

    def side_to_cull(self, cull: Cull | None) -> int:
        """Return the side to ignore: rays enter a shape at its front, and leave it at its back."""
        return cull_code(cull)

    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None = None
    ) -> Any:
        """Return all hits of each ray, or the `limit` closest; with a filter one a shape."""
        hits = super().all_hits(batch, options, once, limit)
        if options.accept is not None or options.cull != 0:
            return hits
        found = self._with_ends(hits, batch, limit)
        vars(found)["_source"] = vars(hits)["_source"]
        return found

    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult:
        """Return how many hits each ray has."""
        if options.accept is not None or options.cull != 0:
            return super().count_hits(batch, options, once)
        return shaped(batch.shape, np.diff(self.all_hits(batch, options, once).offsets))[0]

    def _with_ends(self, hits: Any, batch: RayBatch, limit: int | None) -> AllHits:
        """Return hits with those where rays leave shapes that they enter in the range."""
        rays = np.repeat(np.arange(batch.size), np.diff(hits.offsets))
        prims, rows = hits.prim_id, hits.front
        in_scene = isinstance(self.arrays.primitives, Instanced)
        if in_scene:
            view: Any = self.owner
            rows = rows & view.round_trees[view.tree_of[hits.leaf]]
            prims = hits.leaf.astype(np.int64) << CODE_BITS | prims
        rows = np.flatnonzero(rows)
        far = np.empty(len(rows))
        names = kernel_input(prims[rows].astype(np.int64))
        find_far_ends(self.arrays.row, batch.rays, kernel_input(rays[rows]), names, far)
        rows, far = rows[~np.isnan(far)], far[~np.isnan(far)]
        none = np.full(len(rows), np.nan)
        t, front = np.append(hits.t, far), np.append(hits.front, np.zeros(len(rows), np.bool_))
        which, prims = np.append(rays, rays[rows]), np.append(prims, prims[rows])
        # Of equal distances, where a ray enters comes first: the order is stable.
        order = np.lexsort((prims, t, which))
        counts = np.bincount(which, minlength=batch.size)
        begins = np.concatenate([[0], np.cumsum(counts)])
        if limit is not None:
            order = order[np.arange(len(order)) - begins[which[order]] < limit]
            begins = np.concatenate([[0], np.cumsum(np.minimum(counts, limit))])
        # The hit that each is, or whose other end it is.
        of = np.append(np.arange(len(rays)), rows)[order]
        u, v = np.append(hits.u, none)[order], np.append(hits.v, none)[order]
        columns = hits.prim_id[of], t[order], u, v, front[order], begins, batch.shape
        if not in_scene:
            return results.all_hits_of(columns)
        return results.scene_all_hits_of((*columns, hits.instance_id[of], hits.leaf[of]))


def rays_of(searched: Searched, *given: Any, **more: Any) -> RaySearch:
    """Return the target of rays, which may hit round shapes, with the fields of `RaySearch`."""
    return (RoundSearch if searched.rounded else RaySearch)(*given, **more)
