"""Rays as programs cast them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import bvh

Rays = tuple[NDArray[np.float64], NDArray[np.float64]]


def workloads(tree: bvh.BVH, count: int, seed: int = 0) -> Iterator[tuple[str, str, Rays]]:
    """Yield (name, query, rays) with about `count` rays each.

    primary : a camera's rays, row by row.
    diffuse : rays bounced off what the camera sees, in every direction of the hemisphere.
    random : rays from a sphere around the mesh towards points of its box.
    shadow : segments from what the camera sees to a lamp, asked for any hit.
    """
    rng = np.random.default_rng(seed)
    side = round(count**0.5)
    camera = bvh.Camera.framing(tree.bounds, width=side, height=side)
    origins, directions = camera.rays()
    origins = np.ascontiguousarray(origins).reshape(-1, 3)
    directions = directions.reshape(-1, 3)
    yield "primary", "closest_hit", (origins, directions)

    hits = tree.closest_hit(origins, directions)
    seen = hits.mask
    ids, t = hits.prim_id[seen], hits.t[seen]
    v0, v1, v2 = (tree.vertices[tree.faces[ids, i]] for i in range(3))
    normals = np.cross(v1 - v0, v2 - v0)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    normals *= np.where(hits.front[seen], 1.0, -1.0)[:, None]
    span = np.linalg.norm(tree.bounds[1] - tree.bounds[0])
    points = origins[seen] + t[:, None] * directions[seen] + 1e-5 * span * normals
    bounce = rng.normal(size=points.shape)
    bounce /= np.linalg.norm(bounce, axis=1, keepdims=True)
    yield "diffuse", "closest_hit", (points, normals + 0.999 * bounce)

    center = tree.bounds.mean(axis=0)
    around = rng.normal(size=(count, 3))
    around = center + span * around / np.linalg.norm(around, axis=1, keepdims=True)
    within = rng.uniform(*tree.bounds, size=(count, 3))
    yield "random", "closest_hit", (around, within - around)

    lamp = center + span * np.array([0.6, 0.4, 1.2])
    yield "shadow", "any_hit", (points, lamp - points)
