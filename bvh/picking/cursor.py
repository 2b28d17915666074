"""Picking: what is under a cursor in the picture of a scene, or within a few pixels of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.picking.marquee import Finder, PickableScene, joined
from bvh.picking.projected import nearest_on_triangles, transformed
from bvh.picking.region import Region, check_camera, not_beside, rectangle
from bvh.picking.results import Pick
from bvh.runtime.arguments import reals
from bvh.tree.primitives import Triangles

# What is beside the cursor is hidden by what is nearer than it by more than this share of its
# depth: its pixel is rounded, and faces that meet at a silhouette are steep.
CONTACT = 2.0**-20


def all_under(
    scene: PickableScene, camera: Camera, x: float, y: float, mask: int
) -> tuple[Any, Any]:
    """Return the ray of a cursor, and all its hits in a `Scene`."""
    check_camera(camera)
    ray = camera.cursor_ray(x, y)
    return ray, scene.all_hits(ray[:3], ray[3:], camera.near, camera.far, mask=mask)


def pick_near(
    scene: PickableScene, camera: Camera, x: float, y: float, radius: float, mask: int
) -> Pick | None:
    """Return the nearest hit within a radius of a cursor; see `Scene.pick`."""
    if reals("radius", radius).shape != () or not 0.0 <= radius < math.inf:
        raise ValueError(f"radius must be a finite number of at least 0, got {radius}")
    x, y, reach = float(x), float(y), float(radius)
    if reach == 0.0:
        return scene.pick(camera, x, y, mask=mask)
    ray, hits = all_under(scene, camera, x, y, mask)
    if not (math.isfinite(x) and math.isfinite(y)):
        return None
    columns = (hits.t, hits.prim_id, hits.u, hits.v, hits.front, hits.leaf)
    found = list(zip(*(column[:1].tolist() for column in columns), strict=True))
    finder = Finder(scene, camera, mask, 1)
    region = rectangle(camera, x - reach, y - reach, x + reach, y + reach)
    if found:
        # Faces behind the nearest hit are excluded. Depth grows along its gradient, which slanting
        # parallel rays do not follow.
        t, along = found[0][0], camera.gradients[2]
        plane = np.append(-along, t + CONTACT * abs(t) + float(along @ camera.eye))
        region = region._replace(planes=np.vstack([region.planes, plane]))
    rows, _ = finder.near(region)
    owners = finder.leaves.instance_id
    rows = rows[~np.isin(owners[rows], hits.instance_id)]
    found += _beside(finder, region, rows, x, y, reach)
    # By t, leaf and prim_id.
    best = min(found, key=lambda hit: (hit[0], hit[5], hit[1]), default=None)
    return Pick((scene, camera, x, y, ray, scene._flattened), best) if best else None


def _beside(
    finder: Finder, region: Region, rows: NDArray[np.int64], x: float, y: float, reach: float
) -> list[tuple[Any, ...]]:
    """Return for each instance the visible point of its faces nearest to a cursor, as a hit."""
    camera = finder.camera
    surfaces = []
    for row in rows.tolist():
        leaf, matrix = finder.leaf(row)
        surfaces.append(transformed(leaf.candidates(matrix, region)[0], matrix))
    if not surfaces:
        return []
    triangles, prims, leaves = joined(rows.tolist(), surfaces)
    near_by = not_beside(region, triangles)
    triangles, prims, leaves = triangles[near_by], prims[near_by], leaves[near_by]
    near = nearest_on_triangles(camera, triangles, x, y)
    close = np.flatnonzero(near.distance <= reach)
    pixel, depth = near.pixel[close], near.depth[close]
    hits = finder.cast(pixel, camera.far)
    seen = hits.t >= depth - CONTACT * np.abs(depth)
    seen |= (hits.leaf == leaves[close]) & (hits.prim_id == prims[close])
    close, depth = close[seen], depth[seen]
    instances = finder.leaves.instance_id[leaves[close]]
    order = np.lexsort((prims[close], leaves[close], depth, near.distance[close], instances))
    _, first = np.unique(instances[order], return_index=True)
    found = []
    for k in order[first].tolist():
        at, row = int(close[k]), int(leaves[close[k]])
        weights, distance = near.weights[at], float(near.distance[at])
        flat = isinstance(finder.leaf(row)[0].tree.arrays.primitives, Triangles)
        u, v = weights[1:].tolist() if flat else (math.nan, math.nan)
        position = weights @ triangles[at]
        found.append((float(depth[k]), int(prims[at]), u, v, False, row, distance, position))
    return found
