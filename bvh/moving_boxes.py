"""Boxes in the leaves of a wide tree, one in each, that move: the boxes above them, in place."""

from __future__ import annotations

import numpy as np

from bvh.builders.records import store
from bvh.collapse import order_node
from bvh.jit import entry, inlined
from bvh.numerics import INF, power_of_two
from bvh.preparation import local_box, local_record
from bvh.simd import WIDTH, peek
from bvh.wide_nodes import (
    child_at,
    child_box,
    child_code,
    first_row,
    half_area_of,
    node_at,
    node_box,
    node_count,
    node_of,
    set_child_box,
)

# A frame serves while the largest coordinate in it is no larger than this, in terms of what it was
# at first, and all boxes together no smaller. The largest coordinate is part of every margin of
# rays, so the frame says what it is (see `traversal.entrance`).
LARGEST, SMALLEST = 8.0, 1.0 / 16.0
UP = 1.0 + 2.0**-20

# Answers of kernels: the tree serves, or it must be built anew.
KEPT, OUTGROWN = 0, 1

# What is known of a tree: the sum of half areas of all lanes, the largest coordinate in the local
# frame when it was built, and the largest one in the world.
AREA, REACH, FARTHEST = 0, 1, 2
FIGURES = 3


@inlined
def _is_box(boxes, i):
    """Tell a box that can be in the tree from one that is empty or not finite."""
    at = 6 * i
    ok = True
    for axis in range(3):
        low, high = peek(boxes, at + axis), peek(boxes, at + 3 + axis)
        ok &= low <= high and abs(low) < INF and abs(high) < INF
    return ok


@inlined
def _corners(boxes, i):
    at = 6 * i
    return (
        (peek(boxes, at), peek(boxes, at + 1), peek(boxes, at + 2)),
        (peek(boxes, at + 3), peek(boxes, at + 4), peek(boxes, at + 5)),
    )


@inlined
def _centre(frame):
    return (peek(frame, 0), peek(frame, 1), peek(frame, 2)), power_of_two(int(peek(frame, 3)))


@inlined
def _reach_of(low, high, centre, s):
    """Return the largest local coordinate of a box."""
    reach = 0.0
    for axis in range(3):
        reach = max(reach, (centre[axis] - low[axis]) * s, (high[axis] - centre[axis]) * s)
    return reach


@inlined
def _farthest(low, high):
    far = 0.0
    for axis in range(3):
        far = max(far, -low[axis], high[axis])
    return far


@entry
def survey(boxes, ids, bounds):
    """Find the boxes that can be in the tree, and what bounds them; return how many there are."""
    count, low, high = 0, (INF, INF, INF), (-INF, -INF, -INF)
    for i in range(len(boxes)):
        if _is_box(boxes, i):
            ids[count] = i
            count += 1
            a, b = _corners(boxes, i)
            low = (min(low[0], a[0]), min(low[1], a[1]), min(low[2], a[2]))
            high = (max(high[0], b[0]), max(high[1], b[1]), max(high[2], b[2]))
    for axis in range(3):
        bounds[0, axis], bounds[1, axis] = low[axis], high[axis]
    return count


@entry
def record_boxes(boxes, ids, frame, records):
    """Write the records of the boxes `ids` that builders work on."""
    centre, s = _centre(frame)
    for i in range(len(ids)):
        low, high = _corners(boxes, np.int64(ids[i]))
        store(records, i, local_record(low, high, ids[i], centre, s))


@entry
def find_places(blocks, ids, parents, places):
    """Note in which lane each node, and each box, is."""
    parents[:] = -1
    places[:] = -1
    for number in range(node_count(blocks) * WIDTH):
        base = child_at(number)
        code = child_code(blocks, base)
        if code > 0:
            parents[code] = base
        elif code < 0:
            places[np.int64(peek(ids, first_row(code)))] = base


@inlined
def _settle(frame, figures, blocks, new):
    """Put the bounds that margins are made of into the frame; tell whether it serves."""
    low, high = node_box(blocks, np.int64(0))
    reach, half = 0.0, 0.0
    for axis in range(3):
        a, b = np.float64(low[axis]), np.float64(high[axis])
        frame[2, axis], frame[3, axis] = a, b
        reach, half = max(reach, -a, b), max(half, 0.5 * (b - a))
    frame[1, 1] = figures[FARTHEST]
    frame[1, 2] = max(1.0, reach * UP)
    if new:
        figures[REACH] = reach
    first = figures[REACH]
    serves = reach <= LARGEST * first and half >= SMALLEST * max(reach, first)
    return KEPT if serves or new else OUTGROWN


@entry
def bound_all(boxes, places, ids, parents, frame, blocks, figures, new):
    """Bound all nodes again, the last first, and order their children.

    A tree that is new has boxes already, but wants to be measured.
    """
    low, high = (INF, INF, INF), (-INF, -INF, -INF)
    for i in range(len(places)):
        if _is_box(boxes, i) != (places[i] >= 0):
            return OUTGROWN
        if places[i] >= 0:
            a, b = _corners(boxes, i)
            low = (min(low[0], a[0]), min(low[1], a[1]), min(low[2], a[2]))
            high = (max(high[0], b[0]), max(high[1], b[1]), max(high[2], b[2]))
    centre, s = _centre(frame)
    # So that nothing overflows; what is left to be said of the frame is said at the end.
    if not (new or _reach_of(low, high, centre, s) <= LARGEST * figures[REACH]):
        return OUTGROWN
    figures[FARTHEST] = _farthest(low, high)
    total = 0.0
    for node in range(node_count(blocks) - 1, -1, -1):
        for c in range(WIDTH):
            base = node_at(node) + c
            code = child_code(blocks, base)
            if code < 0:
                a, b = _corners(boxes, np.int64(peek(ids, first_row(code))))
                near, far = local_box(a, b, centre, s)
                set_child_box(blocks, base, near, far)
                total += half_area_of(near, far)
        order_node(blocks, node)
        if node > 0:
            # Its own children are done, for they come after it.
            near, far = node_box(blocks, node)
            set_child_box(blocks, parents[node], near, far)
            total += half_area_of(near, far)
    figures[AREA] = total
    return _settle(frame, figures, blocks, new)


@entry
def move_some(rows, moved, boxes, places, parents, frame, blocks, figures):
    """Set the boxes `rows`, and bound again what is above each of them."""
    answer = KEPT
    centre, s = _centre(frame)
    total = figures[AREA]
    for j in range(len(rows)):
        i = rows[j]
        for k in range(6):
            boxes[i, k] = moved[j, k]
        base = places[i]
        if _is_box(moved, j) != (base >= 0):
            answer = OUTGROWN
        if base < 0 or answer != KEPT:
            continue
        low, high = _corners(moved, j)
        if not _reach_of(low, high, centre, s) <= LARGEST * figures[REACH]:
            answer = OUTGROWN
            continue
        figures[FARTHEST] = max(figures[FARTHEST], _farthest(low, high))
        near, far = local_box(low, high, centre, s)
        while base >= 0:
            old_near, old_far = child_box(blocks, base)
            if (
                near[0] == old_near[0] and near[1] == old_near[1] and near[2] == old_near[2]
                and far[0] == old_far[0] and far[1] == old_far[1] and far[2] == old_far[2]
            ):  # fmt: skip
                break
            total += half_area_of(near, far) - half_area_of(old_near, old_far)
            set_child_box(blocks, base, near, far)
            node = node_of(base)
            near, far = node_box(blocks, node)
            base = parents[node]
    figures[AREA] = total
    if answer == KEPT and len(blocks) > 0:
        answer = _settle(frame, figures, blocks, False)
    return answer
