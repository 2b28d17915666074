"""Runs a query over a batch of rays: order, chunks on threads, progress, interruption."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import kernel_arrays
from bvh.placed import Placed, hit_codes, ids_of, owners_of
from bvh.rays import CountedHits, CountedSceneHits, Hits, RayBatch, SceneHits, shaped
from bvh.traversal.block import BLOCK
from bvh.traversal.choice import Scratch, new_scratch, nothing_learnt
from bvh.traversal.closest_hit import closest_hits
from bvh.traversal.finish import Columns
from bvh.traversal.goals import ClosestGoal, CountGoal, FirstGoal, new_nearest_hits
from bvh.traversal.query import (
    AUTO,
    EVERY,
    SINGLES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Order,
    Rays,
    sorted_places,
)
from bvh.user_calls import UserCall
from bvh.workers import Progress, Shelf, share

# Blocks in a chunk: long enough to hide the call (some 20 us), short enough to balance threads and
# to hear Ctrl-C at once.
SMALLEST_CHUNK, LARGEST_CHUNK = 16, 128
# Rays of a batch from which on its results share one piece of memory, which large pages can hold.
LARGE = 1 << 17

SMALLEST_IMAGE = 1 << 12

NO_PLACES = np.empty(0, np.int64)

# Rays that lie about are sorted where that pays: for many rays in a tree that the caches do not
# hold. Sorted rays were seen to save up to a fifth of their time there, say 15 %. Beside the
# sorting itself, which one thread does, to read rays and to write hits out of their order costs
# about twice as much again.
SORTABLE, LARGE_TREE, PROBE, SAVED = 1 << 18, 1 << 24, 64, 0.15

Work = Callable[[Order, int, int], None]


def _shelf() -> Shelf[Scratch]:
    """Return scratch for the threads of a batch, which share what they learn."""
    return Shelf(partial(new_scratch, nothing_learnt()))


def kernel_rays(rays: RayBatch) -> Rays:
    """Return rays as kernels are handed them."""
    return Rays(*rays[:4], EVERY if rays.masks is None else rays.masks)


def closest_hit(
    arrays: Any,
    rays: RayBatch,
    cull: int,
    threads: int,
    progress: Progress | None,
    sort: bool | None = None,
    accept: UserCall | None = None,
) -> Any:
    """Return the nearest hit of each ray."""
    goal = partial(_goal, False, cull, accept, ids_of(arrays.primitives))
    found = _nearest(arrays, rays, goal, threads, progress, sort)
    if isinstance(arrays.primitives, Placed):
        return SceneHits(*shaped(rays.shape, *_in_scene(arrays, *found)))
    return Hits(*shaped(rays.shape, *found))


def _in_scene(
    arrays: Any, t: NDArray[Any], codes: NDArray[Any], *rest: NDArray[Any]
) -> tuple[NDArray[Any], ...]:
    """Return the fields of a scene's hits."""
    leaf, prim_id = hit_codes(codes)
    return t, prim_id, *rest, owners_of(arrays.primitives, leaf), leaf


def counted_hits(
    arrays: Any, rays: RayBatch, cull: int, threads: int, progress: Progress | None
) -> Any:
    """Return the nearest hit of each ray, and what it took to find it."""
    nodes, tests = np.zeros(rays.size, np.int32), np.zeros(rays.size, np.int32)
    goal = CountGoal(False, cull, nodes, tests)
    hits = _nearest(arrays, rays, lambda: goal, threads, progress, False)
    if isinstance(arrays.primitives, Placed):
        found = _in_scene(arrays, *hits)
        return CountedSceneHits(*shaped(rays.shape, *found, nodes, tests))
    return CountedHits(*shaped(rays.shape, *hits, nodes, tests))


def _nearest(
    arrays: Any,
    rays: RayBatch,
    goal: Callable[[], Any],
    threads: int,
    progress: Progress | None,
    sort: bool | None,
) -> tuple[NDArray[Any], ...]:
    """Return t, prim_id, u, v and front of the hits that a goal leads to."""
    arrays, _kept = kernel_arrays(arrays)
    t, u, v, prim_id, front = _results(rays.size, ids_of(arrays.primitives))
    batch, shelf = kernel_rays(rays), _shelf()
    out = Columns(prim_id, t, u, v, front.view(np.uint8))

    def work(order: Order, begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            closest_hits(arrays, batch, order, scratch, goal(), begin, end, out)

    if len(arrays.nodes.blocks) == 0:
        # The kernel leaves results alone; progress is told all the same.
        for result, miss in ((t, np.inf), (u, np.nan), (v, np.nan), (prim_id, -1), (front, False)):
            result.fill(miss)
    _run(arrays, rays, batch, work, threads, progress, sort)
    return t, prim_id, u, v, front


def any_hit(
    arrays: Any,
    rays: RayBatch,
    cull: int,
    threads: int,
    progress: Progress | None,
    sort: bool | None = None,
    accept: UserCall | None = None,
) -> NDArray[np.bool_] | bool:
    """Tell for each ray whether it hits anything."""
    arrays, _kept = kernel_arrays(arrays)
    hit = np.zeros(rays.size, np.bool_)
    batch, shelf = kernel_rays(rays), _shelf()
    # The kernel writes nothing else.
    none, no_ids = np.empty(0), np.empty(0, ids_of(arrays.primitives))
    out = Columns(no_ids, none, none, none, hit.view(np.uint8))

    def work(order: Order, begin: int, end: int) -> None:
        with shelf.scratch() as scratch:
            goal = _goal(True, cull, accept, ids_of(arrays.primitives))
            closest_hits(arrays, batch, order, scratch, goal, begin, end, out)

    _run(arrays, rays, batch, work, threads, progress, sort)
    return shaped(rays.shape, hit)[0]  # type: ignore[no-any-return]


def _goal(any_hit: bool, cull: int, accept: UserCall | None, ids: Any) -> ClosestGoal | FirstGoal:
    """Return the goal of one thread."""
    if accept is None:
        return ClosestGoal(any_hit, cull)
    nearest = new_nearest_hits(1, ids)
    return FirstGoal(any_hit, cull, False, 1, accept.function, accept.data, nearest)


def _run(
    arrays: Any,
    rays: RayBatch,
    batch: Rays,
    work: Work,
    threads: int,
    progress: Progress | None,
    sort: bool | None,
) -> None:
    """Call work on all blocks of a batch, in the order that is best for them, or wanted."""
    n = rays.size
    empty = len(arrays.nodes.blocks) == 0
    if sort and not empty:
        _share(_sorted(arrays, batch, 0, n), 0, 0, n, work, threads, progress)
        return
    order = _order(rays)
    large = order.row == 0 and n >= SORTABLE and arrays.groups.nbytes >= LARGE_TREE
    if sort is None and large and not empty:
        # See what some rays cost, and what it costs to sort them.
        began = time.perf_counter()
        _share(order, 0, 0, n, work, threads, progress, PROBE)
        traced = time.perf_counter()
        sorted_places(arrays, batch, 0, PROBE * BLOCK)
        spent = time.perf_counter() - traced
        if SAVED * (traced - began) > (1.0 + 2.0 / threads) * spent:
            done = PROBE * BLOCK
            _share(_sorted(arrays, batch, done, n), 0, done, n, work, threads, progress)
        else:
            _share(order, PROBE, PROBE * BLOCK, n, work, threads, progress)
        return
    _share(order, 0, 0, n, work, threads, progress)


def _sorted(arrays: Any, batch: Rays, begin: int, end: int) -> Order:
    return Order(end - begin, 0, sorted_places(arrays, batch, begin, end), SINGLES)


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

    chunk = min(max(count // (16 * threads), SMALLEST_CHUNK), LARGEST_CHUNK)
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


def _order(rays: RayBatch) -> Order:
    """Choose the order in which the rays of a batch are taken."""
    return Order(rays.size, _row_length(rays), NO_PLACES, AUTO)


def _row_length(rays: RayBatch) -> int:
    """Return the rays in a row, where a batch is an image, and 0 where it is none."""
    n = rays.size
    row = 0
    if len(rays.shape) >= 2:
        row = rays.shape[-1]
    elif len(rays.directions) == n > SMALLEST_IMAGE:
        # In a row the direction moves on by steady small steps; the next row begins with a jump.
        d = rays.directions[: 1 << 14]
        steps = np.abs(np.diff(d, axis=0)).sum(axis=1)
        usual = float(np.median(steps[: 4 * TILE_WIDTH]))
        jumps = np.flatnonzero(~((steps < 2.0 * usual) & (steps > 0.5 * usual)))
        if len(jumps) > 1 and (np.diff(jumps) == jumps[0] + 1).all():
            row = int(jumps[0]) + 1
    image = row >= TILE_WIDTH and n % row == 0 and n // row >= TILE_HEIGHT
    return row if image else 0
