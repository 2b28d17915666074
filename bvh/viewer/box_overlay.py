"""The boxes of nodes on the page: of the tree that was picked, or of the scene's top level."""

from __future__ import annotations

from typing import Any

import numpy as np

from bvh.affine import moved
from bvh.viewer import readouts
from bvh.viewer.levels import BoxLevels, corners_of, edges_of, largest

OFF, TREE, TOP = "off", "tree", "top level"
# Boxes that are drawn of a level; the largest of them, and the panel says so.
MAX_BOXES = 5000
COLOURS = (
    (214, 39, 40), (255, 127, 14), (188, 160, 0), (44, 160, 44), (0, 150, 170), (31, 119, 180),
    (110, 80, 200), (200, 60, 160),
)  # fmt: skip


class BoxOverlay:
    """The controls of the boxes, and the boxes.

    Parameters
    ----------
    session : Session
        The page.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        # By Python's id of a tree's arrays, which are held so that the id stays their own.
        self._levels: dict[int, tuple[Any, BoxLevels]] = {}
        gui = session.client.gui
        many = len(session.scene.leaves) > 1
        self._of = gui.add_dropdown(
            "Boxes of", (OFF, TREE, TOP) if many else (OFF, TREE), initial_value=OFF,
            hint="The tree of the mesh that was picked last (or the first); of a scene also the "
            "tree over its instances.",
        )  # fmt: skip
        self._level = gui.add_slider("Level", 0, 1, 1, 1, disabled=True)
        self._told = gui.add_html(readouts.boxes_shown("none"))
        self._of.on_update(lambda _: self.follow())
        self._level.on_update(lambda _: self._draw())

    def follow(self) -> None:
        """Draw the boxes of what is chosen now."""
        levels = self._chosen()
        self._level.disabled = levels is None
        if levels is not None:
            deepest = max(levels.depth, 1)
            if self._level.value > deepest:
                self._level.value = deepest
            self._level.max = deepest
        self._draw()

    def _leaf(self) -> int:
        """Return the leaf that was picked, or the first if there is none, or no more."""
        pick = self._session.pick
        return 0 if pick is None or pick.leaf >= len(self._session.scene.leaves) else pick.leaf

    def _chosen(self) -> BoxLevels | None:
        """Return the levels of what is chosen, if it is anything."""
        scene = self._session.scene
        if self._of.value == OFF or len(scene.leaves) == 0:
            return None
        if self._of.value == TOP:
            # Instances move: the top level may be another than it was.
            return BoxLevels(scene._current().arrays)
        leaves = scene.leaves
        return self._levels_of(leaves.trees[leaves.tree_of[self._leaf()]].arrays)

    def _levels_of(self, arrays: Any) -> BoxLevels:
        if id(arrays) not in self._levels:
            self._levels[id(arrays)] = arrays, BoxLevels(arrays)
        return self._levels[id(arrays)][1]

    def _draw(self) -> None:
        """Draw one level, and tell how much of it."""
        session = self._session
        with session._lock:
            levels = self._chosen()
            if levels is None:
                session._unmark("boxes")
                self._told.content = readouts.boxes_shown("none")
                return
            level = int(self._level.value)
            boxes = levels.boxes(level)
            drawn = largest(boxes, MAX_BOXES)
            corners = corners_of(drawn)
            if self._of.value == TREE:
                matrix = session.scene.leaves.matrices[self._leaf()]
                world = moved(np.ascontiguousarray(corners.reshape(-1, 3)), matrix)
                corners = world.reshape(-1, 8, 3)
            told = f"level {level}: {readouts.count(len(boxes))} boxes"
            if len(drawn) < len(boxes):
                told += f", the {readouts.count(len(drawn))} largest drawn"
            self._told.content = readouts.boxes_shown(told)
            if len(drawn) == 0:
                session._unmark("boxes")
                return
            lines = edges_of(session.frame.to_page(corners))
            session._lines("boxes", lines, COLOURS[level % len(COLOURS)], 1.5)
