"""Queries of a scene: targets of the queries that trees and scenes share, and sections."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.picking.placed_trees import PickableScene
from bvh.queries import results
from bvh.queries.answers.sections import sections_by
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.batches.round_ends import ray_search_of
from bvh.queries.hierarchy import BVH
from bvh.queries.methods.overlap_queries import FindPairs, OverlapQueries
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import SCENE_CAST, SceneCast
from bvh.queries.methods.sight_queries import SightQueries
from bvh.queries.query_arguments import SHAPE_QUERIES, one_mask
from bvh.queries.tree_base import MAX_CLOSED, MAX_WINDINGS, TreeBase, are_selected
from bvh.runtime.arguments import ALL_BITS
from bvh.scene.scene_content import SceneContent
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.instance_queries import InstanceQueries
from bvh.traversal.rays.one_ray import cast_function
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import HOLLOW

# Many kernels, which only some queries need: they are imported by the first of these.
if TYPE_CHECKING:
    from bvh.queries.batches.overlap_batches import RegionSearch
    from bvh.queries.batches.point_batches import PointSearch
    from bvh.queries.batches.winding import OrientedSurface


class SceneQueries(
    InstanceQueries, PickableScene, SightQueries, PointQueries, OverlapQueries[results.ScenePairs]
):
    """Queries of a scene."""

    __slots__ = ()

    # Kernels have only addresses of the trees: callers keep a reference to the result.
    _quick = property(SceneContent._current)

    def _ray_target(self) -> RaySearch:
        """Return the search for rays: of the current view or, for many rays, of its merged tree."""
        view = self._current()
        # The owner keeps the arrays alive: `progress` may change the scene.
        return ray_search_of(view, view.arrays, view.split, owner=view, merged=view.merger.tree_for)

    def _rays_without(self, exclude: int | str | ArrayLike) -> RaySearch:
        """Return the search for rays that ignore the instances with the ids or names `exclude`."""
        view, ids = self._current(), self._instances.column("ids")[self._rows(exclude, "exclude")]
        return ray_search_of(view, view.only(~np.isin(view.owners, ids)), view.split, owner=view)

    def _caster(self, cull: int, mask: int | None) -> SceneCast:
        """Return a function that casts single rays at the scene as it is at each call.

        `cull` is the side whose hits are ignored: 1 for the back, -1 for the front, 0 for neither.
        Instances and faces that share no bit with `mask` are ignored, too.
        """
        bits = one_mask(mask)

        def cast_of(view: SceneView) -> tuple[object, SceneCast]:
            """Return the arrays of a view's TLAS, and the function that casts rays at them."""
            # Read once: a change by another thread may replace the arrays.
            arrays = view.arrays
            return arrays, cast_function(arrays, cull, bits)

        current = self._current
        current_cast = cast_of(current())

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf,
        ) -> tuple[Any, ...]:  # fmt: skip
            """Cast a ray from o along d at the scene as it is now; `SCENE_CAST` has the result."""
            nonlocal current_cast
            view = current()
            arrays, function = current_cast
            # New instances, refits and rebuilds of the TLAS replace the arrays.
            if view.arrays is not arrays:
                current_cast = _, function = cast_of(view)
            return function(ox, oy, oz, dx, dy, dz, t_min, t_max)

        cast.__doc__ = SCENE_CAST.partition("--")[2].lstrip()
        cast.__qualname__ = f"cast of {type(self).__name__}"
        return cast

    def _point_target(self, query: str, mask: int | None) -> Any:
        """Return the search for points: a `PointSearch` of the faces that `mask` selects.

        If it selects spheres or capsules, it is a `ShapeSearch` of these and the faces. TypeError
        if it selects a leaf over primitives that the method `query` does not take.
        """
        from bvh.queries.batches.point_batches import PointSearch, ShapeSearch
        from bvh.traversal.points.instanced_closest_point import SceneTarget

        view, bits = self._current(), one_mask(mask)
        if (other := view.first_other(bits, query in SHAPE_QUERIES)) is not None:
            which = f"instance {view.owners[other[0]]} is over {other[1]}"
            raise TypeError(f"{query} needs instances over triangles, and {which}")
        # Whether spheres or capsules are selected, and flags of the selected leaves over triangles.
        shapes, faces = view.selected(bits)
        rays = RaySearch(view.only(faces) if shapes else view.arrays, view.split, owner=view)

        def oriented_surface(reorient: bool) -> OrientedSurface:
            """Return the selected faces as one tree with its boundary (see `_as_one_tree`)."""
            one_tree = self._as_one_tree(bits, reorient)
            target: PointSearch = one_tree._point_target(query, mask=None)
            return target.oriented_surface(reorient)

        search = PointSearch(lambda: rays, bits, oriented_surface, lambda: view.metrics)
        if not shapes:
            return search
        target = SceneTarget(view.arrays.row, view.metrics, bits)
        return ShapeSearch(target, view, search if faces.any() else None)

    def _open_surface(self, mask: int | None) -> str | None:
        """Return a text for a warning that describes a leaf with open edges that `mask` selects.

        None if there is no such leaf, or if all of them were described before: each tree describes
        itself at most once.
        """
        bits, view = one_mask(mask), self._current()
        # Masks whose leaves have been examined, up to MAX_CLOSED of them.
        if bits in view.seen_closed:
            return None
        leaves, surface = self._current_leaves(), None
        for k in np.unique(leaves.tree_of[np.flatnonzero(view.masks & bits)]).tolist():
            surface = leaves.trees[k]._open_surface(mask) or surface
        if len(view.seen_closed) >= MAX_CLOSED:
            view.seen_closed.clear()
        view.seen_closed.add(bits)
        return None if surface is None else f"an instance of {surface}"

    def _as_one_tree(self, bits: int, reorient: bool) -> BVH:
        """Return one tree over the faces that the int32 mask `bits` selects, for winding numbers.

        MAX_WINDINGS trees are cached. If `reorient`, faces are reversed in leaves that are either
        reflected or have a reversed mesh (see `Attributes.reversed`), but not in those that are
        both.
        """
        key = bits, reorient
        # A change of leaves replaces this dict: a thread with old leaves adds to the old one.
        cached = self._current().one_trees
        if key in cached:
            return cached[key]
        vertices, faces, leaf_id, prim_id = self.flattened(bits & ALL_BITS)
        selected = self._selects(leaf_id, prim_id, bits)
        if not selected.all():
            faces, leaf_id = faces[selected], leaf_id[selected]
        if reorient:
            flipped = self._reversed_leaves()[leaf_id]
            faces[flipped] = faces[flipped][:, ::-1]
        if len(cached) >= MAX_WINDINGS:
            cached.clear()
        tree = cached[key] = BVH.from_triangles(vertices, faces, warn=False)
        return tree

    def _selects(self, leaf: results.Ids, prim_id: results.Ids, mask: int) -> NDArray[np.bool_]:
        """Return flags (n,) of n faces, given by `leaf` and `prim_id`, (n,) each.

        True if both the group bits of the face and the mask of the leaf share a bit with `mask`,
        an int32.
        """
        leaves = self._current_leaves()
        selected = np.asarray(leaves.masks[leaf] & np.uint32(mask & ALL_BITS) != 0)
        # The mask -1, all bits, leaves out only faces without any bit, and only trees with such a
        # face have `face_bits` of their own; `_grouped_arrays` makes those for other masks.
        for k, tree in enumerate(leaves.trees):
            if tree._groups is not None and (mask != -1 or len(tree._arrays.face_bits)):
                of_tree = np.flatnonzero(leaves.tree_of[leaf] == k)
                selected[of_tree] &= are_selected(tree._groups, prim_id[of_tree], mask)
        return selected

    def _selected_pairs(
        self, pairs: results.ScenePairs, mask: int | None, other: object, other_mask: int | None
    ) -> results.ScenePairs:
        """Return the pairs whose first face `mask` selects, and whose second face `other_mask`.

        First faces are of this scene, second ones of `other`, a scene or a tree. Masks are those of
        the user, None for all bits.
        """
        leaf, prim, bits = pairs.leaf, pairs.prim_id, one_mask(other_mask)
        selected = self._selects(leaf[:, 0], prim[:, 0], one_mask(mask))
        if isinstance(other, SceneQueries):
            selected &= other._selects(leaf[:, 1], prim[:, 1], bits)
        elif isinstance(other, TreeBase) and (bits != -1 or len(other._arrays.face_bits)):
            selected &= are_selected(other._groups, prim[:, 1], bits)
        if selected.all():
            return pairs
        return results.ScenePairs(pairs.instance_id[selected], leaf[selected], prim[selected])

    def _region_target(self, query: str, mask: int | None, _: tuple[type, ...]) -> RegionSearch:
        """Return the search for primitives that overlap regions and that `mask` selects.

        TypeError for a visible leaf over primitives that the method `query` does not take. The last
        argument is unused: only `BVH`, which shares the signature, is given kinds of primitives.
        """
        from bvh.scene.instance_pairs import search_of_scene

        bits = one_mask(mask)

        def select(overlaps: results.Overlaps) -> results.Overlaps:
            """Return the overlaps with primitives that the mask selects."""
            selected = self._selects(overlaps.leaf, overlaps.prim_id, bits)
            return overlaps if selected.all() else overlaps._only(selected)

        return search_of_scene(self._over_triangles(query), select)

    def _pair_search(self, query: str, other: object) -> FindPairs[results.ScenePairs]:
        """Return a function that finds the pairs of faces of this scene and `other` that meet.

        `other` is a tree or a scene. TypeError if one has primitives that the method `query` does
        not take.
        """
        from bvh.scene.instance_pairs import find_leaf_pairs

        content: SceneView | TreeBase
        view = content = self._over_triangles(query)
        if isinstance(other, TreeBase):
            other._must_hold(query, Triangles, *HOLLOW)
            content = other
        elif isinstance(other, SceneQueries):
            content = view if other is self else other._over_triangles(query)
        else:
            raise TypeError(f"other must be a BVH or a Scene, got {type(other).__name__}")
        return partial(find_leaf_pairs, view, content)

    def section(self, planes: ArrayLike) -> Any:
        """Cut the scene's visible meshes by planes, as `BVH.section` for the mesh `flattened`.

        Parameters
        ----------
        planes : array_like, shape (..., 4)
            As in `BVH.section`.

        Returns
        -------
        Section, or Sections of many planes
            With `instance_id`; the vertices in `edges` are those of `flattened`.

        Examples
        --------
        >>> import bvh, numpy as np, trimesh
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(trimesh.creation.box(), np.diag([3.0, 2.0, 1.0, 1.0])[None])
        >>> scene.section([0, 0, 1, 0]).area
        6.0
        """
        self._over_triangles("section")
        vertices, faces, leaf_id, prim_id = self.flattened()
        flipped = self._reversed_leaves()[leaf_id]
        faces[flipped] = faces[flipped][:, ::-1]
        instances = self._current_leaves().instance_id[leaf_id]
        return sections_by(vertices, faces, planes, lambda met: (prim_id[met], instances[met]))

    def _reversed_leaves(self) -> NDArray[np.bool_]:
        """Return flags (n,) of leaves that are reflected or have a reversed mesh, but not both."""
        leaves = self._current_leaves()
        inward = np.array([self.attributes(tree).reversed for tree in leaves.trees], np.bool_)
        return np.asarray(self._current().flipped ^ inward[leaves.tree_of])
