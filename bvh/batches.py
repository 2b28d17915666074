"""Runs a query over a batch of rays: order, chunks on threads, progress, interruption."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.rays import Hits, RayBatch, shaped
from bvh.traversal.block import BLOCK, Rays
from bvh.traversal.choice import new_scratch
from bvh.traversal.closest_hit import any_hits, closest_hits
from bvh.traversal.order import AUTO, TILE, Order
from bvh.workers import Progress, share

# Blocks in a chunk: long enough to hide the call (a few us), short enough to balance two threads
# and to hear Ctrl-C at once.
CHUNK = 16
# Rays of a batch from which on its results share one piece of memory, which large pages can hold.
LARGE = 1 << 17

NO_PLACES = np.empty(0, np.int64)


def closest_hit(
    arrays: Any, rays: RayBatch, cull: int, threads: int, progress: Progress | None
) -> Hits:
    """Return the nearest hit of each ray."""
    n = rays.size
    t, u, v, prim_id, front = _results(n)
    order, batch = _order(rays), Rays(*rays[:4])

    def work(begin: int, end: int) -> None:
        closest_hits(
            arrays, batch, order, new_scratch(), cull, begin, end,
            t, prim_id, u, v, front.view(np.uint8),
        )  # fmt: skip

    if len(arrays.nodes.blocks):
        _share(order, work, threads, progress)
    else:
        t.fill(np.inf), u.fill(np.nan), v.fill(np.nan), prim_id.fill(-1), front.fill(False)
    return Hits(*shaped(rays.shape, t, prim_id, u, v, front))


def any_hit(
    arrays: Any, rays: RayBatch, cull: int, threads: int, progress: Progress | None
) -> NDArray[np.bool_] | bool:
    """Tell for each ray whether it hits anything."""
    hit = np.zeros(rays.size, np.bool_)
    order, batch = _order(rays), Rays(*rays[:4])

    def work(begin: int, end: int) -> None:
        any_hits(arrays, batch, order, new_scratch(), cull, begin, end, hit.view(np.uint8))

    _share(order, work, threads, progress)
    return shaped(rays.shape, hit)[0]  # type: ignore[no-any-return]


def _share(order: Order, work: Any, threads: int, progress: Progress | None) -> None:
    """Call work on chunks of blocks; report progress in rays."""
    count, blocks = order.count, order.blocks

    def report(done: int, total: int) -> None:
        assert progress is not None
        progress(count * done // max(total, 1), count)

    share(blocks, CHUNK, work, threads, None if progress is None else report)


def _results(n: int) -> tuple[NDArray[Any], ...]:
    """Return arrays for t, u, v, prim_id and front of n rays."""
    kinds = (np.float64, np.float64, np.float64, np.int32, np.bool_)
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
    if len(rays.shape) >= 2:
        row = rays.shape[-1]
        return row if row >= TILE and n // max(row, 1) >= TILE else 0
    if len(rays.directions) < n or n < TILE * TILE:
        return 0
    # Neighbours in a row differ by little, always the same; the first of the next row is a jump.
    d = rays.directions[: 1 << 14]
    steps = np.abs(np.diff(d, axis=0)).sum(axis=1)
    usual = float(np.median(steps[: 4 * TILE]))
    jumps = np.flatnonzero(~(steps < 8.0 * usual))
    if len(jumps) < 2:
        return 0
    row = int(jumps[0]) + 1
    regular = row >= TILE and n % row == 0 and n // row >= TILE
    return row if regular and np.array_equal(jumps[1:] - jumps[:-1], np.full(len(jumps) - 1, row)) else 0
