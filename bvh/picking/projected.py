"""Triangles projected to the picture of a camera, and clipped to near and far.

Points in front of the eye are at the pixel, rounded to doubles, at which `Camera.project` puts
them. Where depths begin at a plane (parallel rays start in the plane through the eye; a near or
far plane), a triangle that crosses it is cut there, and the cut's corners are rounded in turn.
Otherwise what reaches behind a perspective eye stays whole, as a cone (see `outlines`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.obbs import inverses
from bvh.geometry.transforms import moved
from bvh.queries.tree_base import TreeBase
from bvh.tree.primitives import Boxes, Custom, Obbs, Triangles

# Corner i of a box is its upper one on the axes whose bit is set in i; faces turn outward.
BOX_FACES = np.array(
    [[0, 4, 6], [0, 6, 2], [1, 3, 7], [1, 7, 5], [0, 1, 5], [0, 5, 4],
     [2, 6, 7], [2, 7, 3], [0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6]], np.int32,
)  # fmt: skip


class Surface(NamedTuple):
    """Triangles: points (n, 3), faces (m, 3), and the primitives (m,) that they bound."""

    points: NDArray[np.float64]
    faces: NDArray[np.int32]
    owners: NDArray[np.int32]


class Projected(NamedTuple):
    """Triangles in a picture: corners (n, 3) as `outlines` has them, and faces (k, 3).

    Each is, or is a part of, the given triangle of number `owners`; `whole` if nothing is cut off.
    """

    corners: NDArray[np.float64]
    faces: NDArray[np.int32]
    owners: NDArray[np.int32]
    whole: NDArray[np.bool_]


def surface_of(tree: TreeBase) -> Surface:
    """Return the triangles of a tree, or the surfaces of its boxes, that are finite."""
    primitives = tree.arrays.primitives
    if isinstance(primitives, Custom):
        raise TypeError("selections need triangles or boxes, not primitives of your own")
    if isinstance(primitives, Triangles):
        points, faces = primitives
        good = np.asarray(np.isfinite(points).all(axis=1))
        if good.all():
            return Surface(points, faces, np.arange(len(faces), dtype=np.int32))
        kept = np.flatnonzero(good[faces].all(axis=1)).astype(np.int32)
        return Surface(points, faces[kept], kept)
    assert isinstance(primitives, Boxes | Obbs)
    rows = primitives.points
    with np.errstate(invalid="ignore"):
        solid = np.isfinite(rows).all(axis=1) & (rows[:, 0:3] <= rows[:, 3:6]).all(axis=1)
    kept = np.flatnonzero(solid).astype(np.int32)
    points = box_corners(primitives, kept).reshape(-1, 3)
    starts = 8 * np.arange(len(kept), dtype=np.int32)
    faces = (BOX_FACES[None] + starts[:, None, None]).reshape(-1, 3)
    return Surface(points, faces, np.repeat(kept, len(BOX_FACES)))


def box_corners(boxes: Boxes | Obbs, ids: NDArray[Any]) -> NDArray[np.float64]:
    """Return the corners of boxes, in the tree's coordinates, shape (n, 8, 3)."""
    rows = boxes.points[ids]
    upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    corners = np.where(upper, rows[:, None, 3:6], rows[:, None, 0:3])
    if isinstance(boxes, Obbs):
        frames = inverses(rows[:, 6:18].reshape(-1, 3, 4))[0]
        corners = corners @ frames[:, :, :3].transpose(0, 2, 1) + frames[:, None, :, 3]
    return np.asarray(corners)


def transformed(surface: Surface, matrix: NDArray[np.float64]) -> Surface:
    """Return a surface under an affine map (3, 4)."""
    return surface._replace(points=moved(surface.points, matrix))


def project_points(
    camera: Camera, points: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return homogeneous points of the picture, and which of them are between near and far."""
    x, y, depth = camera.project(points)
    corners = np.stack([x, y, np.ones_like(x)], axis=1)
    seen = (depth >= camera.near) & (depth <= camera.far)
    behind = depth <= 0.0
    if camera.perspective and behind.any():
        local = (points[behind] - camera.eye) @ camera.gradients.T
        local[:, 2] = np.minimum(local[:, 2], 0.0)
        local[:, :2] += local[:, 2:] * camera.centre
        corners[behind] = local
        seen &= ~behind
    return corners, np.asarray(seen)


def project_triangles(
    camera: Camera, points: NDArray[np.float64], faces: NDArray[np.int32]
) -> Projected:
    """Return the visible parts of triangles; those without any are left out."""
    corners, seen = project_points(camera, points)
    owners = np.arange(len(faces), dtype=np.int32)
    flags = seen[faces]
    whole = np.asarray(flags.all(axis=1))
    if whole.all():
        return Projected(corners, faces, owners, whole)
    if camera.perspective and camera.near == 0.0 and camera.far == np.inf:
        kept = flags.any(axis=1)
        return Projected(corners, faces[kept], owners[kept], whole[kept])
    depth = camera.project(points)[2][faces]
    with np.errstate(invalid="ignore"):
        crossing = ~whole & (depth.max(axis=1) >= camera.near) & (depth.min(axis=1) <= camera.far)
    pieces = [np.empty((0, 3))]
    parents: list[int] = []
    for i in np.flatnonzero(crossing).tolist():
        local = (points[faces[i]] - camera.eye) @ camera.gradients.T
        polygon = clipped(local, camera.near, camera.far, level=True)[:, :3]
        if camera.perspective:
            # At the eye itself there is no picture.
            polygon = polygon[polygon[:, 2] > 0.0]
            polygon = polygon / polygon[:, 2:]
        polygon[:, :2] += camera.centre
        polygon[:, 2] = 1.0
        fan = fan_of(len(polygon))
        pieces.append(polygon[fan.ravel()])
        parents += [i] * len(fan)
    more = np.concatenate(pieces)
    new_faces = np.arange(len(more), dtype=np.int32).reshape(-1, 3) + np.int32(len(corners))
    return Projected(
        np.concatenate([corners, more]),
        np.concatenate([faces[whole], new_faces]),
        np.concatenate([owners[whole], np.array(parents, np.int32)]),
        np.arange(int(whole.sum()) + len(parents)) < whole.sum(),
    )


def clipped(
    corners: NDArray[np.float64], near: float, far: float, *, level: bool = False
) -> NDArray[np.float64]:
    """Return the polygon (n, 6) of a triangle between two depths: points, weights of its corners.

    With `level`, points of a cut are at its very depth, else where rounding puts them.
    """
    polygon = np.hstack([corners, np.eye(3)])
    for sign, limit in ((1.0, near), (-1.0, far)):
        if not np.isfinite(limit):
            continue
        beyond = sign * (polygon[:, 2] - limit)
        kept = []
        for j in range(len(polygon)):
            if (beyond[j - 1] > 0.0 > beyond[j]) or (beyond[j - 1] < 0.0 < beyond[j]):
                share = beyond[j - 1] / (beyond[j - 1] - beyond[j])
                kept.append((1.0 - share) * polygon[j - 1] + share * polygon[j])
                if level:
                    kept[-1][2] = limit
            if beyond[j] >= 0.0:
                kept.append(polygon[j])
        polygon = np.array(kept).reshape(-1, 6)
    return polygon


def fan_of(count: int) -> NDArray[np.int64]:
    """Return the triangles (k, 3) of a convex polygon; a segment or a point is one triangle."""
    last = count - 1
    fan = [[0, min(k, last), min(k + 1, last)] for k in range(1, max(2, last)) if count]
    return np.array(fan, np.int64).reshape(-1, 3)
