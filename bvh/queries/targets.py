"""Interface that searchable objects provide to queries: trees, scenes, meshes in parts.

`RaySearch`, `PointSearch`, `ShapeSearch` and `RegionSearch` implement it for trees and scenes.
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


class RayTarget(Protocol):
    """Target of rays. Results have the leading shape of the batch."""

    def side_to_cull(self, cull: Cull | None) -> int:
        """Return the code of the side to ignore: 1 for the back, -1 for the front, 0 for none."""

    def filter_call(self, function: Filter, data: object) -> UserCall:
        """Return a user's filter `function`, compiled, with `data`, as kernels take the two."""

    def closest_hits(self, batch: RayBatch, options: RayOptions, counters: bool) -> Hits:
        """Return the closest hit of each ray; if `counters`, also what each ray costs."""

    def any_hits(self, batch: RayBatch, options: RayOptions) -> TruthResult:
        """Return for each ray whether it hits anything."""

    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None
    ) -> AllHits:
        """Return all hits of each ray, or only the `limit` closest ones.

        If `once`, each crossing of a closed surface is one hit, also at shared edges of faces.
        """

    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult:
        """Return the number of hits of each ray; `once` is as in `all_hits`."""


class PointTarget(Protocol):
    """Target of points: the primitives that one mask selects.

    Results are flat, but those of `closest_points` have the leading shape of the batch.
    """

    def closest_points(
        self, batch: PointBatch, count: int | None, threads: int, progress: Progress | None
    ) -> ClosestPoints:
        """Return the closest point for each point; with a `count`, as many on one more axis."""

    def distances(
        self, batch: PointBatch, threads: int, progress: Progress | None
    ) -> NDArray[np.float64]:
        """Return the distance of each point from the surface, (n,); inf beyond its limit."""

    def inside(
        self, points: NDArray[np.float64], threads: int, progress: Progress | None = None, *,
        surface: bool = True,
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Return which points are inside by parity or, with `surface`, on the surface, (n,)."""

    def winding_numbers(
        self, points: NDArray[np.float64], accuracy: float, threads: int,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Return winding numbers, (n,), to the `accuracy` of `BVH.winding_number`."""

    def inside_by_winding(
        self, points: NDArray[np.float64], threads: int, progress: Progress | None = None
    ) -> NDArray[np.bool_]:
        """Return which points have a winding number above 0.5, (n,)."""


class RegionTarget(Protocol):
    """Target of regions: the primitives that one mask selects."""

    @property
    def bounds(self) -> NDArray[np.float64]:
        """The lower and upper corner of the box around all primitives, (2, 3)."""

    def overlaps(
        self, regions: Regions, shape: tuple[int, ...], threads: int | None,
        progress: Progress | None,
    ) -> Overlaps:  # fmt: skip
        """Return the primitives that overlap each region; `shape` is the regions' leading shape."""


def ray_target(searched: Any) -> Any:
    """Return the `RayTarget` of a tree, a scene or a mesh in parts, as it is now."""
    return searched._ray_target()


def point_target(searched: Any, query: str, mask: int | None) -> Any:
    """Return the `PointTarget` of primitives in `mask`; a TypeError if `query` supports none."""
    return searched._point_target(query, mask)


def region_target(searched: Any, query: str, mask: int | None, kinds: tuple[type, ...]) -> Any:
    """Return the `RegionTarget` of primitives in `mask`; a TypeError if not of `kinds`."""
    return searched._region_target(query, mask, kinds)
