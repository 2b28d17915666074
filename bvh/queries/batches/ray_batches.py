"""Batches of rays: their order, their chunks on threads, and their results."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.ray_broadcast import shaped
from bvh.queries.ray_arguments import RayBatch, RayOptions
from bvh.queries.results import CountedHits, CountedSceneHits, Hits, SceneHits
from bvh.runtime.threads import Progress, Shelf, share
from bvh.runtime.user_calls import UserCall
from bvh.traversal.rays.candidates import ClosestGoal, CountGoal
from bvh.traversal.rays.closest_hit import Scratch, closest_hits, new_scratch, no_measurements
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import FirstGoal, new_nearest_hits
from bvh.traversal.rays.ray_batch import (
    AUTO,
    SINGLES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Order,
    Rays,
    sorted_permutation,
)
from bvh.traversal.rays.ray_block import BLOCK
from bvh.tree.arrays import kernel_arrays
from bvh.tree.instanced import Instanced, hit_codes, ids_of, owners_of

# Ray blocks that a thread takes at a time: enough to hide the cost of the call (some 20 us), few
# enough to balance threads and to notice Ctrl-C at once.
MIN_BLOCKS, MAX_BLOCKS = 16, 128
# Rays of a batch from which on its results share one piece of memory, which large pages can hold.
LARGE = 1 << 17

SMALLEST_IMAGE = 1 << 12

NO_PERMUTATION = np.empty(0, np.int64)

# Kept from batch to batch; what is measured is shared by the threads of one batch alone.
SHELF: Shelf[Scratch] = Shelf(lambda: new_scratch(no_measurements()))

# Incoherent rays are sorted where that pays: many rays in a tree that is larger than the caches.
# There, sorting was measured to save up to a fifth of their time, say 15 %. Beside the sort itself,
# which one thread does, reading rays and writing hits out of order costs about twice as much again.
SORTABLE, LARGE_TREE, PROBE, SAVED = 1 << 18, 1 << 24, 64, 0.15

Work = Callable[[Order, int, int], None]
Found = tuple[NDArray[Any], ...]


def closest_hit(arrays: Any, batch: RayBatch, options: RayOptions) -> Hits:
    """Return the closest hit of each ray."""
    goal = partial(_goal, False, options.cull, options.accept, ids_of(arrays.primitives))
    found = _closest(arrays, batch, goal, options)
    return _hits(arrays, batch, found, Hits, SceneHits)


def counted_hits(arrays: Any, batch: RayBatch, options: RayOptions) -> Hits:
    """Return the closest hit of each ray, and its cost."""
    costs = np.zeros(batch.size, np.int32), np.zeros(batch.size, np.int32)
    goal = CountGoal(False, options.cull, *costs)
    found = _closest(arrays, batch, lambda: goal, options._replace(sort=False))
    return _hits(arrays, batch, found, CountedHits, CountedSceneHits, *costs)


def _hits(
    arrays: Any, batch: RayBatch, found: Found, of_tree: type[Hits], of_scene: type[Hits],
    *costs: NDArray[np.int32],
) -> Hits:  # fmt: skip
    """Return closest hits as a result; a scene adds the instance and the leaf."""
    if not isinstance(arrays.primitives, Instanced):
        return of_tree(*shaped(batch.shape, *found, *costs))
    t, codes, *rest = found
    leaf, prim_id = hit_codes(codes)
    owners = owners_of(arrays.primitives, leaf)
    return of_scene(*shaped(batch.shape, t, prim_id, *rest, owners, leaf, *costs))


def _closest(arrays: Any, batch: RayBatch, goal: Callable[[], Any], options: RayOptions) -> Found:
    """Return t, prim_id, u, v and front of the hits that a goal leads to."""
    arrays, _kept = kernel_arrays(arrays)
    t, u, v, prim_id, front = _results(batch.size, ids_of(arrays.primitives))
    measured = no_measurements()
    out = Columns(prim_id, t, u, v, front.view(np.uint8))

    def work(order: Order, begin: int, end: int) -> None:
        with SHELF.scratch() as kept:
            scratch = kept._replace(measured=measured)
            closest_hits(arrays, batch.rays, order, scratch, goal(), begin, end, out)

    if len(arrays.nodes.data) == 0:
        # The kernel leaves results alone; progress is reported all the same.
        for result, miss in ((t, np.inf), (u, np.nan), (v, np.nan), (prim_id, -1), (front, False)):
            result.fill(miss)
    _run(arrays, batch, work, options)
    return t, prim_id, u, v, front


def any_hit(arrays: Any, batch: RayBatch, options: RayOptions) -> NDArray[np.bool_] | bool:
    """Return for each ray whether it hits anything."""
    arrays, _kept = kernel_arrays(arrays)
    hit = np.zeros(batch.size, np.bool_)
    measured = no_measurements()
    # The kernel writes nothing else.
    none, no_ids = np.empty(0), np.empty(0, ids_of(arrays.primitives))
    out = Columns(no_ids, none, none, none, hit.view(np.uint8))

    def work(order: Order, begin: int, end: int) -> None:
        with SHELF.scratch() as kept:
            scratch = kept._replace(measured=measured)
            goal = _goal(True, options.cull, options.accept, ids_of(arrays.primitives))
            closest_hits(arrays, batch.rays, order, scratch, goal, begin, end, out)

    _run(arrays, batch, work, options)
    return shaped(batch.shape, hit)[0]  # type: ignore[no-any-return]


def _goal(any_hit: bool, cull: int, accept: UserCall | None, ids: Any) -> ClosestGoal | FirstGoal:
    """Return the goal of one thread."""
    if accept is None:
        return ClosestGoal(any_hit, cull)
    nearest = new_nearest_hits(1, ids)
    return FirstGoal(any_hit, cull, False, 1, accept.function, accept.data, nearest)


def _run(arrays: Any, batch: RayBatch, work: Work, options: RayOptions) -> None:
    """Call work on all blocks of a batch, in the order that is best for them, or wanted."""
    n, rays = batch.size, batch.rays
    share_all = partial(_share, work=work, threads=options.threads, progress=options.progress)
    empty = len(arrays.nodes.data) == 0
    if options.sort and not empty:
        share_all(_sorted(arrays, rays, 0, n), 0, 0, n)
        return
    order = _order(batch)
    large = order.row == 0 and n >= SORTABLE and arrays.groups.nbytes >= LARGE_TREE
    if options.sort is None and large and not empty:
        # Measure what some rays cost, and what it costs to sort them.
        began = time.perf_counter()
        share_all(order, 0, 0, n, blocks=PROBE)
        traced = time.perf_counter()
        sorted_permutation(arrays, rays, 0, PROBE * BLOCK)
        spent = time.perf_counter() - traced
        if SAVED * (traced - began) > (1.0 + 2.0 / options.threads) * spent:
            done = PROBE * BLOCK
            share_all(_sorted(arrays, rays, done, n), 0, done, n)
        else:
            share_all(order, PROBE, PROBE * BLOCK, n)
        return
    share_all(order, 0, 0, n)


def _sorted(arrays: Any, rays: Rays, begin: int, end: int) -> Order:
    return Order(end - begin, 0, sorted_permutation(arrays, rays, begin, end), SINGLES)


def share_blocks(
    order: Order, work: Callable[[int, int], None], threads: int, progress: Progress | None
) -> None:
    """Call work on all blocks of an order that is plain."""
    _share(order, 0, 0, order.size, lambda _, begin, end: work(begin, end), threads, progress)


def _share(
    order: Order,
    first: int,
    done: int,
    total: int,
    work: Work,
    threads: int,
    progress: Progress | None,
    blocks: int | None = None,
) -> None:
    """Call work on chunks of blocks from the first on; report progress in rays, `done` before."""
    count = order.blocks - first if blocks is None else blocks
    rays = (total if blocks is None else min(total, blocks * BLOCK)) - done

    def report(finished: int, of: int) -> None:
        assert progress is not None
        progress(done + rays * finished // max(of, 1), total)

    def call(begin: int, end: int) -> None:
        work(order, first + begin, first + end)

    chunk = min(max(count // (16 * threads), MIN_BLOCKS), MAX_BLOCKS)
    share(count, chunk, call, threads, None if progress is None else report)


def _results(n: int, ids: Any) -> tuple[NDArray[Any], ...]:
    """Return arrays for t, u, v, prim_id and front of n rays."""
    kinds = (np.float64, np.float64, np.float64, ids, np.bool_)
    if n < LARGE:
        return tuple(np.empty(n, kind) for kind in kinds)
    sizes = [n * np.dtype(kind).itemsize for kind in kinds]
    ends = np.cumsum([-(-size // 64) * 64 for size in sizes])
    memory = np.empty(int(ends[-1]), np.uint8)
    begins = [0, *ends[:-1]]
    return tuple(
        memory[begin : begin + size].view(kind)
        for begin, size, kind in zip(begins, sizes, kinds, strict=True)
    )


def _order(batch: RayBatch) -> Order:
    """Choose the order in which the rays of a batch are taken."""
    return Order(batch.size, _row_length(batch), NO_PERMUTATION, AUTO)


def _row_length(batch: RayBatch) -> int:
    """Return the rays in a row if the batch is an image, else 0."""
    n, directions = batch.size, batch.rays.directions
    row = 0
    if len(batch.shape) >= 2:
        row = batch.shape[-1]
    elif len(directions) == n > SMALLEST_IMAGE:
        # In a row the direction moves on by steady small steps; the next row begins with a jump.
        d = directions[: 1 << 14]
        steps = np.abs(np.diff(d, axis=0)).sum(axis=1)
        usual = float(np.median(steps[: 4 * TILE_WIDTH]))
        jumps = np.flatnonzero(~((steps < 2.0 * usual) & (steps > 0.5 * usual)))
        if len(jumps) > 1 and (np.diff(jumps) == jumps[0] + 1).all():
            row = int(jumps[0]) + 1
    image = row >= TILE_WIDTH and n % row == 0 and n // row >= TILE_HEIGHT
    return row if image else 0
