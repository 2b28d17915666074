"""Batches of rays: their order, their chunks on threads, and their results."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.ray_shapes import shaped
from bvh.queries.answers.hit_points import source_of
from bvh.queries.batches.hit_memory import HIT_SHELVES, HitMemory
from bvh.queries.query_arguments import RayBatch, RayOptions, Target
from bvh.queries.results import (
    AllHits,
    CountedHits,
    CountedSceneHits,
    Hits,
    SceneAllHits,
    SceneHits,
)
from bvh.runtime.jit import entry_points, kept_entry_point
from bvh.runtime.threads import Shelf, share
from bvh.runtime.user_calls import NO_CALL, UserCall
from bvh.traversal.rays.candidates import ClosestGoal, CountGoal
from bvh.traversal.rays.closest_hit import Scratch, closest_hits, new_scratch, no_measurements
from bvh.traversal.rays.every_hit.all_hits import (
    FILLED,
    NEXT,
    SIZE,
    Gathered,
    Wanted,
    gather_hits,
    new_columns,
)
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import AllGoal, FirstGoal, new_nearest_hits
from bvh.traversal.rays.ray_batch import (
    AUTO,
    SINGLES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Order,
    read_only,
    sorted_permutation,
)
from bvh.traversal.rays.ray_memory import BLOCK, HALF
from bvh.tree.arrays import kernel_arrays
from bvh.tree.instanced import Instanced, hit_codes, ids_of, owners_of
from bvh.tree.primitives import Custom

# Ray blocks that a thread takes at a time: enough to hide the cost of the call (some 20 us), few
# enough to balance threads and to notice Ctrl-C at once.
MIN_BLOCKS, MAX_BLOCKS = 16, 128
# Chunks of a thread, where there are so many blocks.
ROUNDS = 16
# Rays of a batch from which on its results share one piece of memory, which large pages can hold.
LARGE, LARGE_PAGE = 1 << 17, 1 << 21

# Rays that are looked at to find the rows of an image: more where a row does not end among fewer.
# Rows that are then looked at.
SMALLEST_IMAGE, SAMPLES, ROWS = 1 << 12, (1 << 10, 1 << 12, 1 << 14), 64

NO_PERMUTATION, BOOL = np.empty(0, np.int64), np.dtype(np.bool_)

# Kept from batch to batch; what is measured is shared by the threads of one batch alone.
SHELF: Shelf[Scratch] = Shelf(lambda: new_scratch(no_measurements()))

# Incoherent rays are sorted where that pays: many rays in a tree that is larger than the caches.
# There, sorting was measured to save up to a fifth of their time, say 15 %. Beside the sort itself,
# which one thread does, reading rays and writing hits out of order costs about twice as much again.
SORTABLE, LARGE_TREE, PROBE, SAVED = 1 << 18, 1 << 24, 64, 0.15

# Above this limit of hits a ray, all are collected before they are cut to the closest.
MAX_RANKED = 64
ALL = 2**62

Work = Callable[[Order, int, int], None]


def closest_hit(arrays: Any, batch: RayBatch, options: RayOptions, target: Target) -> Hits:
    """Return the closest hit of each ray, in what a target stands for."""
    goal = partial(_goal, False, options.cull, options.accept, ids_of(arrays.primitives))
    hits: Hits = _closest(arrays, batch, goal, options, (Hits, SceneHits))
    return _sourced(hits, batch, target)  # type: ignore[no-any-return]


def counted_hits(arrays: Any, batch: RayBatch, options: RayOptions, target: Target) -> Hits:
    """Return the closest hit of each ray, and its cost."""
    costs = np.zeros(batch.size, np.int32), np.zeros(batch.size, np.int32)
    goal, kinds = CountGoal(False, options.cull, *costs), (CountedHits, CountedSceneHits)
    options = options._replace(sort=False)
    hits: Hits = _closest(arrays, batch, lambda: goal, options, kinds, *costs)
    return _sourced(hits, batch, target)  # type: ignore[no-any-return]


def _sourced(hits: Any, batch: RayBatch, target: Target) -> Any:
    """Return hits with what their positions and normals follow from."""
    vars(hits)["_source"] = source_of(target.arrays, target.owner, batch.rays, batch.shape)
    return hits


def _closest(
    arrays: Any, batch: RayBatch, goal: Callable[[], Any], options: RayOptions,
    kinds: tuple[type[Hits], type[Hits]], *costs: NDArray[np.int32],
) -> Hits:  # fmt: skip
    """Return the hits that a goal leads to, as results of a tree or of a scene."""
    t, u, v, prim_id, front = _results(batch.size, ids_of(arrays.primitives))
    if arrays.nodes.data.size == 0:
        # The kernel leaves results alone; progress is reported all the same.
        for result, miss in ((t, np.inf), (u, np.nan), (v, np.nan), (prim_id, -1), (front, False)):
            result.fill(miss)
    _trace(arrays, batch, goal, options, Columns(prim_id, t, u, v, front.view(np.uint8)))
    of_tree, of_scene = kinds
    if not isinstance(arrays.primitives, Instanced):
        return of_tree(*shaped(batch.shape, t, prim_id, u, v, front, *costs))
    leaf, prim_id = hit_codes(prim_id)
    owners = owners_of(arrays.primitives, leaf)
    return of_scene(*shaped(batch.shape, t, prim_id, u, v, front, owners, leaf, *costs))


def any_hit(arrays: Any, batch: RayBatch, options: RayOptions) -> NDArray[np.bool_] | bool:
    """Return for each ray whether it hits anything."""
    hit, ids = np.zeros(batch.size, np.bool_), ids_of(arrays.primitives)
    # The kernel writes nothing else.
    none = np.empty(0)
    out = Columns(np.empty(0, ids), none, none, none, hit.view(np.uint8))
    _trace(arrays, batch, partial(_goal, True, options.cull, options.accept, ids), options, out)
    return shaped(batch.shape, hit)[0]  # type: ignore[no-any-return]


def _goal(any_hit: bool, cull: int, accept: UserCall | None, ids: Any) -> ClosestGoal | FirstGoal:
    """Return the goal of one thread."""
    if accept is None:
        return ClosestGoal(any_hit, cull)
    nearest = new_nearest_hits(1, ids)
    return FirstGoal(any_hit, cull, False, 1, accept.function, accept.data, nearest)


def kernel_for(arrays: Any, rays: Any, order: Any, goal: Any, out: Any) -> Any:
    """Return `closest_hits` for arguments of these types, which only users' code makes vary.

    It is called without Numba's dispatcher, which takes longer than to trace 50 rays.
    """
    kinds = type(arrays.primitives), type(goal)
    kernel = entry_points.get(("closest_hits", *kinds))
    if kernel is None:
        if kinds[0] is Custom or kinds[1] is FirstGoal:
            return closest_hits
        with SHELF.scratch() as scratch:
            arguments = arrays.row, read_only(rays), order, scratch, goal, 0, 0, out
            kernel = kept_entry_point(closest_hits, kinds, arguments)
    return kernel


def _trace(
    arrays: Any, batch: RayBatch, goal: Callable[[], Any], options: RayOptions, out: Columns
) -> None:
    """Trace all rays of a batch, in the order that is best for them, or wanted."""
    arrays, _kept = kernel_arrays(arrays)
    n, rays, measured, order = batch.size, batch.rays, no_measurements(), _order(batch)
    row = arrays.row
    kernel = kernel_for(arrays, rays, order, goal(), out)

    def work(order: Order, begin: int, end: int) -> None:
        with SHELF.scratch() as kept:
            scratch = kept._replace(measured=measured)
            kernel(row, rays, order, scratch, goal(), begin, end, out)

    def sorted_from(begin: int) -> Order:
        return Order(n - begin, 0, sorted_permutation(arrays, rays, begin, n), SINGLES)

    share_all = partial(_share, work=work, options=options)
    empty = len(arrays.nodes.data) == 0
    if options.sort and not empty:
        share_all(sorted_from(0), 0, 0, n)
        return
    large = order.row == 0 and n >= SORTABLE and arrays.groups.nbytes >= LARGE_TREE
    if options.sort is not None or not large or empty:
        share_all(order, 0, 0, n)
        return
    # Measure what some rays cost, and what it costs to sort them.
    began, done = time.perf_counter(), PROBE * BLOCK
    share_all(order, 0, 0, n, blocks=PROBE)
    traced = time.perf_counter()
    sorted_permutation(arrays, rays, 0, done)
    spent = time.perf_counter() - traced
    if SAVED * (traced - began) > (1.0 + 2.0 / options.threads) * spent:
        share_all(sorted_from(done), 0, done, n)
    else:
        share_all(order, PROBE, done, n)


def _share(
    order: Order, first: int, done: int, total: int, work: Work, options: RayOptions,
    blocks: int | None = None,
) -> None:  # fmt: skip
    """Call work on chunks of blocks from the first on; report progress in rays, `done` before."""
    count = order.blocks - first if blocks is None else blocks
    rays = (total if blocks is None else min(total, blocks * BLOCK)) - done
    progress = options.progress

    def report(finished: int, of: int) -> None:
        assert progress is not None
        progress(done + rays * finished // max(of, 1), total)

    def call(begin: int, end: int) -> None:
        work(order, first + begin, first + end)

    pieces = options.threads if progress is None else max(options.threads, 2)
    chunk = _chunk(count, pieces)
    share(count, chunk, call, options.threads, None if progress is None else report)


def _chunk(count: int, threads: int) -> int:
    """Return how many of `count` blocks a thread takes at a time: chunks of one size."""
    chunks = max(-(-count // MAX_BLOCKS), 1)
    if threads > 1 and count > MIN_BLOCKS:
        # As many for each thread, which then end together; several, as some cost more than others.
        rounds = max(count // (MIN_BLOCKS * threads), 1)
        chunks = max(chunks, threads * min(rounds, ROUNDS))
    return max(-(-count // chunks), 1)


def _results(n: int, ids: Any) -> tuple[NDArray[Any], ...]:
    """Return arrays for t, u, v, prim_id and front of n rays."""
    if n < LARGE:
        return np.empty(n), np.empty(n), np.empty(n), np.empty(n, ids), np.empty(n, BOOL)
    kinds = (np.float64, np.float64, np.float64, ids, np.bool_)
    sizes = [n * np.dtype(kind).itemsize for kind in kinds]
    ends = np.cumsum([-(-size // 64) * 64 for size in sizes])
    # From the beginning of a large page on, so that it is filled with few of them: where results
    # are kept, to touch them first as small pages takes as long as to find them. The rest of the
    # memory is never touched.
    memory = np.empty(int(ends[-1]) + LARGE_PAGE, np.uint8)
    memory = memory[-memory.ctypes.data % LARGE_PAGE :]
    begins = [0, *ends[:-1]]
    return tuple(
        memory[begin : begin + size].view(kind)
        for begin, size, kind in zip(begins, sizes, kinds, strict=True)
    )


def _row_length(directions: NDArray[np.float64]) -> int:
    """Return how many rays a row of an image has; 0 where the directions are not those of one.

    In a row the direction moves on by steady small steps; the next row begins with a jump.
    """
    for size in SAMPLES:
        some = directions[:size]
        steps = _steps(some[1:], some[:-1])
        middle = min(len(steps) // 2, 2 * TILE_WIDTH)
        usual = float(np.partition(steps[: 2 * middle + 1], middle)[middle])
        jumps = np.flatnonzero(~((steps < 2.0 * usual) & (steps > 0.5 * usual)))
        if len(jumps) > 1:
            row = int(jumps[0]) + 1
            if not (np.diff(jumps) == row).all():
                return 0
            # The sample may have seen two jumps only.
            last, first = directions[row - 1 :: row][:ROWS], directions[row::row][:ROWS]
            steps = _steps(first, last[: len(first)])
            return 0 if ((steps < 2.0 * usual) & (steps > 0.5 * usual)).any() else row
    return 0


def _steps(after: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the steps along the axes."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.abs(after - before)
        return np.asarray(steps[:, 0] + steps[:, 1] + steps[:, 2])


def _order(batch: RayBatch) -> Order:
    """Choose the order in which the rays of a batch are taken: in tiles if it is an image."""
    n, directions = batch.size, batch.rays.directions
    row = 0
    if len(batch.shape) >= 2:
        row = batch.shape[-1]
    elif len(directions) == n > SMALLEST_IMAGE:
        row = _row_length(directions)
    image = row >= TILE_WIDTH and n % row == 0 and n // row >= TILE_HEIGHT
    return Order(n, row if image else 0, NO_PERMUTATION, AUTO)


def find_all_hits(
    arrays: Any, batch: RayBatch, options: RayOptions, once: bool, limit: int | None = None,
    target: Target | None = None,
) -> Any:  # fmt: skip
    """Return all hits of rays, or the `limit` closest of each; each crossing `once`, or not."""
    parts: dict[int, list[Columns]] = {}
    counts = _gather(arrays, batch, options, once, limit, True, parts)
    offsets = np.zeros(batch.size + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    pieces = [piece for begin in sorted(parts) for piece in parts[begin]]
    parts.clear()
    if len(pieces) == 1:
        prim_id, t, u, v, front = pieces[0]
    else:
        none = Columns(*(column[:0] for column in new_columns(0, ids_of(arrays.primitives))))
        columns = list(zip(none, *pieces, strict=True))
        pieces.clear()
        # One column after the other, so that only one at a time is in memory twice.
        prim_id, t, u, v, front = (np.concatenate(columns.pop(0)) for _ in Columns._fields)
    hits = t, u, v, front.view(np.bool_), offsets, batch.shape
    if not isinstance(arrays.primitives, Instanced):
        found = AllHits(prim_id, *hits)
    else:
        leaf, prim_id = hit_codes(prim_id)
        found = SceneAllHits(prim_id, *hits, owners_of(arrays.primitives, leaf), leaf)
    return found if target is None else _sourced(found, batch, target)


def find_counts(arrays: Any, batch: RayBatch, options: RayOptions, once: bool, split: bool) -> Any:
    """Return how many hits each ray has; `split` trees have primitives in several leaves."""
    whole = split or options.accept is not None
    return shaped(batch.shape, _gather(arrays, batch, options, once, None, whole, None))[0]


def _gather(
    arrays: Any, batch: RayBatch, options: RayOptions, once: bool, limit: int | None, whole: bool,
    parts: dict[int, list[Columns]] | None,
) -> NDArray[np.int64]:  # fmt: skip
    """Return how many hits each ray has; collect them in `parts`, by the first block of a chunk."""
    arrays, _kept = kernel_arrays(arrays)
    ranked = limit if limit is not None and limit <= MAX_RANKED else 0
    filtered, keep = options.accept or NO_CALL, parts is not None
    counts = np.zeros(batch.size, np.int64)
    # With ranks the goal calls the filter.
    accept = NO_CALL if ranked else filtered
    wanted = Wanted(
        accept.function, accept.data, ALL if limit is None else min(limit, ALL), whole,
        keep or accept is not NO_CALL, keep,
    )  # fmt: skip
    ids = ids_of(arrays.primitives)
    shelf = Shelf(partial(HitMemory, ranked, ids) if ranked else HIT_SHELVES[ids].take)
    # Only users' functions and data vary in type.
    kinds = type(arrays.primitives), FirstGoal if ranked else AllGoal
    plain = options.accept is None and kinds[0] is not Custom

    def work(order: Order, begin: int, end: int) -> None:
        first, pieces = begin, []
        with SHELF.scratch() as scratch, shelf.scratch() as memory:
            while begin < end:
                goal: FirstGoal | AllGoal = AllGoal(
                    options.cull, once, whole, memory.found, memory.visits
                )
                if ranked:
                    goal = FirstGoal(
                        False, options.cull, once, ranked, filtered.function, filtered.data,
                        memory.nearest,
                    )  # fmt: skip
                gathered = Gathered(memory.pairs, memory.out, counts, memory.state)
                arguments: Any = (
                    arrays.row, batch.rays, order, scratch, goal, wanted, gathered, begin, end
                )  # fmt: skip
                kernel = kept_entry_point(gather_hits, kinds, arguments) if plain else gather_hits
                kernel(*arguments)
                begin, filled = int(memory.state[NEXT]), int(memory.state[FILLED])
                if keep and filled:
                    pieces.append(Columns(*(column[:filled].copy() for column in memory.out)))
                if begin < end:
                    needed = int(memory.state[SIZE])
                    if needed > memory.found.capacity:
                        memory.reserve(needed + needed // 4)
                    if needed > len(memory.out.t) - HALF:
                        memory.enlarge_out(needed + needed // 4)
        if parts is not None:
            parts[first] = pieces

    if len(arrays.nodes.data) > 0:
        _share(Order(batch.size, 0, NO_PERMUTATION, SINGLES), 0, 0, batch.size, work, options)
    elif options.progress is not None:
        # The kernel leaves `state` alone; progress is reported all the same.
        options.progress(batch.size, batch.size)
    for memory in shelf.pieces():
        if not (ranked or memory.grown):
            HIT_SHELVES[ids].give_back(memory)
    return counts
