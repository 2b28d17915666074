"""The exact fallback on its own, against Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from bvh.geometry.arithmetic import exact_sums
from bvh.geometry.arithmetic.edge_sides import filtered_side
from bvh.geometry.arithmetic.floats import reach_of, vector
from bvh.geometry.triangles import scaled_ray
from bvh.runtime.calls.entries import entry
from tests.oracles.confirmed import confirm, digest, is_confirmed


@entry
def _signs(o, d, a, b, out, undecided):
    for i in range(len(out)):
        p, r, x, y = vector(o, i), vector(d, i), vector(a, i), vector(b, i)
        out[i] = exact_sums.triple_sign(p, r, x, y)
        scaled, floor, _, _ = scaled_ray(p, r, reach_of(p, x, y))
        fast = filtered_side(p, scaled, floor, x, y)
        undecided[i] = fast == 0
        if fast != 0 and fast != out[i]:
            out[i] = 9


@entry
def _quotient(n, d):
    top, bottom = exact_sums.new_sum(), exact_sums.new_sum()
    for i in range(len(n)):
        exact_sums.add_product(top, 1.0, n[i, 0], n[i, 1], n[i, 2], n[i, 3])
    for i in range(len(d)):
        exact_sums.add_product(bottom, 1.0, d[i, 0], d[i, 1], d[i, 2], d[i, 3])
    return exact_sums.divide(top, bottom)


@entry
def _leading(n):
    total = exact_sums.new_sum()
    for i in range(len(n)):
        exact_sums.add_product(total, 1.0, n[i, 0], n[i, 1], n[i, 2], n[i, 3])
    (high, low), e = exact_sums.leading(total)
    return high, low, e


def as_integers(*vectors: np.ndarray) -> list[list[int]]:
    """Scale doubles by one power of two, so that all become integers."""
    parts = [[math.frexp(x) for x in v] for v in vectors]
    lowest = min((e for v in parts for m, e in v if m), default=0)
    return [[int(m * 2.0**53) << (e - lowest) if m else 0 for m, e in v] for v in parts]


def true_sign(o: np.ndarray, d: np.ndarray, a: np.ndarray, b: np.ndarray) -> int:
    """Return the sign of d . ((a-o) x (b-o)) in integer arithmetic."""
    (o_, a_, b_), (d_,) = as_integers(o, a, b), as_integers(d)
    p, q = (
        [x - y for x, y in zip(a_, o_, strict=True)],
        [x - y for x, y in zip(b_, o_, strict=True)],
    )
    value = sum(
        d_[i] * (p[(i + 1) % 3] * q[(i + 2) % 3] - p[(i + 2) % 3] * q[(i + 1) % 3])
        for i in range(3)
    )
    return (value > 0) - (value < 0)


def round_fraction(value: Fraction) -> float:
    """Round to the nearest double; non-zero never to 0, nothing to inf."""
    if value == 0:
        return 0.0
    try:
        result = value.numerator / value.denominator
    except OverflowError:
        result = math.inf if value > 0 else -math.inf
    limit = np.finfo(np.float64).max
    tiny = 5e-324 if value > 0 else -5e-324
    return float(np.clip(result, -limit, limit)) or tiny


def degenerate_triples(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return (o, d, a, b) whose volume is zero or next to it, at all scales."""
    o, a = rng.normal(size=(2, n, 3))
    if kind == "lattice":
        o, a = rng.integers(-50, 50, (2, n, 3)).astype(float)
    elif kind == "far":
        o *= 10.0 ** rng.integers(0, 13, (n, 1))
    elif kind == "needle":
        a = o + rng.normal(size=(n, 1)) * rng.normal(size=3) + 1e-13 * rng.normal(size=(n, 3))
    b = np.roll(a, 1, axis=0)
    # Aim at a point of the line through a and b, which makes the volume zero before rounding.
    w = rng.normal(size=(n, 1)) if kind != "lattice" else rng.integers(-3, 4, (n, 1))
    d = a + w * (b - a) - o
    if kind == "ulp":
        d = np.nextafter(d, rng.choice([-np.inf, np.inf], d.shape))
    if kind == "spread":
        d *= 2.0 ** rng.integers(-600, 600, (n, 1))
    if kind == "scaled":
        s = 2.0 ** rng.integers(-480, 480, (n, 1))
        o, a, b, d = o * s, a * s, b * s, d * s
    if kind == "mixed":
        # Components of very different size: nothing may be lost below the largest.
        o, a, b, d = (x * 2.0 ** rng.integers(-330, 330, (n, 3)) for x in (o, a, b, d))
    if kind == "denormal":
        d = np.where(rng.random((n, 3)) < 0.5, d, rng.integers(-9, 9, (n, 3)) * 5e-324)
    return o, d, a, b


KINDS = ("plain", "lattice", "far", "needle", "ulp", "spread", "scaled", "mixed", "denormal")


@pytest.mark.parametrize("kind", KINDS)
def test_sign_of_degenerate_triples(kind: str, rng: np.random.Generator) -> None:
    """12 000 of each kind, 108 000 in all: the exact sign is right, the filter never wrong."""
    n = 12_000
    o, d, a, b = degenerate_triples(kind, n, rng)
    got, undecided = np.empty(n, np.int64), np.empty(n, np.bool_)
    _signs(o, d, a, b, got, undecided)
    case = digest("signs of triples", o, d, a, b, got)
    if not is_confirmed(case):
        want = [true_sign(*row) for row in zip(o, d, a, b, strict=True)]
        assert np.array_equal(got, want)
        confirm(case)
    if kind == "lattice":
        assert np.count_nonzero(got == 0) > n // 2
    if kind in ("plain", "lattice", "ulp"):
        assert undecided.any()


def test_sign_of_huge_and_tiny() -> None:
    """The whole range of doubles at once: 2**1023 beside 2**-1074."""
    big, small = 1.7976931348623157e308, 5e-324
    o, d = np.zeros((1, 3)), np.array([[big, small, 0.0]])
    a, b = np.array([[big, big, 0.0]]), np.array([[0.0, small, small]])
    got, undecided = np.empty(1, np.int64), np.empty(1, np.bool_)
    _signs(o, d, a, b, got, undecided)
    assert got[0] == true_sign(o[0], d[0], a[0], b[0]) != 0


@pytest.mark.parametrize("span", [1, 40, 250, 1000])
def test_quotient_is_correctly_rounded(span: int, rng: np.random.Generator) -> None:
    """Sums of products of four doubles, divided, against fractions."""
    rows = [(_products(span, rng), _products(span, rng)) for _ in range(600)]
    found = [_quotient(n, d) for n, d in rows]
    case = digest("quotients", *(part for row in rows for part in row), found)
    if is_confirmed(case):
        return
    for row, got in zip(rows, found, strict=True):
        top, bottom = (sum(math.prod(map(Fraction, x)) for x in part) for part in row)
        if bottom:
            assert got == round_fraction(Fraction(top) / bottom)
    confirm(case)


def _products(span: int, rng: np.random.Generator) -> np.ndarray:
    shape = (rng.integers(1, 6), 4)
    most = 2**53 if rng.random() < 0.5 else 9
    m = rng.integers(-most, most, shape).astype(float)
    return np.ldexp(m, rng.integers(-span, max(span - 60, 1), shape))


def test_quotient_ties_and_limits() -> None:
    """Halfway cases go to even; denormals, overflow and underflow stop at the last double."""

    def divide(n: float, d: float, scale: tuple[float, float] = (1.0, 1.0)) -> float:
        row = np.array([[n, *scale, 1.0]])
        return float(_quotient(row, np.array([[d, 1.0, 1.0, 1.0]])))

    odd = 2.0**53 + 2.0
    assert divide(odd, 2.0) == odd / 2
    assert _quotient(np.array([[2.0**53, 1, 1, 1], [1.0, 1, 1, 1.0]]), np.ones((1, 4))) == 2.0**53
    assert (
        _quotient(np.array([[2.0**53, 1, 1, 1], [3.0, 1, 1, 1.0]]), np.ones((1, 4))) == 2.0**53 + 4
    )
    assert divide(3.0, 2.0, (5e-324, 1.0)) == 5e-324 * 2  # 1.5 units: to even
    assert divide(1.0, 4.0, (5e-324, 1.0)) == 5e-324  # never to zero
    assert divide(-1.0, 4.0, (5e-324, 1.0)) == -5e-324
    assert divide(1e300, 1.0, (1e300, 1e300)) == np.finfo(np.float64).max
    assert divide(-1e300, 1.0, (1e300, 1e300)) == -np.finfo(np.float64).max
    zero = _quotient(np.array([[1.0, 1, 1, 1], [-1.0, 1, 1, 1]]), np.ones((1, 4)))
    assert zero == 0.0 and math.copysign(1.0, zero) == 1.0


def test_leading(rng: np.random.Generator) -> None:
    """Sums of four factors of any size, to 2**-63 of themselves, with their exponents apart."""
    tiny, huge = 5e-324, 1.7976931348623157e308
    rows = [[[tiny] * 4], [[-huge] * 4, [huge] * 4], [[1.0] * 4, [-1.0, 1.0, 1.0, 1.0]]]
    for _ in range(100):
        x = rng.normal(size=(4, 4)) * 2.0 ** rng.integers(-1040, 1000, (4, 4))
        rows += [x.tolist(), [x[0].tolist(), (-x[0] * [1, 1, 1, 1 + 2.0**-50]).tolist()]]
    for row in rows:
        exact = sum((math.prod(map(Fraction, x)) for x in row), Fraction(0))
        high, low, e = _leading(np.array(row))
        # The high part alone is the nearest double of both.
        assert high + low == high
        got = (Fraction(high) + Fraction(low)) * Fraction(2) ** e
        assert abs(got - exact) <= abs(exact) * Fraction(2) ** -63
