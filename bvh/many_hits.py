"""Runs queries for many hits a ray: memory that grows to what a block of rays needs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bvh.arrays import kernel_arrays
from bvh.batches import kernel_rays, share_blocks
from bvh.placed import hit_codes, ids_of, owners_of
from bvh.rays import AllHits, RayBatch, SceneAllHits, shaped
from bvh.traversal.all_hits import (
    FILLED,
    NEXT,
    SIZE,
    Gathered,
    Pairs,
    Wanted,
    gather_hits,
    new_columns,
    new_pairs,
)
from bvh.traversal.block import BLOCK, HALF
from bvh.traversal.choice import Scratch, new_scratch, nothing_learnt
from bvh.traversal.finish import Columns
from bvh.traversal.goals import AllGoal, FirstGoal, new_found_hits, new_nearest_hits
from bvh.traversal.query import SINGLES, Order
from bvh.user_calls import NO_CALL, UserCall
from bvh.workers import Progress, Shelf

# More hits of a ray than this are all collected before they are cut to the nearest.
MOST_RANKED = 64
ALL = 2**62

FIRST_ROOM = 16 * BLOCK
NO_PLACES = np.empty(0, np.int64)


class _Bench:
    """What one thread works with: scratch for a block, and the hits of a chunk."""

    def __init__(self, ranked: int, primitives: Any) -> None:
        self.ids = ids_of(primitives)
        self.scratch: Scratch = new_scratch(nothing_learnt())
        self.nearest = new_nearest_hits(max(ranked, 1), self.ids)
        self.state = np.zeros(3, np.int64)
        self.out: Columns = new_columns(FIRST_ROOM, self.ids)
        self.make_room(max(ranked * BLOCK, FIRST_ROOM))

    def make_room(self, room: int) -> None:
        """Make room for the hits of a block."""
        self.found = new_found_hits(room, self.ids)
        self.pairs: Pairs = new_pairs(room, self.ids)


class Request:
    """Which hits are wanted of a batch of rays, and how they are to be found."""

    def __init__(
        self, arrays: Any, rays: RayBatch, cull: int, once: bool, accept: UserCall | None
    ) -> None:
        self._arrays: Any
        self._arrays, self._kept = kernel_arrays(arrays)
        self._rays, self._batch = rays, kernel_rays(rays)
        self._cull, self._once, self._accept = cull, once, accept
        self._counts = np.zeros(rays.size, np.int64)

    def all_hits(self, most: int | None, threads: int, progress: Progress | None) -> Any:
        """Return all hits, or the `most` nearest of each ray."""
        parts: dict[int, list[Columns]] = {}
        self._run(parts, most, True, threads, progress)
        offsets = np.zeros(self._rays.size + 1, np.int64)
        np.cumsum(self._counts, out=offsets[1:])
        none = Columns(*(column[:0] for column in new_columns(0, ids_of(self._arrays.primitives))))
        columns = [
            list(column)
            for column in zip(
                none, *(piece for begin in sorted(parts) for piece in parts[begin]), strict=True
            )
        ]
        parts.clear()
        # One column after the other, so that only one at a time is in memory twice.
        columns.reverse()
        prim_id, t, u, v, front = (np.concatenate(columns.pop()) for _ in Columns._fields)
        hits = t, u, v, front.view(np.bool_), offsets, self._rays.shape
        if prim_id.dtype == np.int32:
            return AllHits(prim_id, *hits)
        leaf, prim_id = hit_codes(prim_id)
        return SceneAllHits(prim_id, *hits, owners_of(self._arrays.primitives, leaf), leaf)

    def counts(self, split: bool, threads: int, progress: Progress | None) -> Any:
        """Return how many hits each ray has; `split` trees have primitives in several leaves."""
        whole = split or self._accept is not None
        self._run(None, None, whole, threads, progress)
        return shaped(self._rays.shape, self._counts)[0]

    def _run(
        self,
        parts: dict[int, list[Columns]] | None,
        most: int | None,
        whole: bool,
        threads: int,
        progress: Progress | None,
    ) -> None:
        ranked = most if most is not None and most <= MOST_RANKED else 0
        shelf = Shelf(partial(_Bench, ranked, self._arrays.primitives))
        order = Order(self._rays.size, 0, NO_PLACES, SINGLES)
        limit = ALL if most is None else min(most, ALL)
        keep = parts is not None

        def work(begin: int, end: int) -> None:
            with shelf.scratch() as bench:
                pieces = self._chunk(bench, order, ranked, limit, whole, keep, begin, end)
            if parts is not None:
                parts[begin] = pieces

        if len(self._arrays.nodes.blocks) > 0:
            share_blocks(order, work, threads, progress)
        elif progress is not None:
            # The kernel leaves `state` alone; progress is told all the same.
            progress(self._rays.size, self._rays.size)

    def _chunk(
        self,
        bench: _Bench,
        order: Order,
        ranked: int,
        limit: int,
        whole: bool,
        keep: bool,
        begin: int,
        end: int,
    ) -> list[Columns]:
        """Find the hits of the blocks begin..end; return them in pieces."""
        filled = 0
        pieces: list[Columns] = []
        while begin < end:
            asked = NO_CALL if ranked else self._accept or NO_CALL
            solved = keep or asked is not NO_CALL
            gather_hits(
                self._arrays, self._batch, order, bench.scratch, self._goal(bench, ranked),
                Wanted(asked.function, asked.data, limit, whole, solved, keep),
                Gathered(bench.pairs, bench.out, self._counts, bench.state), begin, end,
            )  # fmt: skip
            begin, filled = int(bench.state[NEXT]), int(bench.state[FILLED])
            if keep and filled:
                pieces.append(Columns(*(column[:filled].copy() for column in bench.out)))
            if begin < end:
                needed = int(bench.state[SIZE])
                if needed > bench.found.capacity:
                    bench.make_room(needed + needed // 4)
                if needed > len(bench.out.t) - HALF:
                    bench.out = new_columns(needed + needed // 4, bench.ids)
        return pieces

    def _goal(self, bench: _Bench, ranked: int) -> AllGoal | FirstGoal:
        if ranked:
            function, data, _ = self._accept or NO_CALL
            return FirstGoal(False, self._cull, self._once, ranked, function, data, bench.nearest)
        return AllGoal(self._cull, self._once, bench.found)
