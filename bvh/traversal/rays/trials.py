"""Trials: which of two ways of tracing is faster for the blocks of a batch, by the cycle counter.

Rays as they come go in streams or singly, a window sorted or as it comes. In a trial both ways take
blocks in turn, A B B A, which evens out what changes from block to block. The faster one takes the
next blocks, twice as many as before where it was the faster one before. Both ways give the same
hits, so only time depends on it.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import inlined
from bvh.runtime.simd import peek, poke
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import SINGLES, STREAMS

# Blocks from one trial to the next: at first, and at most.
PERIOD, LONGEST_PERIOD = 8.0, 128.0
# Rays of a block that is measured.
ENOUGH = BLOCK // 4

# Indices of a measure: LEFT, blocks until the next trial; SINGLES and STREAMS, their cycles a ray,
# 0 before the first trial; TURN, the turns of a trial so far, TURNS at its end, and more once its
# result is used; BETWEEN, blocks from one trial to the next; FASTER, which way was the faster.
LEFT, TURN, BETWEEN, FASTER = 0, 4, 5, 6
TURNS = 4
# Numbers of a measure. The first one is of blocks, the one at OF_WINDOWS of windows, where STREAMS
# stands for sorted and SINGLES for as they come.
MEASURES = OF_WINDOWS = 8
# At the start of a batch.
UNMEASURED: NDArray[np.float64] = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, PERIOD, 0.0, 0.0], 2)


@inlined
def next_way(measured, count):
    """Return STREAMS or SINGLES for a block of `count` rays: in a trial in turn, or the faster."""
    first, second = np.int64(STREAMS), np.int64(SINGLES)
    faster = first if peek(measured, first) <= peek(measured, second) else second
    turn = peek(measured, TURN)
    if count < ENOUGH or turn > TURNS:
        return faster
    if turn < TURNS:
        # Both kernels take turns in the order A B B A.
        return first if np.int64(turn) % 3 == 0 else second
    between = peek(measured, BETWEEN)
    if faster == peek(measured, FASTER):
        between = min(2.0 * between, LONGEST_PERIOD)
    # The trial has ended: the next one is `between` blocks away.
    poke(measured, BETWEEN, between)
    poke(measured, LEFT, between)
    poke(measured, FASTER, np.float64(faster))
    poke(measured, TURN, TURNS + 1.0)
    return faster


@inlined
def record(measured, count, way, spent):
    """Record the cycles `spent` on a block of `count` rays, and begin a trial when it is due."""
    if count < ENOUGH:
        return
    turn, before = peek(measured, TURN), peek(measured, way)
    cost = np.float64(spent) / count
    if turn < TURNS:
        # Of both turns of a way the lesser cost is used: threads are interrupted now and then.
        poke(measured, way, cost if 2 * turn < TURNS else min(before, cost))
        poke(measured, TURN, turn + 1.0)
        return
    if before == 0.0:
        poke(measured, way, cost)
    left = peek(measured, LEFT) - 1.0
    poke(measured, LEFT, left)
    if left <= 0.0:
        poke(measured, TURN, 0.0)
