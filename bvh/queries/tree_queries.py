"""Queries of a tree: what it adds to those that trees and scenes share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.overlap_queries import OverlapQueries
from bvh.queries.point_queries import PointQueries
from bvh.queries.query_arguments import Target, one_mask
from bvh.queries.ray_queries import RayQueries
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps, new_object
from bvh.queries.tree_base import TreeBase
from bvh.tree.primitives import Triangles

# Many kernels, which only some queries need: they are imported by the first of these.
if TYPE_CHECKING:
    from bvh.queries.batches.overlap_batches import RegionSearch
    from bvh.tree.winding_moments import WindingTerms

Pairs = NDArray[np.int32]
Caster = Callable[..., tuple[float, int, float, float, bool]]


class TreeQueries(
    TreeBase,
    RayQueries[Hits, AllHits, Caster],
    PointQueries[ClosestPoints],
    OverlapQueries[Overlaps, Pairs],
):
    """Queries of a tree."""

    __slots__ = ()

    def _target(self) -> Target:
        return Target(self._arrays, self._quality == "high", self)

    def _cast_one(self, ray: tuple[float, ...], t_min: float, t_max: float) -> Any:
        kernel = self._cast or self._single_ray()
        # Faster than `*ray`.
        ox, oy, oz, dx, dy, dz = ray
        return kernel(self._address, ox, oy, oz, dx, dy, dz, t_min, t_max, 0)

    def _closest_of_one(self, ray: tuple[float, ...], t_min: float, t_max: float) -> Hits:
        kernel = self._cast or self._single_ray()
        # Without the slow `__init__` of a frozen class.
        hits = new_object(Hits)
        fields = hits.__dict__
        ox, oy, oz, dx, dy, dz = ray
        fields["t"], fields["prim_id"], fields["u"], fields["v"], fields["front"] = kernel(
            self._address, ox, oy, oz, dx, dy, dz, t_min, t_max, 0
        )
        return hits

    def _caster(self, cull: int, _: int) -> Caster:
        kernel, address = self._cast or self._single_ray(), self._address

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf, _tree: TreeQueries = self,
        ) -> tuple[float, int, float, float, bool]:  # fmt: skip
            # The tree among the defaults stays alive as long as the function does.
            hit: tuple[float, int, float, float, bool] = kernel(
                address, float(ox), float(oy), float(oz), float(dx), float(dy), float(dz),
                float(t_min), float(t_max), cull,
            )  # fmt: skip
            return hit

        cast.__qualname__ = f"cast of {self!r}"
        return cast

    def _point_target(self, query: str, mask: int | None, measured: bool) -> Target:
        self._must_hold(query, Triangles)
        bits = one_mask(mask, self._arrays)
        return Target(self._arrays, self._quality == "high", self, bits)

    def _as_one_tree(self, query: str, mask: int | None, turned: bool) -> TreeQueries:
        self._must_hold(query, Triangles)
        one_mask(mask, self._arrays)
        return self

    def _winding_terms(self, threads: int) -> WindingTerms:
        """Return the multipole moments of the nodes."""
        from bvh.tree.winding_moments import winding_terms

        # Two threads may both sum them up: they find the same. A refit, perhaps by another thread
        # meanwhile, makes them useless.
        arrays, known = self._arrays, self._winding
        if known is None or known[0] is not arrays:
            known = self._winding = arrays, winding_terms(arrays.primitives, threads)
        terms: WindingTerms = known[1]
        return terms

    def _region_search(self, query: str, *kinds: type) -> RegionSearch:
        from bvh.queries.batches.overlap_batches import search_of

        self._must_hold(query, *kinds)
        return search_of(self._arrays, self._bounds)

    def _pair_search(self, query: str, other: Any) -> Callable[..., Pairs]:
        from bvh.queries.batches.overlap_batches import find_pairs

        self._must_hold(query, Triangles)
        if not isinstance(other, TreeBase):
            raise TypeError(f"other must be a BVH, got {type(other).__name__}")
        other._must_hold(query, Triangles)
        return partial(find_pairs, self._arrays, other._arrays)
