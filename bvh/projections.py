"""What matrices of cameras say about pixels: where the eye is, and which way each pixel looks.

Everything is found in rational numbers from the doubles of the matrices and rounded in the end, so
that no digit is lost in inverses and products, however far from the origin the camera stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import reals, whole_number

Row = list[Fraction]

# Depth at the near and far end of what is visible, and the sign of y that is up, in clip space.
CONVENTIONS = {"opengl": (-1, 1, 1), "vulkan": (0, 1, -1), "direct3d": (0, 1, 1)}

# How far, in units of normalised depth, the depth of a float32 matrix may vary across the picture.
DEPTH_SLACK = 1e-6


class Raster(NamedTuple):
    """The pixels of a picture and how they are counted; see the attributes of `Lens`."""

    width: int
    height: int
    y: str
    pixel_ratio: float

    @classmethod
    def checked(cls, width: int, height: int, y: str, pixel_ratio: float) -> Raster:
        """Return what has been found good."""
        size = whole_number("width", width), whole_number("height", height)
        if not isinstance(y, str) or y not in ("down", "up"):
            raise ValueError(f"y must be 'down' or 'up', got {y!r}")
        ratio = number("pixel_ratio", pixel_ratio)
        if not 0.0 < ratio < math.inf:
            raise ValueError(f"pixel_ratio must be positive and finite, got {pixel_ratio!r}")
        return cls(*size, y, ratio)


class Geometry(NamedTuple):
    """How pixels lie in space; see the attributes of `Lens`."""

    eye: list[float]
    forward: list[float]
    step_x: list[float]
    step_y: list[float]
    centre: list[float]


def number(name: str, value: Any) -> float:
    """Return one number that is not NaN."""
    found = reals(name, value)
    if found.shape != () or np.isnan(found):
        raise ValueError(f"{name} must be a number, got {value!r}")
    return float(found)


def matrix(name: str, value: ArrayLike, *shapes: tuple[int, int]) -> NDArray[np.float64]:
    """Return a finite matrix of one of the shapes."""
    found = reals(name, value)
    if found.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must have shape {wanted}, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} must be finite, got {found.tolist()}")
    return found


def affine(name: str, value: ArrayLike) -> list[Row]:
    """Return the rows of an invertible 4 x 4 matrix whose last row is 0 0 0 1."""
    found = matrix(name, value, (4, 4))
    if found[3].tolist() != [0.0, 0.0, 0.0, 1.0]:
        raise ValueError(
            f"{name} must have the last row 0 0 0 1, as it multiplies column vectors, "
            f"got {found[3].tolist()}"
        )
    rows = rationals(found)
    _columns(name, *rows[:3])
    return rows


def rationals(values: NDArray[np.float64]) -> list[Row]:
    """Return the rows of a matrix as rational numbers."""
    return [[Fraction(x) for x in row] for row in values.tolist()]


def product(a: list[Row], b: list[Row]) -> list[Row]:
    """Return the product of two matrices."""
    return [[sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
             for column in zip(*b, strict=True)] for row in a]  # fmt: skip


def inverse(rows: list[Row]) -> list[Row]:
    """Return the inverse of an affine matrix that has one."""
    x, y, z, last = rows
    columns = _columns("matrix", x, y, z)
    shift = _origin(columns, x, y, z)
    return [[*(column[k] for column in columns), shift[k]] for k in range(3)] + [last]


def inverse_rows(name: str, basis: NDArray[np.float64]) -> list[list[float]]:
    """Return the inverse of a 3 x 3 matrix, each entry the nearest double."""
    columns = _columns(name, *rationals(basis))
    return [_floats(name, [column[k] for column in columns]) for k in range(3)]


def device_rows(clip: list[Row], raster: Raster, up: int) -> tuple[Row, Row]:
    """Return the rows of a clip matrix that give pixels from the upper left corner, times w."""
    x, y, _, w = clip
    return (
        [(a + b) * raster.width / 2 for a, b in zip(x, w, strict=True)],
        [(b - up * a) * raster.height / 2 for a, b in zip(y, w, strict=True)],
    )


def picture_rows(x: Row, y: Row, w: Row, raster: Raster) -> tuple[Row, Row, Row]:
    """Return rows of device pixels, y down, in the units and the direction of the picture."""
    if raster.y == "up":
        y = [raster.height * b - a for a, b in zip(y, w, strict=True)]
    ratio = Fraction(raster.pixel_ratio)
    return [a / ratio for a in x], [a / ratio for a in y], w


def pinhole(name: str, x: Row, y: Row, w: Row) -> Geometry:
    """Return how the pixels (x / w, y / w) of a perspective projection lie in space.

    Raises
    ------
    ValueError
        If the rows are singular, or what they mean is not finite.
    """
    columns = _columns(name, x, y, w)
    # Dividing w by its length makes t the distance from the plane of the eye.
    square, length = _dot(w, w), _length(w)
    return _rounded(
        name,
        eye=_origin(columns, x, y, w),
        forward=[a / length for a in w[:3]],
        step_x=[a * length for a in columns[0]],
        step_y=[a * length for a in columns[1]],
        centre=[_dot(x, w) / square, _dot(y, w) / square],
    )


def parallel(name: str, x: Row, y: Row, z: Row, eye: Row) -> Geometry:
    """Return how the pixels (x, y) of a parallel projection lie in space; z grows with depth.

    Rays start in the plane through the eye that has z as its normal.
    """
    columns = _columns(name, x, y, z)
    length = _length(z)
    return _rounded(
        name,
        eye=eye,
        forward=[a * length for a in columns[2]],
        step_x=columns[0],
        step_y=columns[1],
        centre=[_dot(x, eye) + x[3], _dot(y, eye) + y[3]],
    )


def from_renderer(
    view: ArrayLike, projection: ArrayLike, depth: str, reversed_z: bool, raster: Raster
) -> tuple[Geometry, bool, float, float]:
    """Return what matrices to clip space say: pixels, whether in perspective, near and far."""
    if not isinstance(depth, str) or depth not in CONVENTIONS:
        raise ValueError(f"depth must be one of {', '.join(CONVENTIONS)}, got {depth!r}")
    if not isinstance(reversed_z, bool | np.bool_):
        raise TypeError(f"reversed_z must be True or False, got {reversed_z!r}")
    name = "projection"
    inner = affine("view", view)
    clip = product(rationals(matrix(name, projection, (4, 4))), inner)
    low, high, up = CONVENTIONS[depth]
    first, last = (high, low) if reversed_z else (low, high)
    if not any(clip[3]):
        raise ValueError(f"{name} must be invertible, got a last row of zeros")
    perspective = any(clip[3][:3])
    if not perspective:
        clip = [[a / clip[3][3] for a in row] for row in clip]
    z, w = clip[2:]
    x, y, _ = picture_rows(*device_rows(clip, raster, up), w, raster)
    if perspective:
        made = pinhole(name, x, y, w)
        eye = _origin(_columns(name, x, y, w), x, y, w)
        planes = _perspective_range(name, z, w, eye, first, last)
    else:
        eye = [row[3] for row in inverse(inner)[:3]]
        sign = 1 if last > first else -1
        made = parallel(name, x, y, [sign * a for a in z], eye)
        begin, slope = _dot(z, eye) + z[3], sign * _length(z)
        planes = [(first - begin) / slope, (last - begin) / slope]
    near, far = [*_floats(name, planes), math.inf][:2]
    return made, perspective, near, far


def _perspective_range(
    name: str, z: Row, w: Row, eye: Row, first: int, last: int
) -> list[Fraction]:
    """Return the distances of the near and, unless it is infinite, the far plane from the eye."""
    length = _length(w)
    tilt = _dot(z, w) / _dot(w, w)
    across = [a - tilt * b for a, b in zip(z[:3], w[:3], strict=True)]
    if _dot(across, across) > (Fraction(DEPTH_SLACK) * length) ** 2:
        raise ValueError(f"{name} must have near and far planes that are parallel to the picture")
    # So the normalised depth is tilt + level / w: the one at infinity is tilt.
    level = _dot(z, eye) + z[3]
    towards = 1 if last > first else -1
    if level * towards > 0:
        raise ValueError(
            f"{name} must have a depth of {first} at its near plane, and the other way round with "
            f"reversed_z={towards > 0}"
        )
    if level == 0 or (tilt - first) * towards <= 0:
        raise ValueError(
            f"{name} must have depths from {first} to {last}, got {float(tilt):.6g} at infinity"
        )
    planes = [level / (first - tilt) / length]
    if (tilt - last) * towards > 0:
        planes.append(level / (last - tilt) / length)
    return planes


def _rounded(name: str, **parts: Any) -> Geometry:
    rounded = {key: _floats(name, value) for key, value in parts.items()}
    if not all(any(rounded[key]) for key in ("forward", "step_x", "step_y")):
        raise ValueError(f"{name} must be far enough from singular for finite rays")
    return Geometry(**rounded)


def _floats(name: str, numbers: Sequence[Fraction | float]) -> list[float]:
    """Return the nearest doubles; refuse what no finite double is near to."""
    try:
        found = [float(x) for x in numbers]
    except OverflowError:
        found = [math.inf]
    if not all(map(math.isfinite, found)):
        raise ValueError(f"{name} must be far enough from singular for finite rays")
    return found


def _length(row: Row) -> Fraction:
    """Return the length of the first three numbers, to a rounding."""
    most = max(abs(a) for a in row[:3])
    # A power of two brings the square into the range of doubles.
    scale = Fraction(2) ** (most.denominator.bit_length() - most.numerator.bit_length())
    return Fraction(math.sqrt(_dot(row, row) * scale**2)) / scale


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Row, b: Row) -> Row:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _columns(name: str, x: Row, y: Row, z: Row) -> list[Row]:
    """Return the columns of the inverse of a matrix, by its rows."""
    det = _dot(_cross(x, y), z)
    if det == 0:
        raise ValueError(f"{name} must be invertible")
    return [[a / det for a in _cross(*pair)] for pair in ((y, z), (z, x), (x, y))]


def _origin(columns: list[Row], *rows: Row) -> Row:
    """Return the point where affine rows are zero, by the columns of their inverse."""
    pairs = list(zip(columns, rows, strict=True))
    return [-sum((column[k] * row[3] for column, row in pairs), Fraction(0)) for k in range(3)]
