"""Pinhole and orthographic cameras: pixels to rays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import reals, whole_number


@dataclass(frozen=True, eq=False)
class Camera:
    """A camera over an image of `width` x `height` pixels.

    Make one with `look_at`, `orthographic` or `framing`. Pixel (0, 0) is the upper left one, x
    runs right and y down, and the centre of pixel (i, j) is at (i + 0.5, j + 0.5).

    Attributes
    ----------
    eye : ndarray, shape (3,)
    forward, right, up : ndarray, shape (3,)
        Orthonormal axes of the view.
    width, height : int
        Pixels.
    half_height : float
        Half the height of the picture, at distance 1 for a perspective camera.
    perspective : bool
    """

    eye: NDArray[np.float64]
    forward: NDArray[np.float64]
    right: NDArray[np.float64]
    up: NDArray[np.float64]
    width: int
    height: int
    half_height: float
    perspective: bool

    @classmethod
    def look_at(
        cls,
        eye: ArrayLike,
        target: ArrayLike,
        up: ArrayLike = (0.0, 0.0, 1.0),
        fov_y: float = 45.0,
        width: int = 800,
        height: int = 600,
    ) -> Camera:
        """Make a perspective camera.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            Where the camera is, and what is in the middle of the picture.
        up : array_like, shape (3,)
            Direction that points up in the picture; not along the view.
        fov_y : float
            Vertical field of view in degrees, between 0 and 180.
        width, height : int
            Pixels.

        Raises
        ------
        ValueError
            If eye and target coincide, `up` is along the view, or a number is out of range.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> origin, direction = camera.ray(4.0, 1.0)
        >>> origin.tolist(), direction.round(6).tolist()
        ([0.0, 0.0, 5.0], [2.0, 0.0, -1.0])
        """
        half = _half_height(fov_y)
        position = _vector("eye", eye)
        return cls._make(position, _toward(position, target), up, half, width, height, True)

    @classmethod
    def orthographic(
        cls,
        eye: ArrayLike,
        target: ArrayLike,
        up: ArrayLike = (0.0, 0.0, 1.0),
        view_height: float = 2.0,
        width: int = 800,
        height: int = 600,
    ) -> Camera:
        """Make a camera whose rays are parallel; `view_height` is the picture's height in space.

        Rays start in the plane through `eye`. Other parameters and errors as in `look_at`.
        """
        if reals("view_height", view_height).shape != () or not 0.0 < view_height < np.inf:
            raise ValueError(f"view_height must be positive and finite, got {view_height}")
        position, half = _vector("eye", eye), view_height / 2
        return cls._make(position, _toward(position, target), up, half, width, height, False)

    @classmethod
    def framing(
        cls,
        bounds: ArrayLike,
        direction: ArrayLike | None = None,
        up: ArrayLike = (0.0, 0.0, 1.0),
        fov_y: float = 35.0,
        width: int = 800,
        height: int = 600,
    ) -> Camera:
        """Make a perspective camera that looks along `direction` and sees all of a box.

        Parameters
        ----------
        bounds : array_like, shape (2, 3)
            Lower and upper corner, as `BVH.bounds` gives them.
        direction : array_like, shape (3,), optional
            Of the view; by default obliquely, and a little downward.
        up, fov_y, width, height
            As in `look_at`.
        """
        box = reals("bounds", bounds)
        if box.shape != (2, 3) or not np.isfinite(box).all():
            raise ValueError(f"bounds must be two finite corners, got {box.tolist()}")
        toward = _unit("direction", _oblique(up) if direction is None else direction)
        middle = 0.5 * box[0] + 0.5 * box[1]
        half_height = _half_height(fov_y)
        probe = cls._make(middle, toward, up, half_height, width, height, True)
        # Step back until every corner is inside the picture.
        corners = np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3) - middle
        half = half_height * np.array([probe.width / probe.height, 1.0])
        across = np.abs(corners @ np.stack([probe.right, probe.up], axis=1)) / half
        back = 1.06 * float((across.max(axis=1) - corners @ toward).max())
        if back <= 0.0:
            back = max(1.0, np.abs(middle).max() / 1024)
        if not np.isfinite(middle - back * toward).all():
            raise ValueError("bounds are too large to step back from")
        return replace(probe, eye=middle - back * toward)

    @classmethod
    def _make(
        cls,
        eye: NDArray[np.float64],
        forward: NDArray[np.float64],
        up: ArrayLike,
        half_height: float,
        width: int,
        height: int,
        perspective: bool,
    ) -> Camera:
        side = np.cross(forward, _unit("up", up))
        if np.linalg.norm(side) < 1e-12:
            raise ValueError("up must not be along the view")
        right = side / np.linalg.norm(side)
        return cls(
            eye,
            forward,
            right,
            np.cross(right, forward),
            whole_number("width", width),
            whole_number("height", height),
            half_height,
            perspective,
        )

    def ray(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ray through a point of the picture, in pixels from its upper left corner.

        Parameters
        ----------
        x, y : array_like, shape (...)
            May lie outside the picture. The middle of pixel (i, j) is (i + 0.5, j + 0.5).

        Returns
        -------
        origin, direction : ndarray, shape (..., 3)
            The direction is not normalised: it reaches the plane at distance 1 from the eye, so t
            is depth along the view.
        """
        px, py = np.broadcast_arrays(reals("x", x), reals("y", y))
        scale = 2.0 * self.half_height / self.height
        across = ((px - self.width / 2) * scale)[..., None] * self.right
        across = across + ((self.height / 2 - py) * scale)[..., None] * self.up
        if self.perspective:
            return np.broadcast_to(self.eye, across.shape), across + self.forward
        return self.eye + across, np.broadcast_to(self.forward, across.shape)

    def rays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the rays through all pixel centres, each of shape (height, width, 3)."""
        x, y = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        return self.ray(x, y)


def _oblique(up: ArrayLike) -> NDArray[np.float64]:
    """Return a pleasing direction to look along: across a corner and a little downward."""
    axis = _unit("up", up)
    # The world axis that `up` is farthest from gives a horizontal direction.
    side = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    side /= np.linalg.norm(side)
    return np.asarray(0.8 * np.cross(axis, side) + 0.5 * side - 0.4 * axis)


def _vector(name: str, value: ArrayLike) -> NDArray[np.float64]:
    vector = reals(name, value)
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise ValueError(f"{name} must be three finite numbers, got {np.asarray(value).tolist()}")
    return vector.copy()


def _toward(eye: NDArray[np.float64], target: ArrayLike) -> NDArray[np.float64]:
    """Return the direction from the eye to a target."""
    aim = _vector("target", target)
    if np.array_equal(eye, aim):
        raise ValueError("target must differ from eye")
    # Halves, because the difference of two finite numbers may not be finite.
    return _unit("target", 0.5 * aim - 0.5 * eye)


def _half_height(fov_y: float) -> float:
    """Return half the picture's height at distance 1."""
    if reals("fov_y", fov_y).shape != () or not 0.0 < fov_y < 180.0:
        raise ValueError(f"fov_y must be between 0 and 180 degrees, got {fov_y}")
    return float(np.tan(np.radians(fov_y) / 2))


def _unit(name: str, value: ArrayLike) -> NDArray[np.float64]:
    vector = _vector(name, value)
    size = np.abs(vector).max()
    if size == 0.0:
        raise ValueError(f"{name} must not be zero")
    vector /= size
    return np.asarray(vector / np.linalg.norm(vector))
