"""Triangles in the picture of a camera: projected, clipped, and the nearest to a cursor.

Points in front of the eye are at the pixel, rounded to doubles, at which `Camera.project` puts
them. Where depths begin at a plane (parallel rays start in the plane through the eye; a near or
far plane), a triangle that crosses it is cut there, and the cut's corners are rounded in turn.
Otherwise what reaches behind a perspective eye stays whole, as a cone (see `outlines`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.queries.tree_base import TreeBase
from bvh.tree.primitives import Custom, Primitives, Triangles
from bvh.tree.shapes import shape_of

Floats = NDArray[np.float64]

# Under perspective, triangles are cut at this share of their greatest depth, where the near plane
# is not beyond it.
NEAREST = 2.0**-30

# Corner i of a box is its upper one on the axes whose bit is set in i; faces turn outward.
BOX_FACES = np.array(
    [[0, 4, 6], [0, 6, 2], [1, 3, 7], [1, 7, 5], [0, 1, 5], [0, 5, 4],
     [2, 6, 7], [2, 7, 3], [0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6]], np.int32,
)  # fmt: skip


class OwnedTriangles(NamedTuple):
    """Triangles that bound primitives: one for each face of a mesh, twelve for each box."""

    points: Floats  # (n, 3)
    faces: NDArray[np.int32]  # (m, 3): indices of points
    owners: NDArray[np.int32]  # (m,): the id of the primitive of each triangle


class Projected(NamedTuple):
    """Triangles in a picture, or parts of triangles."""

    corners: Floats  # (n, 3): homogeneous points (x, y, w), as in `outlines`
    faces: NDArray[np.int32]  # (m, 3): indices of corners
    owners: NDArray[np.int32]  # (m,): the triangle that each face is, or is a part of
    complete: NDArray[np.bool_]  # (m,): whether nothing of that triangle is cut off


def surface_of(tree: TreeBase) -> OwnedTriangles:
    """Return the finite triangles of a tree, or the surfaces of boxes around its finite shapes."""
    primitives = tree.arrays.primitives
    if isinstance(primitives, Custom):
        raise TypeError("selections need triangles or boxes, not primitives of your own")
    if isinstance(primitives, Triangles):
        points, faces = primitives
        finite = np.asarray(np.isfinite(points).all(axis=1))
        if finite.all():
            return OwnedTriangles(points, faces, np.arange(len(faces), dtype=np.int32))
        usable = np.flatnonzero(finite[faces].all(axis=1)).astype(np.int32)
        return OwnedTriangles(points, faces[usable], usable)
    kind = shape_of(primitives)
    usable = np.flatnonzero(kind.bounds(primitives.points)[2]).astype(np.int32)
    points = kind.outline(primitives.points[usable]).reshape(-1, 3)
    starts = 8 * np.arange(len(usable), dtype=np.int32)
    faces = (BOX_FACES[None] + starts[:, None, None]).reshape(-1, 3)
    return OwnedTriangles(points, faces, np.repeat(usable, len(BOX_FACES)))


def outlines_of(primitives: Primitives, ids: NDArray[np.integer]) -> Floats:
    """Return the corners (n, 8, 3) of boxes around the shapes `ids`, in the tree's coordinates."""
    return shape_of(primitives).outline(primitives.points[ids])


def transformed(surface: OwnedTriangles, matrix: Floats) -> OwnedTriangles:
    """Return a surface under an affine map (3, 4)."""
    return surface._replace(points=moved(surface.points, matrix))


def project_points(camera: Camera, points: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the images of points (n, 3) as homogeneous points (n, 3), and which are seen, (n,).

    In front of the eye, an image is (x, y, 1) in pixels; behind it, (x w, y w, w) with w <= 0. A
    point is seen if its depth is between near and far, and above 0 for perspective.
    """
    x, y, depth = camera.project(points)
    corners = np.stack([x, y, np.ones_like(x)], axis=1)
    seen = (depth >= camera.near) & (depth <= camera.far)
    behind = depth <= 0.0
    if camera.perspective and behind.any():
        # Points that are not in front of the eye have no pixel: w is the depth, 0 or less. Not by a
        # matrix product, which BLAS rounds differently for different numbers of points.
        px, py, pz = (points[behind] - camera.eye).T
        a, b = (px * g[0] + py * g[1] + pz * g[2] for g in camera.gradients[:2])
        w = depth[behind]
        corners[behind] = np.stack([a + w * camera.centre[0], b + w * camera.centre[1], w], axis=1)
        seen &= ~behind
    return corners, np.asarray(seen)


def project_triangles(camera: Camera, points: Floats, faces: NDArray[np.int32]) -> Projected:
    """Return the parts of triangles that are between near and far, in the picture.

    `points` (n, 3) are in space, and `faces` (m, 3) indices of points.
    """
    corners, seen = project_points(camera, points)
    owners = np.arange(len(faces), dtype=np.int32)
    corners_seen = seen[faces]
    complete = np.asarray(corners_seen.all(axis=1))
    if complete.all():
        return Projected(corners, faces, owners, complete)
    if camera.perspective and camera.near == 0.0 and camera.far == np.inf:
        # Nothing is cut: triangles that reach behind the eye are cones.
        partly = corners_seen.any(axis=1)
        return Projected(corners, faces[partly], owners[partly], complete[partly])
    depth = camera.project(points)[2][faces]
    with np.errstate(invalid="ignore"):
        crossing = (
            ~complete & (depth.max(axis=1) >= camera.near) & (depth.min(axis=1) <= camera.far)
        )
    pieces, parents = [np.empty((0, 3))], list[int]()
    for i in np.flatnonzero(crossing).tolist():
        local = (points[faces[i]] - camera.eye) @ camera.gradients.T
        # Corners are in the axes of the camera, (a, b, depth); their weights are left out. By
        # `level`, corners at a cut have exactly its depth.
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
    uncut, faces = int(complete.sum()), np.concatenate([faces[complete], new_faces])
    owners = np.concatenate([owners[complete], np.array(parents, np.int32)])
    return Projected(np.concatenate([corners, more]), faces, owners, np.arange(len(faces)) < uncut)


def clipped(corners: Floats, near: float, far: float, *, level: bool = False) -> Floats:
    """Return the part of a triangle between two depths as a polygon of n corners, (n, 6).

    A row has the three coordinates of a corner, of which the third is the depth, and its weights in
    the triangle. With `level`, corners at a cut have exactly its depth.
    """
    polygon = np.hstack([corners, np.eye(3)])
    for sign, limit in ((1.0, near), (-1.0, far)):
        if not np.isfinite(limit):
            continue
        inward = sign * (polygon[:, 2] - limit)
        kept = []
        for j in range(len(polygon)):
            if (inward[j - 1] > 0.0 > inward[j]) or (inward[j - 1] < 0.0 < inward[j]):
                share = inward[j - 1] / (inward[j - 1] - inward[j])
                kept.append((1.0 - share) * polygon[j - 1] + share * polygon[j])
                if level:
                    kept[-1][2] = limit
            if inward[j] >= 0.0:
                kept.append(polygon[j])
        polygon = np.array(kept).reshape(-1, 6)
    return polygon


def fan_of(count: int) -> NDArray[np.int64]:
    """Return the triangles (k, 3) of a convex polygon, as indices of its `count` corners.

    A segment or a point is one triangle, of repeated indices; a polygon without corners has none.
    """
    last = count - 1
    fan = [[0, min(k, last), min(k + 1, last)] for k in range(1, max(2, last)) if count]
    return np.array(fan, np.int64).reshape(-1, 3)


class NearestPoints(NamedTuple):
    """The point of each of k triangles that is nearest to a cursor in the picture.

    Triangles of which nothing is between near and far have the distance inf, and NaN elsewhere.
    """

    distance: Floats  # (k,), from the cursor in pixels
    pixel: Floats  # (k, 2): the point in the picture
    depth: Floats  # (k,): the depth of the point
    weights: Floats  # (k, 3): the point in space, as weights of the triangle's corners


def nearest_on_triangles(camera: Camera, triangles: Floats, x: float, y: float) -> NearestPoints:
    """Return the point of each triangle (k, 3, 3) that is nearest to (x, y) in the picture.

    Triangles without area are segments or points.
    """
    # All is in float64, without bounds of errors: distances in pixels only select one of several
    # visible points. `local` has corners in the axes of the camera, of which the third is depth.
    count = len(triangles)
    with np.errstate(invalid="ignore", over="ignore"):
        local = (triangles - camera.eye) @ camera.gradients.T
    depth = local[:, :, 2]
    # The depth at which the visible part begins, above 0 for perspective, which divides by it.
    limit = np.full(count, camera.near)
    if camera.perspective:
        limit = np.maximum(limit, np.maximum(NEAREST * depth.max(axis=1), 2.0**-1000))
    complete = ((depth >= limit[:, None]) & (depth <= camera.far)).all(axis=1)
    # `parts` are triangles (n, 3, 6) between these depths: whole ones, or pieces. Each corner has
    # its coordinates, and its weights in the whole triangle, whose index is in `owners`.
    weights = np.broadcast_to(np.eye(3), (count, 3, 3))
    parts, owners = [np.concatenate([local, weights], axis=2)[complete]], [np.flatnonzero(complete)]
    reaching = (depth.max(axis=1, initial=-np.inf) >= limit) & (depth.min(axis=1) <= camera.far)
    for i in np.flatnonzero(reaching & ~complete):
        polygon = clipped(local[i], float(limit[i]), camera.far)
        parts.append(polygon[fan_of(len(polygon))])
        owners.append(np.full(len(parts[-1]), i))
    of_parts = _nearest(camera, np.concatenate(parts), x, y)
    # The nearest point of the parts of each triangle.
    parents = np.concatenate(owners)
    order = np.lexsort((of_parts.distance, parents))
    _, first = np.unique(parents[order], return_index=True)
    best = order[first]
    # The columns of `NearestPoints`, with the values of triangles that have no part to be seen.
    shapes = count, (count, 2), count, (count, 3)
    nearest = NearestPoints(*(np.full(shape, np.nan) for shape in shapes))
    nearest.distance[:] = np.inf
    for column, values in zip(nearest, of_parts, strict=True):
        column[parents[best]] = values[best]
    return nearest


def _nearest(camera: Camera, triangles: Floats, x: float, y: float) -> NearestPoints:
    """Return the point of each of n triangles (n, 3, 6) that is nearest to a cursor at (x, y).

    All of a triangle is between near and far. Its corners are rows as of `clipped`.
    """
    local, depth = np.ascontiguousarray(triangles[:, :, :3]), triangles[:, :, 2]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Corners in the picture, relative to its `centre`.
        flat = local[:, :, :2] / depth[:, :, None] if camera.perspective else local[:, :, :2]
        shares, distance = _nearest_shares(flat + camera.centre - (x, y))
        if camera.perspective:
            # From weights in the picture to weights in space: divided by depths, with the sum 1.
            inverse = shares / depth
            shares = inverse / inverse.sum(axis=1, keepdims=True)
        distance = np.where(np.isfinite(distance), distance, np.inf)
    points = np.einsum("nk,nkj->nj", shares, local)
    pixel = points[:, :2] / points[:, 2:] if camera.perspective else points[:, :2]
    weights = np.einsum("nk,nkj->nj", shares, np.ascontiguousarray(triangles[:, :, 3:]))
    return NearestPoints(distance, pixel + camera.centre, points[:, 2], weights)


def _nearest_shares(corners: Floats) -> tuple[Floats, Floats]:
    """Return the weights (n, 3) of the points of flat triangles (n, 3, 2) nearest to the origin.

    Also returns their distances (n,), 0 for triangles that contain the origin.
    """
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
    # `areas` are twice those of the triangles of the origin and an edge, in the column of the
    # opposite corner. The origin is inside where all have one sign; their shares are its weights.
    total = areas.sum(axis=1)
    covered = (total != 0.0) & ((areas > 0.0).all(axis=1) | (areas < 0.0).all(axis=1))
    shares[covered] = areas[covered] / total[covered, None]
    best[covered] = 0.0
    return shares, best
