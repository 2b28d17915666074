"""`Parts`: a mesh in parts, each a tree in a file, with the queries of one tree."""

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.out_of_core.part_pictures import PartPictures
from bvh.distributed.out_of_core.part_targets import PartPoints, PartRays, PartRegions
from bvh.queries.methods.overlap_queries import RegionQueries
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import RayQueries
from bvh.queries.query_arguments import one_mask, point_batch
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps
from bvh.queries.verbs import Merge, verb
from bvh.runtime.arguments import CountResult, TruthResult, shaped, thread_count


class Parts(
    RayQueries[Hits, AllHits], PointQueries[ClosestPoints], RegionQueries[Overlaps], PartPictures
):
    """A mesh cut into parts by `bvh.partition`, each a tree in a file.

    Queries have the arguments and results of those of `BVH`, and answer bit for bit as one tree
    over the whole mesh. Parts are visited near to far, for a million rays at a time, and mapped
    into memory only while they are needed. Dask arrays give lazy results, with a task for each
    chunk of rays and each group of parts that fits into `memory`; arrays of other libraries, such
    as PyTorch's, give arrays of their library.

    Parameters
    ----------
    folder : str or path-like
        What `bvh.partition` has written: a folder, or a URL of fsspec. Files at URLs are fetched
        when they are needed, and kept in the folder that BVH_PARTS_DIR names.
    memory : int or str
        Bytes of parts to be mapped at a time; at least one is.

    Raises
    ------
    ValueError
        If the folder is not finished, or its index damaged; in queries, if the file of a part,
        which is named, is not the one of the index. `validate` checks every byte.

    Notes
    -----
    What differs from `BVH`: `prim_id` is int64 and counts triangles in the order of the source
    (see `source_of`). Parts have no `caster`, `overlap_tree`, `self_overlaps`, `visible`, `pick` or
    `refit`, and their queries of rays no `filter` and no `counters`: a ValueError says so.
    `position` and `normal` of hits open the parts that were hit. `groups_of` gives the bits of
    faces. Parts without a face that counts for a `mask` are not opened.

    The closest hit is the least of all parts by (t, id): each is searched up to and including the
    least t found before, so that the lowest id of equal t is kept. So does `closest_point`.

    Open edges are not looked for, so no warning of `contains` and `signed_distance` tells of them.

    `winding_number` is the sum of the numbers of all parts, each of which is opened: clusters of
    faces that are summed up as one are those of the parts' trees. So this alone, and what it
    decides with ``method="winding"``, is not bit for bit the answer of one tree; the bounds of the
    error are the same. With ``accuracy=numpy.inf`` the order of the sum differs, and so may the
    last bits. The same holds for groups of parts in a cluster.

    Examples
    --------
    >>> import bvh, tempfile, trimesh
    >>> balls = [trimesh.creation.icosphere().apply_translation((3 * i, 0, 0)) for i in range(4)]
    >>> folder = tempfile.TemporaryDirectory()
    >>> parts = bvh.partition(balls, folder.name)
    >>> parts
    Parts(5120 triangles in 1 part)
    >>> parts.any_hit([[6.1, 0.2, 5.0], [4.5, 0.2, 5.0]], [0.0, 0.0, -1.0])
    array([ True, False])
    >>> parts.closest_point([[0.0, 0.0, 3.0], [6.0, 0.0, -2.0]]).distance
    array([2., 1.])
    >>> parts.contains([[3.0, 0.0, 0.25], [4.5, 0.0, 0.0]])
    array([ True, False])
    >>> parts.overlap_box([1.5, -1.0, -1.0], [4.5, 1.0, 1.0])
    Overlaps(1280 primitives)
    """

    def _ray_target(self) -> PartRays:
        return PartRays(self._visits, self._open)

    def _point_target(self, query: str, mask: int | None) -> PartPoints:
        return PartPoints(self._ray_target(), self.bounds, query, one_mask(mask))

    def _open_edges(self, mask: int | None) -> None:
        return None

    def _region_target(self, query: str, mask: int | None, kinds: tuple[type, ...]) -> PartRegions:
        return PartRegions(self._visits, self.bounds, query, one_mask(mask))

    @verb({"points": (3,)}, np.int64, Merge.SUM)
    def _crossings(
        self, points: ArrayLike, *, mask: int | None = None, threads: int | None = None
    ) -> CountResult:
        """Count how often a ray to the outside from each point crosses."""
        batch, target = point_batch(points), self._point_target("contains", mask)
        found = target.crossings(batch.points, thread_count(threads))
        return shaped(batch.shape, found)[0]

    @verb({"points": (3,)}, np.bool_, Merge.ANY)
    def _touched(
        self, points: ArrayLike, *, mask: int | None = None, threads: int | None = None
    ) -> TruthResult:
        """Return which points are on a face."""
        batch, target = point_batch(points), self._point_target("contains", mask)
        found = target.touched(batch.points, thread_count(threads))
        return shaped(batch.shape, found)[0]
