"""Cameras of other programs: OpenCV's, matrices of renderers, PyVista's, trimesh's."""

from __future__ import annotations

import math
from typing import Any, Self

from numpy.typing import ArrayLike

from bvh.camera.matrices import DepthRange, Geometry, Raster, YDirection, from_renderer
from bvh.camera.placement import matrices_of_vtk, of_opencv, of_trimesh
from bvh.camera.projection import View


class ProgramView(View):
    """The constructors of `Camera` from cameras of other programs."""

    @classmethod
    def from_opencv(
        cls, intrinsics: ArrayLike, extrinsics: ArrayLike, width: int, height: int, *,
        distortion: ArrayLike | None = None, near: float = 0.0, far: float = math.inf,
        y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from matrices of OpenCV.

        OpenCV's camera looks along z, with x to the right and y down, and its integers are the
        centres of pixels: a point that `cv2.projectPoints` maps to (u, v), `project` maps to
        (u + 0.5, v + 0.5). No other shift is needed, not for the principal point either.

        Parameters
        ----------
        intrinsics : array_like, shape (3, 3)
            The camera matrix [[fx, skew, cx], [0, fy, cy], [0, 0, 1]] in pixels, fx and fy
            positive. The skew is used, unlike by `cv2.projectPoints`.
        extrinsics : array_like, shape (3, 4) or (4, 4)
            From world to camera: [R | t] with a rotation R, such as `cv2.Rodrigues` returns for a
            rotation vector.
        distortion : array_like, optional
            Coefficients of a lens, which must all be 0: undistort the pixels first
            (`cv2.undistortPoints`, `cv2.initUndistortRectifyMap`).
        width, height, near, far, y, pixel_ratio
            As in `look_at`.

        Raises
        ------
        ValueError, TypeError
            If a matrix is not of that form, the lens distorts, or an argument is out of range.

        Examples
        --------
        >>> import bvh
        >>> k = [[800, 0, 319.5], [0, 800, 239.5], [0, 0, 1]]
        >>> camera = bvh.Camera.from_opencv(k, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2]], 640, 480)
        >>> camera.eye.tolist(), camera.project([0, 0, 2])
        ([0.0, 0.0, -2.0], (320.0, 240.0, 4.0))
        """
        raster = Raster.checked(width, height, y, pixel_ratio)
        geometry = of_opencv(intrinsics, extrinsics, distortion, raster)
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
            From camera to clip space; perspective or parallel, also off centre, skewed, and with an
            infinite far plane. Or the product of both, with the identity as view.
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

        Raises
        ------
        ValueError, TypeError
            If a matrix is singular, not finite or not of that kind, multiplies row vectors
            (transpose it), or has reversed depths; or an argument is out of range.

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
        return cls._create(raster, *found)

    @classmethod
    def from_pyvista(
        cls, source: Any, size: tuple[int, int] | None = None, *, near: float = 0.0,
        far: float = math.inf, y: YDirection = "down", pixel_ratio: float = 1.0,
    ) -> Self:  # fmt: skip
        """Create a camera from a plotter or a camera of PyVista, or a camera of VTK.

        Its rays are those that PyVista draws: also of parallel projections, and with a horizontal
        view angle, a shifted window or a model transform. Later changes are not followed.

        Parameters
        ----------
        source : pyvista.Plotter, pyvista.Camera or vtkCamera
            Of a plotter with several views, the active one: pass the size of that view.
        size : tuple of int, optional
            Width and height of the picture in device pixels; by default a plotter's `window_size`.
        near, far, pixel_ratio
            As in `look_at`. The clipping range, which VTK changes with what it shows, is ignored.
        y : {"down", "up"}
            As in `look_at`. Positions of the mouse in VTK count from below: "up".

        Raises
        ------
        ValueError, TypeError
            If the source is of another type, there is no size, or a number is out of range.

        Examples
        --------
        >>> import bvh
        >>> import pyvista as pv  # doctest: +SKIP
        >>> plotter = pv.Plotter(window_size=(640, 480))  # doctest: +SKIP
        >>> plotter.camera_position = [(0, 0, 5), (0, 0, 0), (0, 1, 0)]  # doctest: +SKIP
        >>> bvh.Camera.from_pyvista(plotter)  # doctest: +SKIP
        Camera(640 x 480 pixels, eye [0, 0, 5], forward [0, 0, -1], fov_y 30)
        """
        view, projection, pixels = matrices_of_vtk(source, size)
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
            From camera to world; that of the scene by default, or the identity. The camera looks
            along its -z, with y up.
        near, far, y, pixel_ratio
            As in `look_at`. The camera's own z_near and z_far are ignored, as by trimesh's rays.

        Raises
        ------
        ValueError, TypeError
            If the source is of another type, the transform is not affine and invertible, or a
            number is out of range.

        Examples
        --------
        >>> import bvh, trimesh
        >>> lens = trimesh.scene.Camera(resolution=(4, 2), fov=(90, 90))
        >>> camera = bvh.Camera.from_trimesh(lens)
        >>> camera.ray(4, 0)[1].round(6).tolist()
        [1.0, 1.0, -1.0]
        """
        geometry, raster = of_trimesh(source, transform, y, pixel_ratio)
        return cls._create(raster, geometry, near=near, far=far)

    @classmethod
    def _create(
        cls, raster: Raster, geometry: Geometry, perspective: bool = True, near: float = 0.0,
        far: float = math.inf,
    ) -> Self:  # fmt: skip
        numbers = geometry._asdict() | raster._asdict()
        return cls(**numbers, perspective=perspective, near=near, far=far)
