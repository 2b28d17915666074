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
from bvh.traversal.rays.ray_batch import numbers_from, read_axes
from bvh.traversal.rays.ray_numbers import largest_of

# The largest number below 1.
BELOW_ONE = float(np.nextafter(1.0, 0.0))


class Lines(NamedTuple):
    """Lines of sight as rays, whose origins are the first points."""

    directions: NDArray[np.float64]  # (n, 3), to the second points; half of that if it overflows
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    finite: NDArray[np.uint8]  # whether both points are


class Ends(NamedTuple):
    """Pairs of points, as those fields of `RayPointers` that `read_axes` reads."""

    origins: NDArray[np.float64]  # the first points
    directions: NDArray[np.float64]  # the second points
    o_step: int
    d_step: int


@inlined
def _zero_or_nan(v):
    """Return 0 in lanes where `v`, a vector for each axis, has finite components, NaN elsewhere."""
    return v[0] * 0.0 + v[1] * 0.0 + v[2] * 0.0


@entry
def write_lines(p, q, margin, begin, end, lines):
    """Write the lines begin..end from p to q, each (n, 3), or (1, 3) for all lines, to `lines`.

    `lines` are `Lines`. At both ends of a line a length is left out: `margin` times the largest
    coordinate of its points. Lines between equal points, or points not finite, get the t_max NaN.
    """
    # Every operation is rounded as written, as in `SightQueries`, which computes single lines.
    out = as_pointers(lines)
    ends = Ends(simd.pointer(p), simd.pointer(q), np.int64(len(p) > 1), np.int64(len(q) > 1))
    for first in range(begin, end, HALF):
        index = simd.lesser(numbers_from(np.int64(first)), np.int64(end) - 1)  # repeats the last
        a, b = read_axes(ends, index)
        finite = _zero_or_nan(a) + _zero_or_nan(b) == 0.0
        x, y, z = b[0] - a[0], b[1] - a[1], b[2] - a[2]
        # Where the difference overflows, half of it does not, and the end is at t = 2.
        huge = largest_of((x, y, z)) == INF
        x = simd.select(huge, 0.5 * b[0] - 0.5 * a[0], x)
        y = simd.select(huge, 0.5 * b[1] - 0.5 * a[1], y)
        z = simd.select(huge, 0.5 * b[2] - 0.5 * a[2], z)
        size, t_end = largest_of((x, y, z)), simd.select(huge, 2.0, 1.0)
        u, v, w = x / size, y / size, z / size
        reach = simd.greater(largest_of(a), largest_of(b))
        # How much of t is left out at each end: `margin` times the largest coordinate, over the
        # length; NaN for equal points.
        gap = margin * reach / (size * simd.sqrt(u * u + v * v + w * w))
        # Even without a margin, the ends themselves are left out.
        low, high = simd.greater(gap, SMALLEST), simd.lesser(t_end - gap, t_end * BELOW_ONE)
        high = simd.select(finite & (gap == gap), high, NAN)
        bits = np.int64(simd.mask_bits(finite))
        for k in range(HALF):
            i = simd.lane(index, k)
            simd.poke(out.directions, 3 * i, simd.lane(x, k))
            simd.poke(out.directions, 3 * i + 1, simd.lane(y, k))
            simd.poke(out.directions, 3 * i + 2, simd.lane(z, k))
            simd.poke(out.t_min, i, simd.lane(low, k))
            simd.poke(out.t_max, i, simd.lane(high, k))
            simd.poke(out.finite, i, np.uint8(bits >> k & 1))
