"""Search for pairs of faces that intersect: of two trees, or of one tree with itself.

The stack contains pairs of subtrees whose boxes may overlap. An entry is four numbers: for each
side the code of a node or leaf, and the position of its box (its parent's node and lane). Both
nodes of a pair are opened together: each child of the second against all children of the first, in
lanes. A tree against itself begins with the pair of its root and itself, and opens such a pair into
the pairs of its children, each once.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.arithmetic.vectors import minus
from bvh.geometry.pairs.face_overlap import faces_overlap
from bvh.geometry.pairs.triangle_overlap import triangles_touch
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH
from bvh.runtime.tuple_references import Pointer, as_pointers
from bvh.traversal.overlaps import tree_to_tree
from bvh.traversal.overlaps.region_search import group_box
from bvh.traversal.overlaps.tree_to_tree import moved_corners, own_corners
from bvh.tree import frame as frames
from bvh.tree import triangle_groups, wide_nodes
from bvh.tree.arrays import TreePointers, TriangleRow
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, STACK

ENTRY = 4
# Opening a pair pops one entry and pushes up to WIDTH**2 where opening a node pushes WIDTH; a path
# of pairs opens each side at most as often as a ray does.
PAIRS_STACK = ENTRY * (WIDTH + 2) * STACK
# What one step may push.
SPARE = ENTRY * (WIDTH * WIDTH + 1)
MAX_LEAF_PAIRS = (MAX_LEAF_ROWS * WIDTH) ** 2
ROWS_SIZE = tree_to_tree.GROUP_ROWS * WIDTH * MAX_LEAF_ROWS

HEIGHT, MET, FIRST = 0, 1, 2

# Steps between two checks for an interrupt: some milliseconds.
STEPS = 1 << 11


class PairSearch(NamedTuple):
    """The state of a search for pairs, and its scratch."""

    state: NDArray[np.int64]  # the stack's height in numbers, pairs found, its first number
    stack: NDArray[np.int64]
    rows: NDArray[np.float32]


def new_pair_search(entries: int) -> PairSearch:
    """Return the scratch of a search, with capacity for some pairs of subtrees to begin with."""
    stack = np.empty(PAIRS_STACK + ENTRY * entries, np.int64)
    return PairSearch(np.zeros(3, np.int64), stack, np.empty(ROWS_SIZE, np.float32))


def begin_with(pair_search: PairSearch, entries: NDArray[np.int64]) -> None:
    """Begin a search with some pairs of subtrees."""
    pair_search.stack[: entries.size] = entries.ravel()
    pair_search.state[:] = entries.size, 0, 0


class Task(NamedTuple):
    """Pointers that all steps share."""

    tree: TreePointers
    other: TreePointers
    to_first: Pointer[np.float64]
    rows: Pointer[np.float32]
    stack: Pointer[np.int64]


# (code, box, code2, box2) of an entry of the stack.
_entry, _set_entry = simd.field(np.int64, *range(ENTRY))


@inlined
def _push(stack, top, code, box, code2, box2):
    _set_entry(stack, top, (code, box, code2, box2))
    return top + ENTRY


@inlined
def _push_children(task, top, code, bits, code2, box2):
    """Push the pairs of some children of a node, as bits, with a subtree of the second tree."""
    while bits != 0:
        k = simd.lowest_bit(bits)
        bits &= bits - 1
        child = wide_nodes.child_code(task.tree.blocks, wide_nodes.node_at(code) + k)
        top = _push(task.stack, top, child, code * WIDTH + k, code2, box2)
    return top


@inlined
def _overlapping(low, high, rows, k):
    """Return the mask of lanes whose boxes overlap the moved box whose rows begin at k."""
    first, last = tree_to_tree.lower(rows, k), tree_to_tree.upper(rows, k)
    below = (low[0] <= last[0]) & (low[1] <= last[1]) & (low[2] <= last[2])
    return below & (high[0] >= first[0]) & (high[1] >= first[1]) & (high[2] >= first[2])


@kernel
def _open(task, itself, top, code, box, code2, box2):
    """Push the pairs of children of a node-node or node-leaf pair; return the stack's height."""
    stay_outlined()
    tree, other, to_first, rows, stack = task
    if code2 < 0:
        # A leaf of the second tree: its box is a lane of its parent.
        node = box2 // WIDTH
        tree_to_tree.transform_children(other.blocks, node, to_first, rows)
        low, high = wide_nodes.child_boxes(tree.blocks, wide_nodes.node_at(code))
        bits = simd.mask_bits(_overlapping(low, high, rows, box2 - node * WIDTH))
        return _push_children(task, top, code, bits, code2, box2)
    used = simd.mask_bits(tree_to_tree.transform_children(other.blocks, code2, to_first, rows))
    if code < 0:
        at = wide_nodes.child_at(box)
        bits = used
        first, last = tree_to_tree.lowers(rows, 0, WIDTH), tree_to_tree.uppers(rows, 0, WIDTH)
        for axis in range(3):
            low = wide_nodes.child_lower(tree.blocks, at, axis)
            high = wide_nodes.child_upper(tree.blocks, at, axis)
            bits &= simd.mask_bits((first[axis] <= high) & (last[axis] >= low))
        while bits != 0:
            k = simd.lowest_bit(bits)
            bits &= bits - 1
            child = wide_nodes.child_code(other.blocks, wide_nodes.node_at(code2) + k)
            top = _push(stack, top, code, box, child, code2 * WIDTH + k)
        return top
    low, high = wide_nodes.child_boxes(tree.blocks, wide_nodes.node_at(code))
    while used != 0:
        k = simd.lowest_bit(used)
        used &= used - 1
        child2 = wide_nodes.child_code(other.blocks, wide_nodes.node_at(code2) + k)
        bits = simd.mask_bits(_overlapping(low, high, rows, k))
        if itself and code == code2:
            # Each pair of children once, and each child with itself.
            bits &= (2 << k) - 1
        top = _push_children(task, top, code, bits, child2, code2 * WIDTH + k)
    return top


@inlined
def _straddling(tree, group, rows, at, margin):
    """Return the lanes of a group whose planes a moved triangle does not surely miss, as bits."""
    # The distance of a corner w from a plane, N . (w - v0), has an error of sum(abs(N)), which is
    # below SIZE, times the error of w - v0: `margin`, and a few 2**-24 of the largest coordinate
    # for the float32 rounding of w, v0 and the sums. At a point of the triangle, what N is off by
    # makes less than 24 * 2**-24 of the tree's bound times SIZE (see `triangle_groups`).
    start = triangle_groups.group_at(group)
    v0 = triangle_groups.group_origin(tree.groups, start)
    n = triangle_groups.group_normal(tree.groups, start)
    bound = triangle_groups.group_sizes(tree.groups, start) * margin
    a = triangle_groups.dot(n, minus(tree_to_tree.corner(rows, at), v0))
    b = triangle_groups.dot(n, minus(tree_to_tree.corner(rows, at + 3 * WIDTH), v0))
    c = triangle_groups.dot(n, minus(tree_to_tree.corner(rows, at + 6 * WIDTH), v0))
    above = simd.lesser(a, simd.lesser(b, c)) > bound
    below = simd.greater(a, simd.greater(b, c)) < -bound
    return simd.mask_bits(~(above | below))


@kernel
def _meets(task, i, j):
    """Return whether face i and face j of the second tree intersect."""
    stay_outlined()
    tree, other, to_first, _, _ = task
    a = own_corners(tree.primitives, i, to_first)
    finite, b = moved_corners(other.primitives, j, to_first)
    if simd.peek(to_first, tree_to_tree.SAME_MESH) != 0.0:
        return faces_overlap(a, b)
    return finite and triangles_touch(a[0], a[1], a[2], b[0], b[1], b[2])


@inlined
def _leaves(task, itself, code, code2, pairs, count):
    """Test the faces of two leaves; return the new number of pairs."""
    tree, other, to_first, rows, _ = task
    first, many = wide_nodes.leaf_rows(code)
    first2, many2 = wide_nodes.leaf_rows(code2)
    bound = frames.bound(tree.frame)
    x, y, z = vector(to_first, tree_to_tree.MARGIN // 3)
    widest = max(x, max(y, z))
    for m in range(many2):
        tree_to_tree.transform_group(
            other.groups, first2 + m, to_first, rows, m * tree_to_tree.GROUP_ROWS * WIDTH
        )
    for g in range(first, first + many):
        # The second tree's margins cover both.
        low, high = group_box(tree.groups, triangle_groups.group_at(g), np.float32(0.0))
        used = triangle_groups.used_lanes(tree.groups, triangle_groups.group_at(g))
        for m in range(many2):
            g2 = first2 + m
            if itself and code == code2 and g2 < g:
                continue
            for k in range(WIDTH):
                j = np.int64(simd.peek(other.ids, triangle_groups.group_at(g2) + k))
                # A refitted tree may have faces behind one that has become invalid.
                if j < 0:
                    continue
                at = m * tree_to_tree.GROUP_ROWS * WIDTH + k
                bits = simd.mask_bits(used & _overlapping(low, high, rows, at))
                if itself and code == code2 and g2 == g:
                    bits &= (1 << k) - 1
                if bits == 0:
                    continue
                size = np.float64(tree_to_tree.largest(rows, at)) + bound
                bits &= _straddling(tree, g, rows, at, np.float32(1.1 * widest + 2e-6 * size))
                while bits != 0:
                    at_id = triangle_groups.group_at(g) + simd.lowest_bit(bits)
                    i = np.int64(simd.peek(tree.ids, at_id))
                    bits &= bits - 1
                    if itself and i == j:
                        continue
                    if _meets(task, i, j):
                        swap = itself and i > j
                        simd.poke(pairs, 2 * count, np.int32(j if swap else i))
                        simd.poke(pairs, 2 * count + 1, np.int32(i if swap else j))
                        count += 1
    return count


@entry
def meet(own, other, to_first, itself, pair_search, pairs, wanted, steps):
    """Continue a search for pairs until its end, for some steps, or until pairs might not fit."""
    # A step opens a pair of subtrees, or tests the faces of two leaves. Returns whether the search
    # is complete. If entries are `wanted`, pairs are only opened, in as many steps as it
    # takes, until there are as many, for threads to share: in the stack from FIRST to HEIGHT.
    task = Task(
        as_pointers(own), as_pointers(other), simd.pointer(to_first),
        simd.pointer(pair_search.rows), simd.pointer(pair_search.stack),
    )  # fmt: skip
    found = simd.pointer(pairs)
    stack, top, count = task.stack, pair_search.state[HEIGHT], np.int64(0)
    first, idle, capacity = np.int64(0), np.int64(0), len(pair_search.stack) - SPARE
    while top > first:
        if wanted > 0:
            # The oldest first, until all that are left are leaves.
            at = first
            if top > capacity or top - first >= ENTRY * wanted or ENTRY * idle >= top - first:
                break
            first += ENTRY
        else:
            if steps <= 0 or count + MAX_LEAF_PAIRS > len(pairs):
                break
            steps -= 1
            top -= ENTRY
            at = top
        code, box, code2, box2 = _entry(stack, at)
        if code >= 0 or code2 >= 0:
            top = _open(task, itself, top, code, box, code2, box2)
            idle = np.int64(0)
        elif wanted > 0:
            top = _push(stack, top, code, box, code2, box2)
            idle += 1
        else:
            count = _leaves(task, itself, code, code2, found, count)
    pair_search.state[FIRST], pair_search.state[HEIGHT], pair_search.state[MET] = first, top, count
    return top == first


@inlined
def _find_contact(task, top, found, steps):
    """Search until two faces meet, or for some steps; return (met, height of the stack, steps)."""
    stack, met = task.stack, False
    while top > 0 and steps > 0 and not met:
        steps -= 1
        top -= ENTRY
        code, box, code2, box2 = _entry(stack, top)
        if code >= 0 or code2 >= 0:
            top = _open(task, False, top, code, box, code2, box2)
        else:
            met = _leaves(task, False, code, code2, found, np.int64(0)) > 0
    return met, top, steps


@entry
def find_contacts(own, other, tasks, to_first, pair_search, pairs, touching, enough, steps):
    """Continue with tasks from state[FIRST], for some steps; return whether none is left."""
    # Trees, which are over triangles, are given by the addresses of their rows, a task by its two
    # trees and its group, which is `touching` once two faces meet: then no more of it is searched.
    # Nor is anything if the second number of `enough` is not 0, which sets the first. A task begins
    # where the stack's height is below 0.
    maps = simd.pointer(to_first)
    found = simd.pointer(pairs)
    rows = simd.pointer(pair_search.rows)
    stack = simd.pointer(pair_search.stack)
    k, top, count = pair_search.state[FIRST], pair_search.state[HEIGHT], len(tasks)
    while k < count and steps > 0:
        group, none = tasks[k, 2], np.int64(0)
        if touching[group] or enough[0] != 0:
            top = none
        else:
            if top < 0:
                top = _push(stack, none, none, none, none, none)
            task = Task(
                as_pointers(TriangleRow(own[tasks[k, 0]])),
                as_pointers(TriangleRow(other[tasks[k, 1]])),
                simd.shifted(maps, len(to_first) // count * k), rows, stack,
            )  # fmt: skip
            met, top, steps = _find_contact(task, top, found, steps)
            if met:
                touching[group], enough[0], top = True, enough[1], none
        if top == 0:
            k, top = k + 1, np.int64(-1)
    pair_search.state[FIRST], pair_search.state[HEIGHT] = k, top
    return k == count
