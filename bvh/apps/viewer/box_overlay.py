"""Boxes of tree nodes on the page: of the tree that was picked, or of a scene's top level."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.apps.page_server import block
from bvh.apps.viewer.drawing import Floats, corners_of, edges_of
from bvh.geometry.transforms import moved
from bvh.runtime.arguments import grouped, number_of
from bvh.tree.arrays import TreeArrays
from bvh.tree.frame import FrameView
from bvh.tree.stats import wide_levels
from bvh.tree.wide_nodes import lanes_of

OFF, TREE, TOP = "off", "tree", "top level"
# Largest number of drawn boxes; the largest boxes come first.
MAX_BOXES = 5000
COLOURS = (
    (214, 39, 40), (255, 127, 14), (188, 160, 0), (44, 160, 44), (0, 150, 170), (31, 119, 180),
    (110, 80, 200), (200, 60, 160),
)  # fmt: skip


class BoxOverlay:
    """Boxes of tree nodes on the page of a `Session`, and their controls."""

    def __init__(self, session: Any) -> None:
        self._session = session
        # The levels of the tree that was chosen last.
        self._levels: BoxLevels | None = None
        gui = session.client.gui
        self._of_tree = gui.add_dropdown(
            "Boxes of", self._choices(), initial_value=OFF,
            hint="The tree of the mesh that was picked last (or of the first one), or that over a "
            "scene's instances.",
        )  # fmt: skip
        # These two are visible only while boxes are.
        self._level = gui.add_slider("Level", 0, 1, step=1, initial_value=1, visible=False)
        self._summary = gui.add_html("", visible=False)
        for control in (self._of_tree, self._level):
            control.on_update(lambda _: self.follow())

    def follow(self) -> None:
        """Draw one level of the chosen tree, and show the number of boxes."""
        session = self._session
        with session.lock:
            if self._of_tree.options != self._choices():
                self._of_tree.options = self._choices()
            pick, leaves = session.pick, session.scene.leaves
            leaf = 0 if pick is None or pick.leaf >= len(leaves) else pick.leaf
            levels = self._chosen(leaf)
            if levels is None:
                self._level.visible = self._summary.visible = False
                session.marks.clear("boxes")
                return
            deepest = max(levels.depth, 1)
            level = self._level.value = min(int(self._level.value), deepest)
            self._level.max = deepest
            boxes = levels.boxes(level)
            drawn = largest(boxes, MAX_BOXES)
            # In coordinates of the tree; those of the top level are the world's.
            corners = corners_of(drawn)
            if self._of_tree.value == TREE:
                world = moved(np.ascontiguousarray(corners.reshape(-1, 3)), leaves.matrices[leaf])
                corners = world.reshape(-1, 8, 3)
            text = f"level {level}: {number_of(grouped(len(boxes)), 'boxes')}"
            if len(drawn) < len(boxes):
                text += f", the {grouped(len(drawn))} largest drawn"
            self._summary.content = block(f'<span id="bvh-boxes">{text}</span>')
            # Show the slider last: a key pressed before its range is set would be lost.
            self._level.visible = self._summary.visible = True
            lines = edges_of(session.frame.to_page(corners))
            session.marks.lines("boxes", lines, COLOURS[level % len(COLOURS)], 1.5)

    def _choices(self) -> tuple[str, ...]:
        """Return the choices of "Boxes of": a scene with one leaf has no top level."""
        return (OFF, TREE, TOP) if len(self._session.scene.leaves) > 1 else (OFF, TREE)

    def _chosen(self, leaf: int) -> BoxLevels | None:
        """Return the levels of the chosen tree; None if OFF is chosen, or if the scene is empty.

        For TREE, the tree is that of the leaf with number `leaf`.
        """
        scene = self._session.scene
        if self._of_tree.value == OFF or len(scene.leaves) == 0:
            return None
        if self._of_tree.value == TOP:
            # Not cached: the top level changes when instances move.
            return BoxLevels(scene.view().arrays)
        arrays = scene.leaves.trees[scene.leaves.tree_of[leaf]].arrays
        if self._levels is None or self._levels.arrays is not arrays:
            self._levels = BoxLevels(arrays)
        return self._levels


class BoxLevels:
    """Boxes of the nodes and leaves of a tree, by level; the root's box is level 0.

    Level k + 1 has the boxes of the children of nodes on level k. The deepest level is `depth`, -1
    if the tree is empty.
    """

    def __init__(self, arrays: TreeArrays) -> None:
        """Read the boxes in the nodes of a tree, and the level of each node."""
        self.arrays, self._frame = arrays, FrameView(arrays.frame)
        self._lanes = lanes_of(arrays.nodes.data)
        self._levels = wide_levels(self._lanes)
        self.depth = int(self._levels.max()) + 1 if len(self._levels) else -1

    def boxes(self, level: int) -> Floats:
        """Return the corners (n, 2, 3), lower and upper, of a level's boxes, in tree coordinates.

        They are rounded outward to float32 in the tree's frame, as its nodes store them.
        """
        # A node stores the boxes of its children; the root's box is around its children's.
        used = self._lanes.inner | self._lanes.leaf
        used = used & (self._levels == max(level - 1, 0))[:, None]
        boxes = np.moveaxis(self._lanes.boxes, 1, 2)[used].reshape(-1, 2, 3).astype(np.float64)
        if level == 0 and len(boxes):
            boxes = np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])[None]
        # From the tree's frame to its coordinates.
        return np.asarray(np.ldexp(boxes, -self._frame.exponent) + self._frame.centre)


def largest(boxes: Floats, limit: int) -> Floats:
    """Return the boxes (n, 2, 3) of largest surface, at most `limit`, in the order given."""
    if len(boxes) <= limit:
        return boxes
    x, y, z = np.moveaxis(boxes[:, 1] - boxes[:, 0], 1, 0)
    return boxes[np.sort(np.argpartition(-(x * y + y * z + z * x), limit)[:limit])]
