"""Refitting of a wide tree over moving boxes, one in each leaf, in place.

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

import numpy as np

from bvh.geometry.arithmetic.floats import INF, finite, lower_of, upper_of
from bvh.geometry.boxes import is_box, read_box
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, peek
from bvh.tree import wide_nodes
from bvh.tree.collapse import order_node
from bvh.tree.frame import centre, scale, set_bounds, set_corners
from bvh.tree.nodes import local_box

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
    """Write the positions of nodes and boxes as children to `parents` and `lanes`."""
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
    """Write the root's box and bounds for margins to the frame; return REFITTED or OUTGROWN."""
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
    """Refit all nodes, order their children, set all figures; return REFITTED or OUTGROWN."""
    # OUTGROWN: a box has become valid or invalid, or boxes do not fit the frame, as those of a tree
    # that `is_new` always do.
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
    """Set boxes[rows] to `moved` (k, 6); refit the nodes above; return REFITTED or OUTGROWN."""
    # If OUTGROWN, the nodes are not all refitted: the tree must be rebuilt.
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
