"""The world metric of an instance, and distances from points to its boxes and triangles by it.

A point q and a vertex v in the local frame of a tree (see `frame`), whose map to the world has the
linear part L, and scale 2**k, are |L (q - v)| * 2**-k apart in the world. K = L * 2**-e has entries
of at most 1, so the *stretched* distance |K (q - v)| is that of the world times the scale 2**(k -
e). With n the lengths of K's columns,

    |K v| <= n[0] |v[0]| + n[1] |v[1]| + n[2] |v[2]|,

which bounds the effect of errors of coordinates. Boxes have a distance of components x, y, z along
the axes of the tree, for which

    |K v|**2 >= w[0] x**2 + w[1] y**2 + w[2] z**2,    w[i] = n[i]**2 * lambda,

where lambda is the least eigenvalue of the matrix of cosines between the columns. It is 1 where
they are at right angles: for rotations and reflections, after any scaling along the axes. Shear
makes it smaller, and the bound looser. Their matrix less the identity has the polynomial
x**3 - 3 p x - 2 a b c, whose least root lies between -2 sqrt(p) and -sqrt(p), where it rises and
bends down: Newton's steps from -2 sqrt(p) stay below the root. Rounding moves them by far less than
2**-20, which is subtracted.

The rounding of a moved vertex, 2**-53 of its coordinates, is stretched here, too.

Distances are bounded in float32. Here u = 2**-24, B bounds the coordinates of the tree's frame, and
S = sum(n[i] (abs(q[i]) + B)) is the `reach` of the point q.

- Boxes, by weights: q is off by u n . abs(q) < u S, and the operations, with rounded weights,
  lose 6 u of the distance, which the rounding up of the limit covers.
- Boxes, by a direction, where shear makes the former poor. Any g bounds the distance from below:
  with m = K^T g, the least m . (q - y) / |g| over a box, whose y are chosen axis by axis. The best
  g leads to the nearest point of the box, which a few steps from axis to axis come near enough to.
  K^T g is off by 4 u n[i] |g|, the differences and their sum lose 7 u n[i] |g| (abs(q[i]) + B),
  and |g| 4 u of itself: 16 u S in all.
- Triangles, whose bounds are both off by less than 64 u S:

  - p - v0: 2 u (abs(q[i]) + B) a component, and 4 u of that by K: 6 u S in length;
  - edges: 2 u B, and 8 u B a component by K: 10 u S;
  - the lower bound: 19 u S from p to the corners, by both of these errors and that of the sum;
    7 u of 3 S by the product with a direction of length 1;
  - the upper bound, from a guessed point: 6 u S and 10 u S as above, and its own steps;
  - 4 units in the last place that the leaf test may lose.

A point is transformed to the frame of a tree by x'' = A x' + b from that of the TLAS (see
`instanced`). x' is off by 2**-53 of itself, A and the operations by 2**-51 of their terms,
and b by the bound in its row: the stretched distance of all that is at most

    2**-50 sum(n[i] (abs(A) abs(x') + abs(b))[i]) + sum(n) * the error of b.

The rounding of vertices is added.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, exponent, largest, power_of_two
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, greater, lesser, peek, select, shifted, splat, sqrt
from bvh.traversal.points.point_bounds import UNIT, UP, corner_bounds, push_squares
from bvh.tree import triangle_groups
from bvh.tree.frame import exponent as exponent_of
from bvh.tree.frame import farthest
from bvh.tree.instanced import BOUND, SHIFT_ERROR, TRANSFORM_SIZE
from bvh.tree.wide_nodes import child_boxes, node_at

F = np.float32

# A leaf's row of numbers: K by rows; w; n; the scale 2**(k - e), 0 where float64 over- or
# underflows; a bound of the rounding of vertices, stretched; lambda.
ROWS, WEIGHTS, LENGTHS, SCALE, ROUNDING, LEAST, METRIC_SIZE = 0, 9, 12, 15, 16, 17, 20

# Scales, and lengths of columns compared to 1, within which nothing over- or underflows.
MAX_EXPONENT, MIN_LENGTH, MIN_WEIGHT = 900, 2.0**-300, 2.0**-100
# Points further away, in local units of the tree, are handled in float64.
FAR_FROM_LEAF, FARTHEST = 4096.0, 2.0**40
BOX_ERROR, TRIANGLE_ERROR = 16.0 * UNIT * UP, 64.0 * UNIT * UP
# Below this eigenvalue, distances to boxes are bounded by a direction, found in STEPS steps.
SHEARED, STEPS = 0.75, 2


@inlined
def _least_eigenvalue(a, b, c):
    """Return a lower bound, at least 0, of the eigenvalues of a symmetric 3 x 3 matrix.

    Its diagonal is 1; its other entries a, b, c are cosines between three vectors.
    """
    # By Newton's method for the least root of x**3 - 3 p x - 2 a b c, which is that of the matrix
    # less the identity, from below; 2**-20 covers rounding.
    p = (a * a + b * b + c * c) / 3.0
    least = -2.0 * sqrt(p)
    # A step at least halves the distance to the root, which may be a double one.
    for _ in range(24):
        square = least * least
        change = (2.0 * a * b * c - least * (square - 3.0 * p)) / (3.0 * (square - p))
        if not change > 2.0**-24:
            break
        least += change
    return max((1.0 + least) * (1.0 - 2.0**-20) - 2.0**-20, 0.0)


@entry
def fill_metrics(rows, maps, frames, tree_of, out):
    """Write the rows of `out`, (n, METRIC_SIZE), for the leaves whose numbers are `rows`.

    Leaf i has the map maps[i] (3, 4), and a tree with the frame frames[tree_of[i]]. Its row has K
    (the map's linear part over a power of two), the WEIGHTS and LENGTHS of K's columns, and so on
    (see ROWS). A SCALE of 0 marks numbers out of range: no box of the tree counts as too far.
    """
    for i in rows:
        m, frame, row = maps[i], frames[tree_of[i]], out[i]
        size = 0.0
        for r in range(3):
            for column in range(3):
                size = max(size, abs(m[r, column]))
        # K = m * 2**-e has entries below 1.
        e = exponent(size) + 1
        shift, s = exponent_of(frame) - e, power_of_two(-e)
        for r in range(3):
            for column in range(3):
                row[ROWS + 3 * r + column] = m[r, column] * s
        least = 1.0
        for column in range(3):
            x, y, z = row[ROWS + column], row[ROWS + 3 + column], row[ROWS + 6 + column]
            row[LENGTHS + column] = sqrt(x * x + y * y + z * z)
            least = min(least, row[LENGTHS + column])
        # The SCALE stays 0 where numbers are out of range.
        row[SCALE] = 0.0
        if least < MIN_LENGTH or abs(e) > MAX_EXPONENT or abs(shift) > MAX_EXPONENT:
            continue
        cosines = (0.0, 0.0, 0.0)
        for column in range(3):
            other = (column + 1) % 3
            product = 0.0
            for r in range(3):
                product += (row[ROWS + 3 * r + column] / row[LENGTHS + column]) * (
                    row[ROWS + 3 * r + other] / row[LENGTHS + other]
                )
            cosines = (cosines[1], cosines[2], product)
        eigenvalue = _least_eigenvalue(cosines[0], cosines[1], cosines[2])
        row[LEAST] = eigenvalue
        rounding = 0.0
        for axis in range(3):
            weight = eigenvalue * row[LENGTHS + axis] * row[LENGTHS + axis]
            # Denormal float32 numbers have no relative precision.
            row[WEIGHTS + axis] = weight if weight > MIN_WEIGHT else 0.0
            far = abs(m[axis, 0]) + abs(m[axis, 1]) + abs(m[axis, 2])
            rounding += (far * farthest(frame) + abs(m[axis, 3])) * 2.0**-53 + 2.0**-1074
        scale = power_of_two(shift)
        row[ROUNDING] = rounding * scale * (1.0 + 2.0**-20)
        if row[ROUNDING] < 2.0**100:
            row[SCALE] = scale


@inlined
def _mapped(transforms, at, x):
    """Return one coordinate of the mapped point x, and the sum of the absolute values of its terms.

    `transforms` has maps by columns of three numbers. The coordinate is given by a row of the map,
    whose first number is at `at`, and the others every three numbers.
    """
    row = shifted(transforms, at)
    a, b, c = peek(row, 0) * x[0], peek(row, 3) * x[1], peek(row, 6) * x[2]
    shift = peek(row, 9)
    return (a + b + c) + shift, abs(a) + abs(b) + abs(c) + abs(shift)


@inlined
def seen_from(instanced, metric, leaf, x):
    """Return (q, reach, lost, near) of the point x of the TLAS's frame, as seen by a leaf's tree.

    q is the point in the frame of the leaf's tree (BLAS), `reach` is what errors in float32 are
    relative to: sum(n[i] (abs(q[i]) + bound)), for lengths n of K's columns. `lost` bounds the
    error of stretched distances from q, inf if unknown, and `near` tells whether float32 is
    accurate enough. `metric` is the leaf's row of `fill_metrics`.
    """
    transforms, at = instanced.transforms, leaf * TRANSFORM_SIZE
    q0, s0 = _mapped(transforms, at, x)
    q1, s1 = _mapped(transforms, at + 1, x)
    q2, s2 = _mapped(transforms, at + 2, x)
    n0, n1, n2 = peek(metric, LENGTHS), peek(metric, LENGTHS + 1), peek(metric, LENGTHS + 2)
    lost = 2.0**-50 * (n0 * s0 + n1 * s1 + n2 * s2)
    lost += (n0 + n1 + n2) * peek(transforms, at + SHIFT_ERROR) + peek(metric, ROUNDING)
    reach = n0 * abs(q0) + n1 * abs(q1) + n2 * abs(q2)
    reach += (n0 + n1 + n2) * peek(transforms, at + BOUND)
    if peek(metric, SCALE) == 0.0:
        lost = INF
    near = reach <= FAR_FROM_LEAF and lost < INF and largest((q0, q1, q2)) < FARTHEST
    return (q0, q1, q2), reach, lost * (1.0 + 2.0**-20), near


# Entry k of K, by rows; row k of K; column k of K.
_entry = inlined(lambda metric, k: F(peek(metric, ROWS + k)))
_row = inlined(
    lambda metric, k: (_entry(metric, 3 * k), _entry(metric, 3 * k + 1), _entry(metric, 3 * k + 2))
)
_column = inlined(
    lambda metric, k: (_entry(metric, k), _entry(metric, 3 + k), _entry(metric, 6 + k))
)
# The dot products of vectors in lanes with a row or column of K.
_along = inlined(lambda g, row: g[0] * row[0] + g[1] * row[1] + g[2] * row[2])


@inlined
def _stretch(metric, v):
    """Return K v of a vector of lanes, by the matrix K in `metric` (see `fill_metrics`)."""
    return _along(v, _row(metric, 0)), _along(v, _row(metric, 1)), _along(v, _row(metric, 2))


@inlined
def stretched_bounds(groups, group, p, metric):
    """Return bounds (low, high) of stretched distances from p to a group's triangles, in lanes.

    Stretched distances are |K v| of vectors v in the tree's frame (see `fill_metrics`). Both bounds
    are off by less than TRIANGLE_ERROR times the reach of the point.
    """
    at = triangle_groups.group_at(group)
    v0, (e1, e2) = triangle_groups.group_origin(groups, at), triangle_groups.group_edges(groups, at)
    a = _stretch(metric, (p[0] - v0[0], p[1] - v0[1], p[2] - v0[2]))
    e1, e2 = _stretch(metric, e1), _stretch(metric, e2)
    return corner_bounds(
        a, e1, e2, triangle_groups.cross(e1, e2), triangle_groups.group_tolerance(groups, at)
    )


# The distances of a coordinate from intervals, 0 within.
_off = inlined(lambda low, high, p: greater(greater(low - p, p - high), splat(F(0.0), WIDTH)))


@inlined
def _squares_by_weights(blocks, at, p, metric):
    """Return lower bounds of squared stretched distances from p to the boxes in the node at `at`.

    For distances with components x, y, z they are w[0] x**2 + w[1] y**2 + w[2] z**2, by WEIGHTS w.
    """
    low, high = child_boxes(blocks, at)
    x, y, z = _off(low[0], high[0], p[0]), _off(low[1], high[1], p[1]), _off(low[2], high[2], p[2])
    return (
        x * x * F(peek(metric, WEIGHTS)) + y * y * F(peek(metric, WEIGHTS + 1))
        + z * z * F(peek(metric, WEIGHTS + 2))
    )  # fmt: skip


@inlined
def _step(g, r, near, far, column, inverse):
    """Move points of boxes along one axis to where they are nearest to p; return the new (g, r).

    g are the stretched vectors from the points to p, and r, in near..far, the vectors' components
    along the axis before K is applied. `column` is the axis's column of K, and `inverse` is 1 over
    its squared length.
    """
    moved = greater(lesser(r - _along(g, column) * inverse, far), near)
    change = moved - r
    g = (g[0] + change * column[0], g[1] + change * column[1], g[2] + change * column[2])
    return g, moved


@inlined
def _least_along(g, near, far, column):
    """Return the least of (g . column) r for r in near..far, in lanes."""
    m = _along(g, column)
    return lesser(m * near, m * far)


@inlined
def _squares_by_direction(blocks, at, p, metric):
    """Return lower bounds of squared stretched distances from p to the boxes in the node at `at`.

    For each box, g leads to p from about the nearest point, which STEPS rounds over the axes find;
    the gap along g bounds the distance.
    """
    low, high = child_boxes(blocks, at)
    none = splat(F(0.0), WIDTH)
    # Vectors from points of the box to p lie between `near` and `far`.
    near = p[0] - high[0], p[1] - high[1], p[2] - high[2]
    far = p[0] - low[0], p[1] - low[1], p[2] - low[2]
    x = greater(lesser(none, far[0]), near[0])
    y = greater(lesser(none, far[1]), near[1])
    z = greater(lesser(none, far[2]), near[2])
    g = _stretch(metric, (x, y, z))
    c0, c1, c2 = _column(metric, 0), _column(metric, 1), _column(metric, 2)
    n0, n1, n2 = peek(metric, LENGTHS), peek(metric, LENGTHS + 1), peek(metric, LENGTHS + 2)
    # Inverses of the columns' squared lengths, finite.
    s0 = F(1.0 / (n0 * n0 + 1e-30))
    s1 = F(1.0 / (n1 * n1 + 1e-30))
    s2 = F(1.0 / (n2 * n2 + 1e-30))
    for _ in range(STEPS):
        g, x = _step(g, x, near[0], far[0], c0, s0)
        g, y = _step(g, y, near[1], far[1], c1, s1)
        g, z = _step(g, z, near[2], far[2], c2, s2)
    least = _least_along(g, near[0], far[0], c0)
    least = least + _least_along(g, near[1], far[1], c1)
    least = greater(least + _least_along(g, near[2], far[2], c2), none)
    square = triangle_groups.dot(g, g)
    # If the square is too small, the bound is 0; unused lanes, where it is NaN, are infinite.
    usable = square > F(1e-24)
    squares = select(usable, least * least / select(usable, square, none + F(1.0)), none)
    return select(low[0] <= high[0], squares, splat(F(INF), WIDTH))


@kernel
def push_stretched(blocks, code, p, metric, bound, stack, top, spare):
    """Push the children of a node of an instance's tree within `bound`, nearest on top.

    `bound` is a squared stretched distance. p is the point in the frame of the tree, `metric` the
    leaf's row of `fill_metrics`; other arguments are those of `push_squares`. Returns the new top.
    """
    # Where the map shears, weights bound distances poorly.
    stay_outlined()
    at = node_at(code)
    if peek(metric, LEAST) < SHEARED:
        squares = _squares_by_direction(blocks, at, p, metric)
    else:
        squares = _squares_by_weights(blocks, at, p, metric)
    return push_squares(blocks, code, squares, bound, stack, top, spare)
