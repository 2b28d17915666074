"""Picking: the nearest hit in a scene or tree under a cursor, or within a few pixels of it."""

import math
from typing import Any

import numpy as np

from bvh.camera.camera import Camera, check_camera
from bvh.picking.placed_trees import (
    Floats,
    Ids,
    Ints,
    PickableScene,
    PickOptions,
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
# A hit, its distance from the cursor in pixels, and its position, None for the cursor's own ray.
Candidate = tuple[Hit, float, Floats | None]


def pick_in_tree(
    tree: BVH, camera: Camera, x: float, y: float, radius: float, **options: Any
) -> Pick | None:
    """Return the nearest hit of a tree within a radius of a cursor; arguments as in `BVH.pick`."""
    return pick(tree, camera, x, y, radius, PickOptions(**options))


def pick(
    source: PickableScene | BVH, camera: Camera, x: float, y: float, radius: float,
    options: PickOptions,
) -> Pick | None:  # fmt: skip
    """Return the nearest hit within `radius` pixels of a cursor at (x, y), or None.

    The arguments are those of `Scene.pick`.
    """
    # Types are compared first: checks of the usual arguments take longer than the ray.
    if type(camera) is not Camera:
        check_camera(camera)
    if not (type(radius) is float and radius == 0.0) and checked_radius(radius) > 0.0:
        return _pick_near(PlacedTrees.of(source), camera, x, y, radius, options)
    ray = camera.cursor_ray(x, y)
    # `hit` is (t, prim_id, u, v, front), in a scene also the leaf.
    if options == PLAIN:
        hit = cast_ray(source._quick, ray, camera.near, camera.far)
    else:
        hit = source.caster(mask=options.mask)(*ray, camera.near, camera.far)
    if hit[1] < 0:
        return None
    if isinstance(source, BVH):
        # A tree alone has no leaves: -1, and no table of them.
        return Pick((*hit, -1), source, None, camera, x, y, ray)
    return Pick(hit, source, source._flattened, camera, x, y, ray)


def checked_radius(radius: float) -> float:
    """Return `radius`, in pixels, as a float; ValueError unless it is finite and at least 0."""
    if reals("radius", radius).shape != () or not 0.0 <= radius < math.inf:
        raise ValueError(f"radius must be a finite number of at least 0, got {radius}")
    return float(radius)


def _pick_near(
    placed: PlacedTrees, camera: Camera, x: float, y: float, radius: float, options: PickOptions
) -> Pick | None:
    """Return the nearest hit within a radius, above 0, of a cursor; None without one.

    `options.mask` selects faces. Candidates are the nearest hit of the cursor's ray, and, for each
    instance that the ray misses, its visible point nearest to the cursor in the picture.
    """
    if isinstance(placed.source, BVH):
        placed.source._must_hold("a pick with a radius", Triangles, *KINDS)
    x, y, reach = float(x), float(y), float(radius)
    ray, mask = camera.cursor_ray(x, y), options.mask
    hits = placed.source.all_hits(ray[:3], ray[3:], camera.near, camera.far, mask=mask)
    if not (math.isfinite(x) and math.isfinite(y)):
        return None
    planes = camera.frustum(x - reach, y - reach, x + reach, y + reach)
    candidates: list[Candidate] = [(hit, 0.0, None) for hit in hit_tuples(hits, 1)]
    if candidates:
        # Exclude faces behind the nearest hit, by a plane of equal depth. Its normal is the
        # gradient of depth, to which slanting parallel rays are not parallel.
        t, along = candidates[0][0][0], camera.gradients[2]
        plane = np.append(-along, t + CONTACT * abs(t) + float(along @ camera.eye))
        planes = np.vstack([planes, plane])
    visited = VisitedTrees(placed, camera, options)
    rows, _ = visited.near(planes)
    # Instances that the cursor's ray hits have no other candidate.
    rows = rows[~np.isin(placed.instance_id[rows], placed.instance_id[leaves_of(hits)])]
    if len(rows):
        candidates += _nearest_visible(visited, planes, rows.tolist(), x, y, reach)
    if not candidates:
        return None
    # The nearest, by t; then the lowest leaf and prim_id. `Hit` is (t, prim_id, u, v, front, leaf).
    hit, distance, point = min(candidates, key=lambda c: (c[0][0], c[0][5], c[0][1]))
    if placed.table is None:  # a tree alone has no leaves
        hit = (*hit[:5], -1)
    return Pick(hit, placed.source, placed.table, camera, x, y, ray, distance, point)


def hit_tuples(hits: AllHits, most: int | None = None) -> list[Hit]:
    """Return the hits of one ray as tuples `Hit`, nearest first: all, or only the first `most`."""
    columns = hits.t, hits.prim_id, hits.u, hits.v, hits.front, leaves_of(hits)
    return list(zip(*(column[:most].tolist() for column in columns), strict=True))


def _nearest_visible(
    visited: VisitedTrees, planes: Floats, rows: list[int], x: float, y: float, reach: float
) -> list[Candidate]:
    """Return for each instance its visible point nearest to a cursor, if within `reach` pixels.

    The instances are those of the leaves `rows`; `planes` are a frustum around the points in reach.
    """
    camera, placed = visited.camera, visited.placed
    triangles, prims, leaves = _faces_near(visited, planes, rows, x, y)
    near = nearest_on_triangles(camera, triangles, x, y)
    close = np.flatnonzero(near.distance <= reach)
    depth = near.depth[close]
    t, hit_leaves, hit_prims = visited.cast(near.pixel[close], camera.far)
    # Visible: no hit through its pixel is nearer, or the nearest one is on the primitive itself.
    seen = t >= depth - CONTACT * np.abs(depth)
    seen |= (hit_leaves == leaves[close]) & (hit_prims == prims[close])
    close, depth = close[seen], depth[seen]
    instances = placed.instance_id[leaves[close]]
    # The first of each instance by distance in pixels, depth, leaf and prim_id.
    order = np.lexsort((prims[close], leaves[close], depth, near.distance[close], instances))
    _, first = np.unique(instances[order], return_index=True)
    candidates: list[Candidate] = []
    for k in order[first].tolist():
        i, row = int(close[k]), int(leaves[close[k]])
        weights = near.weights[i]
        is_face = isinstance(visited.leaf(row)[0].tree.arrays.primitives, Triangles)
        u, v = weights[1:].tolist() if is_face else (math.nan, math.nan)
        # `front` is False, as the cursor's ray does not meet the face.
        hit = float(depth[k]), int(prims[i]), u, v, False, row
        candidates.append((hit, float(near.distance[i]), weights @ triangles[i]))
    return candidates


def _faces_near(
    visited: VisitedTrees, planes: Floats, rows: list[int], x: float, y: float
) -> tuple[Floats, Ids, Ints]:
    """Return triangles (n, 3, 3) of leaves in a frustum, their primitives (n,) and leaves (n,).

    `rows` are the leaves. A sphere or capsule is replaced by triangles that contain its visible
    point nearest to the cursor (x, y) (see `nearest_outlines`).
    """
    flat, found = [], []
    for row in rows:
        faces, matrix = visited.leaf(row)
        if not isinstance(faces.tree.arrays.primitives, HOLLOW):
            flat.append(row)
            continue
        rounds, ids = faces.rounds_in(matrix, planes)
        triangles, owners = nearest_outlines(visited.camera, rounds, x, y)
        found.append((triangles, ids[owners], np.full(len(owners), row)))
    if flat:
        found.append(visited.faces_in(planes, flat))
    triangles, prims, leaves = (np.concatenate(some) for some in zip(*found, strict=True))
    return triangles, prims, leaves
