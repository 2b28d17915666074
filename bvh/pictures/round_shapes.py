"""Spheres and capsules on pages, which draw triangles: inscribed meshes of them."""

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.tree.shapes import HOLLOW

Floats = NDArray[np.float64]

# Corners around the axis, and rings of them on each half of a ball.
SIDES, RINGS = 16, 5
# Faces of a half with its pole, and of the side of a capsule.
HALF, SIDE = SIDES * (2 * RINGS - 1), 2 * SIDES


def is_round(tree: BVH) -> bool:
    """Return whether a tree is over spheres or capsules."""
    return isinstance(tree.arrays.primitives, HOLLOW)


def faces_of_round(tree: BVH) -> int:
    """Return the number of triangles of the mesh of each shape."""
    return 2 * HALF + (SIDE if tree.kind == "capsules" else 0)


def rounded(
    tree: BVH, ids: slice | NDArray[np.integer] = slice(None), growth: float = 1.0
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices and faces of meshes, in the order of the shapes; `growth` scales radii."""
    shapes = tree.arrays.primitives.points[ids]
    start, end, radius = shapes[:, 6:9], shapes[:, -4:-1], shapes[:, -1:] * growth
    with np.errstate(all="ignore"):
        along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    along[~np.isfinite(along).all(axis=1)] = [0.0, 0.0, 1.0]
    across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    turns = 2.0 * np.pi * np.arange(SIDES) / SIDES
    around = np.cos(turns)[:, None] * across[:, None] + np.sin(turns)[:, None] * np.cross(
        along, across
    ).reshape(-1, 1, 3)
    rise = 0.5 * np.pi * np.arange(RINGS) / RINGS
    rings = np.cos(rise)[:, None, None] * around[:, None]
    up = np.sin(rise)[:, None] * along[:, None]
    halves = []
    for middle, way in ((end, 1.0), (start, -1.0)):
        ring = middle[:, None, None] + radius[:, None, None] * (rings + way * up[:, :, None])
        pole = (middle + radius * way * along)[:, None]
        halves += [ring.reshape(len(shapes), -1, 3), pole]
    vertices = np.concatenate(halves, axis=1)
    template = _template(tree.kind == "capsules")
    faces = vertices.shape[1] * np.arange(len(shapes))[:, None, None] + template
    return vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.int32)


def _template(side: bool) -> NDArray[np.int64]:
    """Return the faces of one shape, outward, with those between its halves if `side`."""
    one = np.arange(SIDES)
    after = np.roll(one, -1)
    count, faces = SIDES * RINGS, []
    for first, flip in ((0, False), (count + 1, True)):
        parts = []
        for ring in range(RINGS - 1):
            low, high = first + SIDES * ring, first + SIDES * (ring + 1)
            parts += [(low + one, low + after, high + after), (low + one, high + after, high + one)]
        last = first + SIDES * (RINGS - 1)
        parts.append((last + one, last + after, np.full(SIDES, first + count)))
        half = np.concatenate([np.stack(part, axis=1) for part in parts])
        faces.append(half[:, ::-1] if flip else half)
    if side:
        low, high = count + 1, 0
        faces.append(np.stack([low + one, low + after, high + after], axis=1))
        faces.append(np.stack([low + one, high + after, high + one], axis=1))
    return np.concatenate(faces)
