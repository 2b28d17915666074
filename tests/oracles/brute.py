"""The same leaf test as the traversals, over every primitive: what any tree must reproduce."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.triangles import scaled_ray
from bvh.queries.query_arguments import ray_batch
from bvh.runtime.calls.entries import entry
from bvh.tree.primitives import MISS, intersect, is_ray


@entry
def _closest(tree, valid, origins, directions, t_min, t_max, cull, begin, end, t, prim):
    """Test rays begin..end against every valid primitive, one after the other."""
    reach = tree.frame[1, 1]
    for i in range(begin, end):
        o = vector(origins, i if len(origins) > 1 else 0)
        d = vector(directions, i if len(directions) > 1 else 0)
        low = t_min[i if len(t_min) > 1 else 0]
        high = t_max[i if len(t_max) > 1 else 0]
        t[i], prim[i] = np.inf, -1
        if not is_ray(o, d, low, high):
            continue
        scaled = scaled_ray(o, d, reach)
        for p in range(len(valid)):
            if not valid[p]:
                continue
            at, side = intersect(tree.primitives, p, o, d, scaled, low, high, cull)
            # Ids rise, so a later equal t never wins.
            if side != MISS and (prim[i] < 0 or at < t[i]):
                t[i], prim[i] = at, p


def closest_hit(
    tree: Any, origins: Any, directions: Any, t_min: Any = 0.0, t_max: Any = np.inf, cull: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return (t, prim_id) of flat rays by brute force over a tree's primitives."""
    batch = ray_batch(origins, directions, t_min, t_max)
    rays = batch.rays
    valid = np.zeros(len(tree), np.bool_)
    valid[tree.arrays.nodes.ids[tree.arrays.nodes.ids >= 0]] = True
    t, prim = np.empty(batch.size), np.empty(batch.size, np.int32)

    def work(begin: int) -> None:
        _closest(
            tree.arrays, valid, rays.origins, rays.directions, rays.t_min, rays.t_max, cull,
            begin, min(begin + 1000, batch.size), t, prim,
        )  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(0, batch.size, 1000)))
    return t, prim
