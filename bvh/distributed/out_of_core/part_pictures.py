"""Trees that look to a camera like a mesh in parts: over the triangles that its rays hit first."""

from __future__ import annotations

import numpy as np

from bvh.camera.camera import Camera
from bvh.distributed.out_of_core.parts import Parts
from bvh.queries.hierarchy import BVH

# Rays at a time.
BAND = 1 << 21


def visible_tree(
    parts: Parts, camera: Camera, samples: int = 1, *, threads: int | None = None
) -> BVH:
    """Return a tree over the triangles of parts that a camera sees.

    Rays of the camera hit the same points of it as of the parts, bit for bit; other rays, such as
    those to lights, may not.

    Parameters
    ----------
    parts : Parts
    camera : Camera
    samples : int
        Rays along each side of a pixel, as of `bvh.pictures.render`.
    threads : int, optional

    Returns
    -------
    BVH
        Its `prim_id` is not that of the parts.
    """
    view, seen = camera.upright(), np.empty(0, np.int64)
    across = (np.arange(view.width * samples) + 0.5) / samples
    rows = max(1, BAND // len(across))
    for top in range(0, view.height * samples, rows):
        down = np.arange(top, min(top + rows, view.height * samples))
        rays = view.ray(*np.meshgrid(across, (down + 0.5) / samples))
        hits = parts.closest_hit(*rays, view.t_min, view.t_max, threads=threads)
        seen = np.union1d(seen, hits.prim_id[hits.mask])
    corners = parts.corners(seen).reshape(-1, 3)
    return BVH.from_triangles(corners, np.arange(len(corners)).reshape(-1, 3), threads=threads)
