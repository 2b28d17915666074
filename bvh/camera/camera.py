"""Camera: constructors by eye and target, and from cameras of other programs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bvh.camera import placement
from bvh.camera.matrices import DepthRange, Geometry, Raster, YDirection, from_renderer, number
from bvh.camera.projection import Projection
from bvh.queries.public_names import public
from bvh.runtime.arguments import Axis, reals


@public
class Camera(Projection):
    """A camera over a picture of `width` x `height` pixels.

    Created by `look_at`, `orthographic`, `framing`, `from_opencv`, `from_matrices`, `from_pyvista`
    or `from_trimesh`. By default, the upper left corner of the picture is (0, 0), x points right
    and y down, and the centre of pixel (i, j) is at (i + 0.5, j + 0.5).

    With `y="up"` the lower left corner is (0, 0), and the first row of `rays` is the lowest. With a
    `pixel_ratio`, coordinates of `ray`, `cursor_ray`, `project` and `frustum` are in units of
    `pixel_ratio` device pixels, like those of a cursor in a browser (window.devicePixelRatio),
    while `width`, `height` and `rays` count device pixels.

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
        cls, eye: ArrayLike, target: ArrayLike, up: Axis | ArrayLike | None = None,
        fov_y: float = 45.0, width: int = 800, height: int = 600, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a perspective camera.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            Position of the camera, and another point, at the centre of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
            Up direction of the picture, not parallel to the view; of a scene, it is `Scene.up`. By
            default z, or y where the view is along z.
        fov_y : float
            Vertical field of view in degrees, between 0 and 180.
        width, height : int
            Device pixels.
        near, far : float
            Range of visible depths, 0 <= near < far; the camera's `t_min` and `t_max`.
        y : {"down", "up"}
            Direction of y in the picture.
        pixel_ratio : float
            Device pixels per unit of x and y; above 0.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 90.0, 4, 2)
        >>> camera.project([0, 0, 0])
        (2.0, 1.0, 5.0)
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        half = placement.half_height_of(fov_y)
        position = placement.vector("eye", eye)
        along = placement.toward(position, target)
        geometry = placement.view_geometry("fov_y", position, along, up, half, raster)
        return cls._create(raster, geometry, near=near, far=far)

    @classmethod
    def orthographic(
        cls, eye: ArrayLike, target: ArrayLike, up: Axis | ArrayLike | None = None,
        view_height: float = 2.0, width: int = 800, height: int = 600, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera with parallel rays.

        Parameters
        ----------
        eye, target : array_like, shape (3,)
            A point of the plane in which rays start, and the point at the centre of the picture.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
            As in `look_at`.
        view_height : float
            Height of the picture in space.
        near, far : float
            Range of visible depths, near < far. A negative `near` shows what is behind the eye.
        width, height, y, pixel_ratio
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
        position, half = placement.vector("eye", eye), view_height / 2
        along = placement.toward(position, target)
        geometry = placement.view_geometry("view_height", position, along, up, half, raster)
        return cls._create(raster, geometry, perspective=False, near=near, far=far)

    @classmethod
    def framing(
        cls, bounds: Any, direction: ArrayLike | None = None, up: Axis | ArrayLike | None = None,
        fov_y: float = 35.0, width: int = 800, height: int = 600, *, fill: float = placement.FILL,
        y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a perspective camera that looks along `direction` and sees all of something.

        Parameters
        ----------
        bounds : BVH or Scene, or array_like, shape (2, 3)
            A tree or scene, all of whose vertices are then in the picture, centred; or the lower
            and upper corner of a box, like `BVH.bounds`, finite: its eight corners are then in the
            picture, and its centre is at that of the picture.
        direction : array_like, shape (3,), optional
            View direction; by default oblique and a little downward.
        up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
            As in `look_at`. By default `Scene.up`, or z for other bounds; where the view is along
            this axis, another one.
        fill : float
            Share of the picture's width or height that is filled, whichever is reached first; above
            0, at most 1.
        fov_y, width, height, y, pixel_ratio
            As in `look_at`.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.framing([[0, 0, 0], [1, 2, 3]], [0, 1, 0], width=40, height=30)
        >>> [round(x, 6) for x in camera.project([0.5, 1, 1.5])[:2]]
        [20.0, 15.0]
        """
        if hasattr(bounds, "_snapshot"):
            # Use one state of a tree that another thread may refit.
            bounds = bounds._snapshot()
        box = reals("bounds", getattr(bounds, "bounds", bounds))
        default: Axis = getattr(bounds, "up", "z")
        if box.shape != (2, 3) or not np.isfinite(box).all():
            raise ValueError(f"bounds must be two finite corners, got {box.tolist()}")
        if direction is None:
            direction = placement.oblique(default if up is None else up)
        along = placement.unit("direction", direction)
        middle = 0.5 * box[0] + 0.5 * box[1]
        half_height = placement.half_height_of(fov_y)
        raster = Raster.checked(width, height, y, pixel_ratio)
        # First a camera with its eye in the middle, for the axes of the view.
        geometry = placement.view_geometry("fov_y", middle, along, up, half_height, raster, default)
        probe = cls._create(raster, geometry)
        share = number("fill", fill)
        if not 0.0 < share <= 1.0:
            raise ValueError(f"fill must be above 0 and at most 1, got {fill!r}")
        # Half the width and height, at depth 1, of the part of the picture to be filled.
        half = share * half_height * np.array([probe.width / probe.height, 1.0])
        basis = np.stack([probe.right, probe.up, along], axis=1)
        return replace(probe, eye=placement.eye_that_sees(bounds, box, basis, half))

    @classmethod
    def from_opencv(
        cls, intrinsics: ArrayLike, extrinsics: ArrayLike, width: int, height: int, *,
        distortion: ArrayLike | None = None, near: float = 0.0, far: float = math.inf,
        y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from matrices of OpenCV.

        OpenCV's camera looks along z, with x to the right and y down. Its pixels have their centres
        at integers: where `cv2.projectPoints` returns (u, v), `project` returns (u + 0.5, v + 0.5).
        The principal point (cx, cy) needs no shift.

        Parameters
        ----------
        intrinsics : array_like, shape (3, 3)
            The camera matrix [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] in pixels, fx and fy
            positive. The skew is used, unlike by `cv2.projectPoints`.
        extrinsics : array_like, shape (3, 4) or (4, 4)
            From world to camera: [R | t] with a rotation R, such as that of `cv2.Rodrigues`.
        distortion : array_like, optional
            Coefficients of a lens, which must all be 0: undistort the pixels first
            (`cv2.undistortPoints`, `cv2.initUndistortRectifyMap`).
        width, height, near, far, y, pixel_ratio
            As in `look_at`.

        Examples
        --------
        >>> import bvh
        >>> k = [[800, 0, 319.5], [0, 800, 239.5], [0, 0, 1]]
        >>> camera = bvh.Camera.from_opencv(k, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2]], 640, 480)
        >>> camera.eye.tolist(), camera.project([0, 0, 2])
        ([0.0, 0.0, -2.0], (320.0, 240.0, 4.0))
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        geometry = placement.of_opencv(intrinsics, extrinsics, distortion, raster)
        return cls._create(raster, geometry, near=near, far=far)

    @classmethod
    def from_matrices(
        cls, view: ArrayLike, projection: ArrayLike, width: int, height: int, *,
        depth: DepthRange = "opengl", reversed_z: bool = False, y: YDirection = "down",
        pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from matrices of a renderer.

        Parameters
        ----------
        view : array_like, shape (4, 4)
            From world to camera; affine and invertible. It may scale and mirror: t of a ray is
            still depth in world units.
        projection : array_like, shape (4, 4)
            From camera to clip space, for column vectors; perspective or parallel, also off centre,
            skewed, and with an infinite far plane. Or the product of both, with the identity as
            view.
        width, height : int
            Device pixels that clip space from -1 to 1 covers.
        depth : {"opengl", "vulkan", "direct3d"}
            Convention of clip space for depth and up. "opengl": -1 to 1, y up. "vulkan": 0 to 1, y
            down. "direct3d": 0 to 1, y up; also for Metal, WebGPU, and OpenGL after
            glClipControl(GL_LOWER_LEFT, GL_ZERO_TO_ONE).
        reversed_z : bool
            Whether near and far are exchanged in depth, as is done for precision.
        y : {"down", "up"}
            Direction of y in the coordinates of the picture; `depth` sets that in clip space.
        pixel_ratio
            As in `look_at`.

        Returns
        -------
        Camera
            With `near` and `far` of the projection. Rays of a parallel projection start in the
            plane of the view's origin, and `near` may be negative.

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
        geometry, perspective, near, far = found
        return cls._create(raster, geometry, perspective, near, far)

    @classmethod
    def from_pyvista(
        cls, source: Any, size: tuple[int, int] | None = None, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from a plotter or a camera of PyVista, or a camera of VTK.

        Its rays are those of PyVista's picture, also for parallel projections, horizontal view
        angles, shifted windows and model transforms. Later changes of `source` are not followed.

        Parameters
        ----------
        source : pyvista.Plotter, pyvista.Camera or vtkCamera
            A plotter with several views stands for the active one; pass the size of that view.
        size : tuple of int, optional
            Width and height of the picture in device pixels; by default a plotter's `window_size`.
        near, far, pixel_ratio
            As in `look_at`. The clipping range, which VTK changes with what it shows, is ignored.
        y : {"down", "up"}
            As in `look_at`; "up" for positions of the mouse in VTK, which count from below.

        Examples
        --------
        >>> import bvh
        >>> import pyvista as pv  # doctest: +SKIP
        >>> plotter = pv.Plotter(window_size=(640, 480))  # doctest: +SKIP
        >>> plotter.camera_position = [(0, 0, 5), (0, 0, 0), (0, 1, 0)]  # doctest: +SKIP
        >>> bvh.Camera.from_pyvista(plotter)  # doctest: +SKIP
        Camera(640 x 480 pixels, eye [0, 0, 5], forward [0, 0, -1], fov_y 30)
        """
        view, projection, pixels = placement.matrices_of_vtk(source, size)
        raster = Raster.checked(*pixels, y, pixel_ratio)
        geometry, perspective, _, _ = from_renderer(view, projection, "opengl", False, raster)
        return cls._create(raster, geometry, perspective, near, far)

    @classmethod
    def from_trimesh(
        cls, source: Any, transform: ArrayLike | None = None, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from a trimesh scene or a trimesh camera.

        Its rays are those of `trimesh.Scene.camera_rays` up to their lengths; trimesh counts pixels
        from below, like y="up".

        Parameters
        ----------
        source : trimesh.Scene or trimesh.scene.Camera
            For a scene without a camera, trimesh creates one.
        transform : array_like, shape (4, 4), optional
            From camera to world, invertible; by default that of the scene, or the identity for a
            camera. The camera looks along its -z, with y up.
        near, far, y, pixel_ratio
            As in `look_at`. The camera's own z_near and z_far are ignored, as by trimesh's rays.

        Examples
        --------
        >>> import bvh, trimesh
        >>> lens = trimesh.scene.Camera(resolution=(4, 2), fov=(90, 90))
        >>> camera = bvh.Camera.from_trimesh(lens)
        >>> camera.ray(4, 0)[1].round(6).tolist()
        [1.0, 1.0, -1.0]
        """
        geometry, raster = placement.of_trimesh(source, transform, y, pixel_ratio)
        return cls._create(raster, geometry, near=near, far=far)

    @classmethod
    def _create(
        cls, raster: Raster, geometry: Geometry, perspective: bool = True, near: float = 0.0,
        far: float = math.inf,
    ) -> Self:  # fmt: skip
        """Return a camera of this class with the pixels of `raster` and the rays of `geometry`.

        Rays start at one eye if `perspective`, else they are parallel; `near` and `far` are depths.
        """
        numbers = geometry._asdict() | raster._asdict()
        return cls(**numbers, perspective=perspective, near=near, far=far)


def check_camera(camera: object) -> None:
    """Raise a TypeError unless the argument `camera` is a Camera."""
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a Camera, got {type(camera).__name__}")
