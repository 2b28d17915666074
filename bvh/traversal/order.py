"""Which rays a block takes: in their order, in tiles of an image, or in an order that is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import inlined
from bvh.simd import WIDTH, peek, pointer, poke
from bvh.traversal.block import BLOCK

# Pixels of a block: PATCHES_ACROSS patches side by side, each of one packet's rays.
TILE = 16
PATCH_WIDTH, PATCH_HEIGHT = 8, 4

# Kernels: chosen by trial, or forced.
AUTO, PACKETS, SINGLES = 0, 1, 2


class Order(NamedTuple):
    """How the rays of a batch are cut into blocks.

    Attributes
    ----------
    count : int
        Rays of the batch.
    row : int
        Rays in a row of the image, 0 where the batch is none.
    places : ndarray of int64
        The order to take rays in; empty for their own.
    kernel : int
        AUTO, PACKETS or SINGLES.
    """

    count: int
    row: int
    places: NDArray[np.int64]
    kernel: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        if self.row:
            rows = self.count // self.row
            return -(-rows // TILE) * -(-self.row // TILE)
        return -(-self.count // BLOCK)


class OrderPointers(NamedTuple):
    """An order inside kernels."""

    count: Any
    row: Any
    given: Any
    places: Any
    kernel: Any


@inlined
def pointed_order(order):
    """Return an order with pointers in place of arrays."""
    return OrderPointers(
        np.int64(order.count),
        np.int64(order.row),
        len(order.places) > 0,
        pointer(order.places),
        np.int64(order.kernel),
    )


@inlined
def pick_rays(order, block, which):
    """Write the places of a block's rays to `which`; return how many there are."""
    if order.row > 0:
        return _pick_tile(order, block, which)
    begin = block * BLOCK
    size = min(order.count - begin, BLOCK)
    if order.given:
        for i in range(size):
            poke(which, i, peek(order.places, begin + i))
    else:
        for i in range(size):
            poke(which, i, begin + i)
    return size


@inlined
def _pick_tile(order, block, which):
    """Write the places of a tile's pixels, patch by patch; return how many there are."""
    across = (order.row + TILE - 1) // TILE
    top, left = block // across * TILE, block % across * TILE
    bottom, right = min(order.count // order.row, top + TILE), min(order.row, left + TILE)
    size = np.int64(0)
    for y0 in range(top, bottom, PATCH_HEIGHT):
        for x0 in range(left, right, PATCH_WIDTH):
            for y in range(y0, min(y0 + PATCH_HEIGHT, bottom)):
                for x in range(x0, min(x0 + PATCH_WIDTH, right)):
                    poke(which, size, y * order.row + x)
                    size += 1
    return size
