"""Interface that searchable objects provide to queries: trees, scenes, meshes in parts.

`RaySearch`, `PointSearch`, `ShapeSearch` and `RegionSearch` implement it for trees and scenes, and
document the methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bvh.queries.query_arguments import Filter, PointBatch, RayBatch, RayOptions
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps
from bvh.runtime.arguments import CountResult, Cull, TruthResult
from bvh.runtime.calls.user_calls import UserCall
from bvh.runtime.progress_bars import Progress

# Many kernels, for queries of regions alone.
if TYPE_CHECKING:
    from bvh.traversal.regions.regions import Regions

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class RayTarget(Protocol):
    """Target of rays. Results have the leading shape of the batch."""

    def side_to_cull(self, cull: Cull | None) -> int: ...
    def filter_call(self, function: Filter, data: object) -> UserCall: ...
    def closest_hits(self, batch: RayBatch, options: RayOptions, counters: bool) -> Hits: ...
    def any_hits(self, batch: RayBatch, options: RayOptions) -> TruthResult: ...
    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None
    ) -> AllHits: ...
    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult: ...


class PointTarget(Protocol):
    """Target of points: the primitives that one mask selects.

    Results are flat, but those of `closest_points` have the leading shape of the batch.
    """

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints: ...
    def distances(self, batch: PointBatch, threads: int, progress: Progress | None) -> Floats: ...
    def inside(
        self, points: Floats, threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> Flags: ...  # fmt: skip
    def winding_numbers(
        self, points: Floats, accuracy: float, threads: int, progress: Progress | None = None
    ) -> Floats: ...
    def inside_by_winding(
        self, points: Floats, threads: int, progress: Progress | None = None
    ) -> Flags: ...


class RegionTarget(Protocol):
    """Target of regions: the primitives that one mask selects."""

    @property
    def bounds(self) -> Floats: ...
    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps: ...  # fmt: skip


def ray_target(searched: Any) -> Any:
    """Return the `RayTarget` of a tree, a scene or a mesh in parts, as it is now."""
    return searched._ray_target()


def point_target(searched: Any, query: str, mask: int | None) -> Any:
    """Return the `PointTarget` of primitives in `mask`; a TypeError if `query` supports none."""
    return searched._point_target(query, mask)


def region_target(searched: Any, query: str, mask: int | None, kinds: tuple[type, ...]) -> Any:
    """Return the `RegionTarget` of primitives in `mask`; a TypeError if not of `kinds`."""
    return searched._region_target(query, mask, kinds)
