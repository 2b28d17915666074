"""Reads and writes of the vector layer, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import (
    address,
    as_ints,
    cycles,
    gather,
    gather_threes,
    lane_numbers,
    load,
    load_fours,
    load_threes,
    peek,
    peek_int,
    pointer,
    pointer_to,
    poke,
    prefetch_address,
    shifted,
    store,
    store_ints,
    three_of,
)
from bvh.runtime.simd.memory import load_bytes
from tests.runtime.test_simd import WIDTHS, Rng, assert_lanes


def memory_kernel(n: int) -> Any:
    """Compile all that reads and writes arrays of float32 and bytes."""

    @entry
    def move(given, small, places, out, wholes, longs):
        here, there = pointer(given), pointer(out)
        far = pointer_to(address(given, 5), np.float32(0))
        store(there, 0, load(here, 3, n))
        store(there, n, load(shifted(here, 2), 1, n))
        store(there, 2 * n, load(far, 0, n))
        store_ints(there, 3 * n, as_ints(load(here, 7, n)))
        for k in range(3):
            store(there, (4 + k) * n, load_threes(here, 2, n)[k])
        at = load(places, 0, n)
        store(there, 7 * n, gather(given, at, 3, 1))
        for k in range(n):
            poke(there, 8 * n + k, peek(here, k) + np.float32(1))
            store_ints(there, 9 * n + k, peek_int(here, k) + 1)
        store(wholes, 0, load_bytes(small, 1, n))
        store(wholes, n, lane_numbers(n))
        store(longs, 0, gather(places, at, 1, 0))
        # Memory that there is, and that there is not.
        prefetch_address(address(given, 0))
        prefetch_address(np.int64(0))
        begin = cycles()
        return address(here, 4) - address(given, 0), cycles() - begin

    return move


@pytest.mark.parametrize("n", WIDTHS)
def test_memory(n: int, rng: Rng) -> None:
    """Reads and writes begin at any element; nothing beside them is touched."""
    given = rng.normal(size=4 * n + 8).astype(np.float32)
    given[:4] = np.nan, np.inf, -0.0, 1e-45
    small = rng.integers(0, 256, n + 2).astype(np.uint8)
    places = rng.permutation(n).astype(np.int64)
    out, wholes, longs = (np.zeros(10 * n, np.float32), np.zeros(2 * n, np.int32), np.zeros(n, int))
    distance, ticks = memory_kernel(n)(given, small, places, out, wholes, longs)
    rows, bits = out.reshape(10, n), given.view(np.int32)
    wanted = [given[k : k + n] for k in (3, 3, 5, 7)]
    wanted += [given[2 + k : 2 + k + 3 * n : 3] for k in range(3)]
    wanted += [given[3 * places + 1], given[:n] + np.float32(1), (bits[:n] + 1).view(np.float32)]
    for i, (got, want) in enumerate(zip(rows, wanted, strict=True)):
        assert_lanes(got, want, i)
    assert np.array_equal(rows[3].view(np.int32), bits[7 : 7 + n])
    assert wholes.tolist() == [*small[1 : n + 1].tolist(), *range(n)]
    assert longs.tolist() == places[places].tolist()
    assert distance == 16 and ticks >= 0


def wide_kernel(n: int) -> Any:
    """Compile what reads and writes arrays of other numbers."""

    @entry
    def move(given, index, out):
        here, there = pointer(given), pointer(out)
        x, y, z = load_threes(here, 1, n)
        store(there, 0, x)
        store(there, n, y)
        store(there, 2 * n, z)
        store(there, 3 * n, gather(here, load(index, 0, n), 2, 1))
        for k in range(n):
            poke(there, 4 * n + k, peek(shifted(here, 1), k))
        for k in range(3):
            store(there, (5 + k) * n, gather_threes(here, load(index, 0, n))[k])
        for k in range(4):
            store(there, (8 + k) * n, load_fours(here, 2, n)[k])

    return move


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.int64])
@pytest.mark.parametrize("n", WIDTHS)
def test_memory_of_other_numbers(n: int, kind: Any, rng: Rng) -> None:
    """The same for doubles and integers."""
    given, out = rng.normal(scale=100.0, size=4 * n + 2).astype(kind), np.zeros((12, n), kind)
    index = rng.integers(0, n, n)
    wide_kernel(n)(given, index, out.reshape(-1))
    wanted = [given[1 + k : 1 + k + 3 * n : 3] for k in range(3)]
    wanted += [given[2 * index + 1], given[1 : n + 1], *(given[3 * index + k] for k in range(3))]
    wanted += [given[2 + k : 2 + k + 4 * n : 4] for k in range(4)]
    for got, want in zip(out, wanted, strict=True):
        assert np.array_equal(got, want)


def test_three_lanes() -> None:
    """As integers, up to the largest."""

    @entry
    def numbers(given):
        return three_of(load(given, 0, 4))

    given = np.array([1, 2**31 - 1, 0, -1], np.int32)
    assert numbers(given) == (1, 2**31 - 1, 0)
