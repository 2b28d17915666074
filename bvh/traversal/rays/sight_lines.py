"""Lines of sight: rays between pairs of points that leave out both ends, HALF side by side."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF, NAN, SMALLEST
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays.blocks import HALF
from bvh.traversal.rays.ray_batch import read_axes

# The largest number below 1.
BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Lines(NamedTuple):
    """Lines of sight as rays."""

    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    finite: NDArray[np.uint8]  # whether both points are


class Ends(NamedTuple):
    """Pairs of points, the second ones named as `read_axes` does; steps as of `RayPointers`."""

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    o_step: int
    d_step: int


@inlined
def _largest(v):
    """Return the largest absolute coordinates of points that are not NaN."""
    return simd.greater(simd.greater(abs(v[0]), abs(v[1])), abs(v[2]))


@inlined
def _nothing(v):
    """Return 0 for points that are finite, NaN for others."""
    return v[0] * 0.0 + v[1] * 0.0 + v[2] * 0.0


@entry
def write_lines(p, q, margin, begin, end, lines):
    """Write the rays of the lines begin..end from p to q; one row may be that of all.

    The margin, left out at both ends, is a share of the largest coordinate. Lines between equal
    points, or points that are not finite, get the t_max NaN.
    """
    # Every operation is rounded as written: `SightQueries` computes single lines in Python.
    out = as_pointers(lines)
    ends = Ends(simd.pointer(p), simd.pointer(q), np.int64(len(p) > 1), np.int64(len(q) > 1))
    for first in range(begin, end, HALF):
        # The last vector repeats the last line.
        index = simd.convert(simd.lane_numbers(HALF), np.int64(0)) + np.int64(first)
        index = simd.lesser(index, np.int64(end) - 1)
        a, b = read_axes(ends, index)
        known = _nothing(a) + _nothing(b) == 0.0
        x, y, z = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        # Where the difference overflows, half of it does not, and the end is at t = 2.
        huge = _largest((x, y, z)) == INF
        x = simd.select(huge, 0.5 * b[0] - 0.5 * a[0], x)
        y = simd.select(huge, 0.5 * b[1] - 0.5 * a[1], y)
        z = simd.select(huge, 0.5 * b[2] - 0.5 * a[2], z)
        size, full = _largest((x, y, z)), simd.select(huge, 2.0, 1.0)
        u, v, w = x / size, y / size, z / size
        reach = simd.greater(_largest(a), _largest(b))
        # NaN for equal points.
        gap = margin * reach / (size * simd.sqrt(u * u + v * v + w * w))
        low, high = simd.greater(gap, SMALLEST), simd.lesser(full - gap, full * BELOW_ONE)
        high = simd.select(known & (gap == gap), high, NAN)
        bits = np.int64(simd.mask_bits(known))
        for k in range(HALF):
            i = simd.lane(index, k)
            simd.poke(out.directions, 3 * i, simd.lane(x, k))
            simd.poke(out.directions, 3 * i + 1, simd.lane(y, k))
            simd.poke(out.directions, 3 * i + 2, simd.lane(z, k))
            simd.poke(out.t_min, i, simd.lane(low, k))
            simd.poke(out.t_max, i, simd.lane(high, k))
            simd.poke(out.finite, i, np.uint8(bits >> k & 1))
