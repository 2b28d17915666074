"""Numbers of a ray, which blocks, slots and moved rays hold in the same rows.

In a block WIDTH rays lie side by side, so that a ray's rows are WIDTH apart; in a slot they are
neighbours. Functions here take *numbers*, (pointer, stride): a pointer to the ray's row 0, and how
far apart its rows are. Distances in rows are tau: t in units of a frame, counted from where the ray
enters the root's box (see `ray_setup`).

| rows | numbers of a ray |
|---|---|
| NEAR, FAR, INVERSE (3 each) | of the slab test, by axis |
| ORIGIN, DIRECTION (3 each) | in the local frame, where the ray enters the root's box |
| EDGE, T_ERROR | factors of the error bounds of the filter of triangles |
| LOW, END | the interval of tau; END is the upper bound of the closest hit so far |
| SURE_LOW, SURE_HIGH | the interval of tau that surely is within t_min..t_max |
| SLACK | error bound of tau; infinite where the float32 tests are disabled |
| BEST_LOW | the lower bound of the closest hit so far; infinite without a hit |
| EDGE_FLOOR, T_SLOPE, T_FLOOR | in the BLAS of an instance: more terms of the filter's bounds |

Of other modules, only `blocks` and `slots`, which define layouts, use these names of rows.
"""

from typing import NamedTuple

from bvh.runtime.jit import inlined
from bvh.runtime.simd import Vec, greater, splat_rows, store

NEAR, FAR, INVERSE, ORIGIN, DIRECTION = 0, 3, 6, 9, 12
EDGE, T_ERROR, LOW, END, SURE_LOW, SURE_HIGH, SLACK, BEST_LOW = range(15, 23)
EDGE_FLOOR, T_SLOPE, T_FLOOR = 23, 24, 25
ROWS = 26

# Functions of the ray's numbers, (pointer, stride), that copy a number into all lanes of a vector;
# those of the first five return a vector for each axis.
near, far, inverse, origin, direction = (
    splat_rows(row, row + 1, row + 2) for row in (NEAR, FAR, INVERSE, ORIGIN, DIRECTION)
)
edge, t_error, low, end = map(splat_rows, (EDGE, T_ERROR, LOW, END))
sure_low, sure_high, slack = map(splat_rows, (SURE_LOW, SURE_HIGH, SLACK))
edge_floor, t_slope, t_floor = map(splat_rows, (EDGE_FLOOR, T_SLOPE, T_FLOOR))


# The largest absolute value of three components, numbers or vectors; it is NaN exactly where the
# third component is.
largest_of = inlined(lambda v: greater(abs(v[0]), greater(abs(v[1]), abs(v[2]))))


class Limits(NamedTuple):
    """The rows EDGE to BEST_LOW of the table above, of one ray or of a ray in each lane."""

    edge: float | Vec
    t_error: float | Vec
    low: float | Vec
    end: float | Vec
    sure_low: float | Vec
    sure_high: float | Vec
    slack: float | Vec
    best_low: float | Vec


@inlined
def write_axis(memory, at, stride, p, d, inverse, margin):
    """Write the rows NEAR, FAR, INVERSE, ORIGIN and DIRECTION of one axis, or of all axes at once.

    The ray meets a plane of a box at plane * INVERSE + NEAR, or + FAR if it leaves the box there.

    memory, at, stride : row NEAR is at index `at` of `memory`, row k at `at` + k * `stride`.
    p, d, inverse : the ray's origin and direction, and 1 / direction.
    margin : how far the planes of boxes are moved outward.
    """
    # For all axes at once, p, d and `inverse` are vectors of four lanes, of which the last is
    # unused, and `stride` is 1. What the last lane stores is overwritten by the next rows, that of
    # DIRECTION by `write_limits`.
    across, slack = p * inverse, abs(inverse) * margin
    store(memory, at + NEAR * stride, -across - slack)
    store(memory, at + FAR * stride, slack - across)
    store(memory, at + INVERSE * stride, inverse)
    store(memory, at + ORIGIN * stride, p)
    store(memory, at + DIRECTION * stride, d)


@inlined
def write_axes(memory, at, stride, p, d, inverse, margin):
    """Write the rows NEAR to DIRECTION of a ray, or of rays in lanes, `stride` apart, from `at` on.

    p, d, inverse : the origin, the direction and 1 / direction, three components each.
    margin : how far the planes of boxes are moved outward.
    """
    write_axis(memory, at, stride, p[0], d[0], inverse[0], margin)
    write_axis(memory, at + stride, stride, p[1], d[1], inverse[1], margin)
    write_axis(memory, at + 2 * stride, stride, p[2], d[2], inverse[2], margin)


@inlined
def write_limits(memory, at, stride, limits):
    """Write `Limits` to the rows EDGE to BEST_LOW of a ray whose row 0 is at index `at`.

    Rows are `stride` apart. Ray and limits may be of one ray or of rays in lanes.
    """
    store(memory, at + EDGE * stride, limits.edge)
    store(memory, at + T_ERROR * stride, limits.t_error)
    store(memory, at + LOW * stride, limits.low)
    store(memory, at + END * stride, limits.end)
    store(memory, at + SURE_LOW * stride, limits.sure_low)
    store(memory, at + SURE_HIGH * stride, limits.sure_high)
    store(memory, at + SLACK * stride, limits.slack)
    store(memory, at + BEST_LOW * stride, limits.best_low)


@inlined
def write_floors(memory, at, stride, edge, slope, t):
    """Write the rows EDGE_FLOOR, T_SLOPE and T_FLOOR of a ray in a BLAS: `edge`, `slope` and `t`.

    They are terms of the filter's error bounds. The ray's row 0 is at index `at` of `memory`, and
    rows are `stride` apart.
    """
    store(memory, at + EDGE_FLOOR * stride, edge)
    store(memory, at + T_SLOPE * stride, slope)
    store(memory, at + T_FLOOR * stride, t)
