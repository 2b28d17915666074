"""Cameras, and the ways to make them: from where they look, and from other programs' matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.arguments import reals
from bvh.calibration import of_opencv, of_trimesh
from bvh.placement import half_height_of, looking, oblique, toward, unit, vector
from bvh.projections import Geometry, Raster, from_renderer
from bvh.views import View


class Camera(View):
    """A camera over a picture of `width` x `height` pixels.

    Make one with `look_at`, `orthographic`, `framing`, `from_opencv`, `from_matrices` or
    `from_trimesh`. Unless said otherwise, the upper left corner of the picture is (0, 0), x runs
    right and y down, and the centre of pixel (i, j) is at (i + 0.5, j + 0.5).

    Where coordinates count differently, tell the camera: with `y="up"` the lower left corner is
    (0, 0), and the first row of `rays` is the lowest. With a `pixel_ratio` the coordinates of
    `ray`, `cursor_ray`, `project` and `frustum` are those of a cursor on a screen that shows so
    many device pixels to one of its units (window.devicePixelRatio of a browser), while `width`,
    `height` and `rays` count device pixels.
    """

    @classmethod
    def look_at(
        cls,
        eye: ArrayLike,
        target: ArrayLike,
        up: str | ArrayLike = (0.0, 0.0, 1.0),
        fov_y: float = 45.0,
        width: int = 800,
        height: int = 600,
        *,
        near: float = 0.0,
        far: float = math.inf,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a perspective camera.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            Where the camera is, and what is in the middle of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,)
            Direction that points up in the picture; not along the view. Of a scene, `Scene.up`.
        fov_y : float
            Vertical field of view in degrees, between 0 and 180.
        width, height : int
            Device pixels.
        near, far : float
            Depths between which things are visible, 0 <= near < far; the camera's `t_min` and
            `t_max`.
        y : {"down", "up"}
            Which way y runs in the picture.
        pixel_ratio : float
            Device pixels to a unit of x and y; above 0.

        Raises
        ------
        ValueError, TypeError
            If eye and target coincide, `up` is along the view, or an argument is out of range.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> origin, direction = camera.ray(4.0, 1.0)
        >>> origin.tolist(), direction.round(6).tolist()
        ([0.0, 0.0, 5.0], [2.0, 0.0, -1.0])
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        half = half_height_of(fov_y)
        position = vector("eye", eye)
        made = looking("fov_y", position, toward(position, target), up, half, raster)
        return cls._made(made, True, raster, near, far)

    @classmethod
    def orthographic(
        cls,
        eye: ArrayLike,
        target: ArrayLike,
        up: str | ArrayLike = (0.0, 0.0, 1.0),
        view_height: float = 2.0,
        width: int = 800,
        height: int = 600,
        *,
        near: float = 0.0,
        far: float = math.inf,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a camera whose rays are parallel.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            Rays start in the plane through `eye`; what is in the middle of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,)
            Direction that points up in the picture; not along the view.
        view_height : float
            Height of the picture in space.
        near, far : float
            Depths between which things are visible, near < far. A negative `near` also shows what
            is behind the eye.
        width, height, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            If eye and target coincide, `up` is along the view, or an argument is out of range.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 5], [0, 0, 0], [0, 1, 0], 2.0, 4, 2)
        >>> origin, direction = camera.ray(4.0, 1.0)
        >>> origin.tolist(), direction.tolist()
        ([2.0, 0.0, 5.0], [0.0, 0.0, -1.0])
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        if reals("view_height", view_height).shape != () or not 0.0 < view_height < np.inf:
            raise ValueError(f"view_height must be positive and finite, got {view_height}")
        position, half = vector("eye", eye), view_height / 2
        made = looking("view_height", position, toward(position, target), up, half, raster)
        return cls._made(made, False, raster, near, far)

    @classmethod
    def framing(
        cls,
        bounds: Any,
        direction: ArrayLike | None = None,
        up: str | ArrayLike | None = None,
        fov_y: float = 35.0,
        width: int = 800,
        height: int = 600,
        *,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a perspective camera that looks along `direction` and sees all of a box.

        Parameters
        ----------
        bounds : array_like, shape (2, 3), or BVH or Scene
            Lower and upper corner, as `BVH.bounds` gives them, or what has them.
        direction : array_like, shape (3,), optional
            Of the view; by default obliquely, and a little downward.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
            As in `look_at`; by default what the scene has for up (`Scene.up`), else z.
        fov_y, width, height, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            If the bounds are not finite or an argument is out of range.

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
        probe = cls._made(looking("fov_y", middle, along, up, half_height, raster), True, raster)
        # Step back until every corner is inside the picture.
        corners = np.stack(np.meshgrid(*box.T, indexing="ij"), axis=-1).reshape(-1, 3) - middle
        half = half_height * np.array([probe.width / probe.height, 1.0])
        across = np.abs(corners @ np.stack([probe.right, probe.up], axis=1)) / half
        back = 1.06 * float((across.max(axis=1) - corners @ along).max())
        if back <= 0.0:
            back = max(1.0, np.abs(middle).max() / 1024)
        if not np.isfinite(middle - back * along).all():
            raise ValueError("bounds are too large to step back from")
        return replace(probe, eye=middle - back * along)

    @classmethod
    def from_opencv(
        cls,
        intrinsics: ArrayLike,
        extrinsics: ArrayLike,
        width: int,
        height: int,
        *,
        distortion: ArrayLike | None = None,
        near: float = 0.0,
        far: float = math.inf,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a camera of the matrices that OpenCV calibrates.

        OpenCV's camera looks along z, with x to the right and y down, and its whole numbers are
        the centres of pixels: what `cv2.projectPoints` puts at (u, v), `project` puts at
        (u + 0.5, v + 0.5). No other shift is needed, also not for the principal point.

        Parameters
        ----------
        intrinsics : array_like, shape (3, 3)
            The camera matrix [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] in pixels, fx and fy
            positive. The skew counts, which `cv2.projectPoints` leaves out.
        extrinsics : array_like, shape (3, 4) or (4, 4)
            From world to camera: [R | t] with a rotation R, as `cv2.Rodrigues` makes it of a
            rotation vector.
        width, height : int
            Device pixels.
        distortion : array_like, optional
            Coefficients of a lens; accepted if all are 0.
        near, far, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            If a matrix is not of that form, or an argument is out of range. If the lens distorts:
            undistort the pixels first (`cv2.undistortPoints`, `cv2.initUndistortRectifyMap`).

        Examples
        --------
        >>> import bvh
        >>> k = [[800, 0, 319.5], [0, 800, 239.5], [0, 0, 1]]
        >>> camera = bvh.Camera.from_opencv(k, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2]], 640, 480)
        >>> camera.eye.tolist(), camera.project([0, 0, 2])
        ([0.0, 0.0, -2.0], (320.0, 240.0, 4.0))
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        made = of_opencv(intrinsics, extrinsics, distortion, raster)
        return cls._made(made, True, raster, near, far)

    @classmethod
    def from_matrices(
        cls,
        view: ArrayLike,
        projection: ArrayLike,
        width: int,
        height: int,
        *,
        depth: str = "opengl",
        reversed_z: bool = False,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a camera of the matrices that a renderer uses.

        Parameters
        ----------
        view : array_like, shape (4, 4)
            From world to camera; affine and invertible. It may scale and mirror: t of a ray is
            depth in units of the world all the same.
        projection : array_like, shape (4, 4)
            From camera to clip space; perspective or parallel, also off centre, skewed, and with
            its far plane at infinity. Or their product, the view being the identity.
        width, height : int
            Device pixels that clip space from -1 to 1 covers.
        depth : {"opengl", "vulkan", "direct3d"}
            What the projection makes of depth and of up. "opengl": -1 to 1, y up. "vulkan": 0 to
            1, y down. "direct3d": 0 to 1, y up; so it is in Metal, in WebGPU, and in OpenGL after
            glClipControl(GL_LOWER_LEFT, GL_ZERO_TO_ONE).
        reversed_z : bool
            Whether the near plane is where the far one would be, as is done for precision.
        y : {"down", "up"}
            Which way y runs in the picture that the camera is asked about; `depth` says which way
            it runs in clip space.
        pixel_ratio : float
            As in `look_at`.

        Returns
        -------
        Camera
            With the `near` and `far` of the projection. Rays of a parallel projection start in
            the plane of the view's origin, and `near` may be negative.

        Raises
        ------
        ValueError, TypeError
            If a matrix is singular, not finite or not of that kind, multiplies row vectors
            (transpose it), or has its depths the other way round; or an argument is out of range.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> view = np.eye(4)
        >>> view[2, 3] = -5
        >>> projection = [[0.5, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, -0.5], [0, 0, -1, 0]]
        >>> camera = bvh.Camera.from_matrices(view, projection, 4, 2, depth="opengl")
        >>> camera.eye.tolist(), camera.t_min, camera.t_max
        ([0.0, 0.0, 5.0], 0.25, inf)
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        found = from_renderer(view, projection, depth, reversed_z, raster)
        made, perspective, near, far = found
        return cls._made(made, perspective, raster, near, far)

    @classmethod
    def from_trimesh(
        cls,
        source: Any,
        transform: ArrayLike | None = None,
        *,
        near: float = 0.0,
        far: float = math.inf,
        y: str = "down",
        pixel_ratio: float = 1.0,
    ) -> Camera:
        """Make a camera of a trimesh scene or of a trimesh camera.

        Its rays are those of `trimesh.Scene.camera_rays`, lengths apart; trimesh numbers the
        pixels from below, as y="up" does.

        Parameters
        ----------
        source : trimesh.Scene or trimesh.scene.Camera
            A scene without a camera gets the one that trimesh then gives it.
        transform : array_like, shape (4, 4), optional
            From camera to world; that of the scene by default, or the identity. The camera looks
            along its -z, with y up.
        near, far, y, pixel_ratio
            As in `look_at`. The camera's own z_near and z_far are left aside, as trimesh's rays
            leave them: they are seldom meant.

        Raises
        ------
        ValueError, TypeError
            If the source is neither, the transform is not affine and invertible, or a number is
            out of range.

        Examples
        --------
        >>> import bvh, trimesh
        >>> lens = trimesh.scene.Camera(resolution=(4, 2), fov=(90, 90))
        >>> camera = bvh.Camera.from_trimesh(lens)
        >>> camera.ray(4, 0)[1].round(6).tolist()
        [1.0, 1.0, -1.0]
        """
        made, size = of_trimesh(source, transform, y, pixel_ratio)
        return cls._made(made, True, size, near, far)

    @classmethod
    def _made(
        cls,
        geometry: Geometry,
        perspective: bool,
        raster: Raster,
        near: float = 0.0,
        far: float = math.inf,
    ) -> Camera:
        width, height, y, pixel_ratio = raster
        eye, forward, step_x, step_y, centre = map(np.array, geometry)
        return cls(eye, forward, step_x, step_y, centre,
                   width, height, perspective, y, pixel_ratio, near, far)  # fmt: skip
