"""Points and segments in pictures, which rays never hit: meshes of small balls and tubes."""

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.pictures.render_source import RenderSource
from bvh.queries.hierarchy import BVH

Floats = NDArray[np.float64]

# Radius in pixels, at the middle of the bounds.
RADIUS = 2.0
# Corners around a tube; a ball is an octahedron.
SIDES = {"points": 4, "segments": 6}


def faces_of_each(tree: BVH) -> int:
    """Return the number of triangles of the ball or tube of each primitive."""
    return 2 * SIDES[tree.kind] * (2 if tree.kind == "segments" else 1)


def thickened(
    tree: BVH, radius: float, ids: slice | NDArray[np.integer] = slice(None)
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices and faces of balls or tubes, in the order of the points or segments."""
    sides, is_tube = SIDES[tree.kind], tree.kind == "segments"
    start, end = (tree.vertices[tree.faces[ids, k]] for k in (0, 1))
    along = end - start if is_tube else np.zeros((len(start), 3))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        along = along / np.linalg.norm(along, axis=1, keepdims=True)
    along[~np.isfinite(along).all(axis=1)] = [0.0, 0.0, 1.0]
    # Two directions across: the first to the axis that is most across.
    across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    turns = 2.0 * np.pi * np.arange(sides) / sides
    ring = radius * (
        np.cos(turns)[:, None] * across[:, None]
        + np.sin(turns)[:, None] * np.cross(along, across)[:, None]
    )
    # Vertices: the two tips, then a ring, of a tube one at each end.
    tips = [(start - radius * along)[:, None], (end + radius * along)[:, None]]
    rings = [start[:, None] + ring, end[:, None] + ring][: 1 + is_tube]
    vertices = np.concatenate(tips + rings, axis=1)
    one = np.arange(sides)
    near, last = 2 + one, 2 + one + sides * is_tube
    near_next, last_next = np.roll(near, -1), np.roll(last, -1)
    faces = [np.stack(each, axis=1) for each in (
        (np.zeros_like(one), near_next, near), (np.ones_like(one), last, last_next),
        (near, near_next, last_next), (near, last_next, last),
    )][: 4 if is_tube else 2]  # fmt: skip
    each = vertices.shape[1]
    template = np.concatenate(faces)
    all_faces = each * np.arange(len(start))[:, None, None] + template
    return vertices.reshape(-1, 3), all_faces.reshape(-1, 3).astype(np.int32)


def drawn_source(tree: BVH, camera: Camera, threads: int | None = None) -> RenderSource:
    """Return the source of a picture of points or segments, whose ids are those of the tree."""
    mesh = BVH.from_triangles(*thickened(tree, RADIUS * _pixel(tree, camera)), threads=threads)
    return RenderSource(mesh, mesh, np.repeat(np.arange(len(tree)), faces_of_each(tree)))


def _pixel(tree: BVH, camera: Camera) -> float:
    """Return the height of a pixel at the middle of a tree, or, from inside, at its border."""
    height = 2.0 * camera.half_height / camera.height
    if not camera.perspective:
        return height
    depth = float((tree.bounds.mean(axis=0) - camera.eye) @ camera.forward)
    return height * max(depth, 0.5 * float(np.linalg.norm(tree.bounds[1] - tree.bounds[0])))
