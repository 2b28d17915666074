"""Triangulation of a polygon with holes by bridges and ear clipping: no point is added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Points = NDArray[np.float64]


def triangulated(points: Points, outer: Indices, holes: Sequence[Indices] = ()) -> Indices:
    """Return the triangles of a polygon with holes, wound anticlockwise.

    Parameters
    ----------
    points
        Shape ``(n, 2)``.
    outer, holes
        Rings as indices of points, all anticlockwise, not touching each other.

    Returns
    -------
    triangles
        Indices of points, shape ``(len(outer) + sum(len(hole) + 2 for holes) - 2, 3)``.
    """
    ring = outer
    # Join the rightmost hole first: the next ones may then bridge to it.
    waiting = sorted(holes, key=lambda hole: -float(points[hole, 0].max()))
    for i, hole in enumerate(waiting):
        ring = _bridged(points, ring, hole, waiting[i + 1 :])
    return _clipped(points, ring)


def _side(a: Points, b: Points, c: Points) -> NDArray[np.float64]:
    """Return twice the signed area of triangles: positive where anticlockwise."""
    area: NDArray[np.float64] = (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (
        b[..., 1] - a[..., 1]
    ) * (c[..., 0] - a[..., 0])
    return area


def _bridged(points: Points, ring: Indices, hole: Indices, others: Sequence[Indices]) -> Indices:
    """Return one ring that runs round ``ring``, over a bridge, round the hole and back."""
    start = int(points[hole, 0].argmax())
    tip = int(hole[start])
    tours = [ring, hole, *others]
    tails = np.concatenate(tours)
    heads = np.concatenate([np.roll(tour, -1) for tour in tours])
    for place in np.argsort(((points[ring] - points[tip]) ** 2).sum(axis=1), kind="stable"):
        end = int(ring[place])
        before, after = int(ring[place - 1]), int(ring[(place + 1) % len(ring)])
        if not _in_cone(points, before, end, after, tip):
            continue
        free = (tails != tip) & (heads != tip) & (tails != end) & (heads != end)
        a, b = points[tails[free]], points[heads[free]]
        p, q = points[tip], points[end]
        apart = (_side(p, q, a) * _side(p, q, b) > 0) | (_side(a, b, p) * _side(a, b, q) > 0)
        if apart.all():
            turned = np.roll(hole, -start)[::-1]
            detour = np.concatenate([[end, tip], turned])
            return np.concatenate([ring[:place], detour, ring[place:]])
    raise ValueError("a hole of the polygon sees no vertex around it")


def _in_cone(points: Points, before: int, at: int, after: int, target: int) -> bool:
    """Return whether the polygon lies towards ``target`` as seen from its corner ``at``."""
    a, b, c, t = points[[before, at, after, target]]
    left, right = _side(b, c, t) > 0, _side(a, b, t) > 0
    return bool(left and right if _side(a, b, c) > 0 else left or right)


def _clipped(points: Points, ring: Indices) -> Indices:
    """Cut ears off until three corners stay."""
    count = len(ring)
    place = points[ring]
    before, after = np.roll(np.arange(count), 1), np.roll(np.arange(count), -1)
    area = _side(place[before], place, place[after])
    # Only corners that are not convex can lie inside an ear.
    blunt = area <= 0.0
    triangles = np.empty((count - 2, 3), dtype=np.int64)
    at, misses = 0, 0
    for number in range(count - 2):
        while blunt[at] or not _is_ear(place, ring, blunt, int(before[at]), at, int(after[at])):
            at, misses = int(after[at]), misses + 1
            if misses > count - number:
                raise ValueError("the polygon crosses or touches itself")
        previous, following = int(before[at]), int(after[at])
        triangles[number] = ring[[previous, at, following]]
        blunt[at] = False
        after[previous], before[following] = following, previous
        for corner in (previous, following):
            ends = place[before[corner]], place[corner], place[after[corner]]
            blunt[corner] = _side(*ends) <= 0.0
        at, misses = int(after[following]), 0
    return triangles


def _is_ear(
    place: Points, ring: Indices, blunt: NDArray[np.bool_], before: int, at: int, after: int
) -> bool:
    """Return whether the triangle of a convex corner holds no other corner."""
    a, b, c = place[before], place[at], place[after]
    others = np.flatnonzero(blunt)
    p = place[others]
    inside = (_side(a, b, p) >= 0.0) & (_side(b, c, p) >= 0.0) & (_side(c, a, p) >= 0.0)
    inside &= (ring[others] != ring[before]) & (ring[others] != ring[at])
    inside &= ring[others] != ring[after]
    return not inside.any()
