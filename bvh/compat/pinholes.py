"""Rays of pinhole cameras with Open3D's parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.compat.tensors import plain
from bvh.runtime.arguments import one_index, reals


def rays_of_matrices(
    intrinsic_matrix: Any, extrinsic_matrix: Any, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays of a calibrated camera, shape (height_px, width_px, 6)."""
    intrinsic = _shaped("intrinsic_matrix", intrinsic_matrix, (3, 3))
    extrinsic = _shaped("extrinsic_matrix", extrinsic_matrix, (4, 4))
    try:
        inverse = np.linalg.inv(intrinsic)
    except np.linalg.LinAlgError:
        raise ValueError("intrinsic_matrix must have an inverse, got a singular one") from None
    width, height = _pixels("width_px", width_px), _pixels("height_px", height_px)
    # The inverse of a rotation.
    turn = extrinsic[:3, :3].T
    pixels = np.ones((height, width, 3))
    pixels[..., 0] = np.arange(width) + 0.5
    pixels[..., 1] = (np.arange(height) + 0.5)[:, None]
    rays = np.empty((height, width, 6))
    rays[..., :3] = -(turn @ extrinsic[:3, 3])
    rays[..., 3:] = pixels @ (turn @ inverse).T
    return rays


def rays_of_view(
    fov_deg: float, center: Any, eye: Any, up: Any, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays of a camera with a target, shape (height_px, width_px, 6)."""
    target, position = _shaped("center", center, (3,)), _shaped("eye", eye, (3,))
    upward = _shaped("up", up, (3,))
    angle = reals("fov_deg", fov_deg)
    if angle.shape != () or not 0.0 < angle < 180.0:
        raise ValueError(f"fov_deg must be between 0 and 180, got {fov_deg!r}")
    ahead = _unit(target - position)
    if ahead is None:
        raise ValueError(f"center must lie away from eye, got {target.tolist()}")
    right = _unit(np.cross(upward, ahead))
    if right is None:
        raise ValueError(f"up must not be zero or along the view, got {upward.tolist()}")
    turn = np.stack([right, np.cross(ahead, right), ahead])
    width, height = _pixels("width_px", width_px), _pixels("height_px", height_px)
    focal = 0.5 * width / math.tan(math.radians(float(angle)) / 2.0)
    intrinsic = np.array([[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]])
    if focal == 0.0:
        return np.empty((height, 0, 6))
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = turn
    rays = rays_of_matrices(intrinsic, extrinsic, width, height)
    # The eye itself, which the matrix would round.
    rays[..., :3] = position
    return rays


def _shaped(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a checked value as float64 of a given shape."""
    array = reals(name, plain(value))
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def _pixels(name: str, value: int) -> int:
    """Return a checked number of pixels, which may be 0."""
    number = one_index(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")
    return number


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a unit vector, or None for zero or infinite length."""
    length = math.hypot(*vector)
    return vector / length if 0.0 < length < math.inf else None
