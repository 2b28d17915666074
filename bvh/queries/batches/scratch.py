"""Memory of rays and points: of their results, and scratch of a thread, reused by later calls."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls.prepared_calls import PreparedArguments
from bvh.runtime.calls.user_calls import NO_CALL
from bvh.runtime.memory import Shelf
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.closest_hit import Scratch, new_scratch
from bvh.traversal.rays.every_hit.all_hits import Gathered, Pairs, Wanted, new_columns, new_pairs
from bvh.traversal.rays.every_hit.visits import new_visits
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import AllGoal, new_found_hits, new_nearest_hits
from bvh.traversal.rays.ray_batch import NEVER, SINGLES, Order, Rays
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Triangles

BOOL = np.dtype(np.bool_)
# More hits than any ray has.
ALL = 2**62
# Hits of a ray block for which there is memory at first.
FIRST_CAPACITY = 16 * BLOCK
# For lists of at most this many hits, views of the memory to copy from are made beforehand.
FEW = 8

# Results of at least LARGE rays share one piece of memory, which pages of LARGE_PAGE bytes hold.
LARGE, LARGE_PAGE = 1 << 17, 1 << 21
# Types of columns, which numpy takes faster than the names of types.
NUMBERS, IDS, CODES, TRUTHS, BYTES = map(np.dtype, ("f8", "i4", "i8", "?", "u1"))

# Modes of `all_hits` for a single ray: count hits; list them to count them, as in trees that repeat
# primitives; or store them. A mode plus 1: each crossing is one hit.
COUNTED, LISTED, STORED = 0, 2, 4
# By mode (once, listed, stored): whether each crossing is one hit, hits are listed, and are stored.
MODES = [(mode % 2 == 1, mode >= LISTED, mode >= STORED) for mode in range(STORED + 2)]

# Memory of rays, reused from batch to batch.
SHELF: Shelf[Scratch] = Shelf(new_scratch)


def id_type_of(primitives: object) -> Any:
    """Return the type of the numbers of primitives: codes in a scene, ids elsewhere."""
    return np.int64 if isinstance(primitives, Instanced) else np.int32


def result_columns(n: int, id_type: Any) -> Columns:
    """Return new columns for the hits of n rays; `id_type` is np.int32, in a scene np.int64."""
    if n < LARGE:
        front = np.empty(n, np.bool_)
        return Columns(np.empty(n), np.empty(n, id_type), np.empty(n), np.empty(n), front)
    # One piece of memory that begins at a large page is filled with few large pages: with small
    # ones, page faults take as long as the search. A row takes 3 x 8 bytes, its id and a boolean;
    # n is rounded up to a multiple of 64 rows, so that columns begin at cache lines.
    rows, kind = -(-n // 64) * 64, CODES if id_type is np.int64 else IDS
    memory = np.empty(rows * (25 + kind.itemsize) + LARGE_PAGE, BYTES)
    begin = -memory.__array_interface__["data"][0] % LARGE_PAGE
    t, u, v = (np.ndarray(n, NUMBERS, memory, begin + 8 * rows * i) for i in range(3))
    prim_id = np.ndarray(n, kind, memory, begin + 24 * rows)
    front = np.ndarray(n, TRUTHS, memory, begin + (24 + kind.itemsize) * rows)
    return Columns(t, prim_id, u, v, front)


class HitMemory:
    """Memory of one thread: for the hits of a ray block, and in `out` for the hits of a chunk.

    `id_type` is int32, or int64 for the codes of a scene. `ranked` is the number of nearest hits of
    a ray that are stored; 0 if all are.
    """

    def __init__(self, ranked: int, id_type: Any) -> None:
        self.id_type = id_type
        self.visits = new_visits()
        self.nearest = new_nearest_hits(max(ranked, 1), id_type)
        self.state = np.zeros(3, np.int64)  # NEXT, FILLED and SIZE of `all_hits`
        self.out: Columns = new_columns(FIRST_CAPACITY, id_type)
        self.reserve(max(ranked * BLOCK, FIRST_CAPACITY))
        # Whether this memory is larger than at first.
        self.grown = False
        # This memory as the kernel takes it for a single ray; None before the first.
        self.single: OneRay | None = None

    def reserve(self, capacity: int) -> None:
        """Replace the memory for a ray block by memory for `capacity` hits."""
        self.found = new_found_hits(capacity, self.id_type)
        self.pairs: Pairs = new_pairs(capacity, self.id_type)
        self.grown = True

    def make_room(self, needed: int) -> None:
        """Reserve memory for a ray block of `needed` hits, and a quarter more for later blocks."""
        capacity = needed + needed // 4
        if needed > self.found.capacity:
            self.reserve(capacity)
        # Kernels write HALF hits at a time, so HALF rows at the end are not for hits.
        if needed > len(self.out.t) - HALF:
            self.out, self.grown = new_columns(capacity, self.id_type), True


# Reused from batch to batch, by the type of ids, unless it has grown.
HIT_SHELVES: dict[Any, Shelf[HitMemory]] = {
    id_type: Shelf(partial(HitMemory, 0, id_type)) for id_type in (np.int32, np.int64)
}


class OneRay:
    """A single ray and the `memory` of its hits: arguments of `gather_hits`, stored for calls."""

    def __init__(self, memory: HitMemory) -> None:
        # The origin, the direction, t_min and t_max.
        numbers, counts = np.zeros(8), np.zeros(1, np.int64)
        o, d = numbers[:3].reshape(1, 3), numbers[3:6].reshape(1, 3)
        rays, scratch = Rays(o, d, numbers[6:7], numbers[7:]), SHELF.take()
        # One ray, which is not a row of an image, traced singly and not sorted.
        order = Order(1, 0, SINGLES, NEVER)
        gathered = Gathered(memory.pairs, memory.out, counts, memory.state)
        # For each mode, the arguments of the kernel but the first, which is one word: the row of a
        # tree. `given` ends with 0 and 1, a range of one block. The 0 of the goal is no culling.
        self.others = []
        for once, listed, stored in MODES:
            goal = AllGoal(0, once, False, listed, memory.found, memory.visits)
            wanted = Wanted(NO_CALL.function, NO_CALL.data, ALL, listed, stored, stored)
            given = rays, order, scratch, goal, wanted, gathered, 0, 1
            self.others.append(PreparedArguments(numbers, 1, *given))
        self.addresses = [others.address for others in self.others]
        # Memoryviews: their items are read faster than those of arrays.
        self.numbers: Any = numbers.data
        self.counts: Any = counts.data
        self.state: Any = memory.state.data
        self.out = memory.out
        self.few = [self.views(count) for count in range(FEW + 1)]

    def views(self, n: int) -> tuple[NDArray[Any], ...]:
        """Return views of n hits: prim_id, t, u, v, front, offsets; in a scene also the leaves."""
        t, prim_id, u, v, front = (column[:n] for column in self.out)
        hits = t, u, v, front.view(BOOL), np.array((0, n), np.int64)
        if prim_id.dtype == np.int32:
            return prim_id, *hits
        # Codes have the leaf in the high half, and the primitive in the low one.
        halves = prim_id.view(np.int32).reshape(n, 2)
        low, high = (0, 1) if np.little_endian else (1, 0)
        return halves[:, low], *hits, halves[:, high]


class OnePoint:
    """A single point and its answer: stored arguments of point kernels, of a `scene` or a tree."""

    def __init__(self, scene: bool) -> None:
        from bvh.traversal.points.closest_point import Nearest, closest_points, nearest_points
        from bvh.traversal.points.scratch import new_scratch as new_point_scratch

        # The point, the largest distance; then the answer: the distance, u, v and the position.
        numbers, name, none = np.zeros(10), np.zeros(1, np.int64), np.empty(0)
        self.position = numbers[7:]
        # The point, the largest distance, scratch memory, and the range of points.
        self.given = numbers[:3].reshape(1, 3), numbers[3:4], new_point_scratch(scene), 0, 1
        weights, position = numbers[5:7].reshape(1, 2), self.position.reshape(1, 3)
        self.found = Nearest(numbers[4:5], name, weights, position)
        distance = Nearest(numbers[4:5], name, none.reshape(0, 2), none.reshape(0, 3))
        self.closest, self.nearest = closest_points, nearest_points
        # The first argument, the target, has 2 words, the row and the mask; in a scene also the
        # address and the length of metrics.
        words = 4 if scene else 2
        # The other arguments of the kernel: [0] with positions, [1] for the distance alone.
        self.others = [
            PreparedArguments(numbers, words, *self.given, x) for x in (self.found, distance)
        ]
        self.addresses = [others.address for others in self.others]
        # Memoryviews: their items are read faster than those of arrays.
        self.numbers: Any = numbers.data
        self.name: Any = name.data


POINT_SHELVES: dict[type, Shelf[OnePoint]] = {
    Triangles: Shelf(partial(OnePoint, False)),
    Instanced: Shelf(partial(OnePoint, True)),
}
