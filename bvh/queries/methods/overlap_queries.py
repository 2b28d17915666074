"""Overlap queries of trees and scenes: primitives that overlap regions, pairs of faces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.query_arguments import affine_matrices, is_foreign, with_progress
from bvh.queries.results import Overlaps
from bvh.queries.targets import RegionTarget
from bvh.queries.verbs import Merge, verb
from bvh.runtime.arguments import common_shape, corner_points, lengths, points, reals, thread_count
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.progress_bars import Progress, ProgressLike
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import HOLLOW, Boxes

# Many kernels, imported by the first of these queries.
if TYPE_CHECKING:
    from bvh.traversal.regions.regions import BoxRegions, PlaneRegions, SphereRegions

Pairs = TypeVar("Pairs")
# Finds the pairs of faces that meet, as `find_pairs`: (transform, itself, threads, progress).
FindPairs = Callable[[NDArray[np.float64] | None, bool, int, Progress | None], Pairs]


class RegionQueries:
    """Queries of regions of `BVH`, `Scene` and `Parts`, which supply the target.

    All sets are closed: sets that touch, overlap. In a scene, leaves that are not visible, or whose
    mask is 0, are ignored; all others must be over triangles, spheres or capsules. Of spheres and
    capsules, the surface counts: a region inside one does not overlap it.
    """

    __slots__ = ()

    # Returns the target for the name of a query, a mask, and the kinds of primitives allowed.
    _region_target: Callable[[str, int | None, tuple[type, ...]], RegionTarget]

    @verb({"lower": (3,), "upper": (3,)}, Overlaps, Merge.LISTS)
    def overlap_box(
        self, lower: ArrayLike, upper: ArrayLike, *, mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Overlaps:  # fmt: skip
        """Find the triangles, boxes or surfaces of shapes that have a point in an axis-aligned box.

        The decision is exact for the given doubles, touching included; a face without area is
        treated as a segment or point. The method is separating axes (Akenine-Möller 2001), each
        tested by an exact sign. In a scene, regions are in its coordinates, and faces are
        those of the mesh that `flattened` returns, though nothing is flattened.

        Parameters
        ----------
        lower, upper : array_like, shape (..., 3)
            Corners, broadcast against each other; they may be infinite. A box with a NaN
            meets nothing; one with lower > upper meets nothing in a batch, and alone is an error.
        mask : int, optional
            32 bits; faces whose `groups`, and instances whose mask, share none are ignored.
        threads, progress
            Number of threads, and callback or bar, as in `closest_hit`; progress counts regions.

        Returns
        -------
        Overlaps
            The ids of each box, ascending. The result of a single box is a sequence of ids. In a
            scene also `instance_id` and `leaf`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.overlap_box([0.5, 0.5, 0], [1, 1, 1]).prim_id
        array([0], dtype=int32)
        >>> tree.overlap_box([[0.6, 0.5, 0], [0, 0, -1]], [1, 1, 1])
        Overlaps(1 of 2 queries meet 1 primitive)
        """
        if is_foreign(lower, upper):
            return foreign_answer(self.overlap_box, locals())
        target = self._region_target("overlap_box", mask, (Triangles, Boxes, *HOLLOW))
        regions, shape = box_regions(lower, upper, target.bounds)
        return with_progress(target.overlaps, progress, regions, shape, threads)

    @verb({"center": (3,), "radius": ()}, Overlaps, Merge.LISTS)
    def overlap_sphere(
        self, center: ArrayLike, radius: ArrayLike, *, mask: int | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Overlaps:  # fmt: skip
        """Find the primitives that overlap a ball; returned as by `overlap_box`.

        Exact, touching included: contact to within about 2**-45 is decided in rational numbers,
        which takes a tenth of a millisecond a face.

        Parameters
        ----------
        center : array_like, shape (..., 3)
            Centres; a ball around one that is not finite meets nothing.
        radius : array_like, shape (...)
            Radii, broadcast against the centres; 0 finds primitives that contain the centre. A
            single number must be finite and at least 0; in an array, other entries meet nothing.
        mask, threads, progress
            Bits of faces, number of threads, and callback or bar, as in `overlap_box`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.overlap_sphere([0.25, 0.25, 2], 2).prim_id
        array([0], dtype=int32)
        """
        if is_foreign(center, radius):
            return foreign_answer(self.overlap_sphere, locals())
        target = self._region_target("overlap_sphere", mask, (Triangles, Boxes, *HOLLOW))
        regions, shape = sphere_regions(center, radius)
        return with_progress(target.overlaps, progress, regions, shape, threads)

    @verb({"planes": (-1, 4)}, Overlaps, Merge.LISTS)
    def overlap_frustum(
        self, planes: ArrayLike, *, mask: int | None = None, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Overlaps:  # fmt: skip
        """Find the primitives that overlap a convex polytope, such as a view frustum.

        Returned as by `overlap_box`, and exact, also where no single plane separates a triangle
        from the polytope. Boxes are not supported. A sphere or capsule next to where planes meet
        may be decided in rational numbers, which takes milliseconds.

        Parameters
        ----------
        planes : array_like, shape (k, 4) or (..., k, 4)
            Rows (nx, ny, nz, offset): inside is where n . p + offset >= 0 for all k of them.
            Normals need not be normalised. Without planes everything is inside; nothing is inside a
            plane that is not finite.
        mask, threads, progress
            Bits of faces, number of threads, and callback or bar, as in `overlap_box`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.overlap_frustum([[1, 0, 0, -0.5], [0, 1, 0, -0.5]]).prim_id
        array([0], dtype=int32)
        """
        if is_foreign(planes):
            return foreign_answer(self.overlap_frustum, locals())
        target = self._region_target("overlap_frustum", mask, (Triangles, *HOLLOW))
        regions, shape = plane_regions(planes)
        return with_progress(target.overlaps, progress, regions, shape, threads)


class OverlapQueries(RegionQueries, Generic[Pairs]):
    """Overlap queries of `BVH` and `Scene`: of regions, and for pairs of faces."""

    __slots__ = ()

    # Returns, for the name of a query, the search for pairs with another tree or scene.
    _pair_search: Callable[[str, object], FindPairs[Pairs]]
    # Returns the pairs of faces that two masks select, one for each side.
    _selected_pairs: Callable[[Pairs, int | None, object, int | None], Pairs]

    def overlap_tree(
        self, other: object, transform: ArrayLike | None = None, *, mask: int | None = None,
        other_mask: int | None = None, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Pairs:  # fmt: skip
        """Find all pairs of faces, one of this tree or scene and one of another, that meet.

        The decision is exact for the vertices: faces that touch, or are coplanar and meet, are
        found; a face without area is treated as a segment or point. The method is signs of
        volumes (Guigue and Devillers 2003). The vertices of a scene are those of the mesh that
        `flattened` returns, though nothing is flattened.

        Parameters
        ----------
        other : BVH or Scene
            Over triangles, or spheres or capsules, whose surfaces meet. Only a scene takes a scene.
        transform : array_like, shape (4, 4), optional
            Affine matrix that maps `other` to this tree's world. As in `distance_to`, the answer is
            about moved vertices as they are computed in float64, and shapes moved as an instance of
            a scene. It must be None for two scenes if either has spheres or capsules.
        mask, other_mask : int, optional
            32 bits each; faces of this tree, or of `other`, that share none of them are ignored.
        threads, progress
            Number of threads, and callback or bar; progress counts parts of the work.

        Returns
        -------
        ndarray of int32, shape (m, 2), or ScenePairs
            Rows (id in this tree, id in `other`), ascending; `ScenePairs` if one is a scene.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> a = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> b = bvh.BVH.from_triangles([[0, 0, 0], [0, 0, 1], [1, 0, 1]], [[0, 1, 2]])
        >>> a.overlap_tree(b)
        array([[0, 0]], dtype=int32)
        >>> a.overlap_tree(b, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 9], [0, 0, 0, 1]])
        array([], shape=(0, 2), dtype=int32)
        >>> scene = bvh.Scene()
        >>> ids = scene.add_many(a, [np.eye(4), np.diag([1.0, -1.0, 1.0, 1.0])])
        >>> scene.overlap_tree(b).leaf.tolist()
        [[0, -1], [1, -1]]
        """
        if is_other(transform):
            return foreign_answer(self.overlap_tree, locals())
        search = self._pair_search("overlap_tree", other)
        matrix = None if transform is None else affine_matrices(transform)
        if matrix is not None and matrix.ndim > 2:
            raise ValueError(f"transform must have shape (4, 4), got {matrix.shape}")
        itself = False  # shared vertices are contacts, even if `other` is this tree
        pairs = with_progress(search, progress, matrix, itself, thread_count(threads))
        return self._selected_pairs(pairs, mask, other, other_mask)

    def self_overlaps(
        self, *, mask: int | None = None, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Pairs:  # fmt: skip
        """Find all pairs of faces that meet beyond the vertices or edge they share.

        A clean mesh has none. Vertices are shared where their coordinates are equal, whatever
        their indices, also those of two instances. Two faces without a shared vertex overlap
        if they touch; with one, if they touch elsewhere; with a shared edge, if they have an
        area in common, so that one is folded onto the other; with the same three vertices,
        always. The decision is exact for the vertices. Spheres and capsules share nothing: pairs
        whose surfaces touch overlap, also where ends of axes are equal; one inside another does
        not.

        Parameters
        ----------
        mask : int, optional
            32 bits; faces whose `groups`, and instances whose mask, share none are ignored.
        threads, progress
            Number of threads, and callback or bar; progress counts parts of the work.

        Returns
        -------
        ndarray of int32, shape (m, 2), or ScenePairs
            Rows (i, j) of face ids, i < j, ascending. In a scene, the face of the lower leaf, then
            prim_id, comes first.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [2, 0, 0], [0, 2, 0], [1, 1, 0], [0, 0, 1]]
        >>> bvh.BVH.from_triangles(vertices, [[0, 1, 2], [0, 1, 3], [0, 1, 4]]).self_overlaps()
        array([[0, 1]], dtype=int32)
        """
        search = self._pair_search("self_overlaps", self)
        transform, itself = None, True  # shared vertices and edges are no contacts
        pairs = with_progress(search, progress, transform, itself, thread_count(threads))
        return self._selected_pairs(pairs, mask, self, mask)


def _flat(array: NDArray[np.float64], shape: tuple[int, ...], width: int) -> NDArray[np.float64]:
    """Return an array (..., width), broadcast to (*shape, width), as rows (n, width)."""
    return np.broadcast_to(array, (*shape, width)).reshape(-1, width)


def box_regions(
    lower: ArrayLike, upper: ArrayLike, bounds: NDArray[np.float64]
) -> tuple[BoxRegions, tuple[int, ...]]:
    """Return checked boxes, clipped to a tree's box `bounds` (2, 3), and their leading shape."""
    from bvh.traversal.regions.regions import BoxRegions

    low, high = corner_points(lower, upper)
    shape = common_shape(lower=low.shape[:-1], upper=high.shape[:-1])
    low, high = _flat(low, shape, 3), _flat(high, shape, 3)
    # Nothing is outside the bounds; this also makes infinite corners finite, but keeps NaN.
    with np.errstate(invalid="ignore"):
        return BoxRegions(np.maximum(low, bounds[0]), np.minimum(high, bounds[1])), shape


def sphere_regions(center: ArrayLike, radius: ArrayLike) -> tuple[SphereRegions, tuple[int, ...]]:
    """Return checked balls, centres broadcast against radii, and their leading shape."""
    from bvh.traversal.regions.regions import SphereRegions

    at, size = points("center", center), lengths("radius", radius, finite=True)
    shape = common_shape(center=at.shape[:-1], radius=size.shape)
    return SphereRegions(_flat(at, shape, 3), _flat(size[..., None], shape, 1)[:, 0]), shape


def plane_regions(planes: ArrayLike) -> tuple[PlaneRegions, tuple[int, ...]]:
    """Return checked polytopes of k planes (nx, ny, nz, offset) each, and their leading shape."""
    from bvh.traversal.regions.regions import PlaneRegions

    rows = reals("planes", planes)
    # An empty list is a polytope without planes.
    if rows.shape == (0,):
        rows = rows.reshape(0, 4)
    if rows.ndim < 2 or rows.shape[-1] != 4:
        raise ValueError(f"planes must have shape (..., k, 4), got {rows.shape}")
    *shape, k, _ = rows.shape
    flat = rows.reshape(math.prod(shape), k, 4)
    # Kernels get the addresses of arrays, without shapes: the second array has k.
    return PlaneRegions(flat, np.array([k], np.int64)), tuple(shape)
