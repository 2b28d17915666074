"""Trials: which of two ways of tracing is faster for the blocks of a batch, by the cycle counter.

Blocks in the order of the batch are traced in streams or singly; windows are sorted or not. In a
trial both ways take blocks in turn, A B B A, which evens out what changes from block to block. The
faster way takes the next blocks until another trial is due: twice as many as after the last trial,
if it was the faster one then, too. Both ways give the same hits: only the time depends on trials.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import inlined
from bvh.runtime.simd import peek, poke
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import SINGLES, STREAMS

# Blocks from one trial to the next: at first, and at most.
PERIOD, LONGEST_PERIOD = 8.0, 128.0
# The fewest rays of a block that is measured.
ENOUGH = BLOCK // 4
# Share of the cost of the other way below which a way is clearly faster.
CLEARLY = 0.95

# A measure is eight doubles. LEFT: blocks until the next trial. SINGLES and STREAMS: cycles per
# ray of each way, 0 before the first trial. TURN: the turns of the trial so far; TURNS at its end,
# TURNS + 1 once the next trial has been scheduled. BETWEEN: blocks from the last trial to the next
# one. FASTER: the way that was faster in the last trial.
LEFT, TURN, BETWEEN, FASTER = 0, 4, 5, 6
TURNS = 4
# The second measure is of windows: there STREAMS stands for sorted, SINGLES for not sorted.
OF_WINDOWS = 8
# Both measures at the start of a batch.
UNMEASURED: NDArray[np.float64] = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, PERIOD, 0.0, 0.0], 2)


@inlined
def singles_are_faster(measured):
    """Return whether SINGLES has been clearly faster than STREAMS so far."""
    # False before the first trial, when both are 0.
    return peek(measured, SINGLES) < CLEARLY * peek(measured, STREAMS)


@inlined
def next_way(measured, count, first):
    """Return STREAMS or SINGLES for a block of `count` rays: the faster way so far, by `measured`.

    During a trial both ways take turns, which begin with the way `first`; blocks of few rays take
    no part in it. `measured[TURN]` is the number of turns so far: TURNS at the trial's end, more
    until the next trial begins.
    """
    second = np.int64(STREAMS + SINGLES) - first
    faster = first if peek(measured, first) <= peek(measured, second) else second
    turn = peek(measured, TURN)
    if count < ENOUGH or turn > TURNS:
        return faster
    if turn < TURNS:
        # Turns 0 and 3 are of the first way, 1 and 2 of the second: A B B A.
        return first if np.int64(turn) % 3 == 0 else second
    # The trial has ended: the next one is `between` blocks away.
    between = peek(measured, BETWEEN)
    if faster == peek(measured, FASTER):
        between = min(2.0 * between, LONGEST_PERIOD)
    poke(measured, BETWEEN, between)
    poke(measured, LEFT, between)
    poke(measured, FASTER, np.float64(faster))
    poke(measured, TURN, TURNS + 1.0)
    return faster


@inlined
def record(measured, count, way, spent):
    """Record in `measured` the cycles `spent` on a block of `count` rays; begin a trial when due.

    `way` is SINGLES or STREAMS; `measured[way]` is its cost, in cycles a ray, or 0 if it has none
    so far. Outside of trials, blocks are only counted; but a way without a cost gets one.
    """
    if count < ENOUGH:
        return
    turn, cost_before = peek(measured, TURN), peek(measured, way)
    cost = np.float64(spent) / count
    if turn < TURNS:
        # Of both turns of a way the lesser cost is used: threads are interrupted now and then. The
        # first turns of the two ways are 0 and 1.
        poke(measured, way, cost if 2 * turn < TURNS else min(cost_before, cost))
        poke(measured, TURN, turn + 1.0)
        return
    if cost_before == 0.0:
        poke(measured, way, cost)
    left = peek(measured, LEFT) - 1.0
    poke(measured, LEFT, left)
    if left <= 0.0:
        poke(measured, TURN, 0.0)
