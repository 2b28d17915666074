"""The boxes of wide nodes' lanes: read, set, and put into an order again."""

from __future__ import annotations

import numpy as np

from bvh.builders.records import outward, record
from bvh.jit import inlined
from bvh.numerics import INF
from bvh.simd import (
    WIDTH,
    lane,
    lane_numbers,
    load,
    load_ints,
    lowest,
    lowest_bit,
    mask_bits,
    peek,
    poke,
    popcount,
    select,
    splat,
    store_ints,
)
from bvh.wide_nodes import BLOCK_SIZE, CODES, LANE_BITS, LOWER, ORDER, UPPER

F = np.float32

# A lane's number in the fields of all octants.
_IN_EVERY_OCTANT = np.uint32(sum(1 << (octant * LANE_BITS) for octant in range(8))).astype(np.int32)


@inlined
def poke_box(blocks, base, low, high):
    """Set the box of the lane that begins at `base`."""
    for axis in range(3):
        poke(blocks, base + (LOWER + axis) * WIDTH, low[axis])
        poke(blocks, base + (UPPER + axis) * WIDTH, high[axis])


@inlined
def peek_box(blocks, base):
    """Return the box of the lane that begins at `base`."""
    low = (
        peek(blocks, base + LOWER * WIDTH),
        peek(blocks, base + (LOWER + 1) * WIDTH),
        peek(blocks, base + (LOWER + 2) * WIDTH),
    )
    high = (
        peek(blocks, base + UPPER * WIDTH),
        peek(blocks, base + (UPPER + 1) * WIDTH),
        peek(blocks, base + (UPPER + 2) * WIDTH),
    )
    return low, high


@inlined
def _least(blocks, at):
    return lowest(load(blocks, at, WIDTH))


@inlined
def _greatest(blocks, at):
    return -lowest(-load(blocks, at, WIDTH))


@inlined
def box_of(blocks, node):
    """Return the box around all lanes of a node; lower > upper if there is nothing in them."""
    at = node * BLOCK_SIZE
    low = (
        _least(blocks, at + LOWER * WIDTH),
        _least(blocks, at + (LOWER + 1) * WIDTH),
        _least(blocks, at + (LOWER + 2) * WIDTH),
    )
    high = (
        _greatest(blocks, at + UPPER * WIDTH),
        _greatest(blocks, at + (UPPER + 1) * WIDTH),
        _greatest(blocks, at + (UPPER + 2) * WIDTH),
    )
    return low, high


@inlined
def local_box(low, high, centre, s):
    """Bring a box to a local frame, rounded outward as `nodes.local_boxes` does it.

    Rounding keeps the order of numbers: the local box of a union is the union of local boxes.
    """
    made = outward(
        record(
            F((low[0] - centre[0]) * s),
            F((low[1] - centre[1]) * s),
            F((low[2] - centre[2]) * s),
            np.int32(0),
            F((high[0] - centre[0]) * s),
            F((high[1] - centre[1]) * s),
            F((high[2] - centre[2]) * s),
        )
    )
    return (
        (-lane(made, np.int32(0)), -lane(made, np.int32(1)), -lane(made, np.int32(2))),
        (lane(made, np.int32(4)), lane(made, np.int32(5)), lane(made, np.int32(6))),
    )


@inlined
def half_area_of(low, high):
    """Return half the surface of a box."""
    x = np.float64(high[0]) - low[0]
    y = np.float64(high[1]) - low[1]
    z = np.float64(high[2]) - low[2]
    return x * y + y * z + z * x


@inlined
def order_node(blocks, node):
    """Find the visiting orders of a node's children for all octants.

    The same as `wide_nodes.order_children` finds, but each child counts those that are nearer.
    """
    at = node * BLOCK_SIZE
    numbers, none = lane_numbers(WIDTH), splat(np.int32(0), WIDTH)
    # The used lanes come first.
    unused = mask_bits(load_ints(blocks, at + CODES * WIDTH, WIDTH) == none)
    used = min(lowest_bit(unused), np.int64(WIDTH))
    x = load(blocks, at + LOWER * WIDTH, WIDTH) + load(blocks, at + UPPER * WIDTH, WIDTH)
    y = load(blocks, at + (LOWER + 1) * WIDTH, WIDTH) + load(
        blocks, at + (UPPER + 1) * WIDTH, WIDTH
    )
    z = load(blocks, at + (LOWER + 2) * WIDTH, WIDTH) + load(
        blocks, at + (UPPER + 2) * WIDTH, WIDTH
    )
    nobody = splat(F(INF), WIDTH)
    taken = numbers < splat(np.int32(used), WIDTH)
    orders = select(taken, none, numbers * splat(_IN_EVERY_OCTANT, WIDTH))
    for octant in range(4):
        keys = (-x if octant & 1 else x) + (-y if octant & 2 else y) + z
        keys = select(taken, keys, nobody)
        near_bits, far_bits = np.int64((7 - octant) * LANE_BITS), np.int64(octant * LANE_BITS)
        for c in range(used):
            key = splat(lane(keys, np.int32(c)), WIDTH)
            earlier = numbers < splat(np.int32(c), WIDTH)
            nearer = np.int64(popcount(mask_bits((keys < key) | ((keys == key) & earlier))))
            # The opposite octant has the opposite order.
            near = splat(np.int32(c << near_bits), WIDTH)
            far = splat(np.int32(c << far_bits), WIDTH)
            orders = (
                orders
                | select(numbers == splat(np.int32(nearer), WIDTH), near, none)
                | select(numbers == splat(np.int32(used - 1 - nearer), WIDTH), far, none)
            )
    store_ints(blocks, at + ORDER * WIDTH, orders)
