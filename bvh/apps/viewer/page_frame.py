"""Coordinates of a page: the world, translated and scaled so that float32 is precise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera

Floats = NDArray[np.float64]

# Smallest half extent of a scene that is not treated as a point.
SMALLEST = 2.0**-600


@dataclass(frozen=True, eq=False)
class PageFrame:
    """Map from world to page coordinates: page = (world - centre) * scale.

    The browser stores vertices as float32 and has a fixed near plane, so the scene is moved to the
    origin and scaled to a largest half extent between 1 and 2. The scale is a power of two, so only
    sums are rounded.
    """

    centre: Floats
    scale: float

    @classmethod
    def around(cls, bounds: Floats) -> PageFrame:
        """Return the frame of a scene with bounds of shape (2, 3), which are NaN if it is empty."""
        if not np.isfinite(bounds).all():
            return cls(np.zeros(3), 1.0)
        centre = 0.5 * bounds[0] + 0.5 * bounds[1]
        half = float((0.5 * bounds[1] - 0.5 * bounds[0]).max())
        # frexp: half = m * 2**k with m from 0.5 to 1.
        k = 1 - math.frexp(half)[1] if half > SMALLEST else 0
        return cls(centre, math.ldexp(1.0, k))

    def to_page(self, points: ArrayLike) -> Floats:
        """Return world points, shape (..., 3), in page coordinates."""
        return np.asarray((np.asarray(points, np.float64) - self.centre) * self.scale)

    def to_world(self, points: ArrayLike) -> Floats:
        """Return page points, shape (..., 3), in world coordinates."""
        return np.asarray(np.asarray(points, np.float64) / self.scale + self.centre)

    def camera(
        self, wxyz: ArrayLike, position: ArrayLike, fov: float, width: int, height: int
    ) -> Camera:
        """Return the world camera of a page's camera.

        Parameters
        ----------
        wxyz : array_like, shape (4,)
            Rotation from camera to page, w first; the camera looks along its z, with x to the
            right and y down.
        position : array_like, shape (3,)
            The eye, in page coordinates.
        fov : float
            Vertical field of view in radians.
        width, height : int
            Device pixels.
        """
        turn = rotation_of(wxyz)
        made = Camera.look_at(
            np.zeros(3), turn[:, 2], -turn[:, 1], math.degrees(fov), width, height
        )
        # Directions are the same in both.
        return replace(made, eye=self.to_world(position))

    def ray_camera(self, origin: ArrayLike, direction: ArrayLike) -> Camera:
        """Return a camera of one pixel, whose centre (0.5, 0.5) has the given page ray.

        t is the distance in the world.
        """
        along = np.asarray(direction, np.float64)
        up = np.eye(3)[int(np.abs(along).argmin())]
        return replace(
            Camera.look_at(np.zeros(3), along, up, 45.0, 1, 1), eye=self.to_world(origin)
        )


def rotation_of(wxyz: ArrayLike) -> Floats:
    """Return the rotation matrix of a quaternion of any length, w first."""
    w, x, y, z = np.asarray(wxyz, np.float64) / np.linalg.norm(np.asarray(wxyz, np.float64))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
