"""Visibility of selected faces and vertices, by rays of the camera.

A face is seen if one of these rays meets it first: those through the middles of device pixels in
the region, each divided into `samples` x `samples`; those at the middle of the face, and at three
points next to its corners, where these are in the region. So a face that is seen by a whole pixel
is never left out, nor is one that is seen whole, however small; what may be left out shows only a
part of itself, smaller than a pixel. A vertex is seen if nothing is in front of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.picking.outlines import BORDER, judge_points
from bvh.picking.projected import Surface
from bvh.picking.region import Region
from bvh.runtime.arguments import kernel_input

# Rays at a time.
BATCH = 2**19
# Corners are looked at from this far inside, in shares of the distance to the opposite edge.
INSET = 2.0**-10
# A vertex is not hidden by what is as near to it as this, in shares of its depth: the ray at its
# rounded pixel passes by so far.
CONTACT = 2.0**-32

Cast = Callable[..., Any]


def pixel_codes(cast: Cast, camera: Camera, region: Region, samples: int) -> NDArray[np.int64]:
    """Return the codes of the faces that rays through the pixels of a region meet first."""
    x0, y0, x1, y1 = region.box
    scale = samples * camera.pixel_ratio
    axes = []
    for low, high, size in ((x0, x1, camera.width), (y0, y1, camera.height)):
        begin = max(0, int(np.ceil(max(low * scale, -1.0) - 0.5)))
        end = min(size * samples, int(np.floor(min(high * scale, size * samples + 1.0) - 0.5)) + 1)
        axes.append((np.arange(begin, max(begin, end)) + 0.5) / scale)
    across, down = axes
    found = [np.empty(0, np.int64)]
    step = max(1, BATCH // max(1, len(across)))
    for first in range(0, len(down), step):
        x, y = np.meshgrid(across, down[first : first + step])
        points = np.stack([x.ravel(), y.ravel()], axis=1)
        if not region.convex:
            points = points[_held(region, points)]
        found.append(np.unique(_codes(cast, camera, points)))
    return np.unique(np.concatenate(found))


def seen_by_own_rays(
    cast: Cast, camera: Camera, region: Region, surface: Surface, codes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which faces of a transformed surface, with these codes, rays at them hit first."""
    triangles = surface.points[surface.faces]
    seen = np.zeros(len(triangles), np.bool_)
    third = np.full(3, 1.0 / 3.0)
    corners = (1.0 - 2.0 * INSET) * np.eye(3) + INSET * (1.0 - np.eye(3))
    for weights in (third, *corners):
        left = np.flatnonzero(~seen)
        points = np.einsum("k,nkj->nj", weights, triangles[left])
        x, y, depth = camera.project(points)
        at = np.stack([x, y], axis=1)
        good = np.isfinite(at).all(axis=1) & (depth >= camera.near) & (depth <= camera.far)
        good &= _in_picture(camera, at)
        good[good] = _held(region, at[good])
        left, at = left[good], at[good]
        seen[left] = _codes(cast, camera, at) == codes[left]
    return seen


def seen_vertices(
    cast: Cast, camera: Camera, points: NDArray[np.float64], corners_of: Callable[..., Any]
) -> NDArray[np.bool_]:
    """Return which points nothing is in front of, but for faces that have them as a corner.

    `corners_of(leaves, prims)` returns the transformed corners of faces, (n, k, 3).
    """
    x, y, depth = camera.project(points)
    at = np.stack([x, y], axis=1)
    good = np.flatnonzero(np.isfinite(at).all(axis=1) & _in_picture(camera, at))
    seen = np.zeros(len(points), np.bool_)
    for first in range(0, len(good), BATCH):
        some = good[first : first + BATCH]
        reach = np.minimum(depth[some] - CONTACT * np.abs(depth[some]), camera.far)
        hits = cast(*camera.ray(x[some], y[some]), camera.near, reach)
        free = hits.prim_id < 0
        blocked = np.flatnonzero(~free)
        corners = corners_of(hits.leaf[blocked], hits.prim_id[blocked])
        own = (corners == points[some][blocked][:, None]).all(axis=2).any(axis=1)
        free[blocked] = own
        seen[some] = free
    return seen


def codes_of(leaf: Any, prim: Any) -> NDArray[np.int64]:
    """Return one number for each face of a scene; negative for none."""
    return (np.asarray(leaf, np.int64) << 32) | np.asarray(prim, np.int64)


def _codes(cast: Cast, camera: Camera, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the codes of what rays through points of the picture meet first."""
    found = np.empty(len(points), np.int64)
    for first in range(0, len(points), BATCH):
        some = points[first : first + BATCH]
        hits = cast(*camera.ray(some[:, 0], some[:, 1]), camera.near, camera.far)
        found[first : first + BATCH] = np.where(
            hits.prim_id >= 0, codes_of(hits.leaf, hits.prim_id), -1
        )
    return found


def _held(region: Region, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points (n, 2) of the picture are in a region."""
    corners = np.ones((len(points), 3))
    corners[:, :2] = points
    locations = np.empty(len(points), np.int8)
    judge_points(region.outline, kernel_input(corners), 0, len(points), locations)
    return np.asarray(locations >= BORDER)


def _in_picture(camera: Camera, points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which points (n, 2) are in the picture, borders included."""
    size = np.array([camera.width, camera.height]) / camera.pixel_ratio
    return np.asarray(((points >= 0.0) & (points <= size)).all(axis=1))
