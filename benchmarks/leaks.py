"""Counts the rays that a caster loses between triangles of a closed sphere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import bvh
from .casters import Caster, Ours
from .workloads import Workload
from meshes.sphere import geodesic_sphere


def leaks(makers: list[Callable[..., Caster]]) -> dict[str, Any]:
    """Cast rays from inside at all vertices and middles of edges; count the misses.

    Parameters
    ----------
    makers
        Of the peers.
    """
    points, faces = geodesic_sphere(32)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    aims = np.concatenate([points, points[edges].mean(axis=1)])
    eyes = np.full_like(aims, 0.1)
    work = Workload("leaks", "closest_hit", eyes, aims - eyes)
    casters: list[Caster] = [Ours(bvh.BVH.from_triangles(points, faces), 1)]
    casters += [make(points.astype(np.float32), faces.astype(np.uint32)) for make in makers]
    lost = {
        caster.name: int(np.count_nonzero(~caster.answer(work, caster.batch(work)()).hit))
        for caster in casters
    }
    return {"what": "leaks", "mesh": "sphere-32", "triangles": len(faces), "count": len(aims),
            "lost": lost}  # fmt: skip
