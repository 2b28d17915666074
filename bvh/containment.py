"""Which points are inside a closed mesh: a stand-in, to be replaced by exact parity.

TO BE REPLACED. It counts the hits of one ray a point by asking for the nearest again and again;
where the ray meets an edge or a vertex of the mesh exactly, it may count wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh import batches
from bvh.point_batches import distances
from bvh.points import point_batch
from bvh.rays import ray_batch
from bvh.workers import Progress

DIRECTION = (0.5377, 0.2719, 0.7983)


def inside(
    arrays: Any, points: NDArray[np.float64], threads: int, progress: Progress | None
) -> NDArray[np.bool_]:
    """Tell which of the points (n, 3) are inside, or on the surface."""
    odd = np.zeros(len(points), np.bool_)
    active, t_min = np.arange(len(points)), np.zeros(len(points))
    while len(active):
        rays = ray_batch(points[active], np.asarray(DIRECTION), t_min, np.inf)
        hits = batches.closest_hit(arrays, rays, 0, threads, None)
        active, t_min = active[hits.mask], np.nextafter(hits.t[hits.mask], np.inf)
        odd[active] ^= True
    on = distances(arrays, point_batch(points, 0.0), threads, progress) == 0.0
    return np.asarray(odd | on)
