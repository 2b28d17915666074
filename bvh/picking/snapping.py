"""Snapping: the point of triangles or of edges that is nearest to a cursor in the picture.

In plain float64: a distance in pixels decides nothing but which of several things that can be seen
is meant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.picking.projected import clipped, fan_of

Floats = NDArray[np.float64]

# What reaches behind the eye is cut at this share of its greatest depth.
NEAREST = 2.0**-30


class Nearest(NamedTuple):
    """The points of k triangles that are nearest to a cursor.

    Distances in pixels, inf for what is not between near and far; pixels (k, 2), depths, and
    weights (k, 3) of the triangles' corners in space.
    """

    distance: Floats
    pixel: Floats
    depth: Floats
    weights: Floats


def nearest_on_triangles(camera: Camera, triangles: Floats, x: float, y: float) -> Nearest:
    """Return what of each triangle (k, 3, 3) is nearest to (x, y) in the picture.

    Triangles without area are the segments or points that they are.
    """
    count = len(triangles)
    with np.errstate(invalid="ignore", over="ignore"):
        local = (triangles - camera.eye) @ camera.gradients.T
    depth = local[:, :, 2]
    # Where what each triangle shows begins.
    limit = np.full(count, camera.near)
    if camera.perspective:
        limit = np.maximum(limit, np.maximum(NEAREST * depth.max(axis=1), 2.0**-1000))
    whole = ((depth >= limit[:, None]) & (depth <= camera.far)).all(axis=1)
    weights = np.broadcast_to(np.eye(3), (count, 3, 3))
    parts, owners = [np.concatenate([local, weights], axis=2)[whole]], [np.flatnonzero(whole)]
    reaching = (depth.max(axis=1, initial=-np.inf) >= limit) & (depth.min(axis=1) <= camera.far)
    for i in np.flatnonzero(reaching & ~whole):
        polygon = clipped(local[i], float(limit[i]), camera.far)
        parts.append(polygon[fan_of(len(polygon))])
        owners.append(np.full(len(parts[-1]), i))
    found = _nearest(camera, np.concatenate(parts), x, y)
    # Of several parts of a triangle, the nearest.
    parents = np.concatenate(owners)
    order = np.lexsort((found.distance, parents))
    _, first = np.unique(parents[order], return_index=True)
    best = order[first]
    out = Nearest(
        np.full(count, np.inf), np.full((count, 2), np.nan), np.full(count, np.nan),
        np.full((count, 3), np.nan),
    )  # fmt: skip
    for whole_array, values in zip(out, found, strict=True):
        whole_array[parents[best]] = values[best]
    return out


def _nearest(camera: Camera, triangles: Floats, x: float, y: float) -> Nearest:
    """Return the nearest points of triangles in the camera's axes, all between near and far.

    Each corner is followed by its weights (see `clipped`).
    """
    local, depth = np.ascontiguousarray(triangles[:, :, :3]), triangles[:, :, 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        flat = local[:, :, :2] / depth[:, :, None] if camera.perspective else local[:, :, :2]
        corners = flat + camera.centre - (x, y)
        shares, distance = _nearest_shares(corners)
        if camera.perspective:
            inverse = shares / depth
            shares = inverse / inverse.sum(axis=1, keepdims=True)
        distance = np.where(np.isfinite(distance), distance, np.inf)
    picture = np.einsum("nk,nkj->nj", shares, local)
    pixel = picture[:, :2] / picture[:, 2:] if camera.perspective else picture[:, :2]
    weights = np.einsum("nk,nkj->nj", shares, np.ascontiguousarray(triangles[:, :, 3:]))
    return Nearest(distance, pixel + camera.centre, picture[:, 2], weights)


def _nearest_shares(corners: Floats) -> tuple[Floats, Floats]:
    """Return weights of the points of flat triangles nearest to the origin, and their distance."""
    best = np.full(len(corners), np.inf)
    shares = np.zeros((len(corners), 3))
    areas = np.empty((len(corners), 3))
    for k in range(3):
        a, b = corners[:, k], corners[:, (k + 1) % 3]
        areas[:, (k + 2) % 3] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        along = b - a
        length = (along * along).sum(axis=1)
        t = np.clip(-(a * along).sum(axis=1) / np.where(length > 0.0, length, 1.0), 0.0, 1.0)
        distance = np.hypot(*(a + t[:, None] * along).T)
        nearer = distance < best
        best = np.where(nearer, distance, best)
        shares[nearer] = 0.0
        shares[nearer, k] = 1.0 - t[nearer]
        shares[nearer, (k + 1) % 3] = t[nearer]
    total = areas.sum(axis=1)
    covered = (total != 0.0) & ((areas > 0.0).all(axis=1) | (areas < 0.0).all(axis=1))
    shares[covered] = areas[covered] / total[covered, None]
    best[covered] = 0.0
    return shares, best
