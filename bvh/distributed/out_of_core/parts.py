"""`Parts`: a mesh in parts, each a tree in a file, with the queries of one tree; and `bvh.load`."""

import os

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera, check_camera
from bvh.distributed.out_of_core.part_content import PartContent
from bvh.distributed.out_of_core.part_targets import PartPoints, PartRays, PartRegions
from bvh.distributed.part_folder import is_url
from bvh.io.untrusted_files import path_name
from bvh.pictures.render_source import RenderSource
from bvh.queries.hierarchy import BVH
from bvh.queries.methods.overlap_queries import RegionQueries
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import RayQueries
from bvh.queries.public_names import public
from bvh.queries.query_arguments import one_mask, point_batch
from bvh.queries.verbs import Merge, verb
from bvh.runtime.arguments import CountResult, TruthResult, shaped, thread_count, whole_number
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.scene.files import loading
from bvh.scene.scene import Scene

# Rays that `visible_tree` casts at a time.
TOGETHER = 1 << 20

# Odd numbers that mix the bits of coordinates.
MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


@public
class Parts(RayQueries, PointQueries, RegionQueries, PartContent):
    """A mesh cut into parts by `bvh.partition`, each a tree in a file.

    Queries have the arguments and results of those of `BVH`, and answer bit for bit as one tree
    over all of the mesh. Parts are visited near to far, for a million rays at a time, and mapped
    into memory only while they are needed; if all fit into `memory`, rays meet those that are
    mapped already together, which is faster. Dask arrays give lazy results, with a task for each
    chunk of rays and each group of parts that fits into `memory`; arrays of other libraries, such
    as PyTorch's, give arrays of their library.

    Parameters
    ----------
    folder : str or path-like
        A folder that `bvh.partition` has written, or a URL of fsspec. Files at URLs are fetched
        when they are needed, into the folder BVH_PARTS_DIR.
    memory : int or str
        Bytes of parts to be mapped at a time; at least one is.

    Raises
    ------
    ValueError
        If the folder is not finished, or its index damaged; in queries, if the file of a part,
        which is named, is not the one of the index. `validate` checks every byte.

    Notes
    -----
    Differences from `BVH`: `prim_id` is int64 and counts triangles in the order of the source
    (see `source_of`). Parts have no `caster`, `overlap_tree`, `self_overlaps`, `visible`, `pick` or
    `refit`, and their queries of rays no `filter` and no `counters`: a ValueError says so.
    `position` and `normal` of hits open the parts that were hit. `groups_of` gives the bits of
    faces. Parts without a face that counts for a `mask` are not opened.

    Open edges are not detected, so `contains` and `signed_distance` do not warn of them.

    `winding_number` opens all parts once, for the open edges that are left where they meet. With a
    finite accuracy, and many of them, it is the sum of the numbers of all parts: clusters of faces
    that are summed up as one are those of the parts' trees. So this is not bit for bit the answer
    of one tree; the bounds of the error are the same.

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

    def visible_tree(
        self, camera: Camera, samples: int = 1, *, smooth: bool = True, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> RenderSource:  # fmt: skip
        """Return a smaller source that renders identically from this camera.

        `bvh.pictures.render` calls it; call it for several pictures of one camera.

        Parameters
        ----------
        camera : Camera
            That of the pictures.
        samples : int
            Rays along each side of a pixel, as of `bvh.pictures.render`.
        smooth : bool
            Include the neighbours that smooth normals depend on, for clay, material, ambient
            occlusion and shadows: all parts are read once more.
        threads, progress
            As in `closest_hit`.

        Returns
        -------
        RenderSource
            For pictures of this camera with these samples. Its `surface` is a `BVH` over the
            triangles that are seen, `ids` has their ids in the mesh, and rays to lights are cast
            at the parts.

        Examples
        --------
        >>> import bvh, tempfile, trimesh
        >>> from bvh.pictures import render
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 40.0, 80, 60)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(trimesh.creation.icosphere(), folder)
        ...     seen = parts.visible_tree(camera)
        ...     [render(seen, camera, shade).pixels.shape for shade in ("clay", "depth")]
        [(60, 80, 3), (60, 80, 3)]
        """
        check_camera(camera)
        view, seen = camera.upright(), np.empty(0, np.int64)
        # Always grid 1, too, one ray through the centre of each pixel: arrays behind pictures, such
        # as depth, are made with it.
        grids = sorted({1, whole_number("samples", samples)})
        done, total = 0, sum(view.width * view.height * grid**2 for grid in grids)
        with heard(progress) as report:
            for grid in grids:
                width, height = view.width * grid, view.height * grid
                step = max(1, TOGETHER // width)
                for top in range(0, height, step):
                    rows = slice(top, min(top + step, height))
                    rays = tile_rays(rows, slice(0, width), view, grid)
                    hits = self.closest_hit(*rays, view.t_min, view.t_max, threads=threads)
                    seen = np.union1d(seen, hits.prim_id[hits.mask])
                    done += len(hits.t) * width
                    if report is not None:
                        report(done, total)
        # For smooth normals, neighbours that are not seen, too.
        ids = neighbours(self, seen) if smooth else seen
        corners = self.corners(ids).reshape(-1, 3)
        faces = np.arange(len(corners)).reshape(-1, 3)
        groups = self.groups_of(ids) if self._has_groups else None
        tree = BVH.from_triangles(corners, faces, groups=groups, threads=threads, warn=False)
        return RenderSource(tree, self, ids)

    # Targets of queries, as of trees and scenes.

    def _ray_target(self) -> PartRays:
        """Return the object that answers queries of rays."""
        return PartRays(self._visits)

    def _point_target(self, query: str, mask: int | None) -> PartPoints:
        """Return the object that answers the query of points of this name."""
        return PartPoints(self._ray_target(), self.bounds, query, one_mask(mask))

    def _open_surface(self, mask: int | None) -> None:
        """Return None, as open edges of parts are not detected; `mask` is unused."""
        return None

    def _region_target(self, query: str, mask: int | None, kinds: tuple[type, ...]) -> PartRegions:
        """Return the object that answers the query; `kinds` is unused, as all are triangles."""
        return PartRegions(self._visits, self.bounds, query, one_mask(mask))

    # The steps of `contains` by parity, which lazy queries merge over groups of parts.

    @verb({"points": (3,)}, np.int64, Merge.SUM)
    def _crossings(
        self, points: ArrayLike, *, mask: int | None = None, threads: int | None = None
    ) -> CountResult:
        """Count how often a ray from each point to the outside crosses the surface."""
        batch, target = point_batch(points), self._point_target("contains", mask)
        result = target.crossings(batch.points, thread_count(threads))
        return shaped(batch.shape, result)[0]

    @verb({"points": (3,)}, np.bool_, Merge.ANY)
    def _touched(
        self, points: ArrayLike, *, mask: int | None = None, threads: int | None = None
    ) -> TruthResult:
        """Return which points are on a face."""
        batch, target = point_batch(points), self._point_target("contains", mask)
        result = target.touched(batch.points, thread_count(threads))
        return shaped(batch.shape, result)[0]


def load(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool = True, audit: bool = False,
    threads: int | None = None, memory: int | str = "2GB",
) -> BVH | Scene | Parts:  # fmt: skip
    """Read a saved tree, a saved scene, or a folder of parts that `partition` has written.

    A damaged file, or one crafted to do harm, either raises a ValueError or gives a tree that is
    safe to query. Files contain no code.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder of parts, which may be a URL of fsspec.
    mmap : bool
        Map the file into memory instead of reading it: a tree of any size is available at once, is
        read from the disk as far as queries need it, and is shared by all processes that map it.
        The file must not be changed in place while the tree is in use: if it is truncated, the
        system ends the process. Saving to it again is safe.
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
        If there is no such file or folder.

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
    place = path_name(path)
    if is_url(place) or os.path.isdir(place):
        parts = Parts(place, memory=memory)
        if audit:
            parts.validate()
        return parts
    return loading.load(path, mmap=mmap, verify=verify, audit=audit, threads=threads)


def tile_rays(
    rows: slice, columns: slice, camera: Camera, samples: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (origins, directions) of the rays of a tile of a picture, shape (rows, columns, 3).

    The slices are of the grid of rays of the picture, which has `samples` rays along each side of
    a pixel.
    """
    x = (np.arange(columns.start, columns.stop) + 0.5) / samples
    y = (np.arange(rows.start, rows.stop) + 0.5) / samples
    return camera.ray(x, y[:, None])


def neighbours(parts: Parts, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `ids` and the ids of all triangles that share the place of a vertex with one of them.

    Vertices are compared by hashes, so a few other ids may be returned, which does no harm.
    """
    hashes = np.unique(_hashes(parts.corners(ids).reshape(-1, 3)))
    result = [ids]
    for part in map(parts.opened.part, range(parts.part_count)):
        touching = np.isin(_hashes(part.tree.vertices), hashes)
        result.append(part.ids[touching[part.tree.faces].any(axis=1)])
    return np.unique(np.concatenate(result))


def _hashes(points: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return a hash of each point, the same for equal points."""
    # Adding zero turns -0.0 into 0.0.
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64)
    # Odd factors spread the bits of each coordinate upward, and shifts bring them down again.
    mixed = bits * MIXERS
    return np.asarray(np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(29)), axis=1))
