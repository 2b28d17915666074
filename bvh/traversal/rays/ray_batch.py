"""Ray batch: the rays of a query inside kernels, and the order in which blocks take them.

Rays are taken in the order of the batch, in tiles of an image, or sorted within windows (see
`windows`). The number of a ray is its row in the arrays of the batch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import vector
from bvh.geometry.triangles import scaled_ray
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.tuple_references import makes_pointers_of
from bvh.traversal.rays.blocks import BLOCK, HALF, Block
from bvh.tree.arrays import TreePointers
from bvh.tree.frame import farthest

# The mask with all bits, one row for all rays.
EVERY = kernel_input(np.full(1, -1, np.int32))

# Pixels of a block of an image: a tile, traced patch by patch.
TILE_WIDTH, TILE_HEIGHT = 32, 8
PATCH_WIDTH, PATCH_HEIGHT = 8, 8
PATCH = PATCH_WIDTH * PATCH_HEIGHT

# Limits of `row_length`: the most rays in an image's first two rows, and the most rays and rows
# that are examined.
LONGEST_ROWS, SAMPLE, ROWS = 1 << 14, 1 << 10, 64

# `Order.kernel`: rays are traced singly or in streams as trials choose; always singly; in streams.
AUTO, SINGLES, STREAMS = 0, 1, 2

# `Order.sort`: the rays of a window are sorted never, if trials find that faster, or always.
NEVER, TRIAL, ALWAYS = 0, 1, 2


class Rays(NamedTuple):
    """Rays of a batch; an array may have one row for all of them."""

    origins: NDArray[np.float64]  # (n, 3)
    directions: NDArray[np.float64]  # (n, 3)
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    masks: NDArray[np.int32] = EVERY


class RayPointers(NamedTuple):
    """Rays inside kernels: pointers, and steps in rows, 0 where all rays share one, else 1."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    masks: NDArray[np.int32]
    o_step: int
    d_step: int
    low_step: int
    high_step: int
    mask_step: int


class Context(NamedTuple):
    """The context of a traversal: a tree, the rays of a batch, and the current block of them."""

    tree: TreePointers
    rays: RayPointers
    block: Block


@makes_pointers_of(Rays)
def _ray_pointers(arrays):
    """Return the `RayPointers` of `Rays`: an array with a single row, for all rays, has step 0."""
    return RayPointers(
        simd.pointer(arrays.origins), simd.pointer(arrays.directions), simd.pointer(arrays.t_min),
        simd.pointer(arrays.t_max), simd.pointer(arrays.masks), np.int64(len(arrays.origins) > 1),
        np.int64(len(arrays.directions) > 1), np.int64(len(arrays.t_min) > 1),
        np.int64(len(arrays.t_max) > 1), np.int64(len(arrays.masks) > 1),
    )  # fmt: skip


@inlined
def read_ray(rays, i):
    """Return (o, d, t_min, t_max) of ray i."""
    return (
        vector(rays.origins, i * rays.o_step),
        vector(rays.directions, i * rays.d_step),
        simd.peek(rays.t_min, i * rays.low_step),
        simd.peek(rays.t_max, i * rays.high_step),
    )


@inlined
def read_exact(tree, rays, i):
    """Return (o, d, scaled, t_min, t_max) of ray i, as `primitives.intersect` takes them.

    `scaled` is (d_scaled, floor, E, K) of `scaled_ray`, for filters of exact tests in this tree.
    """
    o, d, t_min, t_max = read_ray(rays, i)
    return o, d, scaled_ray(o, d, farthest(tree.frame)), t_min, t_max


# The mask of ray i.
mask_of = inlined(lambda rays, i: simd.peek(rays.masks, i * rays.mask_step))


@inlined
def numbers_from(first):
    """Return the HALF integers from `first` on as a vector of int64."""
    return simd.convert(simd.lane_numbers(HALF), np.int64(0)) + first


@inlined
def consecutive(index):
    """Return whether the HALF integers of a vector are consecutive."""
    # All are compared: in a sorted window, the first and the last alone do not suffice.
    return simd.mask_bits(index == numbers_from(simd.lane(index, 0))) == (1 << HALF) - 1


@inlined
def read_rows(array, index):
    """Return the rows `index`, a vector, of an (n, 3) array, as three vectors, one per column."""
    x, y = simd.gather(array, index, 3, 0), simd.gather(array, index, 3, 1)
    return x, y, simd.gather(array, index, 3, 2)


@inlined
def read_axes(rays, index):
    """Return (o, d) of the HALF rays numbered `index`, each as three vectors, one for each axis."""
    neighbours = consecutive(index)
    return (
        _rows_of(rays.origins, rays.o_step, neighbours, index),
        _rows_of(rays.directions, rays.d_step, neighbours, index),
    )


@inlined
def read_lanes(rays, index):
    """Return (o, d, t_min, t_max) of the HALF rays numbered `index`, as vectors of lanes."""
    o, d = read_axes(rays, index)
    t_min = _values_of(rays.t_min, rays.low_step, index)
    return o, d, t_min, _values_of(rays.t_max, rays.high_step, index)


@inlined
def _rows_of(array, step, neighbours, index):
    """Return the rows `index` of an (n, 3) array, or its only row if `step` is 0, as vectors.

    `neighbours` tells that the numbers in `index` are consecutive: then no gather is needed.
    """
    if step == 0:
        x, y, z = vector(array, np.int64(0))
        return simd.splat(x, HALF), simd.splat(y, HALF), simd.splat(z, HALF)
    if neighbours:
        return simd.load_threes(array, 3 * simd.lane(index, 0), HALF)
    return read_rows(array, index)


@inlined
def _values_of(array, step, index):
    """Return the numbers of an (n,) array in the rows `index`, as a vector.

    Where `step` is 0, the array has one number, which is repeated in all lanes.
    """
    if step == 0:
        return simd.splat(simd.peek(array, np.int64(0)), HALF)
    return simd.gather(array, index, 1, 0)


# A queue of `threads.share_claimed`: the number of chunks claimed so far, where each chunk begins,
# and the end of the last one. This one has no chunks, and is never claimed from.
NO_QUEUE = np.zeros(1, np.int64)


class Order(NamedTuple):
    """Division of the rays of a batch into blocks, and of the blocks among threads."""

    size: int  # rays of the batch
    row: int  # rays in a row of the image; 0 for a batch that is not an image
    kernel: int  # how rays are traced: AUTO, SINGLES or STREAMS
    sort: int = NEVER  # whether windows are sorted: NEVER, TRIAL or ALWAYS
    queue: NDArray[np.int64] = NO_QUEUE  # chunks of blocks that threads claim
    chunks: int = 0  # the most chunks that one call claims
    # Inside kernels: chunks in the queue; whether rays are taken by the permutation of a window,
    # which has their numbers by their places in the order.
    queued: int = 0
    is_sorted: bool = False
    permutation: NDArray[np.int64] = NO_QUEUE


@makes_pointers_of(Order)
def _order_pointers(arrays):
    """Return an `Order` of pointers, before any window is sorted: any permutation will do."""
    # A queue has two numbers more than chunks (see NO_QUEUE).
    queue, queued = simd.pointer(arrays.queue), np.int64(len(arrays.queue)) - 2
    return Order(
        np.int64(arrays.size), np.int64(arrays.row), np.int64(arrays.kernel),
        np.int64(arrays.sort), queue, np.int64(arrays.chunks), queued, False, queue,
    )  # fmt: skip


@inlined
def _step(directions, i):
    """Return the 1-norm of the difference between direction i and the next one."""
    a, b = vector(directions, i), vector(directions, i + 1)
    return abs(b[0] - a[0]) + abs(b[1] - a[1]) + abs(b[2] - a[2])


@inlined
def _jumps(directions, i, usual):
    """Return whether the `_step` from direction i is at most half or at least twice `usual`."""
    step = _step(directions, i)
    return not (step < 2.0 * usual and step > 0.5 * usual)  # "not": a NaN jumps


@entry
def row_length(directions):
    """Return how many rays a row of an image has, guessed from directions (n, 3); 0 for no image.

    In a row the direction moves on by steady small steps; the next row begins with a jump. There
    must be more than TILE_WIDTH directions.
    """
    n, row = len(directions), 1
    usual, most = _step(directions, TILE_WIDTH // 2), min(n, LONGEST_ROWS) // 2
    while row < most and not _jumps(directions, row - 1, usual):
        row += 1
    if row < TILE_WIDTH or row == most:  # too narrow for tiles, or no jump was found
        return 0
    # Of the next rays, those at ends of rows must jump, and no others; then only ends are tested.
    for i in range(row, min(max(2 * row, SAMPLE), n - 1)):
        if _jumps(directions, i, usual) != (i % row == row - 1):
            return 0
    for i in range(row, min(row * ROWS, n), row):
        if not _jumps(directions, i - 1, usual):
            return 0
    return row


@inlined
def next_chunk(order):
    """Claim the queue's next chunk; return (begin, end) of its blocks, (0, 0) if none is left."""
    # The queue has the number of chunks claimed so far, where each begins, and the last one's end.
    k = simd.claim(order.queue, 0)
    if k >= order.queued:
        return np.int64(0), np.int64(0)
    return simd.peek(order.queue, k + 1), simd.peek(order.queue, k + 2)


@inlined
def pick_rays(order, block, which):
    """Write the numbers of the rays of block number `block` to `which`; return how many there are.

    A block is BLOCK rays in the order of the batch or of a sorted window, or a tile of an image.
    """
    if order.row > 0:
        return _pick_tile(order, block, which)
    begin = block * BLOCK
    size = min(order.size - begin, BLOCK)
    if order.is_sorted:
        for i in range(size):
            simd.poke(which, i, simd.peek(order.permutation, begin + i))
    else:
        for i in range(size):
            simd.poke(which, i, begin + i)
    return size


@inlined
def tile_of(order, block):
    """Return (top, bottom, left, right) in pixels of block number `block`, a tile of an image.

    Bottom and right are excluded. Tiles are numbered row by row; the last ones of rows and columns
    may be smaller.
    """
    across = (order.row + TILE_WIDTH - 1) // TILE_WIDTH
    top, left = block // across * TILE_HEIGHT, block % across * TILE_WIDTH
    rows = order.size // order.row
    return top, min(rows, top + TILE_HEIGHT), left, min(order.row, left + TILE_WIDTH)


@inlined
def _pick_tile(order, block, which):
    """Write the numbers of the rays of tile `block` to `which`, patch by patch; return how many."""
    top, bottom, left, right = tile_of(order, block)
    size = np.int64(0)
    for y0 in range(top, bottom, PATCH_HEIGHT):
        for x0 in range(left, right, PATCH_WIDTH):
            for y in range(y0, min(y0 + PATCH_HEIGHT, bottom)):
                for x in range(x0, min(x0 + PATCH_WIDTH, right)):
                    simd.poke(which, size, y * order.row + x)
                    size += 1
    return size


@inlined
def first_of(order, block):
    """Return the number of a block's first ray; in a sorted window, its place in the order."""
    if order.row > 0:
        top, _, left, _ = tile_of(order, block)
        return top * order.row + left
    return block * BLOCK


@inlined
def batch_number(order, first, i):
    """Return the number in the batch of ray i of a block that begins at ray `first`.

    The block is full, and not of a sorted window.
    """
    if order.row > 0:
        patch, pixel = i // PATCH, i % PATCH
        return first + pixel // PATCH_WIDTH * order.row + patch * PATCH_WIDTH + pixel % PATCH_WIDTH
    return first + i


@inlined
def prefetch_some(order, first, i, rays):
    """Prefetch HALF rays, from the i-th on, of the block whose `first_of` is `first`."""
    # Between two blocks the CPU's own prefetching loses track, and a block has more cache lines
    # than can be loaded at once.
    if order.is_sorted:
        for k in range(first + i, min(first + i + HALF, order.size)):
            _prefetch(rays, simd.peek(order.permutation, k))
    else:
        # One prefetch for two neighbours; beyond the end of the batch it does no harm.
        number = batch_number(order, first, i)
        for k in range(0, HALF, 2):
            _prefetch(rays, number + k)


@inlined
def _prefetch(rays, i):
    """Prefetch the origin and direction of ray i."""
    simd.prefetch_address(simd.address(rays.origins, 3 * i * rays.o_step))
    simd.prefetch_address(simd.address(rays.directions, 3 * i * rays.d_step))
