"""How deep two solids are in each other: by points of one inside the other, and by their edges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.surfaces.relations import NAMES, Surface, relation_of

Reals = NDArray[np.float64]


# What is nearer to a surface than this share of its length lies in it but for rounding.
ON_FACE = 2.0**-40


class Deepest(NamedTuple):
    """The deepest place: a point, or the end of a part of an edge."""

    depth: float
    point: Reals
    direction: Reals
    prim_id: tuple[int, int]
    own: bool  # whether the point, or the edge, is of the first solid
    pierces: bool


NOTHING = Deepest(0.0, np.full(3, np.nan), np.full(3, np.nan), (-1, -1), False, False)


def deepest_of(own: Surface, other: Surface, threads: int) -> Deepest:
    """Return the deepest place of two solids in each other; of equal ones that of the first."""
    found = NOTHING
    sides = (own, other), (other, own)
    for step in (_deepest_vertex, _deepest_middle, _longest_part):
        for side, (a, b) in enumerate(sides):
            place = step(a, b, side, threads)
            if place.depth > found.depth:
                # Vertices are exact. All else is rounded, and may be inside for that alone.
                if step is not _deepest_vertex and found.depth == 0.0:
                    if relation_of(own, other, threads) in NAMES[:2]:
                        return NOTHING
                found = place
        if step is not _deepest_vertex and found.depth > 0.0:
            break
    return found


def _deepest_vertex(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the vertex that is deepest inside of another solid."""
    corners = own.solid.corners
    faces = np.repeat(np.arange(len(corners)), 3)
    return _deepest_point(corners.reshape(-1, 3), faces, other, side, threads)


def _deepest_middle(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the middle of a face that is deepest inside of another solid."""
    corners = own.solid.corners
    return _deepest_point(corners.mean(axis=1), np.arange(len(corners)), other, side, threads)


def _deepest_point(
    points: Reals, faces: NDArray[np.int64], other: Surface, side: int, threads: int
) -> Deepest:
    """Return the point of a surface that is deepest inside of another solid."""
    low, high = other.tree.bounds
    near = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    found = other.solid.are_inside(points[near], threads)
    # What is on the surface has no depth, whatever it counts as.
    near, sure = near[found != 0], found[found != 0] > 0
    if len(near) == 0:
        return NOTHING
    closest = other.tree.closest_point(points[near], threads=threads)
    depths = closest.distance.copy()
    k = int(depths.argmax())
    while depths[k] > 0.0 and not (sure[k] or other.tree.contains(points[near[k]])):
        depths[k] = 0.0
        k = int(depths.argmax())
    depth, point = float(depths[k]), points[near[k]]
    if depth == 0.0:
        return NOTHING
    ids = int(faces[near[k]]), int(closest.prim_id[k])
    way = (closest.position[k] - point) / depth
    return Deepest(depth, point, way, ids if side == 0 else ids[::-1], side == 0, False)


def _longest_part(own: Surface, other: Surface, side: int, threads: int) -> Deepest:
    """Return the longest part of an edge that is inside of another solid."""
    corners = own.solid.corners
    starts = corners.reshape(-1, 3)
    ways = np.roll(corners, -1, axis=1).reshape(-1, 3) - starts
    ends = starts + ways
    low, high = other.tree.bounds
    near = (np.minimum(starts, ends) <= high) & (np.maximum(starts, ends) >= low)
    chosen = np.flatnonzero(near.all(axis=1) & (ways != 0.0).any(axis=1))
    hits = other.tree.all_hits(starts[chosen], ways[chosen], t_max=1.0, threads=threads)
    ray = hits.ray_id
    if len(ray) == 0:
        return NOTHING
    # Between two crossings of an edge, whose middle tells whether that part is inside.
    length = np.linalg.norm(ways[chosen], axis=1)[ray[1:]] * (hits.t[1:] - hits.t[:-1])
    length = np.where(ray[1:] == ray[:-1], length, 0.0)
    middle = 0.5 * (hits.t[1:] + hits.t[:-1])
    points = starts[chosen[ray[1:]]] + middle[:, None] * ways[chosen[ray[1:]]]
    parts = np.flatnonzero(length > 0.0)
    inside = other.solid.are_inside(points[parts], threads) == 1
    # Edges in a face have crossings at both ends, too.
    inside &= other.tree.distance(points[parts], threads=threads) > length[parts] * ON_FACE
    length[parts[~inside]] = 0.0
    k = int(length.argmax()) if len(length) else 0
    while len(length) and length[k] > 0.0 and own.is_flat(int(chosen[ray[k]])):
        length[k] = 0.0
        k = int(length.argmax())
    if len(length) == 0 or length[k] == 0.0:
        return NOTHING
    edge = chosen[ray[k]]
    way = ways[edge] / np.linalg.norm(ways[edge])
    ids = int(edge // 3), int(hits.prim_id[k])
    point = starts[edge] + hits.t[k] * ways[edge]
    return Deepest(float(length[k]), point, way, ids if side == 0 else ids[::-1], side == 0, True)
