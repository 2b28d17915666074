"""The double nearest to a root, found by exact signs from an estimate of it."""

from typing import Any

import numpy as np

from bvh.geometry.arithmetic.exact_sums import take_sign
from bvh.geometry.arithmetic.floats import LARGEST, bits, from_bits
from bvh.runtime.jit import Dispatcher, kernel, stay_outlined

# Doubles of one sign are in the order of their bits, below 2**63. A search from an estimate takes
# steps of 1, 2, 4 and so on, at most 63, until half of the range that is left is less; then it
# halves that range, at most 63 times.
STEPS = 2 * 63


@kernel
def root_side(value, slope, far):
    """Return the sign of root - t, for the larger root of a quadratic if `far`, else the smaller.

    `value` and `slope` are the exact sums of the quadratic, whose t**2 has a positive factor, at t
    and of its derivative there. Both are overwritten.
    """
    # The quadratic is negative between its roots; outside, its derivative is negative before them
    # and positive behind them.
    value_sign, slope_sign = take_sign(value), take_sign(slope)
    if value_sign > 0:
        return -slope_sign
    if value_sign < 0:
        return 1 if far else -1
    # t is a root: the smaller one if the derivative is negative, the larger one if positive.
    return max(-slope_sign, 0) if far else min(-slope_sign, 0)


def root_finder(root_sign: Dispatcher) -> Any:
    """Return a kernel (shape, t, far) that finds a root of an equation, by signs of `root_sign`.

    `root_sign(shape, t, h, far)` is the exact sign of root - (t + h), for the larger of both roots
    if `far`, else the smaller. `shape` has the numbers that define the equation.
    """

    @kernel
    def nearest_root(shape, t, far):
        """Return the double nearest to the root that `shape` and `far` select (see `root_sign`).

        The estimate t may be wrong or NaN. Of two nearest doubles, the even one is returned. Roots
        between denormals are rounded away from zero. Only a root of zero becomes zero, none
        infinite.
        """
        stay_outlined()
        if abs(t) < LARGEST:
            # Usually the estimate is right: the root is less than half a step to either
            # neighbour away. `up` and `down` are the whole steps.
            size = abs(t)
            up, down = from_bits(bits(size) + 1) - size, size - from_bits(max(bits(size) - 1, 0))
            up, down = (up, down) if t >= 0.0 else (down, up)
            if root_sign(shape, t, 0.5 * up, far) < 0 and root_sign(shape, t, -0.5 * down, far) > 0:
                return t
        side = root_sign(shape, 0.0, 0.0, far)
        if side == 0:
            return 0.0
        # Search for the largest double that is at most abs(root). Its bits are low..high - 1. The
        # search takes growing steps up or down from the estimate, then halves the range.
        low, high, step = bits(0.0), bits(LARGEST), np.int64(1)
        place = min(bits(side * t), high) if side * t > 0.0 else low
        upward = side * root_sign(shape, side * from_bits(place), 0.0, far) >= 0
        low, high = (place, high) if upward else (low, place)
        for _ in range(STEPS):
            if high - low <= 1:
                break
            move = min(step, (high - low) >> 1)
            place = low + move if upward else high - move
            if side * root_sign(shape, side * from_bits(place), 0.0, far) >= 0:
                low = place
            else:
                high = place
            # The limit keeps 2 * step from overflow.
            step = min(2 * step, bits(LARGEST) >> 1)
        size = from_bits(low)
        half = 0.5 * (from_bits(high) - size)
        past = side * root_sign(shape, side * size, side * half, far)
        # Round to the nearer of both neighbours: up if the root is past their middle, or to even in
        # it. Between denormals there is no double in the middle, and half is 0.
        return side * from_bits(high if past > 0 or (past == 0 and low & 1 and half > 0.0) else low)

    return nearest_root
