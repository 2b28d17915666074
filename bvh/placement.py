"""Where a camera is put by hand: an eye, a direction, and what is up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import reals
from bvh.projections import Geometry, Raster

Vector = NDArray[np.float64]

# Directions by name, those that things have for up.
AXES: dict[str, tuple[float, float, float]] = {
    "x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0),
    "-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0), "-z": (0.0, 0.0, -1.0),
}  # fmt: skip


def looking(
    name: str,
    eye: Vector,
    forward: Vector,
    up: str | ArrayLike,
    half_height: float,
    raster: Raster,
) -> Geometry:
    """Return how pixels lie for a camera at `eye`, the picture being 2 half_height high at depth 1.

    `name` is the argument that the half height came from.
    """
    side = np.cross(forward, upward(up))
    if np.linalg.norm(side) < 1e-12:
        raise ValueError("up must not be along the view")
    right = side / np.linalg.norm(side)
    width, height, direction, ratio = raster
    with np.errstate(over="ignore"):
        scale = np.float64(2.0 * half_height / height) * ratio
    if not 1e-300 < scale < 1e300:
        raise ValueError(f"{name} must give pixels of a size from 1e-300 to 1e300, got {scale}")
    step_y = np.cross(right, forward) * (scale if direction == "up" else -scale)
    middle = [width / 2 / ratio, height / 2 / ratio]
    step = scale * right
    return Geometry(eye.tolist(), forward.tolist(), step.tolist(), step_y.tolist(), middle)


def vector(name: str, value: ArrayLike) -> Vector:
    """Return three finite numbers."""
    found = reals(name, value)
    if found.shape != (3,) or not np.isfinite(found).all():
        raise ValueError(f"{name} must be three finite numbers, got {np.asarray(value).tolist()}")
    return found.copy()


def unit(name: str, value: ArrayLike) -> Vector:
    """Return a direction, brought to length 1."""
    found = vector(name, value)
    size = np.abs(found).max()
    if size == 0.0:
        raise ValueError(f"{name} must not be zero")
    found /= size
    return np.asarray(found / np.linalg.norm(found))


def axis_name(name: str, value: str) -> str:
    """Return the name of an axis, if it is one."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(AXES)}, got {value!r}")
    if value not in AXES:
        raise ValueError(f"{name} must be one of {', '.join(AXES)}, got {value!r}")
    return value


def upward(up: str | ArrayLike) -> Vector:
    """Return the direction of up, which may be an axis by its name, brought to length 1."""
    if isinstance(up, str):
        if up not in AXES:
            raise ValueError(f"up must be one of {', '.join(AXES)} or a direction, got {up!r}")
        return np.array(AXES[up])
    return unit("up", up)


def toward(eye: Vector, target: ArrayLike) -> Vector:
    """Return the direction from the eye to a target."""
    aim = vector("target", target)
    if np.array_equal(eye, aim):
        raise ValueError("target must differ from eye")
    # Halves, because the difference of two finite numbers may not be finite; but a half of the
    # smallest numbers is lost.
    if max(np.abs(eye).max(), np.abs(aim).max()) < 1e300:
        return unit("target", aim - eye)
    return unit("target", 0.5 * aim - 0.5 * eye)


def half_height_of(fov_y: float) -> float:
    """Return half the picture's height at depth 1."""
    if reals("fov_y", fov_y).shape != () or not 0.0 < fov_y < 180.0:
        raise ValueError(f"fov_y must be between 0 and 180 degrees, got {fov_y}")
    return float(np.tan(np.radians(fov_y) / 2))


def oblique(up: str | ArrayLike) -> Vector:
    """Return a pleasing direction to look along: across a corner and a little downward."""
    axis = upward(up)
    # The world axis that `up` is farthest from gives a horizontal direction.
    side = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    side /= np.linalg.norm(side)
    return np.asarray(0.8 * np.cross(axis, side) + 0.5 * side - 0.4 * axis)
