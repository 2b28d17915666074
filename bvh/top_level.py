"""`TopLevel`: a tree over boxes that move, one box a leaf: what finds the instances of a scene.

Few boxes that have moved are bounded again from their leaves up, many of them by one pass over all
nodes. Either keeps who is next to whom, so rays go through more and more nodes. When to build the
tree anew is the question of when to buy what one rents (Karlin, Manasse, McGeoch and Owicki 1994,
"Competitive randomized algorithms for nonuniform problems"): when the rent paid so far, here the
time that rays have lost, has come to the price. Never is more than twice the time spent that would
have been with the future known. A ray loses NODE_SECONDS for each visit by which the cost of the
tree (see `quality.wide_cost`) has grown since it was built; what a build takes is measured.

The arrays are changed in place, and only their floats and the orders of children are: a query that
is under way in another thread may miss what moves meanwhile, but reads nothing that is not there.
A tree that is built anew has new arrays, in a new local frame.
"""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import aligned, kernel_input
from bvh.arrays import TreeArrays
from bvh.builders import binned_sah
from bvh.builders.records import WIDTH as RECORD
from bvh.collapse import collapse, new_scratch
from bvh.frame import local_frame
from bvh.jit import warms
from bvh.moving_boxes import (
    AREA,
    FIGURES,
    OUTGROWN,
    bound_all,
    find_places,
    move_some,
    record_boxes,
    survey,
)
from bvh.nodes import Nodes
from bvh.primitives import Boxes
from bvh.wide_nodes import BLOCK_SIZE, WideNodes
from bvh.workers import hold_memory_ready

# What a ray loses by one more visit of a node or a box: measured as the time of random rays over
# the cost, for 10 000 boxes that changed places more and more.
NODE_SECONDS = 3e-8
# Rays between two updates, where nobody has told how many.
ASSUMED_RAYS = 1000
# Boxes in a build whose time says something.
SMALLEST = 256
# Boxes that are worth a pass over all nodes: this share of all.
MANY = 1.0 / 4.0

NOTHING = np.empty((0, 3)), np.empty((0, 3))


class TopLevel:
    """A tree over boxes that move.

    Parameters
    ----------
    boxes : ndarray of float64, shape (n, 6)
        Lower and upper corners. Boxes that are empty or not finite are not in the tree.

    Attributes
    ----------
    arrays : TreeArrays
        Over `Boxes`, one in each leaf: row r of the leaves holds the box `nodes.ids[r, 0]`. They
        change in place.
    frame_version : int
        Changes with `arrays`, and so with the local frame, when the tree is built anew.
    """

    __slots__ = (
        "_blocks", "_bounds", "_boxes", "_built_cost", "_changes", "_figures", "_frame", "_lost",
        "_parents", "_places", "arrays", "frame_version",
    )  # fmt: skip

    arrays: TreeArrays
    frame_version: int
    _boxes: NDArray[np.float64]
    # What bounds the boxes, and `_changes` when that was found.
    _bounds: tuple[int, NDArray[np.float64]]
    # Grows before boxes move and when they have: what another thread finds meanwhile counts not.
    _changes: int
    _frame: NDArray[np.float64]
    _blocks: NDArray[np.float32]
    # The lane that each node, and each box, is in; -1 for the root, and for boxes left out.
    _parents: NDArray[np.int64]
    _places: NDArray[np.int64]
    _figures: NDArray[np.float64]
    # Seconds that rays have lost since the tree was built, and what its cost was then.
    _lost: float
    _built_cost: float
    # The price of a build, as the fastest so far tells it.
    seconds_a_box: ClassVar[float] = 1e-6

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        self._boxes = np.array(boxes, np.float64, order="C").reshape(-1, 6)
        self.frame_version = self._changes = 0
        self.rebuild()

    def __len__(self) -> int:
        """Return the number of boxes, those that are not in the tree included."""
        return len(self._boxes)

    @property
    def boxes(self) -> NDArray[np.float64]:
        """The boxes as they are now, read-only, shape (n, 6)."""
        return kernel_input(self._boxes)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of all boxes in the tree, shape (2, 3); NaN if there are none."""
        version, found = self._bounds
        if version != self._changes:
            version, found = self._changes, np.full((2, 3), np.nan)
            if survey(self.boxes, np.empty(len(self), np.int32), found) == 0:
                found[:] = np.nan
            self._bounds = version, found
        return found

    @property
    def cost(self) -> float:
        """The expected visits of nodes and boxes by a ray that meets the root's box."""
        if len(self._blocks) == 0:
            return 0.0
        x, y, z = (self._frame[3] - self._frame[2]).tolist()
        whole = x * y + y * z + z * x
        if whole == 0.0:
            return float(len(self._parents) + len(self.arrays.nodes.ids))
        return float(1.0 + self._figures[AREA] / whole)

    def update(
        self,
        rows: NDArray[np.int64],
        boxes: NDArray[np.float64],
        rays: float = ASSUMED_RAYS,
    ) -> bool:
        """Let boxes move; refit the tree, or build it anew where that has come to pay.

        Parameters
        ----------
        rows : ndarray of int64, shape (k,)
            Which boxes; of a box that is named twice, the last counts.
        boxes : ndarray of float64, shape (k, 6)
            Where they are now.
        rays : float
            Rays that have been cast since the last update.

        Returns
        -------
        bool
            Whether the tree was built anew: `arrays` are others then.
        """
        self._lost += rays * (self.cost - self._built_cost) * NODE_SECONDS
        # A tree that is better than it was makes up for what it lost, but earns nothing.
        self._lost = max(self._lost, 0.0)
        self._changes += 1
        if len(rows) > MANY * len(self._boxes):
            self._boxes[rows] = boxes
            answer = OUTGROWN if self._pays() else self._pass(False)
        else:
            answer = move_some(
                kernel_input(rows), kernel_input(boxes), self._boxes, self._places, self._parents,
                self._frame, self._blocks, self._figures,
            )  # fmt: skip
        self._changes += 1
        if answer == OUTGROWN or self._pays():
            self.rebuild()
            return True
        return False

    def refit(self) -> None:
        """Bound all nodes again; build the tree anew only where its frame has been outgrown."""
        if self._pass(False) == OUTGROWN:
            self.rebuild()

    def rebuild(self) -> None:
        """Build the tree anew, with new arrays in a new local frame."""
        began = time.perf_counter()
        boxes, ids, bounds = (
            kernel_input(self._boxes),
            np.empty(len(self), np.int32),
            np.empty((2, 3)),
        )
        ids = ids[: survey(boxes, ids, bounds)]
        frame, bounds = local_frame(bounds[:1], bounds[1:]) if len(ids) else local_frame(*NOTHING)
        records = np.empty((2 * len(ids), RECORD), np.float32)
        record_boxes(boxes, kernel_input(ids), kernel_input(frame), records)
        binary = binned_sah.build(records, group_bits=0, max_leaf=1)
        nodes = _widened(binary, len(ids))
        self._frame, self._bounds = np.zeros((4, 3)), (self._changes, bounds)
        self._frame[:2] = frame
        self._blocks = nodes.blocks
        self._parents = np.empty(nodes.size, np.int64)
        self._places = np.empty(len(self._boxes), np.int64)
        self._figures = np.zeros(FIGURES)
        rows = kernel_input(nodes.ids)
        find_places(self._blocks, rows, self._parents, self._places)
        self.arrays = TreeArrays(
            WideNodes(kernel_input(self._blocks), rows),
            kernel_input(aligned(0, np.float32)),
            Boxes(kernel_input(self._boxes)),
            kernel_input(self._frame),
        )
        if len(self._blocks):
            self._pass(True)
        self._lost, self._built_cost = 0.0, self.cost
        self.frame_version += 1
        seconds = time.perf_counter() - began
        # The first build may have waited for its kernels, and any of them for other processes.
        TopLevel.seconds_a_box = min(TopLevel.seconds_a_box, seconds / max(len(ids), SMALLEST))

    def _pass(self, new: bool) -> int:
        """Bound all nodes again, if the frame serves."""
        nodes = self.arrays.nodes
        answer: int = bound_all(
            self.arrays.primitives.points, kernel_input(self._places), nodes.ids,
            kernel_input(self._parents), self._frame, self._blocks, self._figures, new,
        )  # fmt: skip
        return answer

    def _pays(self) -> bool:
        """Tell whether rays have lost as much time as a build takes."""
        return self._lost > TopLevel.seconds_a_box * len(self._boxes)


def _widened(binary: Nodes, count: int) -> WideNodes:
    """Collapse a binary tree over so many boxes to wide nodes.

    In one pass, unlike `collapse.widen`: there are fewer wide nodes than boxes, and memory that is
    not touched costs nothing.
    """
    if count == 0:
        return WideNodes(aligned(0, np.float32), np.empty((0, 1), np.int32))
    room, ids = aligned(count * BLOCK_SIZE, np.float32), np.empty((count, 1), np.int32)
    hold_memory_ready()
    nodes, _ = collapse(*binary, 1, room, ids, False, new_scratch(binary.links))
    blocks = aligned(nodes * BLOCK_SIZE, np.float32)
    blocks[:] = room[: len(blocks)]
    return WideNodes(blocks, ids)


@warms("top levels")
def _warm() -> None:
    """Compile what moving boxes need."""
    boxes = np.repeat(np.arange(64.0), 6).reshape(-1, 6)
    tree = TopLevel(boxes)
    tree.update(np.arange(1), boxes[:1])
    tree.update(np.arange(64), boxes)
