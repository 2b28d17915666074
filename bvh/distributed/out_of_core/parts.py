"""`Parts`: a mesh in parts, each a tree in a file, with the queries of one tree; and `bvh.load`."""

import os

import numpy as np
from numpy.typing import ArrayLike

from bvh.distributed.out_of_core.part_pictures import PartPictures
from bvh.distributed.out_of_core.part_targets import PartPoints, PartRays, PartRegions
from bvh.distributed.part_index import is_url
from bvh.queries.hierarchy import BVH
from bvh.queries.methods.overlap_queries import RegionQueries
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import RayQueries
from bvh.queries.query_arguments import one_mask, point_batch
from bvh.queries.results import AllHits, ClosestPoints, Hits, Overlaps
from bvh.queries.verbs import Merge, verb
from bvh.runtime.arguments import CountResult, TruthResult, shaped, thread_count
from bvh.scene.files import loading
from bvh.scene.scene import Scene


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


def load(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool = True, audit: bool = False,
    threads: int | None = None, memory: int | str = "2GB",
) -> BVH | Scene | Parts:  # fmt: skip
    """Read what was saved: a tree, a scene, or a folder of parts that `partition` has written.

    A file can be damaged, or crafted to do harm; no such file leads to anything but a ValueError,
    or to a tree that is safe to query. It holds no code.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder of parts, which may be a URL of fsspec.
    mmap : bool
        Map the file into memory instead of reading it: a tree of any size is available at once, is
        read from the disk as far as queries need it, and is shared by all processes that map it.
        Triangle groups of files of versions 1 and 2 are packed anew, in memory of each process. The
        file must not be changed in place while the tree is in use: where it was cut off, the system
        ends the process. To save to it again is safe.
    verify : bool
        Check checksums and structure, which takes about as long as reading the file does: at once,
        or with `mmap` at the first use of the tree, whatever it is, which then raises the
        ValueError. Without it only the header is checked: for files that you have written
        yourself, and that cannot have been damaged.
    audit : bool
        Run `BVH.validate`, too, and at once: correct answers depend on the boxes of nodes, which a
        carefully crafted file can get wrong in spite of all checksums. Of a folder, it computes the
        digests of all files, too.
    threads : int, optional
        Threads for the checks; one for each CPU by default, -1 for all.
    memory : int or str
        Bytes of parts that are mapped at a time. Parts are mapped when they are needed, and each is
        checked when a process opens it first, whatever the other arguments are.

    Returns
    -------
    BVH, Scene or Parts
        Answers bit for bit as the one that was saved. Where this CPU suits nodes of another width
        than the one that saved the tree, it is built again from its primitives. Of a scene, the
        tables of instances and attributes are always read and checked, and the rest of what is
        documented here applies to each of its trees.

    Raises
    ------
    ValueError
        If the file is neither tree nor scene, is of another version, damaged, or not valid, or if a
        folder of parts is not finished; the message says how.
    FileNotFoundError
        If there is none.

    Examples
    --------
    >>> import bvh, os, tempfile
    >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "boxes.bvh")
    >>> tree.save(path)
    >>> bvh.load(path, mmap=True)
    BVH(2 boxes, 1 node)
    """
    place = os.fspath(path)
    if is_url(place) or os.path.isdir(place):
        parts = Parts(place, memory=memory)
        if audit:
            parts.validate()
        return parts
    return loading.load(path, mmap=mmap, verify=verify, audit=audit, threads=threads)
