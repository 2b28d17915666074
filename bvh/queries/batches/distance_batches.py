"""Batches of distances between two trees: chunks on threads; exact decisions."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic import rational
from bvh.queries.answers.clearances import Clearances
from bvh.queries.answers.result_bases import factory_of
from bvh.queries.verbs import SCENE_COLUMNS
from bvh.runtime.arguments import kernel_input
from bvh.runtime.jit import warms
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import Progress, share_long
from bvh.traversal.pairs import closest_memory as layout
from bvh.traversal.pairs.closest_memory import Closest, ClosestSearch
from bvh.traversal.pairs.closest_pairs import DONE, LATER, UNDECIDED, closest_pairs
from bvh.traversal.pairs.near_pairs import STEPS
from bvh.traversal.pairs.pair_frames import addresses
from bvh.tree.arrays import TreeArrays, frozen_primitives
from bvh.tree.build import build
from bvh.tree.oriented_boxes import oriented_boxes, plain_boxes
from bvh.tree.primitives import Triangles, count_of
from bvh.tree.wide_nodes import WideNodes, lanes_of, rows_of

Reals = NDArray[np.float64]
# Reused from call to call: new scratch takes longer than a query.
SHELF = Shelf(layout.new_search_memory)
# Oriented boxes of this many nodes take about as long to fit as one query takes.
NODES_A_QUERY = 16


class OneDistance:
    """Memory of a thread for a single query, with tables of its addresses for the kernel."""

    def __init__(self) -> None:
        self.memory, self.search = layout.new_search_memory()
        matrix, self.limit, self.hint = np.zeros(16), np.zeros(1), np.zeros(1, np.int64)
        self.matrix, self.motions = matrix.reshape(4, 4), addresses(None, None, None, matrix)
        distance, self.position = np.zeros(1), np.zeros((2, 3))
        self.prim_id = np.zeros(2, np.int32)
        self.found = addresses(distance, self.position, self.prim_id)
        # Memoryviews: their items are read and written faster than those of arrays.
        self.state: Any = self.memory.state.data
        self.limit_items: Any = self.limit.data
        self.hint_items: Any = self.hint.data
        self.distance: Any = distance.data


# The table of motions for trees that are not moved, and memory for single queries.
STILL, ONE_SHELF = addresses(None, None, None, None), Shelf(OneDistance)
AFFINE = [0.0, 0.0, 0.0, 1.0]  # the last row of affine matrices
clearances_of = factory_of(Clearances, *SCENE_COLUMNS)


def quick_distance(
    arrays: TreeArrays, others: TreeArrays, transform: Any, limit: Any, hint: Any
) -> Clearances | None:
    """Return the result of `BVH.distance_to` for one query; None if arguments need conversion.

    `arrays` and `others` are those of the two trees, `limit` is the largest distance; `transform`
    and `hint` are the arguments of that method.
    """
    # Not `limit < 0.0`, which is False for NaN: NaN is left to the checks.
    if type(limit) is not float or not limit >= 0.0:
        return None
    if transform is not None:
        if type(transform) is not np.ndarray or transform.shape != (4, 4):
            return None
        if transform.dtype.char != "d":
            return None
        # A sum that is not finite may have overflowed: `distance_to` then checks each number.
        x, y, z, last = transform.tolist()
        if last != AFFINE or not isfinite(sum(x) + sum(y) + sum(z)):
            return None
    # The pair of the hint: the first id in the high half, the second in the low one; -1 for none.
    code = -1
    if hint is not None:
        pair = hint.prim_id if type(hint) is Clearances else hint
        if type(pair) is not np.ndarray or pair.shape != (2,) or pair.dtype.kind != "i":
            return None
        i, j = pair.tolist()
        if 0 <= i < count_of(arrays.primitives) and 0 <= j < count_of(others.primitives):
            code = i << 32 | j
        elif not i == j == -1:
            return None
    return find_closest_pair(arrays, others, None, transform, limit, code)


def find_closest_pair(
    arrays: TreeArrays, others: TreeArrays, maps: tuple[Reals, Reals] | None = None,
    transform: Reals | None = None, max_distance: float = np.inf, code: int = -1,
    cancel: NDArray[np.int32] | None = None,
) -> Clearances:  # fmt: skip
    """Return the distance of two trees over triangles, the closest points, and the faces there.

    Each tree is moved by its map (3, 4) of `maps`, or only the second one by `transform` (4, 4),
    every operation rounded. `code` is one of the `hints` of `find_closest_pairs`. Once `cancel` is
    not 0, results are meaningless.
    """
    one, motions, flat = ONE_SHELF.take(), STILL, None
    if transform is not None:
        one.matrix[...] = transform
        motions = one.motions
    elif maps is not None:
        flat = [kernel_input(m.reshape(-1)) for m in maps]
        motions = addresses(flat[0], None, flat[1], None)
    one.limit_items[0], one.hint_items[0] = max_distance, code
    # Query 0, which is the only one; the height -1 of its stack: the search has not begun.
    one.state[layout.QUERY], one.state[layout.HEIGHT] = 0, -1
    # These, and `flat`, keep alive the arrays whose addresses the kernel gets.
    first, second, status = row_and_boxes_of(arrays, 1), row_and_boxes_of(others, 1), LATER
    given = first[0], second[0], motions, one.limit, one.hint
    # The kernel returns after STEPS steps (LATER), or to have candidates decided (UNDECIDED).
    while status != DONE and (cancel is None or not cancel[0]):
        status = closest_pairs(*given, one.search, 1, STEPS, one.found)
        if status == UNDECIDED:
            decide(one.memory)
    near = clearances_of((one.distance[0], one.position.copy(), one.prim_id.copy()))
    ONE_SHELF.give_back(one)
    return near


def find_closest_pairs(
    arrays: TreeArrays, others: TreeArrays, matrices: Reals | None, limits: Reals,
    hints: NDArray[np.int64], count: int, threads: int, progress: Progress | None,
) -> Closest:  # fmt: skip
    """Return the distance of two trees over triangles, with points and faces, for `count` queries.

    `matrices` (count, 4, 4) move the second tree, every operation rounded; None if it stays. Pairs
    farther apart than `limits` are misses. `hints` are pairs of faces whose distance is a first
    bound, ``first << 32 | second``; -1 for none. Limits and hints have one item, or one a query.
    """
    found = Closest(np.empty(count), np.empty((count, 2, 3)), np.empty((count, 2), np.int32))
    moves = None if matrices is None else kernel_input(matrices.reshape(-1))
    limits, hints = kernel_input(limits), kernel_input(hints)
    first, second = row_and_boxes_of(arrays, count), row_and_boxes_of(others, count)
    arguments = first[0], second[0], addresses(None, None, None, moves), limits, hints
    out, ended = addresses(*found), np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        with SHELF.scratch() as memory:
            search = memory.search
            # The kernel begins with QUERY, and raises it. -1: the search has not begun.
            search.state[layout.QUERY], search.state[layout.HEIGHT] = begin, -1
            while search.state[layout.QUERY] < end and not ended[0]:
                status = closest_pairs(*arguments, memory.table, end, STEPS, out)
                if status == UNDECIDED:
                    decide(search)

    share_long(count, max(1, count // (8 * threads)), work, threads, ended, progress)
    return found


class DistanceTables:
    """Tables for searches of distances, cached with a tree's arrays (see `row_and_boxes_of`)."""

    def __init__(self, arrays: TreeArrays) -> None:
        # Fitting oriented boxes takes as long as this many queries; until there have been as many,
        # axis-aligned boxes are used instead.
        self.until_fitted = arrays.nodes.size // NODES_A_QUERY
        self.lowest = lowest_ids(arrays.nodes)
        self.use(arrays, plain_boxes(arrays))

    def use(self, arrays: TreeArrays, boxes: NDArray[np.float32]) -> None:
        """Use `boxes` from now on: set `row_and_boxes`, the tree's row with the boxes' address."""
        # One tuple: no thread gets a row without the boxes whose address it has.
        self.row_and_boxes = kernel_input(arrays.words(self.lowest, boxes)), boxes


def row_and_boxes_of(
    arrays: TreeArrays, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return a tree's row of addresses, and boxes that the caller must keep alive; cached.

    `count` is the number of queries that follow: the boxes are oriented ones after enough queries
    to be worth the time that fitting takes.
    """
    tables: DistanceTables | None = vars(arrays).get("_distances")
    if tables is None:
        tables = vars(arrays).setdefault("_distances", DistanceTables(arrays))
    if tables.until_fitted >= 0:
        tables.until_fitted -= count
        if tables.until_fitted < 0:
            tables.use(arrays, oriented_boxes(arrays))
    return tables.row_and_boxes


def cached_tables(arrays: TreeArrays) -> tuple[NDArray[Any], ...]:
    """Return the arrays that the first distance has cached with a tree; none before it."""
    tables: DistanceTables | None = vars(arrays).get("_distances")
    return () if tables is None else (tables.lowest, *tables.row_and_boxes)


def lowest_ids(nodes: WideNodes) -> NDArray[np.int32]:
    """Return the lowest prim_id below each child of each node, flat; MAX_ID for unused children."""
    lanes = lanes_of(nodes.data)
    found = np.full(lanes.codes.shape, layout.MAX_ID, np.int32)
    # Of children that are leaves: the minimum over their rows of primitives; unused lanes are < 0.
    rows = np.where(nodes.ids < 0, layout.MAX_ID, nodes.ids).min(axis=1, initial=layout.MAX_ID)
    first, row_count = rows_of(lanes.codes[lanes.leaf])
    lowest = np.full(len(first), layout.MAX_ID, np.int32)
    for k in range(int(row_count.max(initial=0))):
        has_row = row_count > k
        lowest[has_row] = np.minimum(lowest[has_row], rows[first[has_row] + k])
    found[lanes.leaf] = lowest
    # Of inner nodes: the minimum over their children, level by level, from below.
    while True:
        below = found.min(axis=1, initial=layout.MAX_ID)[lanes.codes[lanes.inner]]
        if np.array_equal(found[lanes.inner], below):
            break
        found[lanes.inner] = below
    return kernel_input(found.ravel())


def decide(search: ClosestSearch) -> None:
    """Reduce the candidates of a search to the best one, by exact distances in rational numbers.

    The best one has the least distance and, of equal distances, the lowest code. No candidate is
    left if the least distance is beyond the limit.
    """
    count, best = int(search.state[layout.COUNT]), (np.inf, -1)
    for i in range(count):
        distance = float(search.lows[i])  # a lower bound; in `highs` an upper one
        if distance > best[0]:
            continue
        # Where its bounds differ, the distance is computed exactly and rounded.
        if distance != search.highs[i]:
            rows = search.corners[i].tolist()
            distance = rational.triangle_distance(rows[:3], rows[3:])
        best = min(best, (distance, int(search.codes[i])))
    if best[0] > search.reals[layout.LIMIT]:
        best = np.inf, -1
    search.lows[0] = search.highs[0] = best[0]
    search.codes[0] = best[1]
    search.state[layout.COUNT], search.state[layout.DECIDED] = int(best[1] >= 0), 1


@warms("distances")
def _warm() -> None:
    """Compile what distances of trees need."""
    triangle = Triangles(np.eye(3), np.arange(3, dtype=np.int32).reshape(1, 3))
    arrays, _ = build(frozen_primitives(triangle), "medium", 1, None)
    find_closest_pair(arrays, arrays)
