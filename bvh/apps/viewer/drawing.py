"""Drawing of a scene: the meshes sent to the page, and boxes for those beyond its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.box_overlay import corners_of, edges_of
from bvh.apps.viewer.page_frame import PageFrame
from bvh.geometry.transforms import moved
from bvh.picking import projected
from bvh.picking.projected import BOX_FACES, box_corners
from bvh.pictures.colours import instance_colours
from bvh.scene.scene import Scene
from bvh.tree.primitives import Triangles

Floats = NDArray[np.float64]

# Faces that are sent to a page, and how many times as many it draws through instancing.
MAX_FACES = 2_000_000
DRAWN_TIMES = 8
# Meshes of at least so many faces are shaded smoothly.
SMOOTH_FROM = 5000
CLAY = np.array([[205, 166, 132]], np.uint8)
# Columns of a matrix are orthogonal if the cosines between them are below this.
SQUARE = 1e-6


@dataclass(frozen=True, eq=False)
class Part:
    """A mesh and its copies, in page coordinates.

    Attributes
    ----------
    vertices : ndarray of float32, shape (n, 3)
    faces : ndarray of uint32, shape (m, 3)
    turns : ndarray, shape (k, 4)
        Rotations of the copies as quaternions, w first.
    places, scales : ndarray, shape (k, 3)
    colours : ndarray of uint8, shape (k, 3)
    smooth : bool
    """

    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    turns: Floats
    places: Floats
    scales: Floats
    colours: NDArray[np.uint8]
    smooth: bool


@dataclass(frozen=True, eq=False)
class Drawing:
    """Meshes to draw, and what is left out.

    Attributes
    ----------
    parts : list of Part
    left_out : int
        Number of faces that are not drawn.
    boxes : ndarray, shape (n, 8, 3)
        Corners of the boxes around their instances, in page coordinates.
    """

    parts: list[Part]
    left_out: int
    boxes: Floats


def drawing_of(scene: Scene, frame: PageFrame, max_faces: int = MAX_FACES) -> Drawing:
    """Return what a page draws of a scene: the smallest meshes first, each in full."""
    leaves = scene.leaves
    shown = np.flatnonzero(leaves.masks != 0)
    rows_of = [shown[leaves.tree_of[shown] == k] for k in range(len(leaves.trees))]
    sizes = [face_count(tree) for tree in leaves.trees]
    parts: list[Part] = []
    boxes: list[Floats] = []
    sent = drawn = left_out = 0
    for k in np.argsort(sizes, kind="stable").tolist():
        tree, rows, size = leaves.trees[k], rows_of[k], sizes[k]
        if not (size and len(rows)):
            continue
        square, oblique = _split(leaves.matrices, rows)
        copies = len(oblique) + (len(square) > 0)
        if sent + size * copies > max_faces or drawn + size * len(rows) > DRAWN_TIMES * max_faces:
            left_out += size * len(rows)
            corners = corners_of(tree.bounds[None])[0]
            boxes += [moved(corners, leaves.matrices[row]) for row in rows.tolist()]
            continue
        sent, drawn = sent + size * copies, drawn + size * len(rows)
        vertices, faces = surface_of(tree)
        colours = _colours(leaves)
        smooth = size >= SMOOTH_FROM and isinstance(tree.arrays.primitives, Triangles)
        if len(square):
            centre, maps = 0.5 * tree.bounds[0] + 0.5 * tree.bounds[1], leaves.matrices[square]
            # Centred and scaled to size one, so that float32 is precise.
            own = PageFrame.around(tree.bounds)
            turns, scales = _turns_and_scales(maps)
            middles = np.stack([moved(centre[None], one)[0] for one in maps])
            parts.append(
                Part(
                    own.to_page(vertices).astype(np.float32), faces, turns, frame.to_page(middles),
                    scales * (frame.scale / own.scale), colours[square], smooth,
                )
            )  # fmt: skip
        for row in oblique.tolist():
            world = moved(np.ascontiguousarray(vertices), leaves.matrices[row])
            still = np.eye(1, 4), np.zeros((1, 3)), np.ones((1, 3))
            points = frame.to_page(world).astype(np.float32)
            parts.append(Part(points, faces, *still, colours[[row]], smooth))
    corners = frame.to_page(np.stack(boxes)) if boxes else np.empty((0, 8, 3))
    return Drawing(parts, left_out, corners)


def face_count(tree: Any) -> int:
    """Return the number of faces that show a tree on the page."""
    return len(tree) * (1 if isinstance(tree.arrays.primitives, Triangles) else len(BOX_FACES))


def surface_of(tree: Any) -> tuple[Floats, NDArray[np.uint32]]:
    """Return vertices and faces of a tree, without faces that are not finite."""
    points, faces, _ = projected.surface_of(tree)
    finite: Any = np.isfinite(points).all(axis=1)
    if not finite.all():
        points = np.where(finite[:, None], points, 0.0)
    return points, faces.astype(np.uint32)


def triangles_of_faces(tree: Any, ids: NDArray[Any]) -> Floats:
    """Return the triangles of faces, or of the sides of boxes, shape (n, 3, 3)."""
    primitives = tree.arrays.primitives
    if isinstance(primitives, Triangles):
        return np.asarray(primitives.points[primitives.faces[ids]])
    return box_corners(primitives, ids)[:, BOX_FACES].reshape(-1, 3, 3)


def outlines_of_faces(tree: Any, ids: NDArray[Any]) -> Floats:
    """Return the sides of faces, or the edges of boxes, as lines (n, 2, 3)."""
    primitives = tree.arrays.primitives
    if not isinstance(primitives, Triangles):
        return edges_of(box_corners(primitives, ids))
    triangles = triangles_of_faces(tree, ids)
    return np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=2).reshape(-1, 2, 3)


def _split(matrices: Floats, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rows of matrices that rotate, scale along axes and translate, and all others."""
    linear = matrices[rows, :, :3]
    lengths = np.linalg.norm(linear, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = linear / lengths[:, None]
        off = np.abs(unit.transpose(0, 2, 1) @ unit - np.eye(3))
    square: Any = (off < SQUARE).all(axis=(1, 2))
    return rows[square], rows[~square]


def _turns_and_scales(maps: Floats) -> tuple[Floats, Floats]:
    """Return rotations, w first, and scales of matrices (n, 3, 4) with orthogonal columns."""
    scales = np.linalg.norm(maps[:, :, :3], axis=1)
    # A reflection is a negative scale.
    scales[:, 0] *= np.where(np.linalg.det(maps[:, :, :3] / scales[:, None]) < 0.0, -1.0, 1.0)
    turns = np.tile(np.eye(4), (len(maps), 1, 1))
    turns[:, :3, :3] = maps[:, :, :3] / scales[:, None]
    import trimesh

    quaternion: Any = trimesh.transformations.quaternion_from_matrix
    found = [quaternion(turn) for turn in turns]
    return np.array(found).reshape(-1, 4), scales


def _colours(leaves: Any) -> NDArray[np.uint8]:
    """Return the colour of each leaf: that of its instance, or clay for a single instance."""
    if len(np.unique(leaves.instance_id)) < 2:
        return np.repeat(CLAY, len(leaves), axis=0)
    soft = 0.12 + 0.78 * instance_colours(leaves.instance_id)
    return np.asarray((255.0 * soft).round().astype(np.uint8))
