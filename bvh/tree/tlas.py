"""Top-level acceleration structure (TLAS) of a scene: a tree over moving boxes, one box a leaf.

When boxes move, the tree is refitted: from their leaves up if they are few, by one pass over all
nodes if they are many. Neither changes the topology, so rays visit more and more nodes. When to
rebuild is the ski rental problem (Karlin, Manasse, McGeoch and Owicki 1994, "Competitive randomized
algorithms for nonuniform problems"): when the rent paid so far, here the time that rays have lost,
equals the price. The time spent is at most twice what it would be with the future known. A ray
loses NODE_SECONDS for each visit by which the cost of the tree (see `refit.cost_of`) has grown
since it was built; the time of a build is measured.

The arrays are changed in place, and only their floats and the orders of children: a query that runs
in another thread may miss what moves meanwhile, but stays within the arrays. A rebuilt tree has new
arrays, in a new local frame.

Arrays that the functions share:

| array | contents |
|---|---|
| `boxes` (n, 6) | lower and upper corners in world coordinates |
| `blocks`, `ids` | the nodes, and the box in each leaf (see `wide_nodes`) |
| `lanes` (n,) | the position of each box in `blocks`, as by `child_at`; -1 if in no leaf |
| `parents` | the position of each node as a child; -1 for the root |
| `frame` | see `frame` |
| `figures` | see FIGURES below |
"""

import time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, finite, lower_of, upper_of
from bvh.geometry.boxes import is_box, read_box
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, warms
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, peek
from bvh.tree import wide_nodes
from bvh.tree.arrays import TreeArrays
from bvh.tree.build import record_boxes
from bvh.tree.builders import binned_sah
from bvh.tree.builders import records as record
from bvh.tree.collapse import order_node, widen
from bvh.tree.frame import FrameView, centre, local_frame, scale, set_bounds, set_corners
from bvh.tree.nodes import local_box
from bvh.tree.shapes import Boxes
from bvh.tree.wide_nodes import WideNodes

# Time of a ray for one more visit of a node or a box: measured as the time of random rays over the
# cost, for 10 000 boxes that were exchanged step by step.
NODE_SECONDS = 3e-8
# Rays between two updates, where their number is not given.
ASSUMED_RAYS = 1000
# Boxes from which the time of a build per box is representative.
FEWEST = 256
# Share of the boxes from which a pass over all nodes is faster.
MANY = 1.0 / 4.0

# A frame remains while the largest local coordinate is at most LARGEST times that of the tree as it
# was built, and half the root's extent at least SMALLEST times the larger of these coordinates. The
# first is stored in the frame, times UP for rounding: it is part of every error margin of rays (see
# `traversal.rays.ray_setup`).
LARGEST, SMALLEST = 8.0, 1.0 / 16.0
UP = 1.0 + 2.0**-20

ORIGIN = (0.0, 0.0, 0.0)

# Results of kernels: the tree has been refitted, or it must be rebuilt.
REFITTED, OUTGROWN = 0, 1

# Figures of a tree: the sum of half areas of all lanes, the largest local coordinate when it was
# built, and the largest coordinate in the world.
AREA, REACH, FARTHEST = 0, 1, 2
FIGURES = 3


@inlined
def _is_box(boxes, i):
    """Return whether box i of `boxes` is finite and not empty."""
    low, high = read_box(boxes, i)
    return is_box(low, high) and finite(low) and finite(high)


@inlined
def _reach_of(low, high, origin, s):
    """Return the largest absolute coordinate of a box relative to an origin, times s."""
    reach = 0.0
    for axis in range(3):
        reach = max(reach, (origin[axis] - low[axis]) * s, (high[axis] - origin[axis]) * s)
    return reach


@entry
def valid_boxes(boxes, ids, bounds):
    """Write ids and bounds (2, 3) of boxes that are finite and not empty; return their number."""
    count, low, high = 0, (INF, INF, INF), (-INF, -INF, -INF)
    for i in range(len(boxes)):
        if _is_box(boxes, i):
            ids[count] = i
            count += 1
            a, b = read_box(boxes, i)
            low, high = lower_of(low, a), upper_of(high, b)
    for axis in range(3):
        bounds[0, axis], bounds[1, axis] = low[axis], high[axis]
    return count


@entry
def find_lanes(blocks, ids, parents, lanes):
    """Write the position, as a child, of each node to `parents`, and of each box to `lanes`.

    Positions are those in the nodes `blocks`; they are -1 for the root and for boxes in no leaf.
    `ids` has the box of each leaf.
    """
    parents[:] = -1
    lanes[:] = -1
    for number in range(wide_nodes.node_count(blocks) * WIDTH):
        at = wide_nodes.child_at(number)
        code = wide_nodes.child_code(blocks, at)
        if code > 0:
            parents[code] = at
        elif code < 0:
            # A leaf is one row of one id.
            lanes[np.int64(peek(ids, wide_nodes.first_row(code)))] = at


@inlined
def _update_frame(frame, figures, blocks, is_new):
    """Write the root's box, and bounds for margins, to the frame; return REFITTED or OUTGROWN.

    OUTGROWN means that boxes have become too large or too small for the frame. Those of a tree that
    `is_new` fit, and their largest local coordinate is set in `figures`.
    """
    low, high = wide_nodes.node_box(blocks, np.int64(0))
    reach, half = 0.0, 0.0
    for axis in range(3):
        a, b = np.float64(low[axis]), np.float64(high[axis])
        set_corners(frame, axis, a, b)
        reach, half = max(reach, -a, b), max(half, 0.5 * (b - a))
    set_bounds(frame, figures[FARTHEST], max(1.0, reach * UP))
    if is_new:
        figures[REACH] = reach
    built = figures[REACH]  # the largest local coordinate when the tree was built
    fits = reach <= LARGEST * built and half >= SMALLEST * max(reach, built)
    return REFITTED if fits or is_new else OUTGROWN


@entry
def refit_all(boxes, lanes, ids, parents, frame, blocks, figures, is_new):
    """Refit all nodes of `blocks`, and order their children; return REFITTED or OUTGROWN.

    OUTGROWN means that the tree must be rebuilt, because a box has become valid or invalid, or
    because the boxes do not fit the frame; those of a tree that `is_new` do. `lanes` and `parents`
    have the positions in `blocks` of boxes and nodes, -1 for none. All FIGURES are set.
    """
    low, high = (INF, INF, INF), (-INF, -INF, -INF)
    for i in range(len(lanes)):
        if _is_box(boxes, i) != (lanes[i] >= 0):
            return OUTGROWN
        if lanes[i] >= 0:
            a, b = read_box(boxes, i)
            low, high = lower_of(low, a), upper_of(high, b)
    if len(blocks) == 0:
        return REFITTED
    origin, s = centre(frame), scale(frame)
    # Checked first, so that nothing overflows; `_update_frame` checks the rest.
    if not (is_new or _reach_of(low, high, origin, s) <= LARGEST * figures[REACH]):
        return OUTGROWN
    figures[FARTHEST] = _reach_of(low, high, ORIGIN, 1.0)
    total = 0.0
    # Children before parents, as they have higher numbers.
    for node in range(wide_nodes.node_count(blocks) - 1, -1, -1):
        for c in range(WIDTH):
            at = wide_nodes.node_at(node) + c
            code = wide_nodes.child_code(blocks, at)
            if code < 0:
                a, b = read_box(boxes, np.int64(peek(ids, wide_nodes.first_row(code))))
                lower, upper = local_box(a, b, origin, s)
                wide_nodes.set_child_box(blocks, at, lower, upper)
                total += wide_nodes.half_area_of(lower, upper)
        order_node(blocks, node)
        if node > 0:
            lower, upper = wide_nodes.node_box(blocks, node)
            wide_nodes.set_child_box(blocks, parents[node], lower, upper)
            total += wide_nodes.half_area_of(lower, upper)
    figures[AREA] = total
    return _update_frame(frame, figures, blocks, is_new)


@entry
def move_boxes(rows, moved, boxes, lanes, parents, frame, blocks, figures):
    """Set boxes[rows] to `moved` (k, 6) and refit the nodes of `blocks` above them.

    Returns REFITTED, or OUTGROWN if the tree must be rebuilt; then the nodes are not all refitted.
    `lanes` and `parents` have the positions in `blocks` of boxes and nodes, -1 for none. The sum of
    areas and the largest world coordinate in `figures` are updated.
    """
    answer = REFITTED
    origin, s = centre(frame), scale(frame)
    total = figures[AREA]
    for j in range(len(rows)):
        i = rows[j]
        for k in range(6):
            boxes[i, k] = moved[j, k]
        at = lanes[i]
        # A box that becomes valid or invalid needs another tree.
        if _is_box(moved, j) != (at >= 0):
            answer = OUTGROWN
        # Once the tree is outgrown, boxes are only stored.
        if at < 0 or answer != REFITTED:
            continue
        low, high = read_box(moved, j)
        # The box must fit the frame, or local coordinates could overflow.
        if not _reach_of(low, high, origin, s) <= LARGEST * figures[REACH]:
            answer = OUTGROWN
            continue
        figures[FARTHEST] = max(figures[FARTHEST], _reach_of(low, high, ORIGIN, 1.0))
        lower, upper = local_box(low, high, origin, s)
        # Up to the root, or to a box that stays the same.
        while at >= 0:
            old_lower, old_upper = wide_nodes.child_box(blocks, at)
            if lower == old_lower and upper == old_upper:
                break
            area = wide_nodes.half_area_of(lower, upper)
            total += area - wide_nodes.half_area_of(old_lower, old_upper)
            wide_nodes.set_child_box(blocks, at, lower, upper)
            node = wide_nodes.node_of(at)
            lower, upper = wide_nodes.node_box(blocks, node)
            at = parents[node]
    figures[AREA] = total
    if answer == REFITTED and len(blocks) > 0:
        answer = _update_frame(frame, figures, blocks, False)
    return answer


class Tlas:
    """Tree over moving boxes, shape (n, 6); those that are empty or not finite are not in it.

    `arrays` are over `Boxes`, one in each leaf: row r of the leaves holds the box
    `nodes.ids[r, 0]`. They change in place; a rebuild replaces them, and the local frame.
    """

    # Seconds of a build for each box, by the fastest build so far.
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
        ids = ids[: valid_boxes(boxes, ids, bounds)]
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
        # For each node and each box, its position as a child in `_blocks` (see `find_lanes`); -1
        # for the root, and for boxes left out.
        self._parents = np.empty(nodes.size, np.int64)
        self._lanes = np.empty(len(self._boxes), np.int64)
        self._figures = np.zeros(FIGURES)
        rows = kernel_input(nodes.rows)
        find_lanes(self._blocks, rows, self._parents, self._lanes)
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
        Tlas.seconds_a_box = min(Tlas.seconds_a_box, seconds / max(len(ids), FEWEST))

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
            if valid_boxes(self.boxes, np.empty(len(self), np.int32), found) == 0:
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
            answer = move_boxes(
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
        answer: int = refit_all(
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
