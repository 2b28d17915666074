"""Shapes that are drawn as triangles: points and segments, which rays never hit; round shapes."""

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
    """Return the number of triangles that show each primitive; others are shown as boxes."""
    if is_round(tree):
        # The halves, and the side of a capsule.
        return 2 * ROUND_SIDES * (2 * RINGS - 1 + (tree.kind == "capsules"))
    if tree.kind in SIDES:
        return 2 * SIDES[tree.kind] * (2 if tree.kind == "segments" else 1)
    return 1 if tree.kind == "triangles" else len(BOX_FACES)


def thickened(
    tree: BVH, radius: float, ids: Chosen = slice(None)
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices and faces of balls or tubes, in the order of the points or segments."""
    sides, is_tube = SIDES[tree.kind], tree.kind == "segments"
    start, end = (tree.vertices[tree.faces[ids, k]] for k in (0, 1))
    along, circle = _circles(start, end, sides)
    ring = radius * circle
    # Vertices: the two tips, then a ring, of a tube one at each end.
    tips = [(start - radius * along)[:, None], (end + radius * along)[:, None]]
    rings = [start[:, None] + ring, end[:, None] + ring][: 1 + is_tube]
    one = np.arange(sides)
    near, last = 2 + one, 2 + one + sides * is_tube
    near_next, last_next = np.roll(near, -1), np.roll(last, -1)
    faces = [np.stack(each, axis=1) for each in (
        (np.zeros_like(one), near_next, near), (np.ones_like(one), last, last_next),
        (near, near_next, last_next), (near, last_next, last),
    )][: 4 if is_tube else 2]  # fmt: skip
    return _repeated(np.concatenate(tips + rings, axis=1), np.concatenate(faces))


def rounded(
    tree: BVH, ids: Chosen = slice(None), growth: float = 1.0
) -> tuple[Floats, NDArray[np.int32]]:
    """Return vertices and faces of meshes inscribed in spheres or capsules, in their order.

    `growth` scales radii.
    """
    shapes = tree.arrays.primitives.points[ids]
    start, end, radius = shapes[:, 6:9], shapes[:, -4:-1], shapes[:, -1:] * growth
    along, circle = _circles(start, end, ROUND_SIDES)
    rise = 0.5 * np.pi * np.arange(RINGS) / RINGS
    rings = np.cos(rise)[:, None, None] * circle[:, None]
    up = np.sin(rise)[:, None] * along[:, None]
    halves = []
    for middle, way in ((end, 1.0), (start, -1.0)):
        ring = middle[:, None, None] + radius[:, None, None] * (rings + way * up[:, :, None])
        pole = (middle + radius * way * along)[:, None]
        halves += [ring.reshape(len(shapes), -1, 3), pole]
    return _repeated(np.concatenate(halves, axis=1), _round_faces(tree.kind == "capsules"))


def _circles(start: Floats, end: Floats, sides: int) -> tuple[Floats, Floats]:
    """Return unit axes (n, 3) of shapes, z for points, and unit circles (n, sides, 3) around."""
    with np.errstate(all="ignore"):
        along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    along[~np.isfinite(along).all(axis=1)] = [0.0, 0.0, 1.0]
    # Two directions across: the first to the axis that is most across.
    across = np.cross(along, np.eye(3)[np.abs(along).argmin(axis=1)])
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    turns = 2.0 * np.pi * np.arange(sides)[:, None] / sides
    other = np.cross(along, across)
    return along, np.cos(turns) * across[:, None] + np.sin(turns) * other[:, None]


def _repeated(vertices: Floats, faces: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int32]]:
    """Return the mesh of shapes with vertices (n, k, 3), each with the same faces."""
    count, each = vertices.shape[:2]
    every = each * np.arange(count)[:, None, None] + faces
    return vertices.reshape(-1, 3), every.reshape(-1, 3).astype(np.int32)


def _round_faces(side: bool) -> NDArray[np.int64]:
    """Return the faces of one round shape, outward, with those between its halves if `side`."""
    one = np.arange(ROUND_SIDES)
    after = np.roll(one, -1)
    count, faces = ROUND_SIDES * RINGS, []
    for first, flip in ((0, False), (count + 1, True)):
        parts = []
        for ring in range(RINGS - 1):
            low, high = first + ROUND_SIDES * ring, first + ROUND_SIDES * (ring + 1)
            parts += [(low + one, low + after, high + after), (low + one, high + after, high + one)]
        last = first + ROUND_SIDES * (RINGS - 1)
        parts.append((last + one, last + after, np.full(ROUND_SIDES, first + count)))
        half = np.concatenate([np.stack(part, axis=1) for part in parts])
        faces.append(half[:, ::-1] if flip else half)
    if side:
        low, high = count + 1, 0
        faces.append(np.stack([low + one, low + after, high + after], axis=1))
        faces.append(np.stack([low + one, high + after, high + one], axis=1))
    return np.concatenate(faces)


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
