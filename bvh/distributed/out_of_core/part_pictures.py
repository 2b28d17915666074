"""Pictures of a mesh in parts: of a tree over the triangles that a camera sees."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera, check_camera
from bvh.distributed.out_of_core.part_content import PartContent
from bvh.pictures.render_source import RenderSource
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.runtime.arguments import TruthResult, whole_number
from bvh.runtime.progress_bars import ProgressLike, heard

# Rays at a time.
TOGETHER = 1 << 20

# Odd numbers that mix the bits of coordinates.
MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


class PartPictures(PartContent):
    """Pictures of `Parts`, which has the queries of rays."""

    closest_hit: Callable[..., Hits]
    any_hit: Callable[..., TruthResult]

    def visible_tree(
        self, camera: Camera, samples: int = 1, *, smooth: bool = True, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> RenderSource:  # fmt: skip
        """Return a source of which a camera takes the same pictures as of the whole mesh.

        `bvh.pictures.render` asks for it itself: it is for several pictures of one camera.

        Parameters
        ----------
        camera : Camera
            That of the pictures.
        samples : int
            Rays along each side of a pixel, as of `bvh.pictures.render`.
        smooth : bool
            Have what smooth normals depend on, for clay, material, ambient occlusion and shadows:
            all parts are read once more.
        threads : int, optional
            Threads to use; one for each CPU by default, and -1 for all CPUs of the affinity.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in rays.

        Returns
        -------
        RenderSource
            For pictures of this camera, with so many samples. Its `surface` is a `BVH` over the
            triangles that are seen, `ids` has their ids in the mesh, and rays to lights are cast
            at the parts.

        Raises
        ------
        ValueError, TypeError
            If an argument is invalid.

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
        # Numbers behind pictures are taken at the centres of pixels.
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
        return visible_source(self, seen, smooth=smooth, threads=threads)


def visible_source(
    parts: PartPictures, seen: NDArray[np.int64], *, smooth: bool, threads: int | None = None
) -> RenderSource:
    """Return the source of pictures in which rays of the camera hit these triangles first."""
    # For `smooth` normals it has their neighbours, too.
    ids = np.unique(seen)
    if smooth:
        ids = neighbours(parts, ids)
    corners = parts.corners(ids).reshape(-1, 3)
    faces = np.arange(len(corners)).reshape(-1, 3)
    # Neighbours may have no bits, and are not seen.
    groups = parts.groups_of(ids) if parts._has_groups else None
    tree = BVH._of_triangles(corners, faces, groups=groups, threads=threads)
    return RenderSource(tree, parts, ids)


def tile_rays(
    rows: slice, columns: slice, camera: Camera, samples: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rays of a tile of a camera's picture, so many along each side of a pixel."""
    x = (np.arange(columns.start, columns.stop) + 0.5) / samples
    y = (np.arange(rows.start, rows.stop) + 0.5) / samples
    return camera.ray(x, y[:, None])


def neighbours(parts: PartPictures, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of triangles and of all that have a vertex in the same place, and of more."""
    # Vertices are compared by hashes: it does no harm to find too many.
    wanted = np.unique(_hashes(parts.corners(ids).reshape(-1, 3)))
    found = [ids]
    for number in range(parts.part_count):
        with parts._open.part(number) as part:
            touching = np.isin(_hashes(part.tree.vertices), wanted)
            found.append(part.ids[touching[part.tree.faces].any(axis=1)])
    return np.unique(np.concatenate(found))


def _hashes(points: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return numbers of points, the same for the same point."""
    # Adding zero turns -0.0 into 0.0.
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64)
    mixed = bits * MIXERS
    return np.asarray(np.bitwise_xor.reduce(mixed ^ (mixed >> np.uint64(29)), axis=1))
