"""Camera: constructors by eye and target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera.fitting import FILL, eye_before, in_view, outline_of
from bvh.camera.matrices import Raster, YDirection, number
from bvh.camera.other_programs import ProgramView
from bvh.camera.placement import half_height_of, looking, oblique, toward, unit, vector
from bvh.runtime.arguments import Axis, reals


class Camera(ProgramView):
    """A camera over a picture of `width` x `height` pixels.

    Created by `look_at`, `orthographic`, `framing`, `from_opencv`, `from_matrices`, `from_pyvista`
    or `from_trimesh`. By default, the upper left corner of the picture is (0, 0), x points right
    and y down, and the centre of pixel (i, j) is at (i + 0.5, j + 0.5).

    With `y="up"` the lower left corner is (0, 0), and the first row of `rays` is the lowest. With a
    `pixel_ratio` the coordinates of `ray`, `cursor_ray`, `project` and `frustum` are in units of so
    many device pixels, like those of a cursor in a browser (window.devicePixelRatio), while
    `width`, `height` and `rays` count device pixels.

    Arguments of the wrong shape or type, or out of range, raise a ValueError or TypeError that
    names them, in constructors and methods alike.

    Examples
    --------
    >>> import bvh
    >>> camera = bvh.Camera.look_at([0, 0, 3], [0, 0, 0], [0, 1, 0], width=4, height=2)
    >>> origins, directions = camera.rays()
    >>> origins.shape, directions.shape
    ((2, 4, 3), (2, 4, 3))
    """

    @classmethod
    def look_at(
        cls, eye: ArrayLike, target: ArrayLike, up: Axis | ArrayLike = (0.0, 0.0, 1.0),
        fov_y: float = 45.0, width: int = 800, height: int = 600, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Camera:  # fmt: skip
        """Create a perspective camera.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            Position of the camera, and the point at the centre of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,)
            Up direction of the picture, not parallel to the view; for a scene, `Scene.up`.
        fov_y : float
            Vertical field of view in degrees, between 0 and 180.
        width, height : int
            Device pixels.
        near, far : float
            Range of visible depths, 0 <= near < far; the camera's `t_min` and `t_max`.
        y : {"down", "up"}
            Direction of y in the picture.
        pixel_ratio : float
            Device pixels to a unit of x and y; above 0.

        Raises
        ------
        ValueError, TypeError
            If eye and target coincide, `up` is parallel to the view, or an argument is out of
            range.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> camera.project([0, 0, 0])
        (2.0, 1.0, 5.0)
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        half = half_height_of(fov_y)
        position = vector("eye", eye)
        geometry = looking("fov_y", position, toward(position, target), up, half, raster)
        return cls._create(raster, geometry, near=near, far=far)

    @classmethod
    def orthographic(
        cls, eye: ArrayLike, target: ArrayLike, up: Axis | ArrayLike = (0.0, 0.0, 1.0),
        view_height: float = 2.0, width: int = 800, height: int = 600, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Camera:  # fmt: skip
        """Create a camera with parallel rays.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            A point of the plane in which rays start, and the point at the centre of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,)
            As in `look_at`.
        view_height : float
            Height of the picture in space.
        near, far : float
            Range of visible depths, near < far. With a negative `near`, what is behind the eye is
            visible, too.
        width, height, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            As in `look_at`.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 4, 2)
        >>> camera.project([1, 0, 0])
        (3.0, 1.0, 5.0)
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        if reals("view_height", view_height).shape != () or not 0.0 < view_height < np.inf:
            raise ValueError(f"view_height must be positive and finite, got {view_height}")
        position, half = vector("eye", eye), view_height / 2
        geometry = looking("view_height", position, toward(position, target), up, half, raster)
        return cls._create(raster, geometry, False, near, far)

    @classmethod
    def framing(
        cls, bounds: Any, direction: ArrayLike | None = None, up: Axis | ArrayLike | None = None,
        fov_y: float = 35.0, width: int = 800, height: int = 600, *, fill: float = FILL,
        y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Camera:  # fmt: skip
        """Create a perspective camera that looks along `direction` and sees all of something.

        Parameters
        ----------
        bounds : BVH or Scene, or array_like, shape (2, 3)
            A tree or scene, whose vertices are fitted, as they are seen; or a lower and an upper
            corner, like `BVH.bounds`, whose eight corners are, about the centre of the box.
        direction : array_like, shape (3,), optional
            View direction; by default oblique and a little downward.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
            As in `look_at`; by default `Scene.up`, else z.
        fill : float
            Share of the picture's width or height that is filled, whichever is reached first; above
            0, at most 1.
        fov_y, width, height, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            If the bounds are not finite, `up` is parallel to the view, or an argument is out of
            range.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.framing([[0, 0, 0], [1, 2, 3]], [0, 1, 0], width=40, height=30)
        >>> [round(x, 6) for x in camera.project([0.5, 1, 1.5])[:2]]
        [20.0, 15.0]
        """
        box = reals("bounds", getattr(bounds, "bounds", bounds))
        if up is None:
            up = getattr(bounds, "up", "z")
        if box.shape != (2, 3) or not np.isfinite(box).all():
            raise ValueError(f"bounds must be two finite corners, got {box.tolist()}")
        along = unit("direction", oblique(up) if direction is None else direction)
        middle = 0.5 * box[0] + 0.5 * box[1]
        half_height = half_height_of(fov_y)
        raster = Raster.checked(width, height, y, pixel_ratio)
        probe = cls._create(raster, looking("fov_y", middle, along, up, half_height, raster))
        share = number("fill", fill)
        if not 0.0 < share <= 1.0:
            raise ValueError(f"fill must be above 0 and at most 1, got {fill!r}")
        half = share * half_height * np.array([probe.width / probe.height, 1.0])
        basis = np.stack([probe.right, probe.up, along], axis=1)
        points = outline_of(bounds)
        if points is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                right, above, depth = eye_before(in_view(points - middle, *basis.T), half)
        else:
            # Move back until every corner is inside.
            corners = np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3) - middle
            across = np.abs(corners @ basis[:, :2]) / half
            right, above = 0.0, 0.0
            depth = -float((across.max(axis=1) - corners @ along).max())
        if depth >= 0.0:
            depth = -max(1.0, np.abs(middle).max() / 1024)
        eye = middle + basis @ [right, above, depth]
        if not np.isfinite(eye).all():
            raise ValueError("bounds are too large to step back from")
        return replace(probe, eye=eye)


def check_camera(camera: object) -> None:
    """Check that an argument is a camera."""
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a Camera, got {type(camera).__name__}")
