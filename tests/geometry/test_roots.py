"""Searches for the double nearest to a root: right and in bounded steps, from any estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bvh.geometry.arithmetic.roots import STEPS, root_finder
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import kernel
from tests.geometry.test_boxes import INF, LARGEST, NAN

SMALLEST = math.ulp(0.0)


@kernel
def _beyond(shape, t, h, far):
    """Return the sign of the root `at + rest` less t + h; count the calls."""
    at, rest, calls = shape
    calls[0] += 1
    gap = (at - t) - h + rest
    return (1 if gap > 0.0 else 0) - (1 if gap < 0.0 else 0)


_nearest_root = root_finder(_beyond)


@entry
def _search(at, rest, estimate, calls):
    return _nearest_root((at, rest, calls), estimate, False)


@pytest.mark.parametrize("at", [0.0, SMALLEST, 1e-320, 2.0**-1022, 1e-80, 1.0, 2.0, 1e60, LARGEST])
def test_any_estimate(at: float) -> None:
    """Estimates that are right, close, far off, of the other sign, infinite or no number."""
    roots = [at, -at]
    estimates = [0.0, SMALLEST, 1e-300, 1e-80, 1.0, 1e88, LARGEST, INF, NAN]
    for root in roots:
        near = [math.nextafter(root, INF), math.nextafter(root, -INF), root * (1 - 1e-9), root]
        for estimate in [*near, *estimates, *(-x for x in estimates)]:
            calls = np.zeros(1, np.int64)
            assert _search(root, 0.0, estimate, calls) == root, estimate
            # Two beside the estimate, one at zero, one at the estimate, and one for the middle.
            assert calls[0] <= STEPS + 5, estimate


def test_ties_and_neighbours() -> None:
    """Of two nearest doubles the even one; what is not zero never becomes zero."""
    calls, unit = np.zeros(1, np.int64), math.ulp(1.0)
    for k in range(4):
        for estimate in (1.0, 1.0 + k * unit, 7.0, NAN):
            found = _search(1.0 + k * unit, 0.5 * unit, estimate, calls)
            assert found == 1.0 + (k + k % 2) * unit
            found = _search(-1.0 - k * unit, -0.5 * unit, -estimate, calls)
            assert found == -1.0 - (k + k % 2) * unit
    assert _search(0.0, SMALLEST, 0.0, calls) == SMALLEST
    assert _search(0.0, -SMALLEST, 0.0, calls) == -SMALLEST
