"""Trials: which way of tracing is the fastest for the blocks of a batch, by the cycle counter.

In a trial the ways take blocks in turn, there and back, which evens out what changes from block to
block. The fastest takes the next ones, twice as many as before for as long as it stays the same.
All ways give the same hits, so nothing but time depends on it.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import inlined
from bvh.runtime.simd import peek, poke
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import PACKETS, SINGLES, STREAMS

# Blocks from one trial to the next: at first, and at most.
PERIOD, LONGEST_PERIOD = 8.0, 128.0
# Rays of a block that is measured.
ENOUGH = BLOCK // 4

# Measured: blocks until the next trial; at its number, cycles a ray of each way, 0 before the first
# trial; the turn of the trial, TURNS at its end and more after it; blocks from one trial to the
# next, and which way was the fastest.
LEFT, TURN, BETWEEN, FASTEST = 0, 4, 5, 6
TURNS = 6
# At the start of a batch.
UNMEASURED: NDArray[np.float64] = np.array([0.0, 0.0, 0.0, 0.0, 0.0, PERIOD, 0.0])


@inlined
def _fastest(measured, packets, streams):
    """Return the way that was the fastest; packets and streams where they are possible."""
    way = np.int64(SINGLES)
    if streams and peek(measured, STREAMS) <= peek(measured, way):
        way = np.int64(STREAMS)
    if packets and peek(measured, PACKETS) <= peek(measured, way):
        way = np.int64(PACKETS)
    return way


@inlined
def _way_of(turn):
    """Return the way whose turn it is."""
    return 1 + min(turn, TURNS - 1 - turn)


@inlined
def next_way(measured, count, packets, streams):
    """Return the way for a block of `count` rays; packets and streams where they are possible."""
    turn = np.int64(peek(measured, TURN))
    if count < ENOUGH or turn > TURNS:
        return _fastest(measured, packets, streams)
    while turn < TURNS:
        way = _way_of(turn)
        if way == SINGLES or (packets if way == PACKETS else streams):
            poke(measured, TURN, np.float64(turn))
            return way
        turn += 1
    way = _fastest(measured, packets, streams)
    between = PERIOD
    if way == peek(measured, FASTEST):
        between = min(2.0 * peek(measured, BETWEEN), LONGEST_PERIOD)
    poke(measured, BETWEEN, between)
    poke(measured, LEFT, between)
    poke(measured, FASTEST, np.float64(way))
    poke(measured, TURN, TURNS + 1.0)
    return way


@inlined
def record(measured, count, way, spent):
    """Record the cycles that a block took."""
    if count < ENOUGH:
        return
    turn, before = peek(measured, TURN), peek(measured, way)
    cost = np.float64(spent) / count
    if turn < TURNS:
        # The lesser of both: threads are interrupted now and then.
        poke(measured, way, cost if 2 * turn < TURNS else min(before, cost))
        poke(measured, TURN, turn + 1.0)
        return
    if before == 0.0:
        poke(measured, way, cost)
    left = peek(measured, LEFT) - 1.0
    poke(measured, LEFT, left)
    if left <= 0.0:
        poke(measured, TURN, 0.0)
