"""Morton order: keys along a space-filling curve, and their radix sort.

A key is a 32-bit code above a 32-bit row. Each bit of the code halves space across the longest
axis of the cell, so that cells are nearly cubes (Vinkler, Bittner and
Havran 2017, "Extended Morton codes for high performance bounding volume hierarchy construction").
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.jit import entry, inlined
from bvh.runtime.threads import share
from bvh.tree.builders.records import UPPER, bins_of, centre, load, scales

CODE_BITS = 32
AXIS_BITS = 16
# Digits of the radix sort.
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
# Least number of keys for a thread.
CHUNK = 65536


def bit_tables(extents: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return tables that spread the bits of each axis, and the number of bits of each.

    Row 2 a of the tables spreads the low 8 of an axis's 16 bits, row 2 a + 1 the high 8.
    """
    extents = np.array(extents, np.float64)
    bits = np.zeros(3, np.int64)
    positions: list[list[int]] = [[], [], []]
    for position in range(CODE_BITS - 1, -1, -1):
        axis = int(np.argmax(np.where(bits < AXIS_BITS, extents, -1.0)))
        extents[axis] *= 0.5
        bits[axis] += 1
        positions[axis].append(position)
    tables = np.zeros((6, 256), np.uint32)
    values = np.arange(256)
    for axis in range(3):
        for bit, position in enumerate(reversed(positions[axis])):
            row = 2 * axis + bit // 8
            tables[row] |= ((values >> (bit % 8)) & 1).astype(np.uint32) << np.uint32(position)
    return tables, bits


@inlined
def row_of(keys, i):
    """Return the row of a key's record."""
    return np.int64(keys[i] & np.uint64(0xFFFFFFFF))


@entry
def _make_keys(records, begin, end, boxes, tables, bits, keys):
    """Write the keys of a range of records; `keys` are those of all records."""
    box = load(boxes, 1)
    scale = scales(box, np.float32(1 << AXIS_BITS))
    shifts = AXIS_BITS - bits[0], AXIS_BITS - bits[1], AXIS_BITS - bits[2]
    for i in range(begin, end):
        x, y, z = bins_of(centre(load(records, i)), box, scale, (1 << AXIS_BITS) - 1)
        x, y, z = x >> shifts[0], y >> shifts[1], z >> shifts[2]
        code = tables[0, x & 255] | tables[1, x >> 8]
        code |= tables[2, y & 255] | tables[3, y >> 8]
        code |= tables[4, z & 255] | tables[5, z >> 8]
        keys[i] = (np.uint64(code) << np.uint64(32)) | np.uint64(i)


@entry
def _count_digits(keys, begin, end, shift, counts):
    """Count how often each digit occurs in a range of keys."""
    counts[:] = 0
    for i in range(begin, end):
        counts[np.int64((keys[i] >> shift) & np.uint64(DIGITS - 1))] += 1


@entry
def _first_positions(counts):
    """Replace the counts of each chunk by the positions of its first key of each digit."""
    position = 0
    for digit in range(DIGITS):
        for chunk in range(len(counts)):
            count = counts[chunk, digit]
            counts[chunk, digit] = position
            position += count


@entry
def _scatter(keys, begin, end, shift, positions, out):
    """Move a range of keys to their positions."""
    for i in range(begin, end):
        digit = np.int64((keys[i] >> shift) & np.uint64(DIGITS - 1))
        out[positions[digit]] = keys[i]
        positions[digit] += 1


def in_chunks(
    count: int, smallest: int, threads: int, work: Callable[[int, int, int], object]
) -> int:
    """Call work(chunk, begin, end) for equal chunks, at most one a thread; return their number."""
    size = max(-(-count // threads), smallest)
    share(count, size, lambda begin, end: work(begin // size, begin, end), threads)
    return -(-count // size)


def sorted_keys(
    records: NDArray[np.float32], boxes: NDArray[np.float32], threads: int
) -> NDArray[np.uint64]:
    """Return the keys of the records in the first half of the array in ascending order.

    `boxes` are that of all records and that of their centres. The order does not depend on the
    threads: equal codes keep the order of their rows.
    """
    count = len(records) // 2
    extents = boxes[1, UPPER : UPPER + 3].astype(np.float64) + boxes[1, :3]
    tables, bits = bit_tables(extents)
    keys, other = np.empty(count, np.uint64), np.empty(count, np.uint64)

    def make(_: int, begin: int, end: int) -> None:
        _make_keys(records, begin, end, boxes, tables, bits, keys)

    in_chunks(count, CHUNK, threads, make)
    for low in range(32, 32 + CODE_BITS, DIGIT_BITS):
        _sort_by_digit(keys, other, np.uint64(low), threads)
        keys, other = other, keys
    return keys


def _sort_by_digit(
    keys: NDArray[np.uint64], out: NDArray[np.uint64], shift: np.uint64, threads: int
) -> None:
    """Sort keys by the digit from bit `shift` on."""
    counts = np.empty((threads + 1, DIGITS), np.int64)

    def count_digits(chunk: int, begin: int, end: int) -> None:
        _count_digits(keys, begin, end, shift, counts[chunk])

    def scatter(chunk: int, begin: int, end: int) -> None:
        _scatter(keys, begin, end, shift, counts[chunk], out)

    chunks = in_chunks(len(keys), CHUNK, threads, count_digits)
    _first_positions(counts[:chunks])
    in_chunks(len(keys), CHUNK, threads, scatter)
