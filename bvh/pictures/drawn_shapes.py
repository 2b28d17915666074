"""Shapes that are drawn as triangles: points and segments, which rays never hit; round shapes."""

import itertools

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.picking.projected import BOX_FACES
from bvh.pictures.render_source import RenderSource
from bvh.queries.hierarchy import BVH
from bvh.tree.shapes import HOLLOW

Floats = NDArray[np.float64]
Chosen = slice | NDArray[np.integer]

# Radius of points and segments in pixels, at the middle of the bounds.
RADIUS = 2.0
# Corners around a tube; a ball is an octahedron.
SIDES = {"points": 4, "segments": 6}
# Corners around a sphere or capsule, and rings of them on each half.
ROUND_SIDES, RINGS = 16, 5


def is_round(tree: BVH) -> bool:
    """Return whether a tree is over spheres or capsules."""
    return isinstance(tree.arrays.primitives, HOLLOW)


def faces_of_each(tree: BVH) -> int:
    """Return the number of triangles that each primitive of a tree is drawn with."""
    if is_round(tree):
        # Each half has RINGS - 1 strips of two triangles for each of ROUND_SIDES, and one triangle
        # for each at the pole; a capsule has one more strip, between its halves.
        return 2 * ROUND_SIDES * (2 * RINGS - 1 + (tree.kind == "capsules"))
    if tree.kind in SIDES:
        # Two tips with a triangle for each side, and between them, in a tube, two for each side.
        return 2 * SIDES[tree.kind] * (2 if tree.kind == "segments" else 1)
    return 1 if tree.kind == "triangles" else len(BOX_FACES)


def thickened(
    tree: BVH, radius: float, ids: Chosen = slice(None)
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices (k, 3) and faces (m, 3) of one mesh of balls for points, tubes for segments.

    `ids` chooses points or segments of the tree, in this order; `radius` is in world units.
    """
    sides, is_tube = SIDES[tree.kind], tree.kind == "segments"
    # A point is a segment with equal ends.
    start, end = (tree.vertices[tree.faces[ids, k]] for k in (0, 1))
    along, circle = _circles(start, end, sides)
    ring = radius * circle
    # Vertices: the two tips, then a ring around the start, and of a tube one around the end.
    tips = [(start - radius * along)[:, None], (end + radius * along)[:, None]]
    rings = [start[:, None] + ring, end[:, None] + ring][: 1 + is_tube]
    # Indices of the vertices of the ring at each tip (a ball has one ring), and of the next ones.
    corner = np.arange(sides)
    first, last = 2 + corner, 2 + corner + sides * is_tube
    first_next, last_next = np.roll(first, -1), np.roll(last, -1)
    # A fan around each tip, and of a tube two triangles a side.
    faces = [np.stack(each, axis=1) for each in (
        (np.zeros_like(corner), first_next, first), (np.ones_like(corner), last, last_next),
        (first, first_next, last_next), (first, last_next, last),
    )][: 4 if is_tube else 2]  # fmt: skip
    return _repeated(np.concatenate(tips + rings, axis=1), np.concatenate(faces))


def rounded(
    tree: BVH, ids: Chosen = slice(None), growth: float = 1.0
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices (k, 3) and faces (m, 3) of one mesh inscribed in spheres or capsules.

    `ids` chooses primitives of the tree, in this order; radii are multiplied by `growth`.
    """
    # A row has the box (6 numbers), the centre or both ends of the axis, and the radius. For a
    # sphere, both slices are the centre.
    shapes = tree.arrays.primitives.points[ids]
    start, end, radius = shapes[:, 6:9], shapes[:, -4:-1], shapes[:, -1:] * growth
    along, circle = _circles(start, end, ROUND_SIDES)
    # Rings of the unit sphere from the equator up, (n, RINGS, ROUND_SIDES, 3), and their heights
    # along the axis, (n, RINGS, 3).
    latitude = 0.5 * np.pi * np.arange(RINGS) / RINGS
    rings = np.cos(latitude)[:, None, None] * circle[:, None]
    heights = np.sin(latitude)[:, None] * along[:, None]
    halves = []
    for centre, sign in ((end, 1.0), (start, -1.0)):
        ring = centre[:, None, None] + radius[:, None, None] * (rings + sign * heights[:, :, None])
        pole = (centre + radius * sign * along)[:, None]
        halves += [ring.reshape(len(shapes), -1, 3), pole]
    return _repeated(np.concatenate(halves, axis=1), _round_faces(tree.kind == "capsules"))


def _circles(start: Floats, end: Floats, sides: int) -> tuple[Floats, Floats]:
    """Return the unit axis of each of n segments, (n, 3), and points of unit circles around it.

    An axis is directed from start to end; where these are equal, it is z. The points, `sides` of
    each circle, are relative to its centre, (n, sides, 3).
    """
    with np.errstate(all="ignore"):
        along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    along[~np.isfinite(along).all(axis=1)] = [0.0, 0.0, 1.0]
    # Two directions across. The cross product with the coordinate axis that is closest to
    # perpendicular is far from zero.
    across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angles = 2.0 * np.pi * np.arange(sides)[:, None] / sides
    other = np.cross(along, across)
    return along, np.cos(angles) * across[:, None] + np.sin(angles) * other[:, None]


def _repeated(vertices: Floats, faces: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int32]]:
    """Return (vertices, faces) of one mesh of n shapes with k vertices each, (n, k, 3).

    `faces`, (m, 3), are those of every shape, as indices of its own vertices from 0 to k - 1.
    """
    count, size = vertices.shape[:2]
    all_faces = size * np.arange(count)[:, None, None] + faces
    return vertices.reshape(-1, 3), all_faces.reshape(-1, 3).astype(np.int32)


def _round_faces(is_capsule: bool) -> NDArray[np.int64]:
    """Return the faces of one sphere or capsule, (m, 3), as indices of its vertices.

    A capsule also has a tube between its halves. Vertices are in the order of `rounded`: of each
    half the rings from the equator to the pole, then the pole. Faces are oriented outward.
    """
    half_size, faces = ROUND_SIDES * RINGS + 1, list[NDArray[np.int64]]()
    for begin, sign in ((0, 1), (half_size, -1)):
        starts = begin + ROUND_SIDES * np.arange(RINGS)
        half = [_strip(low, high) for low, high in itertools.pairwise(starts.tolist())]
        edge = starts[-1] + np.arange(ROUND_SIDES)
        pole = np.full(ROUND_SIDES, begin + half_size - 1)
        half.append(np.stack([edge, np.roll(edge, -1), pole], axis=1))
        # The other half is upside down, so its faces are turned over.
        faces.append(np.concatenate(half)[:, ::sign])
    return np.concatenate([*faces, _strip(half_size, 0)] if is_capsule else faces)


def _strip(low: int, high: int) -> NDArray[np.int64]:
    """Return the triangles between two rings of ROUND_SIDES vertices, by their first vertices.

    `low` and `high` are indices of the first vertices; the others of a ring follow.
    """
    here = np.arange(ROUND_SIDES)
    after = np.roll(here, -1)
    lower, upper = (low + here, low + after, high + after), (low + here, high + after, high + here)
    return np.concatenate([np.stack(lower, axis=1), np.stack(upper, axis=1)])


def drawn_source(tree: BVH, camera: Camera, threads: int | None = None) -> RenderSource:
    """Return the source of a picture of points or segments, drawn as balls or tubes.

    Their radius is RADIUS pixels of the camera. Every triangle has the id of its point or segment.
    """
    mesh = BVH.from_triangles(*thickened(tree, RADIUS * _pixel(tree, camera)), threads=threads)
    return RenderSource(mesh, mesh, np.repeat(np.arange(len(tree)), faces_of_each(tree)))


def _pixel(tree: BVH, camera: Camera) -> float:
    """Return the height of a pixel in world units at the middle of a tree's bounds.

    In perspective, it is measured at the depth of this middle, or at a depth of half the diagonal
    of the bounds if that is larger, as for a camera inside of them.
    """
    # In perspective, this is the height at depth 1.
    height = 2.0 * camera.half_height / camera.height
    if not camera.perspective:
        return height
    depth = float((tree.bounds.mean(axis=0) - camera.eye) @ camera.forward)
    return height * max(depth, 0.5 * float(np.linalg.norm(tree.bounds[1] - tree.bounds[0])))
