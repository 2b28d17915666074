"""Queries of a tree: targets of the shared queries, picks, closedness."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.methods.distance_queries import DistanceQueries
from bvh.queries.methods.overlap_queries import FindPairs, OverlapQueries
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import TREE_CAST, CasterQueries, TreeCast
from bvh.queries.methods.sight_queries import SightQueries
from bvh.queries.query_arguments import one_mask
from bvh.queries.tree_base import OPEN_IS_FINE, TreeBase
from bvh.queries.verbs import verb
from bvh.runtime.arguments import IdResult, integers, kernel_input
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.registry import enrolled
from bvh.traversal.rays.one_ray import cast_function
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import in_full
from bvh.tree.face_bits import counted
from bvh.tree.primitives import Triangles

# Many kernels, imported by the first query that needs them.
if TYPE_CHECKING:
    from bvh.queries.batches.overlap_batches import RegionSearch
    from bvh.tree.winding_moments import WindingTerms

Pairs = NDArray[np.int32]


# Numbers of masks whose multipole moments are cached, and whose closedness is.
WINDINGS, CLOSED = 4, 1024


class TreeQueries(
    DistanceQueries,
    CasterQueries[tuple[float, int, float, float, bool]],
    SightQueries,
    PointQueries,
    OverlapQueries[Pairs],
):
    """Queries of a tree."""

    __slots__ = ()

    def _ray_target(self) -> RaySearch:
        """Return the target of rays: the tree as it is now, whatever a refit changes."""
        now = self._snapshot()
        return RaySearch(now._arrays, now._quality == "high", now, now._grouped_arrays)

    def _caster(self, cull: int, mask: int) -> TreeCast:
        """Return a function that casts single rays at the tree as it is now."""
        return cast_function(self._arrays_for(mask), cull, mask, TREE_CAST)

    def pick(
        self, camera: Any, x: float, y: float, radius: float = 0.0, *, mask: int | None = None
    ) -> Any:
        """Return the nearest hit under a cursor, or None; all arguments are as in `Scene.pick`.

        Returns
        -------
        Pick or None
            Without an instance: `instance_id` and `leaf` are -1, `name` is None.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree.pick(camera, 55, 40)
        Pick(prim_id=0, t=9, position=[0.2, 0.4, 0])
        >>> tree.pick(camera, 49, 51) is None, tree.pick(camera, 49, 51, radius=3).vertex.id
        (True, 0)
        """
        return enrolled("picks in trees")(self._snapshot(), camera, x, y, radius, mask=mask)

    @verb({"prim_id": ()}, np.int32)
    def face_of(self, prim_id: int | ArrayLike) -> IdResult:
        """Return the face of the source that a triangle is a part of.

        Parameters
        ----------
        prim_id : int or array_like of int
            For example that of `Hits`; -1 for a miss.

        Returns
        -------
        int or ndarray of int32
            Of the shape of `prim_id`: its `face_ids`, or itself if there are none; -1 for -1.

        Examples
        --------
        >>> import bvh
        >>> square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> tree = bvh.BVH.from_mesh((square, [[0, 1, 2, 3]]))
        >>> hits = tree.closest_hit([[0.9, 0.5, 1], [0.1, 0.5, 1], [5, 5, 1]], [0, 0, -1])
        >>> hits.prim_id, tree.face_of(hits.prim_id)
        (array([ 0,  1, -1], dtype=int32), array([ 0,  0, -1], dtype=int32))
        """
        if is_other(prim_id):
            return foreign_answer(self.face_of, locals())
        ids = integers("prim_id", prim_id)
        if ids.size and not (ids.min() >= -1 and ids.max() < len(self)):
            raise ValueError(f"prim_id must be in -1..{len(self) - 1}, got {prim_id!r}")
        faces = ids.astype(np.int32)
        if self._face_ids is not None:
            hit = ids >= 0
            faces[hit] = self._face_ids[faces[hit]]
        return faces.item() if faces.ndim == 0 else faces

    @property
    def is_closed(self) -> bool:
        """Whether the faces of a tree over triangles bound a volume.

        An even number of the finite faces share each edge, by the positions of its ends. Computed
        at the first use, in some 20 ms for each million faces, and cached until a refit.

        Examples
        --------
        >>> import bvh, trimesh
        >>> bvh.BVH.from_mesh(trimesh.creation.box()).is_closed
        True
        """
        from bvh.tree.open_edges import is_closed

        now = self._snapshot()
        arrays, triangles = now._arrays, now._triangles()
        closed: bool | None = vars(arrays).get("_is_closed")
        if closed is None:
            closed = vars(arrays)["_is_closed"] = is_closed(triangles)
        return closed

    def open_edges(self) -> NDArray[np.int32]:
        """Return the edges of a tree over triangles that an odd number of finite faces share.

        Returns
        -------
        ndarray of int32, shape (n, 2)
            The vertices at their ends; of several vertices at one position, those of the first of
            these faces. Without rows if `is_closed`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.open_edges().tolist()
        [[0, 1], [1, 2], [2, 0]]
        """
        from bvh.tree.open_edges import open_edges

        return open_edges(self._triangles())

    def _point_target(self, query: str, mask: int | None) -> Any:
        """Return the target of points; raise a TypeError if the primitives do not fit the query."""
        from bvh.queries.batches.point_batches import PointSearch

        bits, now = one_mask(mask), self._snapshot()
        if query in ("closest_point", "distance") and now.kind in ("spheres", "capsules"):
            from bvh.queries.batches.shape_points import ShapeSearch

            return ShapeSearch(now._arrays_for(bits))
        now._must_hold(query, Triangles)

        def rays() -> RaySearch:
            return RaySearch(now._arrays_for(bits), now._quality == "high", now)

        def winding(threads: int, _: bool) -> WindingTerms:
            return now._winding_terms(threads, bits)

        return PointSearch(rays, bits, winding)

    def _open_surface(self, mask: int | None) -> str | None:
        """Return this tree's description for a warning of open edges, or None for no warning.

        None if the faces selected by the mask are closed, if a warning has already been given, or
        if the caller has disabled it.
        """
        bits, known = one_mask(mask), self._closed
        if OPEN_IS_FINE in known:
            return None
        closed = known.get(bits)
        if closed is None:
            from bvh.tree.open_edges import is_closed

            # Two threads may both compute it. The result is kept after a refit.
            closed = is_closed(self._counted_triangles(self._arrays, bits))
            if len(known) >= CLOSED:
                known.clear()
            known[bits] = closed
        if closed:
            return None
        known[OPEN_IS_FINE] = True
        return repr(self)

    def _winding_terms(self, threads: int, mask: int = -1) -> WindingTerms:
        """Return the multipole moments of the faces that a mask selects."""
        from bvh.tree.winding_moments import winding_terms

        # Two threads may both compute them, with equal results.
        arrays = self._arrays
        known: dict[int, WindingTerms] = vars(arrays).setdefault("_winding", {})
        terms = known.get(mask)
        if terms is None:
            terms = winding_terms(self._counted_triangles(arrays, mask), threads)
            if len(known) >= WINDINGS:
                known.clear()
            known[mask] = terms
        return terms

    def _counted_triangles(self, arrays: TreeArrays, mask: int) -> Triangles:
        """Return the triangles that share a bit with a mask; without groups they have all bits."""
        triangles, groups = arrays.primitives, self._groups
        assert isinstance(triangles, Triangles)
        if groups is None:
            chosen: slice | NDArray[np.bool_] = slice(None) if mask else slice(0)
        elif mask == -1 and not len(arrays.face_bits):
            chosen = slice(None)
        else:
            chosen = counted(groups, mask)
        return Triangles(triangles.points, kernel_input(triangles.faces[chosen]))

    def _pairs_that_count(
        self, pairs: Pairs, mask: int | None, other: object, other_mask: int | None
    ) -> Pairs:
        """Return the pairs whose first face `mask` selects, and the second `other_mask`."""
        assert isinstance(other, TreeBase)
        for side, tree, bits in ((0, self, one_mask(mask)), (1, other, one_mask(other_mask))):
            if bits != -1 or len(tree._arrays.face_bits):
                pairs = pairs[counted_ids(tree._groups, pairs[:, side], bits)]
        return pairs

    def _region_target(self, query: str, mask: int | None, kinds: tuple[type, ...]) -> RegionSearch:
        """Return the target of regions; raise a TypeError if the primitives are of no such kind."""
        from bvh.queries.batches.overlap_batches import search_of

        now = self._snapshot()
        now._must_hold(query, *kinds)
        bits, arrays = one_mask(mask), in_full(now._arrays)
        if bits == -1 and not len(arrays.face_bits):
            return search_of(arrays, now._bounds)
        return search_of(
            arrays, now._bounds,
            lambda found: found._only(counted_ids(now._groups, found.prim_id, bits)),
        )  # fmt: skip

    def _pair_search(self, query: str, other: object) -> FindPairs[Pairs]:
        """Return a function that finds the pairs of faces of this tree and another that meet."""
        from bvh.queries.batches.overlap_batches import find_pairs

        own, others = self._arrays, self._other_tree(query, other)
        return partial(
            find_pairs, in_full(own), in_full(own if others is self else others._arrays)
        )  # fmt: skip


def counted_ids(
    groups: NDArray[np.uint32] | None, ids: NDArray[np.int32], mask: int
) -> NDArray[np.bool_]:
    """Return which of the faces `ids` share a bit with a mask; without groups they have all."""
    return np.full(len(ids), mask != 0) if groups is None else counted(groups[ids], mask)
