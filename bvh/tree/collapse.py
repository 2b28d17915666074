"""Collapse of a binary tree to wide nodes, and the visiting orders of their children.

Of all ways to collapse a tree, this is one of least SAH cost: as leaves stay, one whose nodes have
the least area in sum (Pinto 2010, "Adaptive collapsing on bounding volume hierarchies for ray
tracing"; Ylitie, Karras and Laine 2017, "Efficient incoherent ray traversal on GPUs through
compressed wide BVHs"). From the leaves up, each binary node gets WIDTH sums: lane k has the least
area of the wide nodes of its subtree if it takes k + 1 lanes of a wide node above. With two lanes
or more it may be opened, and its children share its lanes; or it is a wide node itself, in one
lane, and its children share WIDTH.

Threads take subtrees of the binary tree for the sums, then subtrees of the wide one, which are
numbered one after the other, below a common top. Neither depends on the number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.geometry.boxes import read_box
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.memory import Shelf, aligned
from bvh.runtime.simd import WIDTH
from bvh.runtime.threads import share
from bvh.tree import wide_nodes
from bvh.tree.builders.subtrees import batches_of
from bvh.tree.nodes import Nodes, is_leaf
from bvh.tree.wide_nodes import NO_BOX, NODE_SIZE, WideNodes

# Cost of a node's memory, which is added to its area, as a share of the area of the root.
NODE_SHARE = 1e-6
# The least such cost, as the area of a root that is a point is 0 in float32.
SMALLEST_COST = 2.0**-126
# One thread collapses subtrees up to a 16th of all rows of primitives, and of at least
# SMALLEST_TASK.
SMALLEST_TASK = 1024
TASKS = 16
# More than the levels of any tree (see `subtrees.deepest_level`).
DEEPEST = 72

# Columns of a task, a subtree to collapse: its root as a binary node and as a wide one, the number
# of the next wide node, the first row of ids of its leaves, and how many nodes are below its root.
BINARY, ROOT, NEXT, ROW, BELOW = range(5)
TASK_WIDTH = 5

# A lane's number in the fields of all octants.
_IN_EVERY_OCTANT = np.uint32(
    sum(1 << wide_nodes.octant_shift.py_func(octant) for octant in range(8))
).astype(np.int32)


@inlined
def order_node(data, node):
    """Set the visiting orders of a wide node for all octants of directions, nearest child last.

    Lane k gets, in the bits of each octant, the child to push k-th to a stack.
    """
    # Children are sorted by their centres along the diagonal of the octant: a child's place is the
    # number of children that are nearer.
    at = wide_nodes.node_at(node)
    numbers, none = simd.lane_numbers(WIDTH), simd.splat(np.int32(0), WIDTH)
    # The used lanes come first.
    unused = simd.mask_bits(wide_nodes.child_codes(data, at, WIDTH) == none)
    used = min(simd.lowest_bit(unused), np.int64(WIDTH))
    low, high = wide_nodes.child_boxes(data, at)
    x, y, z = low[0] + high[0], low[1] + high[1], low[2] + high[2]
    infinite = simd.splat(np.float32(INF), WIDTH)
    is_used = numbers < simd.splat(np.int32(used), WIDTH)
    # In each octant's field, unused lanes hold their own numbers.
    orders = simd.select(is_used, none, numbers * simd.splat(_IN_EVERY_OCTANT, WIDTH))
    # Octant 7 - i is opposite to octant i, and has the reverse order.
    for octant in range(4):
        keys = (-x if octant & 1 else x) + (-y if octant & 2 else y) + z
        keys = simd.select(is_used, keys, infinite)
        own_shift = np.int64(wide_nodes.octant_shift(octant))
        opposite_shift = np.int64(wide_nodes.octant_shift(7 - octant))
        for c in range(used):
            key = simd.splat(simd.lane(keys, np.int32(c)), WIDTH)
            earlier = numbers < simd.splat(np.int32(c), WIDTH)
            before = (keys < key) | ((keys == key) & earlier)
            nearer = np.int64(simd.popcount(simd.mask_bits(before)))
            # The nearest child is last: c is in lane used - 1 - nearer of the order of its octant,
            # and in lane `nearer` of the order of the opposite octant.
            own = simd.splat(np.int32(c << own_shift), WIDTH)
            opposite = simd.splat(np.int32(c << opposite_shift), WIDTH)
            orders = (
                orders
                | simd.select(numbers == simd.splat(np.int32(nearer), WIDTH), opposite, none)
                | simd.select(numbers == simd.splat(np.int32(used - 1 - nearer), WIDTH), own, none)
            )
    wide_nodes.set_child_orders(data, at, orders)


class Plan(NamedTuple):
    """Costs that decide the collapse of a tree, by binary node."""

    sums: NDArray[np.float32]  # WIDTH for each: least areas for 1 to WIDTH lanes (see above)
    rows: NDArray[np.int32]  # rows of ids in the leaves of its subtree


@entry
def _plan(bounds, links, begin, end, lanes, plan):
    """Fill `plan`, a `Plan`, for the binary nodes begin..end, the last first.

    Children have higher numbers than their parents; those that are not in begin..end have been
    planned. `bounds` and `links` are those of `Nodes`, and a row of ids has `lanes` primitives.
    """
    # Permuted by `one_down`, lane j gets what lane j - 1 had.
    sums, rows = plan
    numbers, infinite = simd.lane_numbers(WIDTH), simd.splat(np.float32(INF), WIDTH)
    first = numbers == simd.splat(np.int32(0), WIDTH)
    one_down = simd.select(first, numbers, numbers - simd.splat(np.int32(1), WIDTH))
    root_area = wide_nodes.half_area_of(*read_box(bounds, 0))
    least = max(NODE_SHARE * root_area, SMALLEST_COST)
    for i in range(end - 1, begin - 1, -1):
        if is_leaf(links, i):
            rows[i] = (links[i, 1] + lanes - 1) // lanes
            simd.store(sums, i * WIDTH, simd.splat(np.float32(0.0), WIDTH))
            continue
        few = np.int64(links[i, 0])
        many = few + 1
        rows[i] = rows[few] + rows[many]
        if rows[few] > rows[many]:
            few, many = many, few
        # Lane j of `best`: the least sum if both children share j + 1 lanes. `few` takes k + 1 of
        # them, at most one for each of its rows, and `many` the others: lane j - k - 1 of its sums.
        best, other = infinite, simd.load(sums, many * WIDTH, WIDTH)
        other = simd.select(first, infinite, simd.permute(other, one_down))
        for k in range(min(np.int64(rows[few]), WIDTH - 1)):
            best = simd.lesser(simd.splat(simd.peek(sums, few * WIDTH + k), WIDTH) + other, best)
            other = simd.permute(other, one_down)
        area = np.float32(wide_nodes.half_area_of(*read_box(bounds, i)) + least)
        # As a wide node, it takes one lane, and its children share WIDTH.
        as_node = simd.lane(best, np.int32(WIDTH - 1)) + area
        simd.store(sums, i * WIDTH, simd.lesser(best, simd.splat(as_node, WIDTH)))


@inlined
def _open(links, sums, root, children, shares):
    """Write to `children` the binary nodes that a wide node has as children; return their number.

    The wide node takes the place of the binary node `root`; `sums` are those of `Plan`. `shares` is
    scratch: a stack of binary nodes, each with the number of lanes for it or for nodes below it.
    """
    numbers, infinite = simd.lane_numbers(WIDTH), simd.splat(np.float32(INF), WIDTH)
    shares[0, 0], shares[0, 1] = root, WIDTH
    waiting, n = 1, 0
    while waiting > 0:
        waiting -= 1
        i, lanes = shares[waiting, 0], shares[waiting, 1]
        at = i * WIDTH
        # A leaf, or a node whose sum is as low in one lane as in all of its share, is a child.
        if is_leaf(links, i) or (
            i != root and simd.peek(sums, at) <= simd.peek(sums, at + lanes - 1)
        ):
            children[n] = i
            n += 1
            continue
        left = np.int64(links[i, 0])
        # Lane k: the sum if the left child takes k + 1 lanes, and the right one the others.
        reverse = simd.splat(np.int32(lanes - 2), WIDTH) - numbers
        right = simd.permute(simd.load(sums, (left + 1) * WIDTH, WIDTH), reverse)
        both = simd.load(sums, left * WIDTH, WIDTH) + right
        both = simd.select(numbers <= simd.splat(np.int32(lanes - 2), WIDTH), both, infinite)
        least = simd.splat(simd.lowest(both), WIDTH)
        k = np.int64(simd.lowest_bit(simd.mask_bits(both <= least))) + 1
        shares[waiting, 0], shares[waiting, 1] = left + 1, lanes - k
        shares[waiting + 1, 0], shares[waiting + 1, 1] = left, k
        waiting += 2
    return n


@inlined
def _put_rows(order, ids, lanes, first, count, row):
    """Write a leaf's primitives, order[first : first + count], to rows of `ids` from `row` on."""
    # A row has `lanes` ids; those left over in the last row are -1.
    for k in range(0, count, lanes):
        at = row * lanes + k
        if lanes == WIDTH and first + k + WIDTH <= len(order):
            some = simd.load(order, first + k, WIDTH)
            used = simd.lane_numbers(WIDTH) < simd.splat(np.int32(count - k), WIDTH)
            simd.store(ids, at, simd.select(used, some, simd.splat(np.int32(-1), WIDTH)))
            continue
        for lane in range(lanes):
            simd.poke(ids, at + lane, order[first + k + lane] if k + lane < count else np.int32(-1))


@entry
def _collapse(binary, plan, tasks, begin, end, grain, left_over, data, ids, scratch):
    """Collapse the subtrees tasks[begin:end] to wide nodes, and count their nodes in column BELOW.

    Columns of a task are BINARY, ROOT, NEXT, ROW and BELOW. Subtrees of up to `grain` rows of ids
    are left over: they are written as tasks to `left_over`, and their number is returned. Nodes are
    written to `data` and `ids`; if `data` is empty, they are only counted. `binary` is (bounds,
    links, order), and `plan` a `Plan`. `scratch` is a stack of pending (binary node, wide node),
    the children of a node, and the scratch of `_open`.
    """
    bounds, links, order = binary
    sums, rows = plan
    pending, children, shares = scratch
    lanes, writes = ids.shape[1], len(data) > 0
    left = 0
    for task in range(begin, end):
        pending[0, 0], pending[0, 1] = tasks[task, BINARY], tasks[task, ROOT]
        row, nodes = tasks[task, ROW], tasks[task, NEXT]
        waiting = 1
        while waiting > 0:
            waiting -= 1
            root, node = pending[waiting, 0], pending[waiting, 1]
            n = _open(links, sums, root, children, shares)
            begun = waiting
            for c in range(n):
                i = children[c]
                code = nodes
                if is_leaf(links, i):
                    code = wide_nodes.leaf_code(row, np.int64(rows[i]))
                    if writes:
                        first, count = np.int64(links[i, 0]), np.int64(links[i, 1])
                        _put_rows(order, ids, lanes, first, count, row)
                    row += rows[i]
                elif rows[i] <= grain:
                    left_over[left, BINARY], left_over[left, ROOT] = i, nodes
                    left_over[left, ROW] = row
                    row += rows[i]
                    left += 1
                    nodes += 1
                else:
                    pending[waiting, 0], pending[waiting, 1] = i, nodes
                    waiting += 1
                    nodes += 1
                if writes:
                    low, high = read_box(bounds, i)
                    wide_nodes.set_child_box(data, wide_nodes.node_at(node) + c, low, high)
                    wide_nodes.set_child_code(data, wide_nodes.node_at(node) + c, code)
            if writes:
                low, high = NO_BOX
                for c in range(n, WIDTH):
                    wide_nodes.set_child_box(data, wide_nodes.node_at(node) + c, low, high)
                    wide_nodes.set_child_code(data, wide_nodes.node_at(node) + c, 0)
                order_node(data, node)
            # Reverse the children that are pending, so that the first one is next.
            for c in range((waiting - begun) >> 1):
                for k in range(2):
                    a, b = begun + c, waiting - 1 - c
                    pending[a, k], pending[b, k] = pending[b, k], pending[a, k]
        tasks[task, BELOW] = nodes - tasks[task, NEXT]
    return left


def widen(
    binary: Nodes, lanes: int, threads: int = 1, memory: NDArray[np.float32] | None = None
) -> WideNodes:
    """Collapse a binary tree to wide nodes, whose leaves have rows of `lanes` primitives.

    `memory` is an array that is no longer needed, and is overwritten if it is large enough.
    """
    bounds, links, order, parts = binary
    if len(links) == 0:
        return WideNodes(aligned(0, np.float32), np.empty((0, lanes), np.int32))
    size = len(links) * WIDTH
    if memory is None or memory.size < size:
        memory = aligned(size, np.float32)
    sums = memory.reshape(-1)[:size]
    plan = Plan(sums, aligned(len(links), np.int32))
    # One thread plans all nodes at once.
    parts = parts if threads > 1 else np.array([len(links)])
    share(
        len(parts) - 1, 1, lambda i, _: _plan(bounds, links, parts[i], parts[i + 1], lanes, plan),
        threads,
    )  # fmt: skip
    _plan(bounds, links, 0, parts[0], lanes, plan)
    rows = int(plan.rows[0])
    ids = aligned(rows * lanes, np.int32).reshape(-1, lanes)
    # The scratch of a thread: see `_collapse`.
    shapes = (DEEPEST * WIDTH, 2), (WIDTH,), (2 * WIDTH, 2)
    shelf = Shelf(lambda: tuple(np.empty(shape, np.int64) for shape in shapes))
    tree, no_data = (bounds, links, order), aligned(0, np.float32)
    grain = max(rows // TASKS, SMALLEST_TASK)
    # On each level fewer than TASKS nodes have more than `grain` rows.
    most = min(TASKS * DEEPEST * WIDTH, len(links)) if rows > SMALLEST_TASK else 0
    left_over = np.empty((most, TASK_WIDTH), np.int64)

    def collapse(tasks: Any, begin: int, end: int, data: Any, left_over: Any) -> int:
        # Without room for tasks, all subtrees are collapsed: none has 0 rows.
        least = grain if len(left_over) else 0
        with shelf.scratch() as scratch:
            arguments = tree, plan, tasks, begin, end, least, left_over, data, ids, scratch
            return int(_collapse(*arguments))

    top = np.zeros((1, TASK_WIDTH), np.int64)
    top[0, NEXT] = 1
    tasks = left_over[: collapse(top, 0, 1, no_data, left_over)].copy()
    runs = batches_of(plan.rows[tasks[:, BINARY]], grain if threads > 1 else rows)

    def collapse_all(data: NDArray[np.float32]) -> None:
        share(len(runs), 1, lambda i, _: collapse(tasks, *runs[i], data, left_over[:0]), threads)

    # Count the nodes, then write them.
    collapse_all(no_data)
    below = tasks[:, BELOW]
    tasks[:, NEXT] = 1 + top[0, BELOW] + np.cumsum(below) - below
    data = aligned(int(1 + top[0, BELOW] + below.sum()) * NODE_SIZE, np.float32)
    collapse(top, 0, 1, data, left_over)
    collapse_all(data)
    return WideNodes(data, ids)
