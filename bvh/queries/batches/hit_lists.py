"""Lists of hits: all hits of each ray of a batch, or how many there are, in chunks on threads."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries import results
from bvh.queries.batches import scratch
from bvh.queries.batches.block_chunks import share_blocks
from bvh.queries.batches.scratch import HIT_SHELVES, SHELF, id_type_of
from bvh.queries.query_arguments import RayBatch, RayOptions
from bvh.queries.results import AllHits
from bvh.runtime.calls.user_calls import NO_CALL
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import share
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.every_hit import all_hits
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.leaf_hits import AllGoal, FirstGoal
from bvh.traversal.rays.ray_batch import SINGLES, Order, Rays
from bvh.tree.arrays import TreeArrays, kernel_arrays
from bvh.tree.instanced import Instanced, named_codes
from bvh.tree.primitives import Custom

# Above this limit of hits a ray, all are collected before they are cut to the closest.
MAX_RANKED = 64
# The fewest groups of chunks, which threads join: short jobs keep threads at one column.
MIN_GROUPS = 8

# The hits of each chunk of rays, as one or more pieces, by the chunk's first block.
Parts = dict[int, list[Columns]]


def for_kernels(arrays: TreeArrays) -> tuple[TreeArrays, object]:
    """Return arrays as kernels take them, and an object to keep alive while they run."""
    return kernel_arrays(arrays) if isinstance(arrays.primitives, Custom) else (arrays, None)


class Gatherer:
    """Search for all hits of rays in a tree or a scene, or for their number.

    If `once`, each crossing is one hit. `limit` is the most hits of a ray. If `listed`, a primitive
    in several leaves counts once, and hits may be `kept` and filtered. Otherwise it counts in each
    of its leaves; these counts are signed if `sided`: 1 at a back side, -1 at a front.
    """

    def __init__(
        self, arrays: TreeArrays, options: RayOptions, once: bool, limit: int | None, *,
        listed: bool, kept: bool = False, sided: bool = False,
    ) -> None:  # fmt: skip
        self.arrays, self._alive = for_kernels(arrays)
        self.is_empty = len(self.arrays.nodes.data) == 0
        self.id_type, self.kept = id_type_of(arrays.primitives), kept
        # The hits of a ray that are kept in order during the search; 0 to collect them all.
        self.ranked = limit if limit is not None and limit <= MAX_RANKED else 0
        filtered = options.accept or NO_CALL
        # A goal that ranks the hits of a ray calls the filter itself.
        accept = NO_CALL if self.ranked else filtered
        self.wanted = all_hits.Wanted(
            accept.function, accept.data, min(limit or scratch.ALL, scratch.ALL), listed,
            kept or accept is not NO_CALL, kept,
        )  # fmt: skip
        # Arguments of the goals FirstGoal and AllGoal, but for their memory; the first of FirstGoal
        # is `any_hit`.
        self._first = False, options.cull, once, self.ranked, filtered.function, filtered.data
        self._all = options.cull, once, sided, listed
        # Memory that ranks hits, or has grown, is used by this search alone; other memory is taken
        # from the shelf that all searches share, and returned to it.
        self._shared = HIT_SHELVES[self.id_type]
        make = partial(scratch.HitMemory, self.ranked, self.id_type)
        self._shelf = Shelf(make if self.ranked else self._shared.take)

    def gather(
        self, rays: Rays, order: Order, counts: NDArray[np.int64], begin: int, end: int
    ) -> list[Columns]:
        """Write to `counts` the numbers of hits of the rays in the blocks begin..end-1 of an order.

        Return the hits, if they are kept. Several threads may call this.
        """
        pieces: list[Columns] = []
        ray_memory, memory = SHELF.take(), self._shelf.take()
        state = memory.state
        while begin < end:
            goal: FirstGoal | AllGoal = (
                FirstGoal(*self._first, memory.nearest)
                if self.ranked
                else AllGoal(*self._all, memory.found, memory.visits)
            )
            gathered = all_hits.Gathered(memory.pairs, memory.out, counts, state)
            all_hits.gather_hits(
                self.arrays.row, rays, order, ray_memory, goal, self.wanted, gathered, begin, end
            )
            begin, filled = int(state[all_hits.NEXT]), int(state[all_hits.FILLED])
            if self.kept and filled:
                pieces.append(Columns(*(column[:filled].copy() for column in memory.out)))
            # Blocks are left if the memory did not suffice for the next one.
            if begin < end:
                memory.make_room(int(state[all_hits.SIZE]))
        SHELF.give_back(ray_memory)
        is_shared = not (self.ranked or memory.grown)
        (self._shared if is_shared else self._shelf).give_back(memory)
        return pieces


def gather_batch(
    gatherer: Gatherer, batch: RayBatch, options: RayOptions, parts: Parts
) -> NDArray[np.int64]:
    """Return the number of hits of each ray, (n,); store the hits in `parts`, if they are kept."""
    counts: NDArray[np.int64] = np.empty(batch.size, np.int64)

    def work(order: Order, begin: int, end: int) -> None:
        pieces = gatherer.gather(batch.rays, order, counts, begin, end)
        if gatherer.kept:
            parts[begin] = pieces

    order = Order(batch.size, 0, SINGLES)
    if gatherer.is_empty:
        # The kernel writes no results; progress is reported all the same.
        counts.fill(0)
        if options.progress is not None:
            options.progress(batch.size, batch.size)
    elif 0 < batch.size < HALF and options.progress is None:
        work(order, 0, 1)
    else:
        share_blocks(order, batch.size, work, options)
    return counts


def joined_hits(
    arrays: TreeArrays, batch: RayBatch, counts: NDArray[np.int64], parts: Parts, threads: int
) -> AllHits:
    """Return the hits in `parts`, which is cleared to free its memory early, as one result.

    `counts` (n,) has the number of hits of each ray.
    """
    columns, offsets = _joined_columns(id_type_of(arrays.primitives), counts, parts, threads)
    t, prim_id, u, v, front = columns
    hits = t, u, v, front.view(np.bool_), offsets, batch.shape
    if not isinstance(arrays.primitives, Instanced):
        return results.all_hits_of((prim_id, *hits))
    owner, leaf, prim_id = named_codes(prim_id, arrays.primitives.owners, threads)
    return results.scene_all_hits_of((prim_id, *hits, owner, leaf))


def _joined_columns(
    id_type: Any, counts: NDArray[np.int64], parts: Parts, threads: int
) -> tuple[Columns, NDArray[np.int64]]:
    """Return the hits in `parts` as one `Columns`, and the offsets of each ray's hits, (n + 1,)."""
    begins = sorted(parts)
    chunks = [parts.pop(begin) for begin in begins]
    # The first ray and the first hit of each chunk; at the end of both lists, the number of all.
    first_rays = [*(begin * BLOCK for begin in begins), len(counts)]
    sizes = [sum(len(piece.t) for piece in pieces) for pieces in chunks]
    first_hits = [0, *np.cumsum(sizes).tolist()]
    offsets: NDArray[np.int64] = (np.empty if chunks else np.zeros)(len(counts) + 1, np.int64)
    offsets[0] = 0
    none = Columns(*(column[:0] for column in all_hits.new_columns(0, id_type)))
    single = chunks[0][0] if len(chunks) == 1 and len(chunks[0]) == 1 else None
    # Pieces by column and chunk, which are freed once they are copied to the `joined` columns.
    waiting: list[Any] = [] if single else [
        [[piece[k] for piece in pieces] for pieces in chunks] for k in range(len(none))
    ]  # fmt: skip
    chunks.clear()
    joined: list[NDArray[Any]] = []
    lock, size = threading.Lock(), max(-(-len(begins) // max(threads, MIN_GROUPS)), 1)
    groups = -(-len(begins) // size)

    def add_offsets(chunk: int) -> None:
        """Write the offsets of the rays of a chunk."""
        begin, end = first_rays[chunk], first_rays[chunk + 1]
        some = offsets[begin + 1 : end + 1]
        np.cumsum(counts[begin:end], out=some)
        some += first_hits[chunk]

    def copy(column: int, chunk: int) -> None:
        """Copy a column of the hits of a chunk to where they are in the result."""
        begin = first_hits[chunk]
        for piece in waiting[column][chunk]:
            joined[column][begin : begin + len(piece)] = piece
            begin += len(piece)
        waiting[column][chunk] = None

    def work(begin: int, end: int) -> None:
        """Do the jobs begin..end-1: each copies a column, or adds the offsets, of a group."""
        for job in range(begin, end):
            column, group = divmod(job, groups)
            with lock:
                while len(joined) <= column < len(waiting):
                    joined.append(np.empty(first_hits[-1], none[len(joined)].dtype))
            for chunk in range(group * size, min((group + 1) * size, len(begins))):
                if column < len(waiting):
                    copy(column, chunk)
                else:
                    add_offsets(chunk)

    # One column after the other, so that few at a time are in memory twice.
    share((len(waiting) + 1) * groups, 1, work, threads)
    return single or Columns(*(joined or none)), offsets
