"""Batches of lines of sight: a thread makes the rays of some lines, and traces them at once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.batches.block_chunks import blocks_of
from bvh.queries.batches.hit_lists import for_kernels
from bvh.queries.batches.ray_batches import RaySearch, trace_blocks
from bvh.queries.batches.scratch import id_type_of
from bvh.queries.query_arguments import RayBatch, RayOptions
from bvh.runtime.memory import Shelf
from bvh.runtime.threads import share
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.ray_batch import AUTO, EVERY, TRIAL, Order, Rays
from bvh.traversal.rays.sight_lines import Lines, write_lines
from bvh.traversal.rays.trials import UNMEASURED
from bvh.traversal.rays.windows import SMALLEST, WINDOW

# Lines that a thread takes at a time, at most and at least: windows of rays that may be sorted.
MAX_LINES, MIN_LINES = WINDOW * BLOCK, SMALLEST * BLOCK

# Memory of the lines of a chunk, reused from batch to batch.
_SHELF: Shelf[Lines] = Shelf(lambda: new_lines(MAX_LINES))


def new_lines(size: int) -> Lines:
    """Return memory for `size` lines."""
    t_min, t_max = np.empty(size), np.empty(size)
    return Lines(np.empty((size, 3)), t_min, t_max, np.empty(size, np.uint8))


class Ends(NamedTuple):
    """The ends of n lines of sight: points (n, 3), or (1, 3) for all lines."""

    p: NDArray[np.float64]
    q: NDArray[np.float64]
    size: int  # n
    margin: float


def visible_lines(search: RaySearch, ends: Ends, options: RayOptions) -> NDArray[np.bool_]:
    """Return for each line whether nothing is between its ends, as `SightQueries.visible` does."""
    n, none = ends.size, np.empty(0)
    # `like` stands for the rays, which are made chunk by chunk: only their number is used. `_alive`
    # keeps the memory of `arrays`; `measured` is which ways of tracing have been faster so far.
    like = Rays(ends.p, ends.q, none, none)
    arrays, _alive = for_kernels(search.chosen(RayBatch(like, (n,)), options, mergeable=True)[0])
    goal, measured = ClosestGoal(any_hit=True, cull=options.cull), UNMEASURED.copy()
    # The kernel writes the column `front` alone, and nothing for an empty tree.
    no_columns = Columns(none, np.empty(0, id_type_of(arrays.primitives)), none, none, none)
    result = np.zeros(n, np.bool_) if arrays.nodes.data.size == 0 else np.empty(n, np.bool_)

    def work(begin: int, end: int) -> None:
        memory, size, seen = _SHELF.take(), end - begin, result[begin:end]
        columns: Any = (column[:size] for column in memory)
        lines = Lines(*columns)
        p, q = (a[begin:end] if len(a) > 1 else a for a in (ends.p, ends.q))
        write_lines(p, q, ends.margin, 0, size, lines)
        rays = Rays(p, lines.directions, lines.t_min, lines.t_max, EVERY)
        order, out = Order(size, 0, AUTO, TRIAL), no_columns._replace(front=seen.view(np.uint8))
        trace_blocks(measured, arrays.row, rays, order, goal, 0, blocks_of(order), out)
        # The kernel has marked the lines that hit something.
        np.logical_not(seen, out=seen)
        np.logical_and(seen, lines.finite, out=seen)
        _SHELF.give_back(memory)

    share(n, MAX_LINES, work, options.threads, None, MIN_LINES)
    return result
