"""Queries of a camera: rays of pixels, pixels of points, planes of rectangles."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera.lens import Floats, Lens
from bvh.camera.matrices import number
from bvh.runtime.arguments import common_shape, reals
from bvh.runtime.arguments import points as rows_of_points


class View(Lens):
    """Rays, projections and frusta of a lens."""

    def ray(self, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        """Return the ray through a point of the picture.

        Parameters
        ----------
        x, y : array_like, shape (...)
            Distance from the left border and from the upper one (the lower one if `y` of the
            camera is "up"), in units of `pixel_ratio` device pixels. They may lie outside the
            picture, and broadcast. The centre of device pixel (i, j) is at (i + 0.5, j + 0.5)
            divided by `pixel_ratio`.

        Returns
        -------
        origin, direction : ndarray, shape (..., 3)
            The direction is not normalised: t is depth, the distance from the plane through the
            eye, and `t_min` and `t_max` of the camera are its visible range. If x or y is NaN or
            infinite, the ray hits nothing.

        Raises
        ------
        ValueError, TypeError
            If x or y are not numbers, or do not broadcast.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> origin, direction = camera.ray(4.0, 1.0)
        >>> origin.tolist(), direction.round(6).tolist()
        ([0.0, 0.0, 5.0], [2.0, 0.0, -1.0])
        """
        px, py = reals("x", x), reals("y", y)
        common_shape(x=px.shape, y=py.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            across = (px - self.centre[0])[..., None] * self.step_x
            across = across + (py - self.centre[1])[..., None] * self.step_y
            if self.perspective:
                return np.broadcast_to(self.eye, across.shape), across + self.forward
            return self.eye + across, np.broadcast_to(self.forward, across.shape)

    def rays(self) -> tuple[Floats, Floats]:
        """Return the rays through the centres of all device pixels.

        Returns
        -------
        origins, directions : ndarray, shape (height, width, 3)
            Row j has the rays at y = (j + 0.5) / pixel_ratio, so the first row is at the top unless
            `y` is "up".

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 2, 2)
        >>> origins, directions = camera.rays()
        >>> origins[0].tolist()
        [[-0.5, 0.5, 5.0], [0.5, 0.5, 5.0]]
        """
        x = (np.arange(self.width) + 0.5) / self.pixel_ratio
        y = (np.arange(self.height) + 0.5) / self.pixel_ratio
        return self.ray(x, y[:, None])

    def cursor_ray(self, x: float, y: float) -> tuple[float, float, float, float, float, float]:
        """Return the ray through one point of the picture as six floats.

        They are those of `ray`, bit for bit, in half a microsecond.

        Parameters
        ----------
        x, y : float
            As in `ray`.

        Returns
        -------
        tuple of float
            Origin and direction: (ox, oy, oz, dx, dy, dz).

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 2, 2)
        >>> camera.cursor_ray(2, 1)
        (1.0, 0.0, 5.0, 0.0, 0.0, -1.0)
        """
        cx, cy, ax, ay, az, bx, by, bz, fx, fy, fz, ex, ey, ez = self._floats
        a = float(x) - cx
        b = float(y) - cy
        if self.perspective:
            return ex, ey, ez, a * ax + b * bx + fx, a * ay + b * by + fy, a * az + b * bz + fz
        return ex + (a * ax + b * bx), ey + (a * ay + b * by), ez + (a * az + b * bz), fx, fy, fz

    def project(self, points: ArrayLike) -> tuple[Any, Any, Any]:
        """Return the positions of points in the picture: the inverse of `ray`.

        Parameters
        ----------
        points : array_like, shape (..., 3)
            They need not be between `near` and `far`.

        Returns
        -------
        x, y, depth : float, or ndarray of float64 of the points' leading shape
            Position as `ray` takes it, and the distance from the plane through the eye: t of the
            ray at (x, y). For a perspective camera, points behind the eye or in its plane have a
            depth of at most 0, and x and y are NaN. Points that are not finite give NaN, NaN, NaN.

        Raises
        ------
        ValueError, TypeError
            If the points do not have shape (..., 3) or are not numbers.

        Notes
        -----
        A point on a ray is projected to its pixel up to the rounding of the point itself: near an
        eye at 1e7, coordinates are multiples of 2e-9.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> x, y, depth = camera.project([[0, 0, 0], [5, 0, 0], [0, 0, 7]])
        >>> x.round(6).tolist(), depth.tolist()
        ([2.0, 3.0, nan], [5.0, 5.0, -2.0])
        """
        given = rows_of_points("points", points)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            offset = given - self.eye
            a, b, depth = (
                offset[..., 0] * g[0] + offset[..., 1] * g[1] + offset[..., 2] * g[2]
                for g in self.gradients
            )
            if self.perspective:
                before = np.where(depth > 0.0, depth, np.nan)
                a, b = a / before, b / before
            x, y = self.centre[0] + a, self.centre[1] + b
        lost = ~np.isfinite(given).all(axis=-1)
        x, y, depth = (np.where(lost, np.nan, part) for part in (x, y, depth))
        if given.ndim == 1:
            return float(x), float(y), float(depth)
        return x, y, depth

    def frustum(self, x0: float, y0: float, x1: float, y1: float) -> Floats:
        """Return the half-spaces whose intersection is visible in a rectangle of the picture.

        Parameters
        ----------
        x0, y0, x1, y1 : float
            Any two opposite corners, as in `ray`. They may lie outside the picture, and the
            rectangle may be as narrow as a line or a point.

        Returns
        -------
        ndarray of float64, shape (n, 4)
            Rows (nx, ny, nz, offset) with unit normals: inside is where n . p + offset >= 0, as
            `BVH.overlap_frustum` takes them. Four for the borders, one for `near` (the plane of the
            eye if that is 0), and one for `far` unless it is infinite. Each is rounded to doubles,
            which moves it by less than two roundings of the eye's coordinates and of its distance.

        Raises
        ------
        ValueError, TypeError
            If a corner is not a finite number.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 20, 20)
        >>> tree.overlap_frustum(camera.frustum(10.5, 5, 20, 9.5)).prim_id
        array([0], dtype=int32)
        >>> tree.overlap_frustum(camera.frustum(0, 0, 5, 20)).prim_id
        array([], dtype=int32)
        """
        corners = {"x0": x0, "y0": y0, "x1": x1, "y1": y1}
        borders = [number(name, value) for name, value in corners.items()]
        for name, value in zip(corners, borders, strict=True):
            if not math.isfinite(value):
                raise ValueError(f"{name} must be finite, got {value}")
        *across, along = self.gradients.tolist()
        planes = []
        for axis, gradient in enumerate(across):
            low, high = sorted((borders[axis], borders[axis + 2]))
            for sign, border in ((1.0, low), (-1.0, high)):
                level = sign * (border - float(self.centre[axis]))
                normal = [sign * g for g in gradient]
                if self.perspective:
                    normal = [n - level * g for n, g in zip(normal, along, strict=True)]
                    level = 0.0
                planes.append(self._plane(normal, level))
        for sign, depth in ((1.0, self.near), (-1.0, self.far)):
            if math.isfinite(depth):
                planes.append(self._plane([sign * g for g in along], sign * depth))
        return np.array(planes)

    def _plane(self, normal: list[float], level: float) -> list[float]:
        """Return the row of the points p with normal . (p - eye) >= level."""
        size = math.hypot(*normal)
        row = [n / size for n in normal]
        # Exactly, because for a distant eye the products cancel.
        pairs = zip(row, self.eye.tolist(), strict=True)
        shift = sum((Fraction(n) * Fraction(e) for n, e in pairs), Fraction(level / size))
        return [*row, -float(shift)]
