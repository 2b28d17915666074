"""Search for pairs of faces that intersect: of two trees, or of one tree with itself.

Both nodes of a pair are opened together: each child of the second against all children of the
first, in lanes. A tree against itself begins with the pair of its root and itself, and opens such a
pair into the pairs of its children, each once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.vectors import minus
from bvh.geometry.pairs.face_overlap import corner_index, faces_overlap
from bvh.geometry.pairs.triangle_overlap import triangles_touch
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, mask_bits, peek, poke
from bvh.runtime.tuple_references import Pointer, as_pointers
from bvh.traversal.pairs import pair_frames, pair_walk
from bvh.traversal.pairs.pair_frames import MARGIN, SIDE_SIZE, corner, side_corners
from bvh.traversal.pairs.pair_walk import ENTRY, PAIRS_STACK, SEARCHES, child_of, push, push_roots
from bvh.traversal.regions.region_search import group_box
from bvh.tree import frame as frames
from bvh.tree import triangle_groups, wide_nodes
from bvh.tree.arrays import TriangleRow
from bvh.tree.triangle_groups import group_at, used_lanes
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, leaf_rows, node_at

# Numbers that one step may push beyond those of its pair.
SPARE = ENTRY * (WIDTH * WIDTH + 1)
# The most pairs of faces that two leaves can have, and the capacity for pairs that are found.
MAX_LEAF_PAIRS = (MAX_LEAF_ROWS * WIDTH) ** 2
PAIRS = 4 * MAX_LEAF_PAIRS
# Numbers of a group of triangles of the second side (see `pair_frames.transform_group`).
GROUP_SIZE = pair_frames.GROUP_ROWS * WIDTH

# The state: how many numbers the stack holds; how many pairs of faces have been found; where the
# stack begins (`split`), or which task is the current one (`find_contacts`).
HEIGHT, MET, FIRST = 0, 1, 2

# The meshes that both sides belong to: two meshes; one mesh, whose faces do not intersect where
# they only share a corner or an edge; one tree, where each pair is found once, not in both orders.
TWO_MESHES, ONE_MESH, ONE_TREE = 0, 1, 2

# Steps between two checks for an interrupt: some milliseconds.
STEPS = 1 << 11


class PairSearch(NamedTuple):
    """The state of a search for pairs, and its scratch."""

    state: NDArray[np.int64]
    stack: NDArray[np.int64]
    sides: NDArray[np.float64]
    rows: NDArray[np.float32]  # boxes or triangles of the second side in the frame of the pair
    pairs: NDArray[np.int32]  # (PAIRS, 2)


class Meeting(NamedTuple):
    """A search for pairs inside kernels."""

    state: Pointer[np.int64]
    rows: Pointer[np.float32]
    pairs: Pointer[np.int32]
    room: int  # it pauses once more pairs than this are found
    shared: int  # TWO_MESHES, ONE_MESH or ONE_TREE


def new_pair_search(entries: int) -> PairSearch:
    """Return the memory of a search that begins with at most `entries` pairs of subtrees."""
    stack = np.empty(PAIRS_STACK + ENTRY * entries, np.int64)
    rows = np.empty(GROUP_SIZE * MAX_LEAF_ROWS, np.float32)
    pairs = np.empty((PAIRS, 2), np.int32)
    return PairSearch(np.zeros(3, np.int64), stack, np.empty(2 * SIDE_SIZE), rows, pairs)


def begin_with(pair_search: PairSearch, entries: NDArray[np.int64]) -> None:
    """Begin a search with pairs of subtrees: rows (key, code, box, code2, box2) of its stack."""
    pair_search.stack[: entries.size] = entries.ravel()
    # HEIGHT, the numbers on the stack; MET, pairs found; FIRST, where the stack begins.
    pair_search.state[:] = entries.size, 0, 0


@inlined
def _overlapping(low, high, rows, k):
    """Return the lanes, as bits, whose boxes low..high overlap or touch a box of the second side.

    The corners of that box are in column k of the rows LOW and HIGH of `pair_frames`.
    """
    first, last = pair_frames.lower(rows, k), pair_frames.upper(rows, k)
    below = (low[0] <= last[0]) & (low[1] <= last[1]) & (low[2] <= last[2])
    above = (high[0] >= first[0]) & (high[1] >= first[1]) & (high[2] >= first[2])
    return mask_bits(below & above)


@kernel
def _open(task, top, code, box, code2, box2):
    """Push the overlapping pairs of children of two nodes, or a node and a leaf; return the height.

    `top` is the height of the stack. A side is given by its code, below 0 for a leaf, and the
    position of its box, node * WIDTH + lane of its parent. A leaf counts as its own only child.
    """
    stay_outlined()
    blocks, blocks2, rows = task.tree.blocks, task.tree2.blocks, task.search.rows
    # `bits2` are the lanes of the second side's children that are left; for a leaf, of its parent.
    node2 = code2 if code2 >= 0 else box2 // WIDTH
    bits2 = mask_bits(pair_frames.transform_children(blocks2, node2, task.side2, rows))
    if code < 0:
        first, last = pair_frames.lowers(rows, 0, WIDTH), pair_frames.uppers(rows, 0, WIDTH)
        for axis in range(3):
            low = wide_nodes.child_lower(blocks, wide_nodes.child_at(box), axis)
            high = wide_nodes.child_upper(blocks, wide_nodes.child_at(box), axis)
            bits2 &= mask_bits((first[axis] <= high) & (last[axis] >= low))
        while bits2 != 0:
            child2 = child_of(blocks2, code2, box2, simd.lowest_bit(bits2))
            bits2 &= bits2 - 1
            top = push(task.stack, top, 0, (code, box), child2)
        return top
    if code2 < 0:
        # Only the leaf's own lane.
        bits2 = np.int64(1) << (box2 - node2 * WIDTH)
    low, high = wide_nodes.child_boxes(blocks, node_at(code))
    while bits2 != 0:
        k = simd.lowest_bit(bits2)
        bits2 &= bits2 - 1
        child2, bits = child_of(blocks2, code2, box2, k), _overlapping(low, high, rows, k)
        if task.search.shared == ONE_TREE and code == code2:
            # Lanes 0 to k: each pair of children once, and each child with itself.
            bits &= (2 << k) - 1
        while bits != 0:
            child = child_of(blocks, code, box, simd.lowest_bit(bits))
            bits &= bits - 1
            top = push(task.stack, top, 0, child, child2)
    return top


@inlined
def _straddling(tree, group, rows, at, margin):
    """Return the lanes, as bits, of triangles in a group whose planes another triangle may meet.

    A lane is left out if all corners of the other triangle are clearly on one side of the plane.
    They are in column `at` of the rows V0, V1 and V2; `margin` bounds the errors of their
    differences from the group's corners.
    """
    # The distance of a corner w from a plane, N . (w - v0), has an error of sum(abs(N)), which is
    # below SIZE, times the error of w - v0: `margin`, and a few 2**-24 of the largest coordinate
    # for the float32 rounding of w, v0 and the sums. At a point of the triangle, the error of N
    # adds less than 24 * 2**-24 of the tree's bound times SIZE (see `triangle_groups`).
    start = group_at(group)
    v0 = triangle_groups.group_origin(tree.groups, start)
    n = triangle_groups.group_normal(tree.groups, start)
    bound = triangle_groups.group_sizes(tree.groups, start) * margin
    a = triangle_groups.dot(n, minus(corner(rows, at), v0))
    b = triangle_groups.dot(n, minus(corner(rows, at + 3 * WIDTH), v0))
    c = triangle_groups.dot(n, minus(corner(rows, at + 6 * WIDTH), v0))
    above = simd.lesser(a, simd.lesser(b, c)) > bound
    below = simd.greater(a, simd.greater(b, c)) < -bound
    return mask_bits(~(above | below))


@kernel
def _meets(task, i, j):
    """Return whether face i of the first tree and face j of the second intersect, exactly."""
    stay_outlined()
    # A face with a corner that is not finite meets nothing.
    valid, a = side_corners(task.tree.primitives, i, task.side)
    valid2, b = side_corners(task.tree2.primitives, j, task.side2)
    if not (valid and valid2):
        return False
    if task.search.shared != TWO_MESHES:
        # Faces of one mesh that only share a corner or an edge do not count.
        return faces_overlap(a, b)
    # Where surfaces touch, many faces have a corner in common.
    corners = corner_index(a[0], b) & corner_index(a[1], b) & corner_index(a[2], b)
    return corners >= 0 or triangles_touch(a[0], a[1], a[2], b[0], b[1], b[2])


@inlined
def _test_leaves(search, task, code, code2):
    """Add the intersecting pairs of faces of two leaves, given by codes, to `search.pairs`.

    There is room for all. Pairs of one tree are (lower id, higher id).
    """
    tree, tree2, rows, side2 = task.tree, task.tree2, search.rows, task.side2
    first, many = leaf_rows(code)
    first2, many2 = leaf_rows(code2)
    one_tree, count = search.shared == ONE_TREE, peek(search.state, MET)
    bound = frames.bound(tree.frame)
    widest = max(peek(side2, MARGIN), max(peek(side2, MARGIN + 1), peek(side2, MARGIN + 2)))
    for m in range(many2):
        pair_frames.transform_group(tree2.groups, first2 + m, side2, rows, m * GROUP_SIZE)
    for g in range(first, first + many):
        # The margin is 0, as that of the second tree's boxes covers the errors of both.
        low, high = group_box(tree.groups, group_at(g), np.float32(0.0))
        used = mask_bits(used_lanes(tree.groups, group_at(g)))
        for m in range(many2):
            g2 = first2 + m
            # A leaf with itself: each pair of groups once, then each pair of lanes once.
            if one_tree and code == code2 and g2 < g:
                continue
            for k in range(WIDTH):
                j = np.int64(peek(tree2.ids, group_at(g2) + k))
                # No `break`: in a refitted tree, faces may follow one that has become invalid.
                if j < 0:
                    continue
                at = m * GROUP_SIZE + k
                bits = used & _overlapping(low, high, rows, at)
                if one_tree and code == code2 and g2 == g:
                    bits &= (1 << k) - 1
                if bits == 0:
                    continue
                # The margin of `_straddling`: 2e-6 is above 32 * 2**-24, for float32; 1.1 is slack.
                size = np.float64(pair_frames.largest_coordinate(rows, at)) + bound
                bits &= _straddling(tree, g, rows, at, np.float32(1.1 * widest + 2e-6 * size))
                while bits != 0:
                    i = np.int64(peek(tree.ids, group_at(g) + simd.lowest_bit(bits)))
                    bits &= bits - 1
                    # A face that was split is in several leaves, which may pair it with itself.
                    if one_tree and i == j:
                        continue
                    if _meets(task, i, j):
                        swap = one_tree and i > j
                        poke(search.pairs, 2 * count, np.int32(j if swap else i))
                        poke(search.pairs, 2 * count + 1, np.int32(i if swap else j))
                        count += 1
    poke(search.state, MET, count)


def _visit(search, task, top, pair):
    """Open a pair of subtrees, or test two leaves; return the stack's new height.

    `pair` is the entry (key, code, box, code2, box2), already popped, whose key is not used; `top`
    is the height then.
    """
    _, code, box, code2, box2 = pair
    if code >= 0 or code2 >= 0:
        return _open(task, top, code, box, code2, box2)
    _test_leaves(search, task, code, code2)
    return top


# The search pauses once more than `room` pairs have been found.
SEARCHES[Meeting] = _visit, lambda search: peek(search.state, MET) > search.room


@inlined
def _task_of(row, row2, motions, places, pair_search, room, shared):
    """Return the `PairTask` of a search for pairs that meet, in the frame of the first tree.

    `row` and `row2` are the rows of both trees. `motions` is the table of maps of
    `pair_frames.set_motions`, and `places` are the rows of both sides (their instances) in it. The
    search pauses once more than `room` pairs are found. `shared` is TWO_MESHES, ONE_MESH or
    ONE_TREE.
    """
    # The table has one matrix at most: number 0.
    memory, matrix = as_pointers(pair_search), np.int64(0)
    search = Meeting(memory.state, memory.rows, memory.pairs, np.int64(room), np.int64(shared))
    task = pair_walk.task_of(row, row2, memory.sides, memory.stack, search)
    pair_frames.set_motions(task.side, task.side2, motions, places[0], places[1], matrix)
    pair_frames.set_first_frame(task.tree, task.tree2, task.side, task.side2, motions, places[0])
    return task


@entry
def split(row, row2, motions, leaf, leaf2, shared, pair_search, wanted):
    """Open pairs of subtrees until there are `wanted` pairs, or only pairs of leaves are left.

    On entry the pairs are the first state[HEIGHT] numbers of the stack; on return those from
    state[FIRST] to state[HEIGHT]. Other arguments are as in `meet`.
    """
    # The last `leaves` numbers of the stack are pairs of leaves that were moved there. No faces are
    # tested, so that no room for pairs of them is needed.
    zero = np.int64(0)
    task = _task_of(row, row2, motions, (leaf, leaf2), pair_search, zero, shared)
    stack, top, first, leaves = task.stack, pair_search.state[HEIGHT], np.int64(0), np.int64(0)
    capacity = len(pair_search.stack) - SPARE
    while leaves < top - first < ENTRY * wanted and top <= capacity:
        # The oldest pair is opened first; a pair of leaves moves to the end.
        _, code, box, code2, box2 = pair_walk.entry(stack, first)
        first += ENTRY
        if code >= 0 or code2 >= 0:
            top, leaves = _open(task, top, code, box, code2, box2), zero
        else:
            top = push(stack, top, 0, (code, box), (code2, box2))
            leaves += ENTRY
    pair_search.state[FIRST], pair_search.state[HEIGHT] = first, top


@entry
def meet(row, row2, motions, leaf, leaf2, shared, pair_search, steps):
    """Continue a search for pairs of faces for `steps` steps, or until pairs found might not fit.

    A step opens a pair of subtrees, or tests the faces of two leaves. `row` and `row2` are the rows
    of both trees, moved by the maps of number `leaf` and `leaf2` in the table `motions` of
    `pair_frames.set_motions`; `shared` is TWO_MESHES, ONE_MESH or ONE_TREE. Writes the ids of the
    state[MET] pairs that this call has found to `pair_search.pairs`. Returns whether the search is
    complete.
    """
    room = PAIRS - MAX_LEAF_PAIRS
    task = _task_of(row, row2, motions, (leaf, leaf2), pair_search, room, shared)
    poke(task.search.state, MET, 0)
    top, _ = pair_walk.walk(task, pair_search.state[HEIGHT], steps)
    pair_search.state[HEIGHT] = top
    return top == 0


@entry
def find_contacts(rows, rows2, tasks, motions, pair_search, touching, enough, steps):
    """Continue with `tasks` from number state[FIRST] on, for `steps` steps; return whether done.

    `rows` and `rows2` are the addresses of the rows of trees over triangles. A task is a row of
    `tasks`: the indices of its two trees, its group, and its two rows of maps in `motions` (see
    `pair_frames.set_motions`). The flag touching[group] is set once two faces meet: then no more of
    the group is searched. A contact also copies enough[1] to enough[0], which ends the search of
    all groups if it is not 0.
    """
    # A height of the stack below 0 means that the task has not begun. A task has room for 0 pairs,
    # so that the first pair that meets ends it.
    k, top, count = pair_search.state[FIRST], pair_search.state[HEIGHT], len(tasks)
    while k < count and steps > 0:
        group = tasks[k, 2]
        if touching[group] or enough[0] != 0:
            top = np.int64(0)
        else:
            row, row2 = TriangleRow(rows[tasks[k, 0]]), TriangleRow(rows2[tasks[k, 1]])
            places = tasks[k, 3], tasks[k, 4]
            task = _task_of(row, row2, motions, places, pair_search, 0, TWO_MESHES)
            poke(task.search.state, MET, 0)
            top = push_roots(task.stack) if top < 0 else top
            top, steps = pair_walk.walk(task, top, steps)
            if peek(task.search.state, MET) > 0:
                touching[group], enough[0], top = True, enough[1], np.int64(0)
        if top == 0:
            k, top = k + 1, np.int64(-1)
    pair_search.state[FIRST], pair_search.state[HEIGHT] = k, top
    return k == count
