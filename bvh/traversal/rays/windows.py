"""Windows: runs of rays that are traced in an order of their own.

The rays of a window are sorted by where they enter the tree and by direction: neighbours then visit
the same nodes, so that streams share more of them, and caches still have them. The key is the
octant of the direction and the cell, of 8 x 8 x 8 in the root's box, in which the ray enters; a
counting sort orders the keys (Aila and Karras 2010, "Architecture considerations for tracing
incoherent rays", on why; Knuth, TAOCP 3, 5.2, on how). A window and its results fit the
second-level cache.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.runtime import simd
from bvh.runtime.jit import inlined, kernel
from bvh.traversal.rays.blocks import BLOCK, HALF
from bvh.traversal.rays.ray_batch import Order, numbers_from, read_lanes
from bvh.traversal.rays.ray_setup import clip, inverse_of, octant_of
from bvh.tree import frame as frames

# Blocks of a window: the most; the most in a trial; the fewest that take part in trials.
WINDOW, TRIED, SMALLEST = 64, 32, 8
# Bits of a cell's number along an axis; cells along an axis; keys: octants times cells.
CELL_BITS = 3
CELLS = 1 << CELL_BITS
KEYS = 8 * CELLS**3
# Of the sample by which a window is coherent: rays per vector that is read, the most vectors, and
# the fewest rays of such a window.
PER_VECTOR, VECTORS, FEWEST = 128, 32, 64
# A prime, multiples of which, modulo the rays of a window, are places in it without a pattern.
SCATTER = 15485863
# The lowest bits of the sum of this and a small number are the nearest integer.
ROUNDER = 2.0**52


class Window(NamedTuple):
    """Scratch of a window; pointers inside kernels."""

    keys: NDArray[np.int64]  # of the rays
    counts: NDArray[np.int64]  # rays with each key
    permutation: NDArray[np.int64]  # numbers of rays, sorted


def new_window() -> Window:
    """Return a `Window`, the scratch of one thread."""
    # Two blocks more: numbers behind the last block are read, and prefetched as if of rays.
    rays = WINDOW * BLOCK
    return Window(*(np.zeros(n, np.int64) for n in (rays, KEYS + 1, rays + 2 * BLOCK)))


@inlined
def _cell(p, low, high):
    """Return, for HALF coordinates in low..high, the numbers, 0 to 7, of their cells along an axis.

    The three bits of a number are spread to bits 0, 3 and 6, so that three axes can be interleaved.
    A NaN may be in any cell.
    """
    # Rounded to nearest, not down: the first cell is half as wide as others, the last 1.5 times.
    x = (p - low) * (CELLS / max(high - low, 2.0**-60))
    # Added to 2**52, a number has its nearest integer in the lowest bits.
    x = simd.as_ints(simd.lesser(simd.greater(x, 0.0), CELLS - 1.0) + ROUNDER)
    return (x & 1) | ((x & 2) << 2) | ((x & 4) << 4)


@inlined
def _keys(frame, o, d, t_min):
    """Return the sort keys of HALF rays: the octant, then the cell's numbers by axis, interleaved.

    A ray that misses the box may have any key.
    """
    # In the local frame, p is the origin, and the ray is p + tau d with tau = s t. It enters the
    # box at tau = `start`; t_max does not matter, and 2**60 stands for an infinite one.
    s, c = frames.scale(frame), frames.centre(frame)
    low, high = frames.lower_corner(frame), frames.upper_corner(frame)
    p = (o[0] - c[0]) * s, (o[1] - c[1]) * s, (o[2] - c[2]) * s
    inverse = inverse_of(d[0]), inverse_of(d[1]), inverse_of(d[2])
    start, stop = simd.greater(t_min * s, 0.0), simd.full_like(t_min, 2.0**60)
    start, _ = clip(frame, p, inverse, 0.0, start, stop)
    x = _cell(p[0] + start * d[0], low[0], high[0])
    y = _cell(p[1] + start * d[1], low[1], high[1])
    z = _cell(p[2] + start * d[2], low[2], high[2])
    return (octant_of(inverse) << 3 * CELL_BITS) | x | (y << 1) | (z << 2)


@kernel
def sort_window(rays, frame, window, begin, count):
    """Write the numbers begin..begin + count of rays to the window's permutation, sorted by key.

    The sort is stable. `frame` is the tree's. `count` must be at least HALF, the rays in a vector.
    """
    keys, counts, permutation = window
    for k in range(KEYS + 1):
        simd.poke(counts, k, np.int64(0))
    for i in range(0, count, HALF):
        # The last vector ends at the last ray, so it may overlap the one before.
        at = min(i, count - HALF)
        o, d, t_min, _ = read_lanes(rays, numbers_from(begin + at))
        simd.store(keys, at, _keys(frame, o, d, t_min))
    # counts[k + 1] becomes the number of rays with key k; then counts[k] the number of rays with
    # smaller keys, which is the place where the rays with key k begin.
    for i in range(count):
        key = simd.peek(keys, i) + 1
        simd.poke(counts, key, simd.peek(counts, key) + 1)
    total = np.int64(0)
    for k in range(KEYS):
        total += simd.peek(counts, k)
        simd.poke(counts, k, total)
    for i in range(count):
        key = simd.peek(keys, i)
        at = simd.peek(counts, key)
        simd.poke(permutation, at, begin + i)
        simd.poke(counts, key, at + 1)


@kernel
def is_coherent(rays, frame, window, begin, count):
    """Return whether most rays begin..begin + count have the sort key of the next ray, by a sample.

    Sorting such rays gains nothing. `window.keys` is overwritten.
    """
    if count < FEWEST:
        return False
    vectors = min(max(count // PER_VECTOR, 1), VECTORS)
    for k in range(vectors):
        # Scattered, as regular places may all lie on borders of tiles.
        at = begin + k * SCATTER % (count - HALF + 1)
        o, d, t_min, _ = read_lanes(rays, numbers_from(at))
        simd.store(window.keys, k * HALF, _keys(frame, o, d, t_min))
    alike = np.int64(0)
    for i in range(vectors * HALF):
        # The last ray of a vector is compared with the first one.
        other = i + 1 if (i + 1) % HALF != 0 else i + 1 - HALF
        alike += np.int64(simd.peek(window.keys, i) == simd.peek(window.keys, other))
    return 4 * alike >= 3 * vectors * HALF


@inlined
def order_within(order, window, begin, is_sorted, way):
    """Return `order` for the blocks of a window that begins at ray `begin`.

    If `is_sorted`, rays are taken by the permutation of the window. `way` replaces `order.kernel`.
    """
    # Blocks index the permutation by places in the batch, but that of the window begins at `begin`.
    permutation = simd.shifted(window.permutation, -begin) if is_sorted else order.permutation
    return Order(
        order.size, order.row, way, order.sort, order.queue, order.chunks, order.queued,
        is_sorted, permutation,
    )  # fmt: skip
