"""The leaf test of points over every face: what any traversal must reproduce."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import finite, vector
from bvh.geometry.point_triangle import distance_bounds, nearest_on_triangle
from bvh.queries.query_arguments import point_batch
from bvh.runtime.calls.entries import entry
from bvh.tree.primitives import corners, world_bounds


@entry
def _closest(triangles, valid, points, limits, begin, end, distance, prim, filtered):
    """Measure points begin..end against every valid face, one after the other."""
    for i in range(begin, end):
        p = vector(points, i)
        limit = limits[i if len(limits) > 1 else 0]
        distance[i], prim[i] = np.inf, -1
        if not (finite(p) and limit >= 0.0):
            continue
        for k in range(len(valid)):
            if not valid[k]:
                continue
            face = corners(triangles, k)
            if filtered and distance_bounds(p, *face)[0] > distance[i]:
                continue
            d = nearest_on_triangle(p, *face)[0]
            # Ids rise, so a later equal distance never wins.
            if d <= limit and (prim[i] < 0 or d < distance[i]):
                distance[i], prim[i] = d, k


def closest_point(
    tree: Any, points: Any, max_distance: Any = np.inf, filtered: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return (distance, prim_id) of flat points by brute force.

    With `filtered`, faces that are further by `distance_bounds` are left out.
    """
    batch = point_batch(points, max_distance)
    distance, prim = np.empty(batch.size), np.empty(batch.size, np.int32)
    valid = world_bounds(tree.arrays.primitives)[2]

    def work(begin: int) -> None:
        _closest(
            tree.arrays.primitives, valid, batch.points, batch.limits, begin,
            min(begin + 100, batch.size), distance, prim, filtered,
        )  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(0, batch.size, 100)))
    return distance, prim
