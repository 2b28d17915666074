"""Picking: the nearest hit in a scene or tree under a cursor, or within a few pixels of it."""

import math
from typing import Any

import numpy as np

from bvh.camera.camera import Camera, check_camera
from bvh.picking.options import PickOptions
from bvh.picking.placed_trees import (
    Floats,
    Ids,
    Ints,
    PickableScene,
    PlacedTrees,
    VisitedTrees,
    leaves_of,
)
from bvh.picking.projected import nearest_on_triangles
from bvh.picking.results import Hit, Pick
from bvh.picking.silhouettes import nearest_outlines
from bvh.queries.batches.quick_calls import cast_ray
from bvh.queries.hierarchy import BVH
from bvh.queries.results import AllHits
from bvh.runtime.arguments import reals
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import HOLLOW, KINDS

# Points near the cursor are hidden by hits that are nearer by more than this share of their depth:
# pixels are rounded, and faces that meet at a silhouette are steep.
CONTACT = 2.0**-20

PLAIN = PickOptions()

# A hit, its distance from the cursor in pixels, and its position; None on the cursor's ray.
Candidate = tuple[Hit, float, Floats | None]


def pick_in_tree(
    tree: BVH, camera: Camera, x: float, y: float, radius: float, **options: Any
) -> Pick | None:
    """Return the nearest hit of a tree within a radius of a cursor; see `BVH.pick`."""
    return pick(tree, camera, x, y, radius, PickOptions(**options))


def pick(
    source: PickableScene | BVH, camera: Camera, x: float, y: float, radius: float,
    options: PickOptions,
) -> Pick | None:  # fmt: skip
    """Return the nearest hit within a radius of a cursor; see `Scene.pick`."""
    if type(camera) is not Camera:
        check_camera(camera)
    if not (type(radius) is float and radius == 0.0) and in_pixels(radius) > 0.0:
        return _pick_near(PlacedTrees.of(source), camera, x, y, radius, options)
    ray = camera.cursor_ray(x, y)
    if options == PLAIN:
        hit = cast_ray(source._quick, ray, camera.near, camera.far)
    else:
        hit = source.caster(mask=options.mask)(*ray, camera.near, camera.far)
    if hit[1] < 0:
        return None
    if isinstance(source, BVH):
        return Pick((*hit, -1), source, None, camera, x, y, ray)
    return Pick(hit, source, source._flattened, camera, x, y, ray)


def in_pixels(radius: float) -> float:
    """Return a checked radius."""
    if reals("radius", radius).shape != () or not 0.0 <= radius < math.inf:
        raise ValueError(f"radius must be a finite number of at least 0, got {radius}")
    return float(radius)


def _pick_near(
    placed: PlacedTrees, camera: Camera, x: float, y: float, radius: float, options: PickOptions
) -> Pick | None:
    """Return the nearest hit within a radius, checked and above 0."""
    if isinstance(placed.source, BVH):
        placed.source._must_hold("a pick with a radius", Triangles, *KINDS)
    x, y, reach = float(x), float(y), float(radius)
    ray, mask = camera.cursor_ray(x, y), options.mask
    hits = placed.source.all_hits(ray[:3], ray[3:], camera.near, camera.far, mask=mask)
    if not (math.isfinite(x) and math.isfinite(y)):
        return None
    planes = camera.frustum(x - reach, y - reach, x + reach, y + reach)
    found: list[Candidate] = [(hit, 0.0, None) for hit in rows_of(hits, 1)]
    if found:
        # Faces behind the nearest hit are excluded. Depth grows along its gradient, which slanting
        # parallel rays do not follow.
        t, along = found[0][0][0], camera.gradients[2]
        plane = np.append(-along, t + CONTACT * abs(t) + float(along @ camera.eye))
        planes = np.vstack([planes, plane])
    visited = VisitedTrees(placed, camera, options)
    rows, _ = visited.near(planes)
    # Instances that the cursor's ray hits need no other candidate.
    rows = rows[~np.isin(placed.instance_id[rows], placed.instance_id[leaves_of(hits)])]
    if len(rows):
        found += _nearby(visited, planes, rows.tolist(), x, y, reach)
    if not found:
        return None
    # By t, leaf and prim_id.
    hit, distance, point = min(found, key=lambda one: (one[0][0], one[0][5], one[0][1]))
    # A tree alone has no leaves.
    if placed.table is None:
        hit = (*hit[:5], -1)
    return Pick(hit, placed.source, placed.table, camera, x, y, ray, distance, point)


def rows_of(hits: AllHits, most: int | None = None) -> list[Hit]:
    """Return hits of a ray as tuples: all of them, or the first `most`."""
    columns = hits.t, hits.prim_id, hits.u, hits.v, hits.front, leaves_of(hits)
    return list(zip(*(column[:most].tolist() for column in columns), strict=True))


def _nearby(
    visited: VisitedTrees, planes: Floats, rows: list[int], x: float, y: float, reach: float
) -> list[Candidate]:
    """Return the nearest visible point, within `reach` of a cursor, of each instance in `rows`."""
    camera, placed = visited.camera, visited.placed
    triangles, prims, leaves = _faces_near(visited, planes, rows, x, y)
    near = nearest_on_triangles(camera, triangles, x, y)
    close = np.flatnonzero(near.distance <= reach)
    depth = near.depth[close]
    t, hit_leaves, hit_prims = visited.cast(near.pixel[close], camera.far)
    seen = t >= depth - CONTACT * np.abs(depth)
    seen |= (hit_leaves == leaves[close]) & (hit_prims == prims[close])
    close, depth = close[seen], depth[seen]
    instances = placed.instance_id[leaves[close]]
    order = np.lexsort((prims[close], leaves[close], depth, near.distance[close], instances))
    _, first = np.unique(instances[order], return_index=True)
    found: list[Candidate] = []
    for k in order[first].tolist():
        at, row = int(close[k]), int(leaves[close[k]])
        weights = near.weights[at]
        flat = isinstance(visited.leaf(row)[0].tree.arrays.primitives, Triangles)
        u, v = weights[1:].tolist() if flat else (math.nan, math.nan)
        hit = float(depth[k]), int(prims[at]), u, v, False, row
        found.append((hit, float(near.distance[at]), weights @ triangles[at]))
    return found


def _faces_near(
    visited: VisitedTrees, planes: Floats, rows: list[int], x: float, y: float
) -> tuple[Floats, Ids, Ints]:
    """Return triangles that may be near a cursor; of round shapes, their nearest visible points."""
    rounded = [isinstance(visited.leaf(row)[0].tree.arrays.primitives, HOLLOW) for row in rows]
    flat = [row for row, hollow in zip(rows, rounded, strict=True) if not hollow]
    found = [visited.faces_in(planes, flat)] if flat else []
    for row in (row for row, hollow in zip(rows, rounded, strict=True) if hollow):
        faces, matrix = visited.leaf(row)
        rounds, ids = faces.round_ones(matrix, planes)
        triangles, owners = nearest_outlines(visited.camera, rounds, x, y)
        found.append((triangles, ids[owners], np.full(len(owners), row)))
    triangles, prims, leaves = (np.concatenate(some) for some in zip(*found, strict=True))
    return triangles, prims, leaves
