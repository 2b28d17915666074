"""Top-level acceleration structure (TLAS) of a scene: a tree over moving boxes, one box a leaf.

When boxes move, the tree is refitted: from their leaves up if they are few, by one pass over all
nodes if they are many. Neither changes the topology, so rays visit more and more nodes. When to
rebuild is the ski rental problem (Karlin, Manasse, McGeoch and Owicki 1994, "Competitive randomized
algorithms for nonuniform problems"): when the rent paid so far, here the time that rays have lost,
equals the price. The time spent is at most twice what it would be with the future known. A ray
loses NODE_SECONDS for each visit by which the cost of the tree (see `stats.wide_cost`) has grown
since it was built; the time of a build is measured.

The arrays are changed in place, and only their floats and the orders of children: a query that runs
in another thread may miss what moves meanwhile, but stays within the arrays. A rebuilt tree has new
arrays, in a new local frame.
"""

import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import warms
from bvh.runtime.memory import aligned
from bvh.tree import moving_boxes
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import record_boxes
from bvh.tree.builders import binned_sah
from bvh.tree.builders import records as record
from bvh.tree.collapse import widen
from bvh.tree.frame import FrameView, local_frame
from bvh.tree.moving_boxes import AREA, FIGURES, OUTGROWN
from bvh.tree.shapes import Boxes
from bvh.tree.wide_nodes import WideNodes

# Time of a ray for one more visit of a node or a box: measured as the time of random rays over the
# cost, for 10 000 boxes that were exchanged step by step.
NODE_SECONDS = 3e-8
# Rays between two updates, where their number is not given.
ASSUMED_RAYS = 1000
# Boxes from which the time of a build per box is representative.
SMALLEST = 256
# Share of the boxes from which a pass over all nodes is faster.
MANY = 1.0 / 4.0


class Tlas:
    """Tree over moving boxes, shape (n, 6); those that are empty or not finite are not in it.

    `arrays` are over `Boxes`, one in each leaf: row r of the leaves holds the box
    `nodes.ids[r, 0]`. They change in place; a rebuild replaces them, and the local frame.
    """

    # Time of a build, by the fastest one so far.
    seconds_a_box: ClassVar[float] = 1e-6

    arrays: TreeArrays

    def __init__(self, boxes: NDArray[np.float64]) -> None:
        """Build a tree over a copy of `boxes` (n, 6), lower and upper corners."""
        self._boxes = np.array(boxes, np.float64, order="C").reshape(-1, 6)
        # Increased before and after boxes move. Bounds are stored with the value from before they
        # were computed, so those that another thread computes meanwhile are not used again.
        self._changes = 0
        self.rebuild()

    def rebuild(self) -> None:
        """Rebuild the tree, with new arrays in a new local frame."""
        began = time.perf_counter()
        boxes, ids = kernel_input(self._boxes), np.empty(len(self), np.int32)
        bounds = np.empty((2, 3))
        ids = ids[: moving_boxes.valid_boxes(boxes, ids, bounds)]
        # The frame of one box, `bounds`; or of no box if none is valid: the slice is then empty.
        frame, bounds = local_frame(*bounds.reshape(2, 1, 3)[:, : len(ids)])
        # Two halves, between which the builder moves records.
        records = np.empty((2 * len(ids), record.WIDTH), np.float32)
        record_boxes(boxes, kernel_input(ids), kernel_input(frame), records)
        binary = binned_sah.build(records, group_bits=0, max_leaf=1)
        nodes = widen(binary, 1)
        # The bounds of the boxes, and the value of `_changes` before they were computed.
        self._bounds = self._changes, bounds
        self._frame, self._blocks = np.vstack([frame, np.zeros((2, 3))]), nodes.data
        # A view of the corners of the root's box in the frame, which refits update.
        self._root = FrameView(self._frame).box
        # For each node and each box, its position as a child in `_blocks` (see `moving_boxes`); -1
        # for the root, and for boxes left out.
        self._parents = np.empty(nodes.size, np.int64)
        self._lanes = np.empty(len(self._boxes), np.int64)
        self._figures = np.zeros(FIGURES)
        rows = kernel_input(nodes.rows)
        moving_boxes.find_lanes(self._blocks, rows, self._parents, self._lanes)
        self.arrays = TreeArrays(
            WideNodes(kernel_input(self._blocks), rows), kernel_input(aligned(0, np.float32)),
            Boxes(boxes), kernel_input(self._frame),
        )  # fmt: skip
        if len(self._blocks):
            self._refit(True)
        # Seconds that rays have lost since the tree was built, and what its cost was then.
        self._lost, self._built_cost = 0.0, self.cost
        seconds = time.perf_counter() - began
        # The first build may have compiled kernels, and any may have waited for other processes.
        Tlas.seconds_a_box = min(Tlas.seconds_a_box, seconds / max(len(ids), SMALLEST))

    def __len__(self) -> int:
        """Return the number of boxes, including those that are not in the tree."""
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
            version, found = self._changes, np.empty((2, 3))
            if moving_boxes.valid_boxes(self.boxes, np.empty(len(self), np.int32), found) == 0:
                found[:] = np.nan
            self._bounds = version, found
        return found

    @property
    def cost(self) -> float:
        """Expected number of nodes and boxes that a ray through the root's box visits."""
        if len(self._blocks) == 0:
            return 0.0
        low, high = self._root
        x, y, z = (high - low).tolist()
        root_area = x * y + y * z + z * x
        # A ray through a root without area may visit everything.
        if root_area == 0.0:
            return float(len(self._parents) + len(self.arrays.nodes.ids))
        # AREA is the sum of half areas of all boxes but the root's.
        return float(1.0 + self._figures[AREA] / root_area)

    def update(
        self, rows: NDArray[np.int64], boxes: NDArray[np.float64], rays: float = ASSUMED_RAYS
    ) -> bool:
        """Set boxes `rows` to `boxes`; return whether the tree was rebuilt, with new `arrays`.

        `boxes` (k, 6) are lower and upper corners, and `rays` is the number of rays cast since the
        last update. The tree is refitted, or rebuilt if that is cheaper. If a row occurs twice, its
        last box is used.
        """
        self._lost += rays * (self.cost - self._built_cost) * NODE_SECONDS
        # A tree that has improved reduces the loss, but not below 0.
        self._lost = max(self._lost, 0.0)
        self._changes += 1
        if len(rows) > MANY * len(self._boxes):
            self._boxes[rows] = boxes
            answer = OUTGROWN if self._pays() else self._refit(False)
        else:
            answer = moving_boxes.move_boxes(
                kernel_input(rows), kernel_input(boxes), self._boxes, self._lanes, self._parents,
                self._frame, self._blocks, self._figures,
            )  # fmt: skip
        self._changes += 1
        if answer == OUTGROWN or self._pays():
            self.rebuild()
            return True
        return False

    def _refit(self, is_new: bool) -> int:
        """Refit all nodes; return REFITTED, or OUTGROWN if the tree must be rebuilt."""
        # A tree that `is_new` always fits its frame.
        nodes = self.arrays.nodes
        answer: int = moving_boxes.refit_all(
            self.arrays.primitives.points, kernel_input(self._lanes), nodes.ids,
            kernel_input(self._parents), self._frame, self._blocks, self._figures, is_new,
        )  # fmt: skip
        return answer

    def _pays(self) -> bool:
        """Return whether a rebuild pays: rays have lost as much time as a build takes."""
        return self._lost > Tlas.seconds_a_box * len(self._boxes)


@warms("top levels")
def _warm() -> None:
    """Compile what moving boxes need."""
    boxes = np.repeat(np.arange(64.0), 6).reshape(-1, 6)
    tree = Tlas(boxes)
    tree.update(np.arange(1), boxes[:1])
    tree.update(np.arange(64), boxes)
