"""Compact groups: triangle groups of 16-bit numbers, of half the bytes, on a grid of their own.

A group has twelve rows of WIDTH int16: v0, e1 and e2 (x y z) in steps of the group's grid, a row
that begins with the grid's origin (x y z, in units of ORIGIN_UNIT) and the upper half of its step
as a float32, and the ids, two rows wide, as int32. A step is a power of two; so edges are exact in
float32, and v0 is rounded once. An unused lane has UNUSED for the x of v0, and the id -1.

The bounds extend those of `triangle_groups`, with its names. A vertex is at most g off in each
coordinate, half a step and what rounding of doubles adds: less than 0.501 steps. `bounds_of` adds
what follows from that; as sums of edges and of N are computed, not loaded, it bounds the largest
component of an edge by LONGEST steps, and P by s**2 / 4.

- U, V and W are d . ((a - p) x (b - p)) of two vertices, for any point p of the ray. If the ray
  meets the exact triangle, let p be there: the sum of the sizes of a - p is at most the exact s,
  which is at most s + 12 g. The two vertices' errors change the product by D g (s + 12 g) each and
  by 2 D g**2 together: by less than 2 D g (s + 13 g). If U, V and W are beyond that, the ray meets
  the stored triangle, and with p there the exact U, V and W, too, have the sign that they seem to
  have. In units of 24 e B D that is less than s * step * EDGE_SHARE + step**2 * EDGE_REST.
- t: the hit of the exact triangle is at most g a component from the point of the same weights of
  the stored one, which is in the plane of F: that is g M, in units of 24 e B M * step * SIZE_SHARE.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import exponent, power_of_two
from bvh.runtime import simd
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH

GRID, IDS = 9, 10
# Coarse enough for all of the local frame; the least step keeps g far below the rounding of v0.
ORIGIN_UNIT, LEAST_STEP = 2.0**-11, 2.0**-26
# The largest number of steps, before they are rounded, and after it.
MOST, LONGEST = 32000.0, 2.0**15
UNUSED = np.int16(-(2**15))

EDGE_SHARE, EDGE_REST = 1.01 * 2.0**24 / 24.0, 6.6 * 2.0**24 / 24.0
SIZE_SHARE, SIZE_REST = 0.51 * 2.0**24 / 24.0, 6.5 * LONGEST**2 / 96.0
# A factor that covers all roundings of sums and bounds here.
UP = 1.0 + 2.0**-19
# Added and subtracted, it rounds a double to an integer.
ROUNDED = 1.5 * 2.0**52

F, I2 = np.float32, np.int16(0)

_grid, _ = simd.field(np.int16, *range(GRID * WIDTH, GRID * WIDTH + 4))
_, _load_rows, _ = simd.rows(np.int16, *range(0, GRID * WIDTH, WIDTH))
_, _, _store_ids = simd.rows(np.int32, IDS * WIDTH)


@inlined
def _middle(low, high):
    """Return the middle of low..high in units of ORIGIN_UNIT, rounded, and limited to int16."""
    middle = np.floor((0.5 * low + 0.5 * high) / ORIGIN_UNIT + 0.5)
    return min(max(middle, 1.0 - LONGEST), LONGEST - 1.0)


# Coordinates in steps from an origin, rounded.
_steps = inlined(lambda x, origin, inverse: ((x - origin) * inverse + ROUNDED) - ROUNDED)


@inlined
def put(groups, at, used, ids, corners, low, high):
    """Fill the group that begins at `at` with triangles, by their corners (v0, v1, v2) in lanes.

    Lanes that are not `used` hold the corners of some used lane. `ids` are stored for all lanes.
    `low` and `high` are the box around all triangles. All coordinates are local.
    """
    # `reach`: the largest coordinate from the middle, or component of an edge; at most MOST steps.
    (v0, v1, v2), reach = corners, simd.splat(0.0, WIDTH)
    middle = _middle(low[0], high[0]), _middle(low[1], high[1]), _middle(low[2], high[2])
    for axis in range(3):
        for v in corners:
            reach = simd.greater(reach, abs(v[axis] - middle[axis] * ORIGIN_UNIT))
            reach = simd.greater(reach, abs(v[axis] - v0[axis]))
    # The least power of two that is larger than the largest lane of `reach` over MOST.
    step = power_of_two(exponent(-simd.lowest(-reach) / MOST) + 1)
    step = max(step, LEAST_STEP)
    # The loop below writes used lanes alone.
    put_unused(groups, at, ids)
    for axis in range(3):
        origin = middle[axis] * ORIGIN_UNIT
        simd.poke(groups, at + GRID * WIDTH + axis, np.int16(middle[axis]))
        a = _steps(v0[axis], origin, 1.0 / step)
        b, c = _steps(v1[axis], origin, 1.0 / step), _steps(v2[axis], origin, 1.0 / step)
        # Rows of v0, e1 and e2, three axes each.
        place = at + axis * WIDTH
        for steps in (a, b - a, c - a):
            before = simd.load(groups, place, WIDTH)
            simd.store(groups, place, simd.select(used, simd.convert(steps, I2), before))
            place += 3 * WIDTH
    # The lower half of the bits of a power of two is 0.
    simd.poke(groups, at + GRID * WIDTH + 3, np.int16(simd.as_ints(F(step)) >> 16))


@inlined
def put_unused(groups, at, ids):
    """Mark all lanes of the group at `at` as unused, by v0's x, and store their ids."""
    simd.store(groups, at, simd.splat(UNUSED, WIDTH))
    for row in range(1, GRID + 1):
        simd.store(groups, at + row * WIDTH, simd.splat(I2, WIDTH))
    _store_ids(groups, at, ids)


_float = inlined(lambda row: simd.convert(row, F(0.0)))


@inlined
def load(groups, at):
    """Return (v0, e1, e2, used, step) of the group that begins at `at`.

    The first three are vectors of lanes, in local coordinates, with e1 = v1 - v0 and e2 = v2 - v0.
    `used` is the mask of lanes with a triangle, and `step` is the step of the grid, a number.
    """
    # (i, j, k) is the grid's origin in units of ORIGIN_UNIT, `upper` the upper half of the step.
    rows, (i, j, k, upper) = _load_rows(groups, at, WIDTH), _grid(groups, at)
    x, y, z, a, b, c, d, e, f = rows
    step, unit = simd.as_floats(np.int32(upper << 16)), F(ORIGIN_UNIT)
    v0 = (
        simd.fma(_float(x), step, F(i) * unit),
        simd.fma(_float(y), step, F(j) * unit),
        simd.fma(_float(z), step, F(k) * unit),
    )
    e1 = _float(a) * step, _float(b) * step, _float(c) * step
    e2 = _float(d) * step, _float(e) * step, _float(f) * step
    return v0, e1, e2, x > UNUSED, step


@inlined
def widened(groups, at, low, high):
    """Return bounds (low, high) of distances to a group's triangles, widened by its rounding."""
    # An error of 0.501 steps a coordinate is a vector shorter than 0.9 steps. `upper` is the upper
    # half of the step's float32; the lower one is 0.
    _, _, _, upper = _grid(groups, at)
    off = F(0.9) * simd.as_floats(np.int32(upper << 16))
    return low - off, high + off


@inlined
def bounds_of(e1, e2, n, used, step):
    """Return (tolerance, size, grain) of a group's triangles, in lanes (see `triangle_groups`).

    `n` are the normals e1 x e2; `used` and `step` are those that `load` returns. The grain is the
    part of the tolerance that comes from the grid. Unused lanes get the tolerance -1.
    """
    # The factors and terms are derived at the top of this file; 2**-100 covers underflow.
    s = abs(e1[0]) + abs(e1[1]) + abs(e1[2]) + abs(e2[0]) + abs(e2[1]) + abs(e2[2])
    m, g = abs(n[0]) + abs(n[1]) + abs(n[2]), simd.splat(step, WIDTH)
    rest = simd.fma(g * g, F(EDGE_REST), F(2.0**-100))
    grain = simd.fma(s, g * F(EDGE_SHARE), rest)
    tolerance = simd.fma(s, simd.fma(g, F(EDGE_SHARE + 0.5 * LONGEST), F(UP)), rest)
    size = simd.fma(s, g * g * F(SIZE_REST), F(2.0**-100))
    size = simd.fma(m, simd.fma(g, F(SIZE_SHARE), F(UP)), size)
    return simd.select(used, tolerance, F(-1.0)), size, grain
