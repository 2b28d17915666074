"""Geometry of pixels from projection matrices, in exact arithmetic.

Results are computed exactly in rows of integers and rounded once, so that inverses and products
lose no digits, however far the camera is from the origin. Projections are scaled to integers, as a
factor does not change them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic.rational import Row, adjugate, dot, dots, product, scaled, times
from bvh.runtime.arguments import check_option, reals, whole_number

# Lengths are rounded to multiples of 1 / UNIT, far finer than doubles.
UNIT = 1 << 70

# Where y of pixels points.
YDirection = Literal["down", "up"]

# In clip space: depth at the near plane, at the far plane, and the sign of y that is up.
DepthRange = Literal["opengl", "vulkan", "direct3d"]
CONVENTIONS: dict[DepthRange, tuple[int, int, int]] = {
    "opengl": (-1, 1, 1), "vulkan": (0, 1, -1), "direct3d": (0, 1, 1)
}  # fmt: skip

# A depth in clip space may change by 1 / DEPTH_SLACK from the middle of the picture to a point 45
# degrees off, because matrices may be rounded to float32.
DEPTH_SLACK = 10**6


class Raster(NamedTuple):
    """Pixels of a picture and their coordinates; see the attributes of `Projection`."""

    width: int
    height: int
    y: YDirection
    pixel_ratio: float

    @classmethod
    def checked(cls, width: int, height: int, y: YDirection, pixel_ratio: float) -> Raster:
        """Return a raster; raise ValueError or TypeError for an argument that is not valid."""
        size = whole_number("width", width), whole_number("height", height)
        check_option("y", y, get_args(YDirection))
        ratio = number("pixel_ratio", pixel_ratio)
        if not 0.0 < ratio < math.inf:
            raise ValueError(f"pixel_ratio must be positive and finite, got {pixel_ratio!r}")
        return cls(*size, y, ratio)


class Geometry(NamedTuple):
    """Map from pixels to rays; see the attributes of `Projection`."""

    eye: list[float]
    forward: list[float]
    step_x: list[float]
    step_y: list[float]
    centre: list[float]


def number(name: str, value: ArrayLike) -> float:
    """Return the argument `value` as a float; a ValueError names it `name` if it is no number."""
    array = reals(name, value)
    if array.shape != () or np.isnan(array):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(array)


def sides_of(x0: float, y0: float, x1: float, y1: float) -> tuple[list[float], list[float]]:
    """Return ([left, right], [low, high]) of a rectangle by two corners, checked to be finite."""
    numbers = []
    for name, value in {"x0": x0, "y0": y0, "x1": x1, "y1": y1}.items():
        numbers.append(number(name, value))
        if not math.isfinite(numbers[-1]):
            raise ValueError(f"{name} must be a finite number, got {value}")
    return sorted(numbers[0::2]), sorted(numbers[1::2])


def matrix(name: str, value: ArrayLike, *shapes: tuple[int, int]) -> NDArray[np.float64]:
    """Return `value` as a finite matrix of one of the shapes; a ValueError names it `name`."""
    array = reals(name, value)
    if array.shape not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array.tolist()}")
    return array


def affine(name: str, value: ArrayLike) -> list[Row]:
    """Return the 4 x 4 matrix `value` as four rows of integers; it must be affine and invertible.

    The rows are the matrix times a positive factor, which is the last number of the last row.
    Errors call the argument `name`.
    """
    array = matrix(name, value, (4, 4))
    if array[3].tolist() != [0.0, 0.0, 0.0, 1.0]:
        expected = "the last row 0 0 0 1, as it multiplies column vectors"
        raise ValueError(f"{name} must have {expected}, got {array[3].tolist()}")
    rows, _ = scaled(array.tolist())
    _invertible(name, *rows[:3])
    return rows


def inverse(rows: list[Row]) -> list[Row]:
    """Return the inverse of an affine matrix; both are rows as `affine` returns them."""
    # The rows (A, b), (0, w) are w times a matrix, whose inverse is (w A^-1, -A^-1 b), (0, 1), here
    # times |det A|. -A^-1 b is the point at which the first three rows are 0.
    columns, det = adjugate(*rows[:3])
    *shifts, weight = _origin("matrix", rows)
    factor = rows[3][3] if det > 0 else -rows[3][3]
    linear = zip(*(times(factor, column) for column in columns), strict=True)
    return [(*row, shift) for row, shift in zip(linear, shifts, strict=True)] + [(0, 0, 0, weight)]


def inverse_rows(name: str, basis: NDArray[np.float64]) -> list[list[float]]:
    """Return the inverse of a 3 x 3 matrix, entries rounded to nearest; errors call it `name`."""
    rows, scale = scaled(basis.tolist())
    columns, det = _invertible(name, *rows)
    return [_floats(name, times(scale, row), det) for row in zip(*columns, strict=True)]


def picture_rows(rows: list[Row], raster: Raster) -> list[Row]:
    """Return rows that map to the coordinates of `raster`, from rows that map to device pixels.

    Rows are x, y, ..., w of integers, which map a homogeneous point to (x / w, y / w), in device
    pixels with y down. All are multiplied by a common factor.
    """
    x, y, *rest = rows
    if raster.y == "up":
        # y / w becomes height - y / w.
        y = tuple([raster.height * b - a for a, b in zip(y, rest[-1], strict=True)])
    # x and y are divided by the pixel ratio, a fraction, up to a factor of all rows.
    numerator, denominator = raster.pixel_ratio.as_integer_ratio()
    return [times(denominator, x), times(denominator, y), *(times(numerator, row) for row in rest)]


def pinhole(name: str, x: Row, y: Row, w: Row) -> Geometry:
    """Return the geometry of a perspective projection, given by three rows of integers.

    The rows map a homogeneous point to its pixel (x / w, y / w). Errors call their matrix `name`.
    """
    columns, det = _invertible(name, x, y, w)
    # The eye is the point without a pixel, where all three products are 0.
    *eye, weight = _origin(name, (x, y, w))
    # With m = w[:3], a ray in direction d from the eye has the pixel (x . d, y . d) / (m . d). All
    # directions here have m . d = |m|, so that t is the distance from the plane of the eye. As
    # columns / det is the inverse of the rows x, y, m, step_x = |m| columns[0] / det moves the
    # pixel by (1, 0) and keeps m . d. `centre` is the pixel of d = forward = m / |m|.
    along = w[:3]
    length = _length(along)
    return Geometry(
        eye=_floats(name, eye, weight),
        forward=_floats(name, times(UNIT, along), length),
        step_x=_floats(name, times(length, columns[0]), det * UNIT),
        step_y=_floats(name, times(length, columns[1]), det * UNIT),
        centre=_floats(name, dots(along, (x, y)), dot(along, along)),
    )


def parallel(name: str, x: Row, y: Row, z: Row, w: int, eye: Row) -> Geometry:
    """Return the geometry of a parallel projection, given by rows of integers and a number.

    The products of x and y with a homogeneous point, over its weight and the positive `w`, are its
    pixel. Rays go where the product of z grows and those of x and y stay the same, from the plane
    of equal z through `eye`, a homogeneous point. Errors call the matrix `name`.
    """
    # As columns / det is the inverse of the rows x, y, z, `forward` changes z by |z| alone, step_x
    # changes x by w, which is one pixel, and step_y changes y by w.
    columns, det = _invertible(name, x, y, z)
    return Geometry(
        eye=_floats(name, eye[:3], eye[3]),
        forward=_floats(name, times(_length(z[:3]), columns[2]), det * UNIT),
        step_x=_floats(name, times(w, columns[0]), det),
        step_y=_floats(name, times(w, columns[1]), det),
        centre=_floats(name, dots(eye, (x, y)), w * eye[3]),
    )


def from_renderer(
    view: ArrayLike, projection: ArrayLike, depth: DepthRange, reversed_z: bool, raster: Raster
) -> tuple[Geometry, bool, float, float]:
    """Return (geometry, perspective, near, far) of the matrices of `Camera.from_matrices`.

    `perspective` is False for parallel rays, `near` and `far` are depths in space. The arguments
    are checked here.
    """
    check_option("depth", depth, tuple(CONVENTIONS))
    if not isinstance(reversed_z, bool | np.bool_):
        raise TypeError(f"reversed_z must be True or False, got {reversed_z!r}")
    name = "projection"
    view_rows = affine("view", view)
    clip_matrix = matrix(name, projection, (4, 4))
    clip = product(scaled(clip_matrix.tolist())[0], view_rows)
    if not any(clip[3]):
        raise ValueError(f"{name} must be invertible, got a last row of zeros")
    low, high, up_sign = CONVENTIONS[depth]
    # Depths in clip space of the near and the far plane.
    first, last = (high, low) if reversed_z else (low, high)
    if _is_transposed(clip_matrix, first, last):
        row, column = clip_matrix[3].tolist(), clip_matrix[:, 3].tolist()
        wrong = f"the last row {row} and the last column {column}"
        raise ValueError(f"{name} must multiply column vectors (transpose it), got {wrong}")
    x, y, z, w = clip
    # Clip space from -1 to 1 is the picture: pixels from its upper left corner are (x / w + 1) / 2
    # times the width, and alike down. All rows are doubled, to stay integers, which changes no
    # quotient by w; then they are mapped to the coordinates of the picture.
    right = tuple([(a + b) * raster.width for a, b in zip(x, w, strict=True)])
    down = tuple([(b - up_sign * a) * raster.height for a, b in zip(y, w, strict=True)])
    x, y, z, w = picture_rows([right, down, times(2, z), times(2, w)], raster)
    if any(w[:3]):
        return pinhole(name, x, y, w), True, *_perspective_range(name, x, y, z, w, first, last)
    # Parallel rays: w is a constant, made positive. z times `sign` grows from near to far.
    if w[3] < 0:
        x, y, z, w = (times(-1, row) for row in (x, y, z, w))
    eye, sign = _origin("view", view_rows), 1 if last > first else -1
    geometry = parallel(name, x, y, times(sign, z), w[3], eye)
    # The depth z / w in clip space is (begin / eye[3] + t * slope / UNIT) / w[3] at the distance t
    # from the plane of the eye; near and far are the t at which it is `first` and `last`.
    begin, slope = dot(z, eye), sign * _length(z[:3])
    steps = [(end * w[3] * eye[3] - begin) * UNIT for end in (first, last)]
    near, far = _floats(name, steps, eye[3] * slope)
    return geometry, False, near, far


def _is_transposed(clip_matrix: NDArray[np.float64], first: int, last: int) -> bool:
    """Return whether a projection seems to multiply row vectors, so that it must be transposed.

    `first` and `last` are the depths of the near and the far plane in clip space.
    """
    # The transpose of a projection may be a projection, too. But the last row of common ones, which
    # gives w, is 0 0 1 0 or 0 0 -1 0 (perspective) or 0 0 0 1 (parallel): if instead the last
    # column is, the matrix is transposed.
    row, column = clip_matrix[3].tolist(), clip_matrix[:, 3].tolist()
    # Whether w grows by 1 in one unit of space, as it does if w is the depth.
    unit = abs(math.hypot(*row[:3]) - 1.0) < 1e-6
    if row[:2] == column[:2] == [0.0, 0.0] and row[3] == column[3] == 0.0:
        return abs(column[2]) == 1.0 and not unit
    if column != [0.0, 0.0, 0.0, 1.0] or not any(row[:3]):
        return False
    # The product with the view of a camera one unit from the origin may have this column, too: then
    # `unit` holds, and the depth at infinity, `ahead`, is `last` (for an infinite far plane), or it
    # is beyond `last`, up to the rounding of a matrix in float32, for which 1e-3 leaves room.
    ahead = sum(map(operator.mul, clip_matrix[2, :3].tolist(), row[:3]))
    return not unit or (ahead - last) * (last - first) < -1e-3


def _perspective_range(
    name: str, x: Row, y: Row, z: Row, w: Row, first: int, last: int
) -> tuple[float, float]:
    """Return the distances of the near and the far plane from the eye; far may be infinite.

    The rows map a homogeneous point to its pixel (x / w, y / w) and its depth z / w in clip space,
    `first` at the near plane and `last` at the far plane. Errors call the matrix `name`.
    """
    # `axis` is the direction of the view, not normalised: w is 0 in the plane of the eye.
    eye, axis = _origin(name, (x, y, w)), w[:3]
    square, along = dot(axis, axis), dot(z, axis)
    # The part of z's gradient that is parallel to the picture must vanish, but for the rounding of
    # matrices in float32.
    across = tuple([a * square - along * b for a, b in zip(z[:3], axis, strict=True)])
    if dot(across, across) * DEPTH_SLACK**2 > square**3:
        raise ValueError(f"{name} must have near and far planes that are parallel to the picture")
    # So the depth z / w is tilt + level / w, where tilt = along / square is the depth at infinity
    # (`level` below is times eye[3]). The depth `end`, `first` or `last`, is reached at
    # w = level / (end - tilt), which is |axis| times the distance from the eye. `towards` is 1 if
    # the depth grows from the near to the far plane, else -1.
    level = dot(z, eye)
    towards = 1 if last > first else -1
    if level * towards > 0:
        other = f"and the other way round with reversed_z={towards > 0}"
        raise ValueError(f"{name} must have a depth of {first} at its near plane, {other}")
    if level == 0 or (along - first * square) * towards <= 0:
        raise ValueError(f"{name} must have depths from {first} to {last}")
    numerator, denominator = level * square * UNIT, eye[3] * _length(axis)
    (near,) = _floats(name, [numerator], denominator * (first * square - along))
    if (along - last * square) * towards <= 0:
        return near, math.inf
    return near, _floats(name, [numerator], denominator * (last * square - along))[0]


def _floats(name: str, numerators: Iterable[int], denominator: int) -> list[float]:
    """Return the doubles nearest to numerators / denominator; errors name `name` on overflow."""
    try:
        return [n / denominator for n in numerators]
    except OverflowError:
        raise ValueError(f"{name} must be far enough from singular for finite rays") from None


def _length(vector: Row) -> int:
    """Return the length of a vector of three integers in units of 1 / UNIT, rounded down."""
    return math.isqrt(dot(vector, vector) * UNIT**2)


def _invertible(name: str, x: Row, y: Row, z: Row) -> tuple[list[Row], int]:
    """Return (columns of the adjugate, determinant) of rows x, y, z without fourth numbers.

    Raises a ValueError, which calls the matrix `name`, if the determinant is 0.
    """
    columns, det = adjugate(x, y, z)
    if det == 0:
        raise ValueError(f"{name} must be invertible")
    return columns, det


def _origin(name: str, rows: Sequence[Row]) -> Row:
    """Return the homogeneous point, of positive weight, whose products with rows[:3] are 0."""
    x, y, z = rows[:3]
    columns, det = _invertible(name, x, y, z)
    # By Cramer's rule: the point is minus the inverse of the 3 x 3 part times the last column.
    shifts = times(-1 if det > 0 else 1, (x[3], y[3], z[3]))
    return *dots(shifts, zip(*columns, strict=True)), abs(det)
