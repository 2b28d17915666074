"""Marks on the page of a session: faces, lines, points and arrows, in page coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.drawing import Floats, PageFrame
from bvh.geometry.transforms import moved
from bvh.queries.hierarchy import BVH
from bvh.scene.scene import Scene
from bvh.tree.arrays import TreeArrays

if TYPE_CHECKING:
    from viser import SceneNodeHandle

Ids = NDArray[np.integer]
Colour = tuple[int, int, int]
ORANGE, BLUE, GREY, GREEN = (255, 120, 20), (30, 110, 255), (90, 90, 90), (20, 140, 70)
# Marks are drawn nearer to the eye by this share of their distance.
LIFT = 2e-3


class Marked(NamedTuple):
    """Faces of one leaf that are marked, and the map and the arrays with which they were drawn."""

    path: tuple[int, ...]
    tree: BVH
    leaf: int
    ids: Ids
    matrix: Floats
    arrays: TreeArrays

    @classmethod
    def of(cls, scene: Scene, leaf: int, ids: Ids) -> Marked:
        """Return faces of a leaf of a scene, where it is now."""
        leaves = scene.leaves
        tree = leaves.trees[leaves.tree_of[leaf]]
        return cls(scene.path(leaf), tree, leaf, ids, leaves.matrices[leaf].copy(), tree.arrays)

    def unplaced(self) -> Marked:
        """Return the marked faces without the place where they were drawn."""
        return self._replace(matrix=np.full((3, 4), np.nan))


class Marks:
    """What is marked on a page, by name; `frame` is called for the page's current frame."""

    def __init__(self, scene: Any, frame: Callable[[], PageFrame]) -> None:
        self._scene, self._frame = scene, frame
        # On the page, a new mark replaces that of the same name.
        self._shown: dict[str, SceneNodeHandle] = {}

    def clear(self, *names: str) -> None:
        """Remove marks."""
        for name in names:
            handle = self._shown.pop(name, None)
            if handle is not None:
                handle.remove()

    def placed(self, marked: Marked, local: Floats) -> Floats:
        """Return points of a marked leaf, shape (..., 3), in page coordinates."""
        world = moved(np.ascontiguousarray(local.reshape(-1, 3)), marked.matrix)
        return self._frame().to_page(world).reshape(local.shape)

    def surface(self, name: str, corners: Floats, eye: Floats, colour: Colour) -> None:
        """Mark triangles, shape (n, 3, 3), as seen from the eye."""
        if not len(corners):
            return self.clear(name)
        faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)
        points = self._lifted(corners.reshape(-1, 3), eye).astype(np.float32)
        self._shown[name] = self._scene.add_mesh_simple(
            f"/marks/{name}", points, faces, color=colour, flat_shading=True, side="double",
            cast_shadow=False, receive_shadow=False,
        )  # fmt: skip

    def lines(
        self, name: str, points: Floats, colour: Colour, thickness: float, eye: Floats | None = None
    ) -> None:
        """Mark lines, shape (n, 2, 3), if an eye is given as seen from there."""
        if not len(points):
            return self.clear(name)
        points = points if eye is None else self._lifted(points, eye)
        self._shown[name] = self._scene.add_line_segments(
            f"/marks/{name}", points.astype(np.float32), colour, thickness=thickness,
            thickness_units="screen",
        )  # fmt: skip

    def points(self, name: str, points: Floats, eye: Floats) -> None:
        """Mark points, shape (n, 3), as seen from the eye."""
        if not len(points):
            return self.clear(name)
        size = 2e-3 * float(np.linalg.norm(self._frame().to_page(eye)))
        self._shown[name] = self._scene.add_point_cloud(
            f"/marks/{name}", self._lifted(points, eye).astype(np.float32), BLUE,
            point_size=size, point_shape="circle",
        )  # fmt: skip

    def arrow(self, name: str, start: Floats, vector: Floats) -> None:
        """Mark a vector at a point."""
        size = float(np.linalg.norm(vector))
        if not (np.isfinite(size) and size > 0.0):
            return self.clear(name)
        line = np.stack([start, start + vector])[None].astype(np.float32)
        self._shown[name] = self._scene.add_arrows(
            f"/marks/{name}", line, BLUE, shaft_radius=0.02 * size, head_radius=0.06 * size,
            head_length=0.2 * size,
        )  # fmt: skip

    def label(self, name: str, text: str, position: Floats) -> None:
        """Write a text at a point."""
        self._shown[name] = self._scene.add_label(f"/marks/{name}", text, position=position)

    def _lifted(self, points: Floats, eye: Floats) -> Floats:
        """Return points a little nearer to the eye, at the same pixels."""
        return points + LIFT * (self._frame().to_page(eye) - points)
