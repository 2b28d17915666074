"""Batches of rays: their order, their chunks on threads, and their results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries import results
from bvh.queries.answers.locations import Source
from bvh.queries.batches.block_chunks import Work, blocks_of, claim_blocks, share_blocks
from bvh.queries.batches.hit_lists import Gatherer, Parts, for_kernels, gather_batch, joined_hits
from bvh.queries.batches.scratch import SHELF, id_type_of, result_columns
from bvh.queries.query_arguments import Filter, RayBatch, RayOptions, unmasked
from bvh.queries.results import Hits
from bvh.runtime.arguments import CountResult, Cull, TruthResult, cull_code, shaped
from bvh.runtime.calls.user_calls import FILTER, SCENE_FILTER, UserCall, user_filter
from bvh.traversal.rays import ray_batch
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.candidates import ClosestGoal, CountGoal
from bvh.traversal.rays.closest_hit import closest_hits
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import FirstGoal, new_nearest_hits
from bvh.traversal.rays.ray_batch import AUTO, SINGLES, Order, Rays
from bvh.traversal.rays.trials import UNMEASURED
from bvh.tree.arrays import TreeArrays
from bvh.tree.instanced import Instanced, named_codes
from bvh.tree.primitives import Triangles

# Batches of more rays than this are tested for the rows of an image.
SMALLEST_IMAGE = 1 << 12
# The argument `sort`, as orders have it.
SORTS = {None: ray_batch.TRIAL, False: ray_batch.NEVER, True: ray_batch.ALWAYS}

Floats = NDArray[np.float64]
# count(origins, directions, counts) writes the number of crossings of each ray to `counts`.
CrossingCounter = Callable[[Floats, Floats, NDArray[np.int64]], None]
Goal = ClosestGoal | FirstGoal | CountGoal


def source_of(arrays: Any, owner: Any, rays: Any, shape: tuple[int, ...] | None = None) -> Source:
    """Return the source from which hits compute positions: (searched, moves, copies of rays).

    The last item is None if positions need no rays: on triangles, and in scenes of triangles only
    (`owner.plain`). `owner` is the view of a scene, which counts its moves; `shape` is the leading
    shape of the rays, None for flat ones.
    """
    primitives = arrays.primitives
    if type(primitives) is Instanced:
        return owner, owner.moves, None if owner.plain else _copied(rays, shape)
    return primitives, 0, None if type(primitives) is Triangles else _copied(rays, shape)


def _copied(rays: Rays, shape: tuple[int, ...] | None) -> tuple[Floats, ...]:
    """Return copies of origins and directions, (*shape, 3); a row that all share is broadcast."""
    full = (len(rays.origins), 3) if shape is None else (*shape, 3)
    columns = (column.copy() for column in (rays.origins, rays.directions))
    return tuple(
        c.reshape(full) if c.size == math.prod(full) else np.broadcast_to(c[0], full)
        for c in columns
    )


class RaySearch(NamedTuple):
    """Target of rays: the arrays of a tree, or of a scene's top level."""

    arrays: TreeArrays
    split: bool = True  # whether a primitive may be in several leaves of a tree
    owner: object = None  # a tree or view of a scene, which keeps alive what kernels read
    # Of a tree: returns its arrays, with the bits of faces if it has groups.
    masked: Callable[[], TreeArrays] | None = None
    # Of a scene: merged(number of rays, threads) returns the merged tree to search, or None.
    merged: Callable[[int, int], Any] | None = None

    def side_to_cull(self, cull: Cull | None) -> int:
        """Return the side to cull: 1 for the back, -1 for the front or 0 for none; check it."""
        code, primitives = cull_code(cull), self.arrays.primitives
        if code and not isinstance(primitives, Triangles | Instanced):
            kind = type(primitives).__name__.lower()
            raise ValueError(f"cull must be None for {kind}: they have no winding")
        return code

    def filter_call(self, function: Filter, data: object) -> UserCall:
        """Return a user's filter `function`, compiled, with `data`, as kernels take the two."""
        in_scene = isinstance(self.arrays.primitives, Instanced)
        return user_filter(function, data, SCENE_FILTER if in_scene else FILTER)

    def closest_hits(self, batch: RayBatch, options: RayOptions, counters: bool = False) -> Any:
        """Return the closest hit of each ray; with `counters`, also its cost."""
        arrays, batch, merged = self.chosen(batch, options, mergeable=not counters)
        if counters:
            nodes, tests = np.zeros((2, batch.size), np.int32)
            goal = CountGoal(any_hit=False, cull=options.cull, nodes=nodes, tests=tests)
            hits = _closest(arrays, batch, lambda: goal, options._replace(sort=False))
            vars(hits)["nodes"], vars(hits)["tests"] = shaped(batch.shape, nodes, tests)
        else:
            hits = _closest(arrays, batch, _goals(options, arrays, any_hit=False), options)
        vars(hits)["_source"] = source_of(self.arrays, self.owner, batch.rays, batch.shape)
        return hits if merged is None else merged.named(hits, options.threads)

    def any_hits(self, batch: RayBatch, options: RayOptions) -> TruthResult:
        """Return for each ray whether it hits anything."""
        arrays, batch, _ = self.chosen(batch, options, mergeable=True)
        hit, none = np.zeros(batch.size, np.bool_), np.empty(0)
        no_ids = np.empty(0, id_type_of(arrays.primitives))
        # For any hit, the kernel writes the column `front` alone: whether there is a hit.
        out = Columns(none, no_ids, none, none, hit.view(np.uint8))
        _trace(arrays, batch, _goals(options, arrays, any_hit=True), options, out)
        return shaped(batch.shape, hit)[0]

    def all_hits(
        self, batch: RayBatch, options: RayOptions, once: bool, limit: int | None = None
    ) -> Any:
        """Return all hits of each ray, or the `limit` closest; if `once`, one for each crossing."""
        arrays, batch, _ = self.chosen(batch, options)
        gatherer, parts = Gatherer(arrays, options, once, limit, listed=True, kept=True), Parts()
        counts = gather_batch(gatherer, batch, options, parts)
        hits = joined_hits(arrays, batch, counts, parts, options.threads)
        vars(hits)["_source"] = source_of(self.arrays, self.owner, batch.rays, batch.shape)
        return hits

    def count_hits(self, batch: RayBatch, options: RayOptions, once: bool) -> CountResult:
        """Return how many hits each ray has; if `once`, one for each crossing."""
        arrays, batch, _ = self.chosen(batch, options)
        # Hits must be listed to count those in several leaves once, and to call a filter.
        listed = self.split or options.accept is not None
        gatherer = Gatherer(arrays, options, once, None, listed=listed)
        return shaped(batch.shape, gather_batch(gatherer, batch, options, Parts()))[0]

    def crossing_counter(self, like: Rays) -> CrossingCounter:
        """Return a counter of the crossings of rays, whose ranges and mask are those of `like`."""
        arrays, batch, _ = self.chosen(RayBatch(like, (1,)), RayOptions())
        gatherer = Gatherer(arrays, RayOptions(), True, None, listed=self.split)

        def count(origins: Floats, directions: Floats, counts: NDArray[np.int64]) -> None:
            rays = batch.rays._replace(origins=origins, directions=directions)
            order = Order(len(counts), 0, SINGLES)
            if gatherer.is_empty:
                counts.fill(0)
            else:
                gatherer.gather(rays, order, counts, 0, blocks_of(order))

        return count

    def signed_hits(self, batch: RayBatch, options: RayOptions) -> NDArray[np.int64]:
        """Return the signed number of crossings of each ray: +1 at a back side, -1 at a front."""
        arrays, batch, _ = self.chosen(batch, options)
        # In a split tree hits are listed, so that primitives in several leaves count once.
        split, parts = self.split, Parts()
        gatherer = Gatherer(arrays, options, True, None, listed=split, kept=split, sided=True)
        counts = gather_batch(gatherer, batch, options, parts)
        if not split:
            return counts
        hits = joined_hits(arrays, batch, counts, parts, options.threads)
        sums = np.concatenate([[0], np.cumsum(np.where(hits.front, -1, 1))])
        return np.asarray(np.diff(sums[hits.offsets]))

    def chosen(
        self, batch: RayBatch, options: RayOptions, mergeable: bool = False
    ) -> tuple[TreeArrays, RayBatch, Any]:
        """Return the arrays to search, the rays, and the merged tree of a scene or None.

        A merged tree is used only if `mergeable`, for rays without masks and a filter. Masks of
        rays are removed if faces have no bits.
        """
        arrays = self.arrays
        if batch.masked:
            if self.masked is not None:
                arrays = self.masked()
                batch = batch if len(arrays.face_bits) else unmasked(batch)
        elif mergeable and self.merged is not None and options.accept is None:
            merged = self.merged(batch.size, options.threads)
            if merged is not None:
                return merged.arrays, batch, merged
        return arrays, batch, None


def _closest(
    arrays: TreeArrays, batch: RayBatch, goal: Callable[[], Goal], options: RayOptions
) -> Hits:
    """Return the closest hit of each ray; `goal()` returns the goal of the kernel for a chunk."""
    t, prim_id, u, v, front = out = result_columns(batch.size, id_type_of(arrays.primitives))
    if arrays.nodes.data.size == 0:
        for column, miss in zip(out, (np.inf, -1, np.nan, np.nan, False), strict=True):
            column.fill(miss)
    _trace(arrays, batch, goal, options, Columns(t, prim_id, u, v, front.view(np.uint8)))
    if not isinstance(arrays.primitives, Instanced):
        return results.hits_of(shaped(batch.shape, *out))
    owner, leaf, prim_id = named_codes(prim_id, arrays.primitives.owners, options.threads)
    return results.scene_hits_of(shaped(batch.shape, t, prim_id, u, v, front, owner, leaf))


def _goals(options: RayOptions, arrays: TreeArrays, any_hit: bool) -> Callable[[], Goal]:
    """Return a function that makes the goal of a chunk; for a filter, it has its own scratch."""
    accept = options.accept
    if accept is None:
        goal = ClosestGoal(any_hit, options.cull)
        return lambda: goal
    # False and 1 below: all faces at an edge are hit, and one hit of each ray is kept.
    id_type, given = id_type_of(arrays.primitives), (accept.function, accept.data)
    return lambda: FirstGoal(any_hit, options.cull, False, 1, *given, new_nearest_hits(1, id_type))


def _trace(
    arrays: TreeArrays, batch: RayBatch, goal: Callable[[], Goal], options: RayOptions, out: Columns
) -> None:
    """Trace all rays of a batch, sorted where that is faster or requested; write hits to `out`."""
    arrays, _alive = for_kernels(arrays)
    n, rays, row = batch.size, batch.rays, arrays.row
    if 0 < n < HALF and options.progress is None:
        return trace_few(row, rays, n, goal(), out)
    order, work = _order(batch, n, SORTS[options.sort]), _tracer(row, rays, goal, out)
    if options.progress is None:
        claim_blocks(order, work, options.threads)
    else:
        share_blocks(order, n, work, options)


def trace_many(row: object, batch: RayBatch, n: int, goal: Goal, out: object, threads: int) -> None:
    """Trace n rays at the tree of the `row`, sorted where that is faster; write hits to `out`."""
    order = _order(batch, n, ray_batch.TRIAL)
    claim_blocks(order, _tracer(row, batch.rays, lambda: goal, out), threads)


def _tracer(row: object, rays: Rays, goal: Callable[[], Goal], out: object) -> Work:
    """Return a function work(order, begin, end), which traces blocks of an order on any thread.

    `row` is the row of the tree; `goal()` makes the goal of a call; hits are written to `out`.
    """
    # Which ways of tracing have been faster so far (see `trials`).
    measured = UNMEASURED.copy()

    def work(order: Order, begin: int, end: int) -> None:
        trace_blocks(measured, row, rays, order, goal(), begin, end, out)

    return work


def trace_blocks(
    measured: Floats, row: object, rays: Rays, order: Order, goal: Goal, begin: int, end: int,
    out: object,
) -> None:  # fmt: skip
    """Trace the blocks begin..end-1 of an order, then chunks that the kernel claims from it.

    `measured`, which ways of tracing have been faster so far, is updated.
    """
    memory = SHELF.take()
    # The kernel writes to a copy: threads that write to one cache line would wait for each other.
    memory.measured[:] = measured
    closest_hits(row, rays, order, memory, goal, begin, end, out)
    measured[:] = memory.measured
    SHELF.give_back(memory)


def trace_few(row: object, rays: Rays, n: int, goal: Goal, out: object) -> None:
    """Trace n rays of a few blocks at the tree of `row`, on this thread; write hits to `out`."""
    memory = SHELF.take()
    memory.measured[:] = UNMEASURED
    closest_hits(row, rays, Order(n, 0, AUTO), memory, goal, 0, -(-n // BLOCK), out)
    SHELF.give_back(memory)


def _order(batch: RayBatch, n: int, sort: int) -> Order:
    """Return the order in which n rays are traced: in tiles if they are the rays of an image.

    `sort` is a number of SORTS: whether rays are sorted always, never, or after a trial.
    """
    directions = batch.rays.directions
    # The length of a row, from the shape of the batch, or from the directions of a flat one.
    row = batch.shape[-1] if len(batch.shape) > 1 else 0
    if row == 0 and len(directions) == n > SMALLEST_IMAGE:
        row = ray_batch.row_length(directions)
    return Order(n, row if is_image(row, n) else 0, AUTO, sort)


def is_image(row: int, n: int) -> bool:
    """Return whether n rays are traced in tiles, as an image with `row` rays in each row."""
    return row >= ray_batch.TILE_WIDTH and n % row == 0 and n // row >= ray_batch.TILE_HEIGHT
