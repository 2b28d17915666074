"""Batches of rays with many hits each, in memory that grows to what a ray block needs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bvh.geometry.ray_broadcast import shaped
from bvh.queries.batches.ray_batches import share_blocks
from bvh.queries.ray_arguments import RayBatch, RayOptions
from bvh.queries.results import AllHits, SceneAllHits
from bvh.runtime.threads import Shelf
from bvh.runtime.user_calls import NO_CALL
from bvh.traversal.rays.all_hits import (
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
from bvh.traversal.rays.closest_hit import Scratch, new_scratch, no_measurements
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import AllGoal, FirstGoal, new_found_hits, new_nearest_hits
from bvh.traversal.rays.ray_batch import SINGLES, Order
from bvh.traversal.rays.ray_block import BLOCK, HALF
from bvh.tree.arrays import kernel_arrays
from bvh.tree.instanced import hit_codes, ids_of, owners_of

# Above this limit of hits a ray, all are collected before they are cut to the closest.
MAX_RANKED = 64
ALL = 2**62

FIRST_CAPACITY = 16 * BLOCK
NO_PERMUTATION = np.empty(0, np.int64)


class _Bench:
    """Memory of one thread: scratch for a ray block, and the hits of a chunk."""

    def __init__(self, ranked: int, primitives: Any) -> None:
        self.ids = ids_of(primitives)
        self.scratch: Scratch = new_scratch(no_measurements())
        self.nearest = new_nearest_hits(max(ranked, 1), self.ids)
        self.state = np.zeros(3, np.int64)
        self.out: Columns = new_columns(FIRST_CAPACITY, self.ids)
        self.reserve(max(ranked * BLOCK, FIRST_CAPACITY))

    def reserve(self, capacity: int) -> None:
        """Reserve memory for the hits of a ray block."""
        self.found = new_found_hits(capacity, self.ids)
        self.pairs: Pairs = new_pairs(capacity, self.ids)


def find_all_hits(
    arrays: Any, batch: RayBatch, options: RayOptions, once: bool, limit: int | None = None
) -> Any:
    """Return all hits of rays, or the `limit` closest of each; each crossing `once`, or not."""
    return _Request(arrays, batch, options, once).all_hits(limit)


def find_counts(arrays: Any, batch: RayBatch, options: RayOptions, once: bool, split: bool) -> Any:
    """Return how many hits each ray has; `split` trees have primitives in several leaves."""
    return _Request(arrays, batch, options, once).counts(split)


class _Request:
    """A query for many hits of each ray of a batch: which hits, and how they are found."""

    def __init__(self, arrays: Any, batch: RayBatch, options: RayOptions, once: bool) -> None:
        self._arrays: Any
        self._arrays, self._kept = kernel_arrays(arrays)
        self._batch, self._options, self._once = batch, options, once
        self._counts = np.zeros(batch.size, np.int64)

    def all_hits(self, limit: int | None) -> Any:
        parts: dict[int, list[Columns]] = {}
        self._run(parts, limit, True)
        offsets = np.zeros(self._batch.size + 1, np.int64)
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
        hits = t, u, v, front.view(np.bool_), offsets, self._batch.shape
        if prim_id.dtype == np.int32:
            return AllHits(prim_id, *hits)
        leaf, prim_id = hit_codes(prim_id)
        return SceneAllHits(prim_id, *hits, owners_of(self._arrays.primitives, leaf), leaf)

    def counts(self, split: bool) -> Any:
        whole = split or self._options.accept is not None
        self._run(None, None, whole)
        return shaped(self._batch.shape, self._counts)[0]

    def _run(self, parts: dict[int, list[Columns]] | None, limit: int | None, whole: bool) -> None:
        """Find hits; with `parts` collect them there, by the first block of their chunk."""
        ranked = limit if limit is not None and limit <= MAX_RANKED else 0
        shelf = Shelf(partial(_Bench, ranked, self._arrays.primitives))
        order = Order(self._batch.size, 0, NO_PERMUTATION, SINGLES)
        capacity = ALL if limit is None else min(limit, ALL)
        keep = parts is not None

        def work(begin: int, end: int) -> None:
            with shelf.scratch() as bench:
                pieces = self._chunk(bench, order, ranked, capacity, whole, keep, begin, end)
            if parts is not None:
                parts[begin] = pieces

        threads, progress = self._options.threads, self._options.progress
        if len(self._arrays.nodes.data) > 0:
            share_blocks(order, work, threads, progress)
        elif progress is not None:
            # The kernel leaves `state` alone; progress is reported all the same.
            progress(self._batch.size, self._batch.size)

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
            accept = NO_CALL if ranked else self._options.accept or NO_CALL
            solved = keep or accept is not NO_CALL
            gather_hits(
                self._arrays, self._batch.rays, order, bench.scratch, self._goal(bench, ranked),
                Wanted(accept.function, accept.data, limit, whole, solved, keep),
                Gathered(bench.pairs, bench.out, self._counts, bench.state), begin, end,
            )  # fmt: skip
            begin, filled = int(bench.state[NEXT]), int(bench.state[FILLED])
            if keep and filled:
                pieces.append(Columns(*(column[:filled].copy() for column in bench.out)))
            if begin < end:
                needed = int(bench.state[SIZE])
                if needed > bench.found.capacity:
                    bench.reserve(needed + needed // 4)
                if needed > len(bench.out.t) - HALF:
                    bench.out = new_columns(needed + needed // 4, bench.ids)
        return pieces

    def _goal(self, bench: _Bench, ranked: int) -> AllGoal | FirstGoal:
        if ranked:
            function, data, _ = self._options.accept or NO_CALL
            return FirstGoal(
                False, self._options.cull, self._once, ranked, function, data, bench.nearest
            )
        return AllGoal(self._options.cull, self._once, bench.found)
