"""Queries of a scene: what it adds to those that trees and scenes share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bvh.io.trimesh_scenes import Attributes
from bvh.queries.batches.overlap_batches import RegionSearch
from bvh.queries.hierarchy import BVH
from bvh.queries.overlap_queries import OverlapQueries
from bvh.queries.point_queries import PointQueries
from bvh.queries.query_arguments import Target, one_mask
from bvh.queries.ray_queries import RayQueries
from bvh.queries.results import (
    SceneAllHits,
    SceneClosestPoints,
    SceneHits,
    SceneOverlaps,
    ScenePairs,
    new_object,
)
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import ALL_BITS
from bvh.runtime.changes import changes
from bvh.scene.content import SceneContent
from bvh.scene.instance_pairs import find_leaf_pairs, search_of_scene
from bvh.scene.instanced_trees import InstancedTrees
from bvh.scene.instances import Instances
from bvh.traversal.rays.one_ray import cast_function
from bvh.tree.primitives import Triangles

SceneHit = tuple[float, int, float, float, bool, int]
SceneCaster = Callable[..., SceneHit]


class SceneQueries(
    SceneContent,
    RayQueries[SceneHits, SceneAllHits, SceneCaster],
    PointQueries[SceneClosestPoints],
    OverlapQueries[SceneOverlaps, ScenePairs],
):
    """Queries of a scene."""

    __slots__ = ("_wound",)

    # The scene as one tree, for winding numbers, by the mask and whether reflected faces are turned
    # back; and the number of changes when it was built.
    _wound: tuple[int, dict[tuple[int, bool], BVH]]

    def _begin(self, table: Instances, attributes: dict[int, tuple[TreeBase, Attributes]]) -> None:
        super()._begin(table, attributes)
        self._wound = -1, {}

    def _target(self) -> Target:
        view = self._current()
        # Kernels have only addresses of the trees, and `progress` may release them.
        return Target(view.arrays, view.split, view)

    def _cast_one(self, ray: tuple[float, ...], t_min: float, t_max: float) -> Any:
        view = self._current()
        return cast_function(view.arrays)(view.address, *ray, t_min, t_max, (0, -1))

    def _closest_of_one(self, ray: tuple[float, ...], t_min: float, t_max: float) -> SceneHits:
        view = self._current()
        hits = new_object(SceneHits)
        fields = hits.__dict__
        (
            fields["t"], fields["prim_id"], fields["u"], fields["v"], fields["front"],
            fields["leaf"],
        ) = cast_function(view.arrays)(view.address, *ray, t_min, t_max, (0, -1))  # fmt: skip
        fields["instance_id"] = view.owner(fields["leaf"])
        return hits

    def _caster(self, cull: int, mask: int) -> SceneCaster:
        kernel, current = cast_function(self._current().arrays), self._current
        options = cull, mask

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf,
        ) -> SceneHit:  # fmt: skip
            # Named, so that it stays alive while another thread changes the scene.
            view = current()
            hit: SceneHit = kernel(
                view.address, float(ox), float(oy), float(oz), float(dx), float(dy), float(dz),
                float(t_min), float(t_max), options,
            )  # fmt: skip
            return hit

        cast.__qualname__ = f"cast of {type(self).__name__}"
        return cast

    def _point_target(self, query: str, mask: int | None, measured: bool) -> Target:
        view = self._current()
        bits = one_mask(mask, view.arrays)
        solid = None if view.plain else view.first_not_triangles(bits)
        if solid is not None:
            leaf, kind = solid
            raise TypeError(
                f"{query} needs instances over triangles, and instance {view.owner(leaf)} is "
                f"over {kind}"
            )
        return Target(view.arrays, view.split, view, bits, view.metrics if measured else None)

    def _as_one_tree(self, query: str, mask: int | None, turned: bool) -> BVH:
        bits = self._point_target(query, mask, False).mask
        now, key = changes.count, (bits, turned)
        seen, kept = self._wound
        tree = kept.get(key)
        if tree is not None and seen == now:
            return tree
        vertices, faces, leaf_id, _ = self.flattened(bits & ALL_BITS)
        if turned:
            flipped = self._current().flipped[leaf_id]
            faces[flipped] = faces[flipped][:, ::-1]
        # What has changed in the process may have been another scene.
        if (
            tree is None
            or not np.array_equal(tree.vertices, vertices, equal_nan=True)
            or not np.array_equal(tree.faces, faces)
        ):
            tree = BVH.from_triangles(vertices, faces)
        self._wound = now, (kept if seen == now else {}) | {key: tree}
        return tree

    def _region_search(self, query: str, *_: type) -> RegionSearch:
        return search_of_scene(self._over_triangles(query))

    def _pair_search(self, query: str, other: Any) -> Callable[..., ScenePairs]:
        content: InstancedTrees | TreeBase
        view = content = self._over_triangles(query)
        if isinstance(other, TreeBase):
            other._must_hold(query, Triangles)
            content = other
        elif isinstance(other, SceneQueries):
            content = view if other is self else other._over_triangles(query)
        else:
            raise TypeError(f"other must be a BVH or a Scene, got {type(other).__name__}")
        return partial(find_leaf_pairs, view, content)

    def _over_triangles(self, query: str) -> InstancedTrees:
        """Return what kernels work on, if all that counts is over triangles."""
        view = self._current()
        other = np.array([not isinstance(tree.primitives, Triangles) for tree in view.trees])
        if other.any():
            bad = np.flatnonzero(other[view.tree_of] & (view.masks != 0))
            if len(bad):
                kind = type(view.trees[view.tree_of[bad[0]]].primitives).__name__.lower()
                path = self.path(int(bad[0]))
                raise TypeError(f"{query} needs triangles; instance {path} leads to {kind}")
        return view
