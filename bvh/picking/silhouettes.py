"""Spheres and capsules near a cursor: the points at the edge of their images nearest to it.

The image of a ball in front of the eye is an ellipse, that of a capsule the convex hull of two. A
line of the picture that touches the image of a ball is the image of a plane that touches the ball,
through the eye or along the rays: a quadratic equation for its distance from the cursor. Of the
lines with the image on their far side, that of the greatest distance touches the image at its
nearest point. Shapes that a near or far plane cuts, or the plane of the eye, become triangles.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.picking.projected import NEAREST

Floats = NDArray[np.float64]

# Directions in half a turn that are sampled for the best, and steps of the golden-section search
# around it, which leave 2**-31 of a turn: the error of the distance is its square.
DIRECTIONS = 65
STEPS = 36
GOLDEN = 0.5 * (5.0**0.5 - 1.0)
# Of shapes that are replaced by triangles: faces around the axis, and rings of corners along it.
AROUND, ALONG = 64, 32


def nearest_outlines(
    camera: Camera, rounds: Floats, x: float, y: float
) -> tuple[Floats, NDArray[np.int64]]:
    """Return triangles (n, 3, 3) that contain the visible point of each shape nearest to (x, y).

    `rounds` (m, 7) are spheres or capsules: both ends of an axis and a radius. The second result,
    (n,), is the row of each triangle's shape. A shape between near and far has one triangle, a
    segment; one that these cut has triangles all over its surface; others have none.
    """
    depth = (rounds[:, :6].reshape(-1, 2, 3) - camera.eye) @ camera.gradients[2]
    reach = rounds[:, 6] * np.linalg.norm(camera.gradients[2])
    low, high = depth.min(axis=1) - reach, depth.max(axis=1) + reach
    limit = np.full(len(rounds), camera.near)
    if camera.perspective:
        limit = np.maximum(limit, np.maximum(NEAREST * high, 2.0**-1000))
    is_whole = (low >= limit) & (high <= camera.far)
    whole = np.flatnonzero(is_whole)
    pieces = [_tangent_segments(camera, rounds[whole], x, y)]
    owners = [whole]
    for k in np.flatnonzero((high >= limit) & (low <= camera.far) & ~is_whole).tolist():
        pieces.append(_faces_of(rounds[k]))
        owners.append(np.full(len(pieces[-1]), k))
    return np.concatenate(pieces), np.concatenate(owners)


def _tangent_segments(camera: Camera, rounds: Floats, x: float, y: float) -> Floats:
    """Return for each shape a segment that contains its visible point nearest to a cursor.

    Segments are triangles, (m, 3, 3), that repeat the second end. An end is where the plane of a
    line of the picture touches the ball around an end of the axis.
    """
    ends = rounds[:, :6].reshape(-1, 2, 3) - camera.eye
    radii, cursor = rounds[:, 6], np.array([x, y]) - camera.centre
    picture = ends @ camera.gradients.T
    if camera.perspective:
        picture = picture / picture[:, :, 2:]
    middle = picture[:, :, :2].mean(axis=1) - cursor
    start = np.arctan2(middle[:, 1], middle[:, 0])[:, None]
    offsets = np.linspace(-0.5 * np.pi, 0.5 * np.pi, DIRECTIONS)[None]
    # Seen from outside the image, the normal of the line is within a quarter turn of the direction
    # to the middle of the image. Of the lines that touch one ball each, the nearer one has both
    # balls on its far side. Its distance has one maximum over these angles: samples bracket the
    # maximum, golden sections narrow it.
    angles = start + offsets
    distance = _distances(camera, ends, radii, cursor, angles)[0].min(axis=0)
    best = angles[np.arange(len(rounds)), distance.argmax(axis=1)][:, None]
    step = float(offsets[0, 1] - offsets[0, 0])
    low, high = best - step, best + step
    for _ in range(STEPS):
        inner = np.hstack([high - GOLDEN * (high - low), low + GOLDEN * (high - low)])
        distance = _distances(camera, ends, radii, cursor, inner)[0].min(axis=0)
        in_first = (distance[:, 0] > distance[:, 1])[:, None]
        low, high = np.where(in_first, low, inner[:, :1]), np.where(in_first, inner[:, 1:], high)
    _, planes = _distances(camera, ends, radii, cursor, 0.5 * (low + high))
    lengths = np.linalg.norm(planes, axis=-1, keepdims=True)
    # The points at which both balls touch their planes.
    feet = ends.transpose(1, 0, 2) - radii[:, None] * (planes / lengths)[:, :, 0]
    return np.stack([feet[0], feet[1], feet[1]], axis=1) + camera.eye


def _distances(
    camera: Camera, ends: Floats, radii: Floats, cursor: Floats, angles: Floats
) -> tuple[Floats, Floats]:
    """Return the signed distances, from a cursor, of lines that touch the images of balls.

    The balls of `radii` (n,) are around both `ends` (n, 2, 3) of axes, relative to the eye;
    `angles` (n, k) are those of the lines' normals, and `cursor` is relative to the centre. Returns
    distances (2, n, k), and normals (2, n, k, 3), towards the balls, of the planes whose images
    the lines are.
    """
    across, down, along = camera.gradients
    normals = np.cos(angles)[:, :, None] * across + np.sin(angles)[:, :, None] * down
    offset = np.cos(angles) * cursor[0] + np.sin(angles) * cursor[1]
    r, p = radii[:, None], ends.transpose(1, 0, 2)
    if not camera.perspective:
        level = np.einsum("enj,nkj->enk", p, normals) - offset
        planes = np.broadcast_to(normals, (2, *normals.shape))
        return level - r * np.linalg.norm(normals, axis=2), planes
    # The plane of a line at distance x has the normal `normals - x along`, and touches a ball where
    # a x**2 - 2 b x + c = 0; the lesser x is that of the plane whose normal points to the ball.
    normals = normals - offset[:, :, None] * along
    level, depth = np.einsum("enj,nkj->enk", p, normals), (p @ along)[:, :, None]
    a = depth * depth - r * r * (along @ along)
    b = level * depth - r * r * (normals @ along)
    c = level * level - r * r * (normals * normals).sum(axis=2)
    distance = (b - np.sqrt(np.maximum(b * b - a * c, 0.0))) / a
    return distance, normals - distance[..., None] * along


def _faces_of(row: Floats) -> Floats:
    """Return triangles (n, 3, 3) with corners on a shape; `row` is both axis ends and a radius."""
    p, q, radius = row[:3], row[3:6], float(row[6])
    axis = q - p
    length = float(np.linalg.norm(axis))
    axis = axis / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    side = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    side /= np.linalg.norm(side)
    turn = np.linspace(0.0, 2.0 * np.pi, AROUND + 1)
    rise = np.linspace(-0.5 * np.pi, 0.5 * np.pi, ALONG)
    ring = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * np.cross(axis, side)
    sphere = np.cos(rise)[:, None, None] * ring + np.sin(rise)[:, None, None] * axis
    # The lower half of the unit sphere is placed at p, the upper one at q.
    points = np.where((rise < 0.0)[:, None, None], p, q) + radius * sphere
    # Rings of points, (ALONG, AROUND + 1, 3): a, b, c, d are the corners of the quads between them.
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    corners = np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)])
    return np.asarray(corners.reshape(-1, 3, 3))
