"""Counts the rays that a caster loses between triangles of a closed sphere."""

from __future__ import annotations

from typing import Any

import numpy as np

import bvh

from .casters import Caster, Ours
from .scenes import generator
from .workloads import Workload


def leaks(kinds: list[type[Caster]]) -> dict[str, Any]:
    """Cast rays from inside at all vertices and middles of edges; count the misses.

    Parameters
    ----------
    kinds
        The peers.
    """
    points, faces = generator("sphere", "geodesic_sphere")(32)
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]]])
    aims = np.concatenate([points, points[edges].mean(axis=1)])
    eyes = np.full_like(aims, 0.1)
    work = Workload("leaks", "closest_hit", eyes, aims - eyes)
    casters: list[Caster] = [Ours(bvh.BVH.from_triangles(points, faces), 1)]
    casters += [kind.made(points, faces) for kind in kinds]
    lost = {}
    for caster in casters:
        call = caster.batch(work)
        if call is not None:
            lost[caster.name] = int(np.count_nonzero(~caster.answer(work, call()).hit))
    return {"what": "leaks", "mesh": "sphere-32", "triangles": len(faces), "count": len(aims),
            "lost": lost}  # fmt: skip
