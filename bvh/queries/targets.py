"""Interface that searchable objects provide to queries: trees, scenes, meshes in parts.

`RaySearch`, `PointSearch` and `RegionSearch` implement it for trees and scenes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bvh.queries.query_arguments import Filter, PointBatch, RayBatch, RayOptions
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps
from bvh.runtime.arguments import CountResult, Cull, TruthResult
from bvh.runtime.progress_bars import Progress
from bvh.runtime.user_calls import UserCall

# Many kernels, for queries of regions alone.
if TYPE_CHECKING:
    from bvh.traversal.regions.regions import Regions


class RayTarget(Protocol):
    """Target of rays. Results have the leading shape of the batch.

    If `once`, each crossing of a closed surface is one hit; `limit` is the most hits of a ray.
    """

    def side_to_cull(self, cull: Cull | None) -> int: ...
    def accepted_by(self, function: Filter, data: object) -> UserCall: ...
    def closest_hits(self, batch: RayBatch, options: RayOptions, counters: bool) -> Hits: ...
    def any_hits(self, batch: RayBatch, options: RayOptions) -> TruthResult: ...
    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None
    ) -> AllHits: ...
    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult: ...


class PointTarget(Protocol):
    """Target of points (n, 3): the faces that one mask selects. Results are flat.

    Only `closest_points` has the leading shape of the batch, with an axis of `count` if not None.
    """

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints: ...
    def distances(
        self, batch: PointBatch, threads: int, progress: Progress | None
    ) -> NDArray[np.float64]: ...
    def inside(
        self, points: NDArray[np.float64], threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]: ...  # fmt: skip
    def winding_numbers(
        self, points: NDArray[np.float64], accuracy: float, threads: int,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]: ...  # fmt: skip
    def wound_around(
        self, points: NDArray[np.float64], threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]: ...


class RegionTarget(Protocol):
    """Target of regions: the primitives that one mask selects, and the box around them (2, 3)."""

    @property
    def bounds(self) -> NDArray[np.float64]: ...
    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps: ...  # fmt: skip


def ray_target(searched: Any) -> Any:
    """Return the target of rays of a tree, a scene or parts as they are now."""
    return searched._ray_target()


def point_target(searched: Any, query: str, mask: int | None) -> Any:
    """Return the target of points; raise a TypeError that names the query if it has none."""
    return searched._point_target(query, mask)


def region_target(searched: Any, query: str, mask: int | None, kinds: tuple[type, ...]) -> Any:
    """Return the target of regions; raise a TypeError unless primitives are of `kinds`."""
    return searched._region_target(query, mask, kinds)
