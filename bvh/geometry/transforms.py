"""Affine transforms of instances: validation, and correctly rounded application to points.

A map is its upper three rows, (3, 4); kernels read its rows m of four numbers, with m . (v, 1) as a
coordinate of the moved point.

A moved point is the double nearest to M v, coordinate by coordinate: these are the vertices of an
instance, wherever they are used. So nothing depends on the order of additions, and exact transforms
stay exact: translations within the grid of doubles, permutations of axes, powers of two.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic import exact_sums, floats
from bvh.geometry.arithmetic.floats import LARGEST
from bvh.geometry.arithmetic.vectors import cross, dot
from bvh.runtime import simd
from bvh.runtime.arguments import kernel_input, reals
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined, warms

# Largest accepted entry of an inverse's linear part, whose products with coordinates must stay
# finite. Its shift need only be finite itself.
MAX_INVERSE = 1e300

# Rounding of a float64 determinant: five roundings of each of six products, as a share of these;
# and more than what their underflow may lose.
DET_ERROR = 8.0 * 2.0**-53
FLOOR = 2.0**-1040

# How far products of the columns of a map may be from those of a rotation, a reflection or a
# uniform scale, as a share of the square of the scale: rotations in float32 are within it.
UNEVEN = 2.0**-20
# What error messages say that the maps of spheres and capsules must be.
EVEN = "a rotation or reflection with one scale for all axes, and a shift"

# Status of a matrix; for each but SOUND, what error messages say that the matrix must be.
SOUND, INFINITE, NOT_AFFINE, SINGULAR, EXTREME = 0, 1, 2, 3, 4
EXPECTED = {
    INFINITE: "finite",
    NOT_AFFINE: "affine, with last row 0 0 0 1; if its last column is that, transpose it",
    SINGULAR: "invertible",
    EXTREME: "far enough from singular for a finite inverse",
}


@inlined
def _parts_of_dot(m, v):
    """Return (s, rest, sizes, lost) of m . (v, 1), for numbers or SIMD lanes.

    s + rest is close to the value. `sizes` are the absolute values of its four terms. `lost` are
    the rounding errors of the three products and three sums behind s. `rest` is their sum, in
    five rounded steps whose results are below 2**-51 times the sum of the sizes.
    """
    a, e = floats.two_product(m[0], v[0])
    b, f = floats.two_product(m[1], v[1])
    c, g = floats.two_product(m[2], v[2])
    s, h = floats.two_sum(a, b)
    s, i = floats.two_sum(s, c)
    s, j = floats.two_sum(s, m[3])
    sizes = abs(a), abs(b), abs(c), abs(m[3])
    return s, ((e + f) + g) + ((h + i) + j), sizes, (e, f, g, h, i, j)


@inlined
def _nearest(s, rest, sizes):
    """Return (decided, x): if decided, x is the double nearest to m . (v, 1).

    The arguments are what `_parts_of_dot` returns: the value is about s + rest, a sum of terms of
    the four `sizes`.
    """
    # The sum s + rest is off by less than 2**-100 of the sizes; products may lose 2**-1074 each to
    # underflow. If the nearest double is the same at both ends of that interval, it is the nearest
    # (Ziv's test).
    margin = (sizes[0] + sizes[1] + sizes[2] + sizes[3]) * 2.0**-100 + 2.0**-1071
    return s + (rest + margin) == s + (rest - margin), s + rest


@inlined
def rounded_quickly(m, v):
    """Return (decided, x): if decided, x is the double nearest to m . (v, 1).

    It is faster than `rounded_dot` by a third, but leaves more points undecided.
    """
    s, rest, sizes, _ = _parts_of_dot(m, v)
    sure, x = _nearest(s, rest, sizes)
    return sure & (abs(x) <= LARGEST), x


@inlined
def rounded_dot(m, v):
    """Return (decided, x): if decided, x is the double nearest to m . (v, 1).

    m is a row of four, v a point of three finite numbers or SIMD lanes.
    """
    s, rest, sizes, lost = _parts_of_dot(m, v)
    sure, x = _nearest(s, rest, sizes)
    # Where at most one rounding has lost anything, both parts are exact, and their sum is rounded
    # correctly. The zero is a number or lanes, as x is.
    count = abs(x) * 0.0
    for part in lost:
        count = count + simd.select(part != 0.0, 1.0, 0.0)
    # The error of a product that underflows is not exact.
    exact = (
        (count <= 1.0)
        & ((sizes[0] > 2.0**-900) | (m[0] == 0.0) | (v[0] == 0.0))
        & ((sizes[1] > 2.0**-900) | (m[1] == 0.0) | (v[1] == 0.0))
        & ((sizes[2] > 2.0**-900) | (m[2] == 0.0) | (v[2] == 0.0))
    )
    # Values that overflow are infinite or NaN, and exact sums round them to the largest.
    return (sure | exact) & (abs(x) <= LARGEST), x


@kernel
def exact_dot(m, v):
    """Return the double nearest to m . (v, 1), for finite numbers, by exact sums.

    Values that overflow are rounded to the largest double.
    """
    stay_outlined()
    total = exact_sums.new_sum()
    exact_sums.add_dot(total, 1.0, m, v)
    exact_sums.add_product(total, 1.0, m[3], 1.0, 1.0, 1.0)
    return exact_sums.rounded(total, 0)


@inlined
def rows_of(maps, at):
    """Return three rows, 4-tuples, of the map whose twelve numbers begin at maps[at]."""
    return floats.row_of(maps, at), floats.row_of(maps, at + 4), floats.row_of(maps, at + 8)


@inlined
def column_of(matrices, i, j):
    """Return the first three numbers of column j of matrix i, as a tuple."""
    return (matrices[i, 0, j], matrices[i, 1, j], matrices[i, 2, j])


@inlined
def _coordinate(m, v):
    """Return the double nearest to m . (v, 1), for a row m of four and a finite point v."""
    decided, x = rounded_quickly(m, v)
    return x if decided else _outlined_coordinate(m, v)


@kernel
def _outlined_coordinate(m, v):
    """Return the double nearest to m . (v, 1), where `rounded_quickly` does not decide."""
    stay_outlined()
    decided, x = rounded_dot(m, v)
    return x if decided else exact_dot(m, v)


@kernel
def transformed_point(maps, at, v):
    """Return a finite point v moved by the map whose twelve numbers begin at maps[at], rounded."""
    stay_outlined()
    x, y, z = rows_of(maps, at)
    return _coordinate(x, v), _coordinate(y, v), _coordinate(z, v)


@entry
def _move(maps, points, out):
    """Write to `out` points (n, 3) moved by a map of twelve numbers, NaN for those not finite."""
    for i in range(len(points)):
        v = floats.vector(points, i)
        if floats.finite(v):
            out[i, 0], out[i, 1], out[i, 2] = transformed_point(maps, 0, v)
        else:
            out[i, 0] = out[i, 1] = out[i, 2] = np.nan


def moved(points: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points (n, 3) moved by a map (3, 4), correctly rounded; NaN for those not finite.

    Values that overflow become the largest double.
    """
    out = np.empty(points.shape)
    _move(kernel_input(matrix.reshape(12)), kernel_input(points), out)
    return out


@inlined
def _determinant(a, b, c):
    """Return (determinant, size) of three columns in doubles; size sums the absolute terms."""
    return dot(a, cross(b, c)), floats.dot_size(a, floats.cross_size(b, c))


@kernel
def _exact_determinant_sign(a, b, c):
    """Return the sign of the determinant of three columns by exact sums."""
    stay_outlined()
    det = exact_sums.new_sum()
    exact_sums.add_triple(det, 1.0, a, b, c)
    return exact_sums.take_sign(det)


@inlined
def determinant_sign(a, b, c):
    """Return the exact sign of the determinant of three columns."""
    det, size = _determinant(a, b, c)
    if abs(det) > DET_ERROR * size + FLOOR:
        return np.int64(1) if det > 0.0 else np.int64(-1)
    return np.int64(_exact_determinant_sign(a, b, c))


@entry
def _find_mirrored(maps, found):
    """Write to `found` (n,) whether each of the maps (n, 3, 4) has a determinant below 0."""
    for i in range(len(maps)):
        a, b, c = column_of(maps, i, 0), column_of(maps, i, 1), column_of(maps, i, 2)
        found[i] = determinant_sign(a, b, c) < 0


def mirrored(maps: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which finite maps (n, 3, 4) contain a reflection: have a determinant below 0."""
    out = np.empty(len(maps), np.bool_)
    _find_mirrored(kernel_input(maps), out)
    return out


@kernel
def _even_scale(a, b, c):
    """Return the factor by which a map of columns a, b, c scales lengths; NaN if directions differ.

    Differences up to UNEVEN are ignored, such as those of a rotation rounded to float32.
    """
    # The root of a third of the sum of squares, in double-doubles: the exact scale where the
    # columns have exactly that length. They are scaled by 2**-k to about one.
    k = min(max(floats.exponent(floats.reach_of(a, b, c)), -1022), 1022)
    u, v, w = floats.unrounded(a, k), floats.unrounded(b, k), floats.unrounded(c, k)
    total = floats.dd_add(
        floats.dd_add(floats.dd_dot(u, u), floats.dd_dot(v, v)), floats.dd_dot(w, w)
    )
    square = floats.dd_div(total, (3.0, 0.0))
    x, y, z = floats.high(u), floats.high(v), floats.high(w)
    size = square[0]
    # Columns must have one length and be perpendicular; "not <=", so that NaN gives NaN.
    off = max(abs(dot(x, x) - size), max(abs(dot(y, y) - size), abs(dot(z, z) - size)))
    off = max(off, max(abs(dot(x, y)), max(abs(dot(y, z)), abs(dot(z, x)))))
    if not off <= UNEVEN * size:
        return np.nan
    root = floats.dd_sqrt(square)
    return floats.scale_by(root[0] + root[1], k)


@entry
def _find_scales(maps, found):
    """Write to `found` (n,) the factors by which maps (n, 3, 4) scale lengths, or NaN."""
    for i in range(len(maps)):
        a, b, c = column_of(maps, i, 0), column_of(maps, i, 1), column_of(maps, i, 2)
        found[i] = _even_scale(a, b, c)


def even_scales(maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors by which finite, invertible maps (n, 3, 4) scale lengths.

    A factor is NaN for a map that scales some directions more than others (beyond UNEVEN).
    """
    out = np.empty(len(maps))
    _find_scales(kernel_input(maps), out)
    return out


@entry
def _judge(maps, status):
    """Write the status of each matrix (n, 4, 4) to `status` (n,); return SOUND if all are sound.

    A status is SOUND, INFINITE, NOT_AFFINE, SINGULAR or EXTREME.
    """
    worst = SOUND
    for i in range(len(maps)):
        # 0 times NaN or an infinity is NaN.
        total = 0.0
        for row in range(4):
            for column in range(4):
                total += maps[i, row, column] * 0.0
        if total != 0.0:
            status[i] = worst = INFINITE
            continue
        last = maps[i, 3]
        if last[0] != 0.0 or last[1] != 0.0 or last[2] != 0.0 or last[3] != 1.0:
            status[i] = worst = NOT_AFFINE
            continue
        a, b, c = column_of(maps, i, 0), column_of(maps, i, 1), column_of(maps, i, 2)
        det, size = _determinant(a, b, c)
        status[i] = SOUND
        # Only extreme or nearly singular matrices need the exact test; "not >", so that it also
        # decides where `det` is NaN. Entries of the inverse are minors, of at most 2 r**2, over the
        # determinant, which is at least a third of `det`; those of its shift are sums of three.
        t, r = column_of(maps, i, 3), floats.reach_of(a, b, c)
        minor = 2.0 * r * r * max(1.0, 3.0 * floats.largest(t))
        if not (abs(det) > DET_ERROR * size + FLOOR and minor < (0.1 * MAX_INVERSE) * abs(det)):
            status[i] = _exact_status(a, b, c, t)
            worst = max(worst, status[i])
    return worst


@kernel
def inverse_entry(a, b, c, t, column):
    """Return entry `column`, 0 to 3, of the first row of the inverse of a map, correctly rounded.

    The map has the columns a, b, c and the shift t; its determinant must not be 0. An entry that
    overflows becomes the largest double.
    """
    # The row is (b x c, -t . (b x c)) / (a . (b x c)).
    stay_outlined()
    j, k = (column + 1) % 3, (column + 2) % 3
    # Both products below are 0: common for rotations about an axis and the like.
    if column != 3 and (b[j] == 0.0 or c[k] == 0.0) and (b[k] == 0.0 or c[j] == 0.0):
        return 0.0
    n, det = exact_sums.new_sum(), exact_sums.new_sum()
    if column == 3:
        exact_sums.add_triple(n, -1.0, t, b, c)
    else:
        exact_sums.add_product(n, 1.0, b[j], c[k], 1.0, 1.0)
        exact_sums.add_product(n, -1.0, b[k], c[j], 1.0, 1.0)
    exact_sums.add_triple(det, 1.0, a, b, c)
    return exact_sums.divide(n, det)


@kernel
def _exact_status(a, b, c, t):
    """Return SOUND, SINGULAR or EXTREME, exactly, for a finite map of columns a, b, c and t."""
    stay_outlined()
    if _exact_determinant_sign(a, b, c) == 0:
        return SINGULAR
    # `inverse_entry` returns entries of the first row. Cyclic permutations of the columns move the
    # other rows of the inverse there.
    for _ in range(3):
        for column in range(4):
            entry = abs(inverse_entry(a, b, c, t, column))
            # A shift that overflows is rounded to the largest double.
            if entry == LARGEST or (column < 3 and entry > MAX_INVERSE):
                return EXTREME
        a, b, c = b, c, a
    return SOUND


def square_matrices(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return argument `name` as float64 (..., 4, 4); raise a ValueError for other shapes."""
    matrices = reals(name, value)
    if matrices.ndim < 2 or matrices.shape[-2:] != (4, 4):
        raise ValueError(f"{name} must have shape (..., 4, 4), got {matrices.shape}")
    return matrices


def affine_maps(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return the first three rows of affine matrices (..., 4, 4), shape (..., 3, 4), as a copy.

    Raises a ValueError, with the argument's `name` and the first bad index, if a matrix is not
    finite, not affine, singular, or so close to singular that its inverse is not finite or has an
    entry above MAX_INVERSE.
    """
    matrices = square_matrices(name, value)
    shape = matrices.shape[:-2]
    flat = kernel_input(matrices.reshape(-1, 4, 4))
    status = np.empty(len(flat), np.int8)
    if _judge(flat, status) != SOUND:
        for verdict, expected in EXPECTED.items():
            refuse(name, shape, status == verdict, expected)
    return np.array(flat[:, :3], order="C").reshape(*shape, 3, 4)


def refuse(name: str, shape: tuple[int, ...], bad: Any, expected: str) -> None:
    """Raise a ValueError that names the first bad matrix of an argument, if there is one.

    `bad` is a flat array with True for each bad matrix, `shape` the shape of the argument without
    the matrices' axes, and `expected` what the message says a matrix must be.
    """
    if bad.any():
        index = [int(k) for k in np.unravel_index(int(bad.argmax()), shape)]
        where = f"{name}{index}" if index else name
        raise ValueError(f"{where} must be {expected}")


@warms("affine maps")
def _warm() -> None:
    """Compile the checks of transforms and their application."""
    maps = affine_maps("transform", np.eye(4)[None])
    moved(np.zeros((1, 3)), maps[0])
    mirrored(maps)
    even_scales(maps)
