"""Marks on a page: faces, lines, points, balls, arrows and labels, in page coordinates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.drawing import Floats, PageFrame
from bvh.geometry.transforms import moved
from bvh.queries.hierarchy import BVH
from bvh.scene.scene import Scene
from bvh.tree.arrays import TreeArrays

Ids = NDArray[np.integer]
Colour = tuple[int, int, int]
ORANGE, BLUE, GREY, GREEN = (255, 120, 20), (30, 110, 255), (90, 90, 90), (20, 140, 70)
# Share of their distance by which marks are moved towards the eye.
LIFT = 2e-3


class Marked(NamedTuple):
    """Marked primitives `ids` of one leaf, with its map and its tree's arrays when last drawn."""

    path: tuple[int, ...]
    tree: BVH
    leaf: int
    ids: Ids
    matrix: Floats
    arrays: TreeArrays

    @classmethod
    def of(cls, scene: Scene, leaf: int, ids: Ids) -> Self:
        """Return the primitives `ids` of a leaf of a scene, with the leaf's current map."""
        leaves = scene.leaves
        tree = leaves.trees[leaves.tree_of[leaf]]
        return cls(scene.path(leaf), tree, leaf, ids, leaves.matrices[leaf].copy(), tree.arrays)

    def unplaced(self) -> Self:
        """Return the marked primitives with a map of NaN, so that the next update draws them."""
        return self._replace(matrix=np.full((3, 4), np.nan))


class Marks:
    """Marks on a page, by name; a new mark replaces the one of the same name.

    They are in page coordinates. With an `eye`, a point of the world, they are drawn a little
    nearer to it.
    """

    def __init__(self, scene: Any, frame: Callable[[], PageFrame] | None = None) -> None:
        """Begin without marks in viser's `scene`.

        `frame` returns the page's current frame; without it, world and page coordinates are equal.
        """
        self._scene, self._frame = scene, frame
        # Viser's handles, by name.
        self._shown: dict[str, Any] = {}

    @contextmanager
    def redrawn(self) -> Iterator[None]:
        """Remove, after the block, all marks that it has not drawn again."""
        before, self._shown = self._shown, {}
        yield
        for name in before.keys() - self._shown.keys():
            before[name].remove()

    def clear(self, *names: str) -> None:
        """Remove the marks of these names; names without a mark are ignored."""
        for name in names:
            handle = self._shown.pop(name, None)
            if handle is not None:
                handle.remove()

    def set_visible(self, visible: bool, *names: str) -> None:
        for name in names:
            if name in self._shown:
                self._shown[name].visible = visible

    def placed(self, marked: Marked, points: Floats) -> Floats:
        """Return page coordinates of points (..., 3) in coordinates of a marked leaf's tree."""
        world = moved(np.ascontiguousarray(points.reshape(-1, 3)), marked.matrix)
        return self._to_page(world).reshape(points.shape)

    def surface(
        self, name: str, corners: Floats, eye: Floats | None, colour: Colour,
        opacity: float | None = None,
    ) -> None:  # fmt: skip
        """Mark triangles (n, 3, 3) by a colour."""
        if not len(corners):
            return self.clear(name)
        faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)
        self._shown[name] = self._scene.add_mesh_simple(
            f"/marks/{name}", self._lifted(corners.reshape(-1, 3), eye), faces, color=colour,
            opacity=opacity, flat_shading=True, side="double", cast_shadow=False,
            receive_shadow=False,
        )  # fmt: skip

    def lines(
        self, name: str, points: Floats, colour: Colour, thickness: float, eye: Floats | None = None
    ) -> None:
        """Mark lines (n, 2, 3) by a colour, `thickness` pixels wide."""
        if not len(points):
            return self.clear(name)
        self._shown[name] = self._scene.add_line_segments(
            f"/marks/{name}", self._lifted(points, eye), colour, thickness=thickness,
            thickness_units="screen",
        )  # fmt: skip

    def points(self, name: str, points: Floats, eye: Floats) -> None:
        """Mark points (n, 3)."""
        if not len(points):
            return self.clear(name)
        # In page units: a point at the page's origin, usually the middle of the scene, looks the
        # same from any distance.
        size = 2e-3 * float(np.linalg.norm(self._to_page(eye)))
        self._shown[name] = self._scene.add_point_cloud(
            f"/marks/{name}", self._lifted(points, eye), BLUE, point_size=size,
            point_shape="circle",
        )  # fmt: skip

    def arrow(
        self, name: str, start: Floats, vector: Floats, colour: Colour = BLUE, size: float = 0.0
    ) -> None:
        """Mark `vector` at the point `start` by an arrow; none if its length is 0 or not finite.

        The arrow is as thick as one of length `size`, or by default as suits its own length.
        """
        length = float(np.linalg.norm(vector))
        if not (np.isfinite(length) and length > 0.0):
            return self.clear(name)
        size = size or length
        line = np.stack([start, start + vector])[None].astype(np.float32)
        self._shown[name] = self._scene.add_arrows(
            f"/marks/{name}", line, colour, shaft_radius=0.02 * size, head_radius=0.06 * size,
            head_length=0.2 * size,
        )  # fmt: skip

    def ball(
        self, name: str, point: Floats, colour: Colour, radius: float, **looks: object
    ) -> None:
        """Mark a point by a ball; `looks` are further arguments of viser's `add_icosphere`."""
        self._shown[name] = self._scene.add_icosphere(
            f"/marks/{name}", radius, colour, position=point, cast_shadow=False,
            receive_shadow=False, **looks,
        )  # fmt: skip

    def label(self, name: str, text: str, position: Floats, anchor: str = "top-left") -> None:
        """Write a text so that its `anchor`, a corner or the middle of a side, is at a point."""
        self._shown[name] = self._scene.add_label(
            f"/marks/{name}", text, position=position, anchor=anchor
        )

    def _to_page(self, point: Floats) -> Floats:
        return point if self._frame is None else self._frame().to_page(point)

    def _lifted(self, points: Floats, eye: Floats | None) -> NDArray[np.float32]:
        """Return points, a little nearer to `eye` if it is given, as viser takes them."""
        if eye is not None:
            points = points + LIFT * (self._to_page(eye) - points)
        return points.astype(np.float32)
