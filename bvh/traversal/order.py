"""Which rays a block takes: in their order, in tiles of an image, or in an order that is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.jit import inlined
from bvh.simd import address, peek, pointer, poke, prefetch_address
from bvh.traversal.block import BLOCK

# Pixels of a block: patches side by side, each of one packet's rays.
TILE_WIDTH, TILE_HEIGHT = 64, 4
PATCH_WIDTH, PATCH_HEIGHT = 8, 4

# Kernels: chosen by trial, or forced.
AUTO, PACKETS, SINGLES = 0, 1, 2


class Order(NamedTuple):
    """How the rays of a batch are cut into blocks.

    Attributes
    ----------
    size : int
        Rays of the batch.
    row : int
        Rays in a row of the image, 0 where the batch is none.
    places : ndarray of int64
        The order to take rays in; empty for their own.
    kernel : int
        AUTO, PACKETS or SINGLES.
    """

    size: int
    row: int
    places: NDArray[np.int64]
    kernel: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        if self.row:
            rows = self.size // self.row
            return -(-rows // TILE_HEIGHT) * -(-self.row // TILE_WIDTH)
        return -(-self.size // BLOCK)


class OrderPointers(NamedTuple):
    """An order inside kernels."""

    size: Any
    row: Any
    given: Any
    plain: Any
    places: Any
    kernel: Any


@inlined
def pointed_order(order):
    """Return an order with pointers in place of arrays."""
    return OrderPointers(
        np.int64(order.size),
        np.int64(order.row),
        len(order.places) > 0,
        order.row == 0 and len(order.places) == 0,
        pointer(order.places),
        np.int64(order.kernel),
    )


@inlined
def pick_rays(order, block, which):
    """Write the places of a block's rays to `which`; return how many there are."""
    if order.row > 0:
        return _pick_tile(order, block, which)
    begin = block * BLOCK
    size = min(order.size - begin, BLOCK)
    if order.given:
        for i in range(size):
            poke(which, i, peek(order.places, begin + i))
    else:
        for i in range(size):
            poke(which, i, begin + i)
    return size


@inlined
def tile_of(order, block):
    """Return (top, bottom, left, right) of a tile."""
    across = (order.row + TILE_WIDTH - 1) // TILE_WIDTH
    top, left = block // across * TILE_HEIGHT, block % across * TILE_WIDTH
    rows = order.size // order.row
    return top, min(rows, top + TILE_HEIGHT), left, min(order.row, left + TILE_WIDTH)


@inlined
def _pick_tile(order, block, which):
    """Write the places of a tile's pixels, patch by patch; return how many there are."""
    top, bottom, left, right = tile_of(order, block)
    size = np.int64(0)
    for y0 in range(top, bottom, PATCH_HEIGHT):
        for x0 in range(left, right, PATCH_WIDTH):
            for y in range(y0, min(y0 + PATCH_HEIGHT, bottom)):
                for x in range(x0, min(x0 + PATCH_WIDTH, right)):
                    poke(which, size, y * order.row + x)
                    size += 1
    return size


@inlined
def ask_for_next(order, block, rays):
    """Ask for the memory of the next block's rays, while this one is worked on.

    Between two blocks the CPU's own prefetching loses track.
    """
    if order.plain:
        begin = (block + 1) * BLOCK
        for i in range(begin, min(begin + BLOCK, order.size), 2):
            _ask(rays, i)
    elif order.row > 0:
        top, bottom, left, right = tile_of(order, block + 1)
        for y in range(top, bottom):
            for x in range(left, right, 2):
                _ask(rays, y * order.row + x)
    else:
        begin = (block + 1) * BLOCK
        for i in range(begin, min(begin + BLOCK, order.size)):
            _ask(rays, peek(order.places, i))


@inlined
def _ask(rays, i):
    prefetch_address(address(rays.origins, 3 * i * rays.o_step))
    prefetch_address(address(rays.directions, 3 * i * rays.d_step))
