"""Drawing of a scene in page coordinates: the meshes sent, and boxes for those beyond the limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
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
# Smallest half extent of a scene that is not treated as a point.
SMALLEST = 2.0**-600
# Bit k of a corner's index is the side along axis k; an edge joins two that differ in one bit.
EDGES = np.array([(a, a | 1 << k) for k in range(3) for a in range(8) if not a >> k & 1])


@dataclass(frozen=True, eq=False)
class PageFrame:
    """Map from world to page coordinates: page = (world - centre) * scale.

    The browser stores vertices as float32 and has a fixed near plane, so the scene is moved to the
    origin and scaled to a largest half extent between 1 and 2. The scale is a power of two, so only
    sums are rounded.
    """

    centre: Floats
    scale: float

    @classmethod
    def around(cls, bounds: Floats) -> PageFrame:
        """Return the frame of a scene with bounds of shape (2, 3), which are NaN if it is empty."""
        if not np.isfinite(bounds).all():
            return cls(np.zeros(3), 1.0)
        centre = 0.5 * bounds[0] + 0.5 * bounds[1]
        half = float((0.5 * bounds[1] - 0.5 * bounds[0]).max())
        # frexp: half = m * 2**k with m from 0.5 to 1.
        k = 1 - math.frexp(half)[1] if half > SMALLEST else 0
        return cls(centre, math.ldexp(1.0, k))

    def to_page(self, points: ArrayLike) -> Floats:
        """Return world points, shape (..., 3), in page coordinates."""
        return np.asarray((np.asarray(points, np.float64) - self.centre) * self.scale)

    def to_world(self, points: ArrayLike) -> Floats:
        """Return page points, shape (..., 3), in world coordinates."""
        return np.asarray(np.asarray(points, np.float64) / self.scale + self.centre)

    def camera(
        self, wxyz: ArrayLike, position: ArrayLike, fov: float, width: int, height: int
    ) -> Camera:
        """Return the world camera of a page's camera: its rotation to the page, eye and pixels.

        The page's camera looks along its z, with x to the right and y down; the vertical field of
        view is in radians.
        """
        turn = rotation_of(wxyz)
        made = Camera.look_at(
            np.zeros(3), turn[:, 2], -turn[:, 1], math.degrees(fov), width, height
        )
        # Directions are the same in both.
        return replace(made, eye=self.to_world(position))

    def ray_camera(self, origin: ArrayLike, direction: ArrayLike) -> Camera:
        """Return a camera of one pixel, whose centre (0.5, 0.5) has the given page ray.

        t is the distance in the world.
        """
        along = np.asarray(direction, np.float64)
        up = np.eye(3)[int(np.abs(along).argmin())]
        return replace(
            Camera.look_at(np.zeros(3), along, up, 45.0, 1, 1), eye=self.to_world(origin)
        )


def rotation_of(wxyz: ArrayLike) -> Floats:
    """Return the rotation matrix of a quaternion of any length, w first."""
    import trimesh

    matrix: Any = trimesh.transformations.quaternion_matrix
    return np.asarray(matrix(wxyz)[:3, :3])


class Part(NamedTuple):
    """A mesh in page coordinates, and a row for each copy: rotations are quaternions, w first."""

    vertices: NDArray[np.float32]
    faces: NDArray[np.uint32]
    turns: Floats
    places: Floats
    scales: Floats
    colours: NDArray[np.uint8]
    smooth: bool


class Drawing(NamedTuple):
    """Meshes to draw, the number of faces left out, and corners of boxes for these, (n, 8, 3)."""

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


def corners_of(boxes: Floats) -> Floats:
    """Return the corners of boxes (n, 2, 3), shape (n, 8, 3)."""
    upper = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    return np.where(upper, boxes[:, 1:2], boxes[:, 0:1])


def edges_of(corners: Floats) -> Floats:
    """Return the edges of boxes with corners (n, 8, 3) as lines (12 n, 2, 3)."""
    return corners[:, EDGES].reshape(-1, 2, 3)
