"""Rays of pinhole cameras, by matrices or by a view, as Open3D makes them."""

import math
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bvh.compat.tensors import Given, given_like, narrowed, plain
from bvh.runtime.arguments import reals, whole_number


class PinholeRays:
    """Base of `RaycastingScene`, which makes rays of cameras."""

    @overload
    @staticmethod
    def create_rays_pinhole(
        intrinsic_matrix: Given, extrinsic_matrix: Given, width_px: int, height_px: int, *,
        dtype: DTypeLike = ...,
    ) -> Any: ...  # fmt: skip

    @overload
    @staticmethod
    def create_rays_pinhole(
        fov_deg: float, center: Given, eye: Given, up: Given, width_px: int, height_px: int, *,
        dtype: DTypeLike = ...,
    ) -> Any: ...  # fmt: skip

    @staticmethod
    def create_rays_pinhole(*args: Any, dtype: DTypeLike = np.float32, **kwargs: Any) -> Any:
        """Return the rays of a pinhole camera, shape (height_px, width_px, 6), as in Open3D.

        Called as ``create_rays_pinhole(intrinsic_matrix, extrinsic_matrix, width_px, height_px)``
        or as ``create_rays_pinhole(fov_deg, center, eye, up, width_px, height_px)``, with *args or
        **kwargs. Rays go through the centres of pixels, row by row; with ``up``, as in Open3D, the
        first row is at the bottom of the view and the first column at the right. Beside float32,
        which Open3D returns, `dtype` may be float64, more accurate far from the origin.
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        by_matrices = "intrinsic_matrix" in kwargs or "extrinsic_matrix" in kwargs
        if by_matrices or (len(args) + len(kwargs) == 4 and "fov_deg" not in kwargs):
            rays = rays_of_matrices(*args, **kwargs)
        else:
            rays = rays_of_view(*args, **kwargs)
        return given_like(narrowed(rays, dtype), *args, *kwargs.values())


def rays_of_matrices(
    intrinsic_matrix: Given, extrinsic_matrix: Given, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays of a calibrated camera, shape (height_px, width_px, 6)."""
    intrinsic = _array("intrinsic_matrix", intrinsic_matrix, (3, 3))
    extrinsic = _array("extrinsic_matrix", extrinsic_matrix, (4, 4))
    try:
        inverse = np.linalg.inv(intrinsic)
    except np.linalg.LinAlgError:
        raise ValueError("intrinsic_matrix must have an inverse, got a singular one") from None
    width, height = whole_number("width_px", width_px, 0), whole_number("height_px", height_px, 0)
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
    fov_deg: float, center: Given, eye: Given, up: Given, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays of a camera with a target, shape (height_px, width_px, 6)."""
    target, position = _array("center", center, (3,)), _array("eye", eye, (3,))
    upward = _array("up", up, (3,))
    angle = reals("fov_deg", fov_deg)
    if angle.shape != () or not 0.0 < angle < 180.0:
        raise ValueError(f"fov_deg must be between 0 and 180, got {fov_deg!r}")
    ahead = _unit(target - position)
    if ahead is None:
        raise ValueError(f"center must differ from eye, got {target.tolist()}")
    right = _unit(np.cross(upward, ahead))
    if right is None:
        raise ValueError(f"up must not be zero or along the view, got {upward.tolist()}")
    width, height = whole_number("width_px", width_px, 0), whole_number("height_px", height_px, 0)
    focal = 0.5 * width / math.tan(math.radians(float(angle)) / 2.0)
    intrinsic = np.array([[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]])
    if focal == 0.0:
        return np.empty((height, 0, 6))
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = right, np.cross(ahead, right), ahead
    rays = rays_of_matrices(intrinsic, extrinsic, width, height)
    # The eye itself, which the matrix would round.
    rays[..., :3] = position
    return rays


def _array(name: str, value: Given, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a checked value as float64 of a given shape."""
    array = reals(name, plain(value))
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a unit vector, or None for zero or infinite length."""
    length = math.hypot(*vector)
    return vector / length if 0.0 < length < math.inf else None
