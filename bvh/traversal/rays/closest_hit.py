"""Closest hit of each ray of a batch, or whether there is any: in streams, or singly.

The kernel works block by block; trials choose the faster way for each (see `trials`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined, kernel
from bvh.runtime.simd import address, cycles, peek, poke, prefetch_address, shifted
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays import blocks, ray_batch, trials, windows
from bvh.traversal.rays.blocks import BLOCK, HALF, Block, batch_index, closest_primitive
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.hit_details import finish_block, prefetch_primitive
from bvh.traversal.rays.instanced_streams import SceneStreams, new_scene_streams, trace_streams
from bvh.traversal.rays.leaf_hits import begin_block
from bvh.traversal.rays.ray_batch import ALWAYS, AUTO, PATCH_WIDTH, SINGLES, STREAMS, TRIAL, Context
from bvh.traversal.rays.ray_setup import set_up_block
from bvh.traversal.rays.single_rays import trace
from bvh.traversal.rays.slots import Slots, new_slots
from bvh.traversal.rays.trials import UNMEASURED, next_way, record
from bvh.traversal.rays.windows import Window, new_window
from bvh.tree.arrays import is_empty
from bvh.tree.instanced import Instanced, primitives_class
from bvh.tree.primitives import Triangles

# The fewest active rays of a block for streams.
FEWEST = 16


class Scratch(NamedTuple):
    """Scratch memory of one thread; pointers inside kernels."""

    block: Block
    slots: Slots
    active: NDArray[np.int64]  # lane indices of the rays to trace
    measured: NDArray[np.float64]  # the measures of `trials`
    streams: SceneStreams
    window: Window


def new_scratch() -> Scratch:
    """Return the `Scratch` of one thread."""
    active, measured = np.empty(BLOCK + HALF, np.int64), UNMEASURED.copy()
    streams = new_scene_streams()
    return Scratch(blocks.new_block(), new_slots(), active, measured, streams, new_window())


@by_type()
def trace_block(tree, rays, scratch, count, forced, goal):
    """Trace the rays at lane indices `scratch.active[:count]` of a block through a tree or a scene.

    `forced` is SINGLES, STREAMS, or AUTO, for which trials choose. Streams are for a `ClosestGoal`
    on triangles and in scenes; all else, and a block of few rays, is traced singly.
    """
    has_streams = primitives_class(tree) in (Triangles, Instanced)
    if has_streams and goal.instance_class is ClosestGoal:
        return _trace_either_way
    return lambda tree, rays, scratch, count, forced, goal: trace(
        Context(tree, rays, scratch.block), scratch.slots.memory, scratch.active, count, goal
    )


def _trace_either_way(tree, rays, scratch, count, forced, goal):
    """Trace the rays `scratch.active[:count]` in streams or singly, by `forced` or by trials."""
    block, measured, single, single_count = scratch.block, scratch.measured, scratch.active, count
    way = forced if count >= FEWEST else np.int64(SINGLES)
    by_trial = way == AUTO
    if by_trial:
        way = next_way(measured, count, np.int64(STREAMS))
    began = cycles()
    if way == STREAMS:
        # In a scene, streams leave some rays to be traced singly, in a tree none.
        single = scratch.slots.spare
        single_count = trace_streams(
            tree, rays, block, scratch.streams, scratch.active, count, goal, single
        )
    trace(Context(tree, rays, block), scratch.slots.memory, single, single_count, goal)
    if by_trial:
        record(measured, count, way, cycles() - began)


@entry
def closest_hits(tree_row, ray_arrays, ray_order, thread_scratch, goal, begin, end, columns):
    """Find the closest hits of the rays in the blocks begin..end of an order, or any hits.

    Then do the same for up to `order.chunks` chunks of blocks, claimed from the order's queue.

    tree_row, ray_arrays, ray_order, thread_scratch : the tree's row, `Rays`, `Order`, `Scratch`.
    goal : `ClosestGoal`, `CountGoal` or `FirstGoal`.
    columns : `hit_details.Columns` with a row for each ray of the batch, (inf, -1, nan, nan, 0) for
        a miss. If the goal is any hit, only `front` is written: 1 for a hit. For an empty tree
        nothing is written.
    """
    # One kernel for closest and any hits: the traversal, nearly all of it, is compiled once.
    if is_empty(tree_row):
        return
    tree, rays, order = as_pointers(tree_row), as_pointers(ray_arrays), as_pointers(ray_order)
    scratch, ray_goal, out = as_pointers(thread_scratch), as_pointers(goal), as_pointers(columns)
    _trace_blocks(tree, rays, order, scratch, ray_goal, begin, end, out)
    for _ in range(order.chunks):
        first, last = ray_batch.next_chunk(order)
        if first == last:
            return
        _trace_blocks(tree, rays, order, scratch, ray_goal, first, last, out)


@kernel
def _trace_blocks(tree, rays, order, scratch, goal, begin, end, out):
    """Trace the rays of blocks begin..end of an order, window by window; write results to `out`."""
    # The measure of sorted and unsorted windows; blocks in the order of the batch have another one.
    of_windows = shifted(scratch.measured, trials.OF_WINDOWS)
    first = np.int64(begin)
    while first < end:
        in_trial = order.sort == TRIAL and peek(of_windows, trials.TURN) < trials.TURNS
        # Windows are shorter during a trial.
        last = min(first + (windows.TRIED if in_trial else windows.WINDOW), np.int64(end))
        ray, count = first * BLOCK, min(last * BLOCK, order.size) - first * BLOCK
        is_image, is_auto = order.row > 0, order.kernel == AUTO
        coherent = is_image or (
            is_auto and windows.is_coherent(rays, tree.frame, scratch.window, ray, count)
        )
        # Where single rays are faster than streams, sorting, which is for streams, is slower still.
        by_trial = (
            order.sort == TRIAL
            and not coherent
            and last - first >= windows.SMALLEST
            and not trials.singles_are_faster(scratch.measured)
        )
        # STREAMS stands for sorted, SINGLES for unsorted, which is first: its blocks have trials.
        unsorted = np.int64(SINGLES)
        way = next_way(of_windows, count, unsorted) if by_trial else unsorted
        is_sorted = not is_image and count >= HALF and (order.sort == ALWAYS or way == STREAMS)
        # Coherent rays, which those of an image and of a sorted window are, too, are always faster
        # in streams, and times differ more from block to block than from one way to the other.
        in_streams = is_auto and (coherent or is_sorted)
        traced = np.int64(STREAMS) if in_streams else np.int64(order.kernel)
        began = cycles()
        if is_sorted:
            windows.sort_window(rays, tree.frame, scratch.window, ray, count)
            _write_misses(ray, ray + count, goal.any_hit, out)
        within = windows.order_within(order, scratch.window, ray, is_sorted, traced)
        for b in range(first, last):
            _trace_block_of_order(tree, rays, scratch, within, b, goal, out)
        if by_trial:
            record(of_windows, count, way, cycles() - began)
        first = last


@inlined
def _trace_block_of_order(tree, rays, scratch, order, b, goal, out):
    """Trace block number b of an order, and write its results to the columns `out`."""
    block, active = scratch.block, scratch.active
    size, ahead = ray_batch.pick_rays(order, b, block.which), ray_batch.first_of(order, b + 1)
    # For a sorted window, misses have been written to all rows together.
    if not order.is_sorted:
        _write_misses_of_block(order, b, size, goal.any_hit, out)
    count = set_up_block(block, tree.frame, rays, size, active, order, ahead)
    if not order.is_sorted:
        _prefetch_results(order, ahead, goal.any_hit, out)
    begin_block(goal)
    trace_block(tree, rays, scratch, count, order.kernel, goal)
    hits = np.int64(0)
    for j in range(count):
        r = peek(active, j)
        found = closest_primitive(tree.primitives, block, r)
        if goal.any_hit:
            poke(out.front, batch_index(block, r), np.uint8(found >= 0))
        else:
            poke(out.prim_id, batch_index(block, r), found)
            # The rays with hits are moved to the front of the list.
            poke(active, hits, r)
            hits += np.int64(found >= 0)
            prefetch_primitive(tree.primitives, found)
    finish_block(tree, rays, block, active, hits, goal.cull, out)


@inlined
def _prefetch_results(order, first, any_hit, out):
    """Prefetch the rows of `out` for the full block that begins at ray `first` of an order."""
    # A cache line has eight doubles: those of a row of a patch.
    for i in range(0, BLOCK, PATCH_WIDTH):
        row = ray_batch.batch_number(order, first, i)
        prefetch_address(address(out.front, row))
        if not any_hit:
            prefetch_address(address(out.t, row))
            prefetch_address(address(out.u, row))
            prefetch_address(address(out.v, row))
            prefetch_address(address(out.prim_id, row))


@kernel
def _write_misses_of_block(order, b, size, any_hit, out):
    """Write misses to `out` for the `size` rays of block number b of an unsorted order."""
    if order.row == 0:
        _write_misses(b * BLOCK, b * BLOCK + size, any_hit, out)
        return
    top, bottom, left, right = ray_batch.tile_of(order, b)
    for y in range(top, bottom):
        _write_misses(y * order.row + left, y * order.row + right, any_hit, out)


@inlined
def _write_misses(begin, end, any_hit, out):
    """Write misses, (inf, -1, nan, nan, 0), to rows begin..end; `out.front` alone for any hit."""
    # A loop for each array becomes vector stores.
    if not any_hit:
        for k in range(begin, end):
            poke(out.t, k, INF)
        for k in range(begin, end):
            poke(out.prim_id, k, -1)
        for k in range(begin, end):
            poke(out.u, k, NAN)
        for k in range(begin, end):
            poke(out.v, k, NAN)
    for k in range(begin, end):
        poke(out.front, k, np.uint8(0))
