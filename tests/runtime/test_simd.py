"""The vector layer, operation by operation and lane by lane, against numpy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaError

from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import (
    HAS_FMA,
    WIDTH,
    as_floats,
    as_ints,
    compress_order,
    convert,
    fma,
    full_like,
    greater,
    lane,
    lesser,
    load,
    lowest,
    lowest_bit,
    mask_bits,
    permute,
    popcount,
    select,
    splat,
    sqrt,
    store,
    store_ints,
)
from bvh.runtime.simd.lanes import compress_orders

Array = np.ndarray
Rng = np.random.Generator
# Of other widths, CI runs these tests with BVH_WIDTH.
WIDTHS = [n if n == simd.WIDTH else pytest.param(n, marks=pytest.mark.long) for n in (4, 8, 16)]
FLOATS = [np.float32, np.float64]
INTS = [np.int32, np.int64]
SIZE = 512


def floats(kind: Any, rng: Rng) -> tuple[Array, Array, Array]:
    """Return operands: every pair of special numbers, then numbers of all sizes and alike ones."""
    info = np.finfo(kind)
    special = [0.0, 1.0, 1.0 + info.eps, 3.0, info.max, info.tiny, info.smallest_subnormal, np.inf]
    special = np.array([*special, *(-np.array(special, kind)), np.nan], kind)
    pairs = np.array(np.meshgrid(special, special)).reshape(2, -1).astype(kind)
    span = np.log2(float(info.max)) / 2
    more = rng.normal(size=(3, SIZE)) * 2.0 ** rng.uniform(-span, span, (3, SIZE))
    more[:, ::2] = rng.normal(size=(3, SIZE // 2))
    a, b, c = more.astype(kind)
    n = pairs.shape[1]
    a[:n], b[:n] = pairs
    c[:n] = special[rng.integers(0, len(special), n)]
    with np.errstate(all="ignore"):
        # Sums that cancel, whose last bits only a fused product has.
        c[n::2] = -(a[n::2] * b[n::2])
    return a, b, c


def ints(kind: Any, rng: Rng) -> tuple[Array, Array, Array]:
    """Return operands: every pair of special numbers, then numbers of all sizes."""
    info = np.iinfo(kind)
    special = np.array([0, 1, 2, -1, -2, info.max, info.min, info.min + 1], kind)
    more = rng.integers(info.min, info.max, (3, SIZE), kind, endpoint=True)
    more >>= rng.integers(0, info.bits, (3, SIZE)).astype(kind)
    n = len(special) ** 2
    more[:2, :n] = np.array(np.meshgrid(special, special)).reshape(2, -1)
    return tuple(more)


def assert_lanes(got: Array, wanted: Array, what: object = "") -> None:
    """Compare bit for bit, but for which NaN it is."""
    assert got.dtype == wanted.dtype, what
    whole = f"i{got.itemsize}"
    same = (got.view(whole) == wanted.view(whole)) | ((got != got) & (wanted != wanted))
    wrong = np.flatnonzero(~same)
    assert len(wrong) == 0, (what, wrong[:5], got[wrong[:5]], wanted[wrong[:5]])


def bits_of(mask: Array, n: int) -> Array:
    """Return what `mask_bits` gives for n lanes at a time."""
    return (mask.reshape(-1, n) << np.arange(n)).sum(axis=1)


def rounded(x: Fraction, kind: Any) -> Any:
    """Return the float nearest to a fraction, ties to even."""
    info = np.finfo(kind)
    # The exponent of the last place of a float as large as x.
    top = abs(x.numerator).bit_length() - x.denominator.bit_length()
    top -= abs(x) < Fraction(2) ** top
    last = max(top, int(info.minexp)) - int(info.nmant)
    whole = round(x / Fraction(2) ** last)
    with np.errstate(over="ignore"):
        return kind(np.copysign(np.ldexp(np.float64(whole), last), -1.0 if x < 0 else 1.0))


def fused(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once."""
    kind = a.dtype.type
    result = np.empty_like(a)
    for i, (x, y, z) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if np.isfinite([x, y, z]).all():
            exact = Fraction(x) * Fraction(y) + Fraction(z)
            result[i] = rounded(exact, kind) if exact else a[i] * b[i] + c[i]
        else:
            # The size of what is finite does not matter.
            x, y, z = (np.sign(v) if np.isfinite(v) else v for v in (x, y, z))
            result[i] = x * y + z
    return result


COMPARISONS = [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal]


def common_kernel(n: int) -> Any:
    """Compile what vectors of all numbers can do."""

    @entry
    def common(a, b, c, s, clean, order, out, masks, ends):
        for i in range(0, len(a), n):
            x, y, z = load(a, i, n), load(b, i, n), load(c, i, n)
            size = len(a)
            results = (
                x + y, x - y, x * y, -x, abs(x), lesser(x, y), greater(x, y), select(x < y, x, z),
                x * s, s - x, splat(s, n) + y, permute(x, load(order, i, n)),
            )  # fmt: skip
            for k in range(len(results)):
                store(out, k * size + i, results[k])
            less = x < y
            m = (
                less, x <= y, x > y, x >= y, x == y, x != y, x < s, s <= x,
                less & (y < z), less | (y < z), less ^ (y < z), ~less,
                splat(a[i] < b[i], n), less == (y < z),
            )  # fmt: skip
            for k in range(len(m)):
                masks[k, i // n] = mask_bits(m[k])
            ends[0, i // n] = lowest(load(clean, i, n))
            ends[1, i // n] = lane(x, i // n % n)

    return common


def check_common(n: int, a: Array, b: Array, c: Array, order: Array) -> None:
    """Run the above and compare."""
    kind, size, s = a.dtype.type, len(a), a.dtype.type(3)
    out, masks = np.empty((12, size), kind), np.empty((14, size // n), np.int64)
    ends, clean = np.empty((2, size // n), kind), np.where(np.isnan(b), kind(7), b)
    common_kernel(n)(a, b, c, s, clean, order, out.reshape(-1), masks, ends)
    with np.errstate(all="ignore"):
        wanted = [
            a + b, a - b, a * b, -a, abs(a), np.where(a < b, a, b), np.where(a > b, a, b),
            np.where(a < b, a, c), a * s, s - a, s + b,
            np.take_along_axis(a.reshape(-1, n), order.reshape(-1, n) & (n - 1), 1).reshape(-1),
        ]  # fmt: skip
    for i, (got, want) in enumerate(zip(out, wanted, strict=True)):
        assert_lanes(got, want.astype(kind), i)
    p, q = a < b, b < c
    wanted = [compare(a, b) for compare in COMPARISONS]
    wanted += [a < s, s <= a, p & q, p | q, p ^ q, ~p, np.repeat(p[::n], n), p == q]
    for i, (got, want) in enumerate(zip(masks, wanted, strict=True)):
        assert np.array_equal(got, bits_of(want, n)), i
    assert np.array_equal(ends[0], clean.reshape(-1, n).min(axis=1))
    groups = np.arange(size // n)
    assert_lanes(ends[1], a.reshape(-1, n)[groups, groups % n])


@pytest.mark.parametrize("kind", FLOATS + INTS)
@pytest.mark.parametrize("n", WIDTHS)
def test_what_all_numbers_can_do(n: int, kind: Any, rng: Rng) -> None:
    """Arithmetic, comparisons, masks, choices; NaN, infinities and signed zeros among them."""
    make = floats if kind in FLOATS else ints
    # Of an index, the low bits count.
    order = rng.integers(-(2**31), 2**31, SIZE).astype(np.int32)
    check_common(n, *make(kind, rng), order)


def float_kernel(n: int, other: Any, whole: Any) -> Any:
    """Compile what vectors of floats can do besides."""

    @entry
    def more(a, b, c, s, small, out, others, wholes):
        size = len(a)
        for i in range(0, size, n):
            x, y, z = load(a, i, n), load(b, i, n), load(c, i, n)
            results = (
                x / y, s / x, simd.fused(x, y, z), simd.fused(x, s, z), simd.fused(x, y, s),
                as_floats(as_ints(x)), as_floats(as_ints(x) ^ as_ints(y)), sqrt(x), fma(x, y, z),
            )  # fmt: skip
            for k in range(len(results)):
                store(out, k * size + i, results[k])
            store(others, i, convert(x, other))
            store(wholes, i, as_ints(x))
            store(wholes, size + i, convert(load(small, i, n), whole))

    return more


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("n", WIDTHS)
def test_what_floats_can_do(n: int, kind: Any, rng: Rng) -> None:
    """Quotients, fused products, roots, conversions, bits."""
    a, b, c = floats(kind, rng)
    other = np.float64 if kind is np.float32 else np.float32
    whole = np.int32 if kind is np.float32 else np.int64
    s, small = kind(-1.75), rng.uniform(-3e4, 3e4, SIZE).astype(kind)
    out, others, wholes = (
        np.empty((9, SIZE), kind),
        np.empty(SIZE, other),
        np.empty(2 * SIZE, whole),
    )
    float_kernel(n, other(0), whole(0))(a, b, c, s, small, out.reshape(-1), others, wholes)
    with np.errstate(all="ignore"):
        same = np.full(SIZE, s)
        wanted = [a / b, s / a, fused(a, b, c), fused(a, same, c), fused(a, b, same), a]
        wanted += [(a.view(whole) ^ b.view(whole)).view(kind), np.sqrt(a)]
        wanted.append(fused(a, b, c) if HAS_FMA or kind is np.float64 else a * b + c)
        assert_lanes(others, a.astype(other), "convert")
    for i, (got, want) in enumerate(zip(out, wanted, strict=True)):
        assert_lanes(got, want, i)
    assert np.array_equal(wholes[:SIZE], a.view(whole))
    assert np.array_equal(wholes[SIZE:], small.astype(whole))


def int_kernel(n: int, other: Any, real: Any) -> Any:
    """Compile what vectors of integers can do besides."""

    @entry
    def more(a, b, shifts, out, others, reals):
        size = len(a)
        for i in range(0, size, n):
            x, y, by = load(a, i, n), load(b, i, n), load(shifts, i, n)
            results = (x & y, x | y, x ^ y, ~x, x << by, x >> by, x << 3, x >> 1, x & 6)
            for k in range(len(results)):
                store(out, k * size + i, results[k])
            store(others, i, convert(x, other))
            store(reals, i, as_floats(x))
            store(reals, size + i, convert(x, real))

    return more


@pytest.mark.parametrize("kind", INTS)
@pytest.mark.parametrize("n", WIDTHS)
def test_what_integers_can_do(n: int, kind: Any, rng: Rng) -> None:
    """Bits, shifts that fill with zeros, conversions."""
    a, b, _ = ints(kind, rng)
    shifts = rng.integers(0, 8 * a.itemsize, SIZE).astype(kind)
    other = np.int64 if kind is np.int32 else np.int32
    real = np.float32 if kind is np.int32 else np.float64
    out, others, reals = np.empty((9, SIZE), kind), np.empty(SIZE, other), np.empty(2 * SIZE, real)
    int_kernel(n, other(0), real(0))(a, b, shifts, out.reshape(-1), others, reals)
    plain = a.view(f"u{a.itemsize}")
    right = [(plain >> by.astype(plain.dtype)).view(kind) for by in (shifts, kind(1))]
    wanted = [a & b, a | b, a ^ b, ~a, a << shifts, right[0], a << kind(3), right[1], a & kind(6)]
    for i, (got, want) in enumerate(zip(out, wanted, strict=True)):
        assert np.array_equal(got, want), i
    assert np.array_equal(others, a.astype(other))
    assert np.array_equal(reals[:SIZE].view(kind), a)
    assert np.array_equal(reals[SIZE:], a.astype(real))


@entry
def _bits(given, counts, orders):
    """Count bits, and tell how lanes are moved to the front."""
    for i in range(len(given)):
        counts[i, 0] = popcount(given[i])
        counts[i, 1] = lowest_bit(given[i])
        store(orders, i * WIDTH, compress_order(given[i] & ((1 << WIDTH) - 1)))


def test_bits(rng: Rng) -> None:
    """Set bits, the lowest of them, and lanes of a mask brought to the front."""
    more = rng.integers(-(2**63), 2**63 - 1, 500, endpoint=True) >> rng.integers(0, 64, 500)
    given = np.array([*range(256), -1, -(2**63), 2**63 - 1, *more, *1 << np.arange(63)])
    counts, orders = np.zeros((len(given), 2), np.int64), np.zeros((len(given), WIDTH), np.int32)
    _bits(given, counts, orders.reshape(-1))
    for number, row, order in zip(given.tolist(), counts.tolist(), orders.tolist(), strict=True):
        word = number & (2**64 - 1)
        low = (word & -word).bit_length() - 1 if word else 64
        assert row == [word.bit_count(), low]
        lanes = [k for k in range(WIDTH) if word >> k & 1]
        assert order[: len(lanes)] == lanes
    for n in (4, 8):
        for mask, order in enumerate(compress_orders(n).tolist()):
            lanes = [k for k in range(n) if mask >> k & 1]
            assert order[: len(lanes)] == lanes and sorted(order) == list(range(n))


MIXED = {
    "lanes of two types": lambda a, b: load(a, 0, 4) + load(b, 0, 4),
    "other numbers of lanes": lambda a, b: load(a, 0, 4) + load(a, 0, 8),
    "bits of floats": lambda a, b: load(a, 0, 4) & load(a, 0, 4),
    "shifted floats": lambda a, b: load(a, 0, 4) << 1,
    "divided integers": lambda a, b: load(b, 0, 4) / load(b, 0, 4),
    "fused integers": lambda a, b: fma(load(b, 0, 4), load(b, 0, 4), load(b, 0, 4)),
    "an extreme of two types": lambda a, b: lesser(load(a, 0, 4), load(b, 0, 4)),
    "a choice of two types": lambda a, b: select(load(a, 0, 4) < 0, load(a, 0, 4), load(b, 0, 4)),
    "a number in place of a mask": lambda a, b: mask_bits(load(b, 0, 4)),
    "a store of another type": lambda a, b: store(a, 0, load(b, 0, 4)),
}


@pytest.mark.parametrize("what", MIXED)
def test_what_does_not_go_together(what: str) -> None:
    """It is refused when a kernel is compiled."""
    body = numba.njit(MIXED[what])

    @numba.njit
    def kernel(a, b):
        body(a, b)

    with pytest.raises(NumbaError):
        kernel(np.zeros(8, np.float32), np.zeros(8, np.int32))


@entry
def _mix(x, y, out):
    lanes = splat(x, 4)
    store(out, 0, greater(lanes, y))
    store(out, 4, lesser(y, lanes))
    store(out, 8, select(lanes < y, 1.0, lanes))
    store(out, 12, full_like(lanes, y))
    store(out, 16, greater(x, y))
    store(out, 17, lesser(x, y))
    store(out, 18, select(x < y, x, 2.0))
    store(out, 19, full_like(x, y))
    store_ints(out, 20, as_ints(x) >> 63)
    store_ints(out, 21, as_ints(lanes) >> 63)


def test_lanes_and_scalars_mix() -> None:
    """Doubles are rounded where they are stored as float32."""
    for x, y in ((1.1, 2.2), (-3.3, -4.4), (np.nan, 0.1), (0.1, np.nan)):
        out = np.zeros(25, np.float32)
        _mix(x, y, out)
        larger, smaller = (x if x > y else y), (x if x < y else y)
        wanted = [larger, y if y < x else x, 1.0 if x < y else x, y]
        wanted = [*np.repeat(wanted, 4), larger, smaller, x if x < y else 2.0, y]
        assert np.array_equal(out[:20], np.array(wanted, np.float32), equal_nan=True), (x, y)
        sign = int(np.signbit(x))
        assert out[20:].view(np.int32).tolist() == [-sign] + 4 * [sign], (x, y)
