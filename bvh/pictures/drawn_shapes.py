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
# Corners around a shape, and latitudes of rings of them around the start of its axis and the end.
# Points are drawn as octahedra, segments as tubes.
LATITUDES = 0.5 * np.pi * np.arange(-4, 5) / 5
DRAWN: dict[str, tuple[int, Floats, Floats]] = {
    "points": (4, LATITUDES[4:5], LATITUDES[:0]),
    "segments": (6, LATITUDES[4:5], LATITUDES[4:5]),
    "spheres": (16, LATITUDES[:5], LATITUDES[5:]),
    "capsules": (16, LATITUDES[:5], LATITUDES[4:]),
}


def is_round(tree: BVH) -> bool:
    """Return whether a tree is over spheres or capsules."""
    return isinstance(tree.arrays.primitives, HOLLOW)


def faces_of_each(tree: BVH) -> int:
    """Return the number of triangles that each primitive of a tree is drawn with."""
    if tree.kind not in DRAWN:
        return 1 if tree.kind == "triangles" else len(BOX_FACES)
    # A triangle for each side at both ends, and two between each ring and the next.
    sides, low, high = DRAWN[tree.kind]
    return 2 * sides * (len(low) + len(high))


def thickened(
    tree: BVH, radius: float, ids: Chosen = slice(None)
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices (k, 3) and faces (m, 3) of one mesh of balls for points, tubes for segments.

    `ids` chooses points or segments of the tree, in this order; `radius` is in world units.
    """
    # A point is a segment with equal ends.
    start, end = (tree.vertices[tree.faces[ids, k]] for k in (0, 1))
    return _turned(tree.kind, start, end, np.full((len(start), 1), radius))


def rounded(
    tree: BVH, ids: Chosen = slice(None), growth: float = 1.0
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices (k, 3) and faces (m, 3) of one mesh inscribed in spheres or capsules.

    `ids` chooses primitives of the tree, in this order; radii are multiplied by `growth`.
    """
    # A row has the box (6 numbers), the centre or both ends of the axis, and the radius. For a
    # sphere, both slices are the centre.
    shapes = tree.arrays.primitives.points[ids]
    return _turned(tree.kind, shapes[:, 6:9], shapes[:, -4:-1], shapes[:, -1:] * growth)


def _turned(
    kind: str, start: Floats, end: Floats, radius: Floats
) -> tuple[Floats, NDArray[np.int32]]:
    """Return (vertices, faces) of one mesh of n shapes around axes, with radii (n, 1).

    An axis is directed from start to end; where these are equal, it is z.
    """
    sides, low, high = DRAWN[kind]
    with np.errstate(all="ignore"):
        along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    along[~np.isfinite(along).all(axis=1)] = [0.0, 0.0, 1.0]
    # Two directions across. The cross product with the coordinate axis that is closest to
    # perpendicular is far from zero.
    across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angles, other = 2.0 * np.pi * np.arange(sides)[:, None] / sides, np.cross(along, across)
    circle = np.cos(angles) * across[:, None] + np.sin(angles) * other[:, None]
    # The vertices of each shape are its two tips, then the rings from the start to the end.
    parts = [(start - radius * along)[:, None], (end + radius * along)[:, None]]
    for centre, latitudes in ((start, low), (end, high)):
        for latitude in latitudes:
            ring = np.cos(latitude) * circle + np.sin(latitude) * along[:, None]
            parts.append(centre[:, None] + radius[:, None] * ring)
    vertices = np.concatenate(parts, axis=1)
    # A fan around each tip, and two triangles a side between rings.
    rings = 2 + np.arange(len(low) + len(high))[:, None] * sides + np.arange(sides)
    first, last = rings[0], rings[-1]
    corners = [(0 * first, np.roll(first, -1), first), (0 * last + 1, last, np.roll(last, -1))]
    for below, above in itertools.pairwise(rings):
        after = np.roll(above, -1)
        corners += [(below, np.roll(below, -1), after), (below, after, above)]
    faces = np.concatenate([np.stack(each, axis=1) for each in corners])
    every = vertices.shape[1] * np.arange(len(vertices))[:, None, None] + faces
    return vertices.reshape(-1, 3), every.reshape(-1, 3).astype(np.int32)


def drawn_source(tree: BVH, camera: Camera, threads: int | None = None) -> RenderSource:
    """Return the source of a picture of points or segments, drawn as balls or tubes."""
    # The height of a pixel, in perspective at depth 1; and there, the depth of the middle of the
    # bounds, or half their diagonal if that is larger, as for a camera inside of them.
    pixel = 2.0 * camera.half_height / camera.height
    if camera.perspective:
        depth = float((tree.bounds.mean(axis=0) - camera.eye) @ camera.forward)
        pixel *= max(depth, 0.5 * float(np.linalg.norm(tree.bounds[1] - tree.bounds[0])))
    mesh = BVH.from_triangles(*thickened(tree, RADIUS * pixel), threads=threads)
    return RenderSource(mesh, mesh, np.repeat(np.arange(len(tree)), faces_of_each(tree)))
