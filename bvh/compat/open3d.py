"""Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types.

With ``from bvh.compat.open3d import RaycastingScene`` hits are exact, in float64 for float64 input,
on numpy arrays or on Tensors of Open3D.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from bvh.compat.geometries import Geometries, thread_limit
from bvh.compat.pinholes import rays_of_matrices, rays_of_view
from bvh.compat.surface import INVALID_ID, split_rays
from bvh.compat.tensors import InputRows, given_like, narrowed
from bvh.runtime.arguments import one_index

Arrays = dict[str, Any]


class RaycastingScene(Geometries):
    """Ray and point queries of triangle meshes, with the interface of Open3D's class.

    Each mesh has a geometry id, counted from 0; the tree over all of them is built by the first
    query after the last mesh. Results are numpy arrays, or Tensors for input that is a Tensor. Real
    numbers are float32 for float32 input, else float64; ids are uint32.

    Parameters
    ----------
    nthreads : int
        Threads to build with; 0 for one per CPU.
    device : object
        Accepted for compatibility. Everything is computed on the CPU, and Tensors are returned on
        the device of the input.

    Notes
    -----
    Results differ from Open3D's by rounding and for rays through edges and vertices. Here

    - vertices and rays in float64 are used as they are, which Open3D rejects;
    - a ray through an edge or a vertex hits, and is one crossing of a closed mesh for
      `count_intersections` and `list_intersections`, whose hits are sorted by t. A ray that passes
      along the outline of a mesh crosses it twice or not at all, and one through the border of a
      mesh that is open once or not at all, always in the same way: see `edges` in
      `bvh.BVH.all_hits`;
    - containment is exact parity: `nsamples` changes nothing;
    - of several triangles at the same distance, the lowest ids are reported;
    - rays and points that are not finite miss, vertex indices out of range raise a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from bvh.compat.open3d import RaycastingScene
    >>> scene = RaycastingScene()
    >>> vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], np.float32)
    >>> scene.add_triangles(vertices, np.array([[0, 1, 2]], np.uint32))
    0
    >>> rays = np.array([[0.75, 0.25, 1, 0, 0, -1], [9, 9, 9, 1, 0, 0]], np.float32)
    >>> answer = scene.cast_rays(rays)
    >>> answer["t_hit"].numpy()
    array([ 1., inf], dtype=float32)
    >>> answer["primitive_ids"].numpy()
    array([         0, 4294967295], dtype=uint32)
    """

    INVALID_ID = INVALID_ID

    def cast_rays(self, rays: ArrayLike, nthreads: int = 0) -> Arrays:
        """Find the closest hit of each ray.

        Parameters
        ----------
        rays : array_like or Tensor, shape (..., 6)
            Origins and directions, [ox, oy, oz, dx, dy, dz]. Directions need not be normalised.
        nthreads : int
            Threads to use; 0 for one per CPU.

        Returns
        -------
        dict
            ``t_hit`` (...), in units of the direction's length, inf for a miss;
            ``geometry_ids`` and ``primitive_ids`` (...), uint32, `INVALID_ID` for a miss;
            ``primitive_uvs`` (..., 2), weights of the triangle's second and third vertex, and
            ``primitive_normals`` (..., 3), unit normals by the winding, both zero for a miss.

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape or type; the message names it.
        """
        given, threads = InputRows("rays", rays, 6), thread_limit(nthreads)
        surface = self._surface()
        hits = surface.tree.closest_hit(*split_rays(given.rows, threads), threads=threads)
        found = surface.details(hits, given.dtype, threads)
        return {"t_hit": given.reals(hits.t)} | _shaped(given, found)

    def test_occlusions(
        self, rays: ArrayLike, tnear: float = 0.0, tfar: float = np.inf, nthreads: int = 0
    ) -> Any:
        """Return whether each ray hits anything.

        Parameters
        ----------
        rays, nthreads
            As in `cast_rays`.
        tnear, tfar : float
            Range of t, both ends included, in units of the direction's length.

        Returns
        -------
        array or Tensor of bool, shape (...)
        """
        given, threads = InputRows("rays", rays, 6), thread_limit(nthreads)
        o, d = split_rays(given.rows, threads)
        hit = self._surface().tree.any_hit(o, d, tnear, tfar, threads=threads)
        return given.shaped(np.reshape(hit, -1))

    def count_intersections(self, rays: ArrayLike, nthreads: int = 0) -> Any:
        """Count the crossings of each ray with the scene.

        Parameters
        ----------
        rays, nthreads
            As in `cast_rays`.

        Returns
        -------
        array or Tensor of int32, shape (...)
            For a closed mesh an even number from outside, and an odd number from inside.
        """
        given, threads = InputRows("rays", rays, 6), thread_limit(nthreads)
        o, d = split_rays(given.rows, threads)
        counts = self._surface().tree.count_hits(o, d, threads=threads)
        return given.shaped(np.reshape(counts, -1).astype(np.int32))

    def list_intersections(self, rays: ArrayLike, nthreads: int = 0) -> Arrays:
        """List the crossings of each ray with the scene, as counted by `count_intersections`.

        Parameters
        ----------
        rays, nthreads
            As in `cast_rays`.

        Returns
        -------
        dict
            For n rays, flattened, with m crossings in all, sorted by (ray, t, id):
            ``ray_splits`` (n + 1,), uint32: those of ray i are
            ``ray_splits[i] : ray_splits[i + 1]``; ``ray_ids``, ``geometry_ids`` and
            ``primitive_ids`` (m,), uint32; ``t_hit`` (m,) and ``primitive_uvs`` (m, 2) as in
            `cast_rays`.
        """
        given, threads = InputRows("rays", rays, 6), thread_limit(nthreads)
        surface = self._surface()
        o, d = split_rays(given.rows, threads)
        hits = surface.tree.all_hits(o, d, edges="once", threads=threads)
        found = surface.details(hits, given.dtype, threads, normals=False)
        found["ray_splits"] = hits.offsets.astype(np.uint32)
        found["ray_ids"] = hits.ray_id.astype(np.uint32)
        found["t_hit"] = narrowed(hits.t, given.dtype)
        return {name: given.give(array) for name, array in found.items()}

    def compute_closest_points(self, query_points: ArrayLike, nthreads: int = 0) -> Arrays:
        """Find the closest point of the scene for each point.

        Parameters
        ----------
        query_points : array_like or Tensor, shape (..., 3)
        nthreads : int
            Threads to use; 0 for one per CPU.

        Returns
        -------
        dict
            ``points`` (..., 3), the closest points; ``geometry_ids``, ``primitive_ids``,
            ``primitive_uvs`` and ``primitive_normals`` as in `cast_rays`. If the scene is empty or
            the point is not finite, the closest point is NaN.

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape or type; the message names it.
        """
        given, threads = InputRows("query_points", query_points, 3), thread_limit(nthreads)
        surface = self._surface()
        near = surface.tree.closest_point(given.flat, threads=threads)
        found = surface.details(near, given.dtype, threads)
        points = narrowed(near.position, given.dtype)
        return {"points": given.shaped(points)} | _shaped(given, found)

    def compute_distance(self, query_points: ArrayLike, nthreads: int = 0) -> Any:
        """Return the distance of each point from the scene.

        Parameters
        ----------
        query_points, nthreads
            As in `compute_closest_points`.

        Returns
        -------
        array or Tensor, shape (...)
            inf without a closest point.
        """
        given, threads = InputRows("query_points", query_points, 3), thread_limit(nthreads)
        return given.reals(self._surface().tree.distance(given.flat, threads=threads))

    def compute_signed_distance(
        self, query_points: ArrayLike, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Return the distance of each point from closed meshes, negative inside.

        Parameters
        ----------
        query_points, nthreads
            As in `compute_closest_points`.
        nsamples : int
            An odd number. It changes nothing, because the sign is exact.

        Returns
        -------
        array or Tensor, shape (...)
            0 on the surface, inf without a closest point.
        """
        given, threads = _sampled(query_points, nthreads, nsamples)
        return given.reals(self._surface().tree.signed_distance(given.flat, threads=threads))

    def compute_occupancy(
        self, query_points: ArrayLike, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Return whether each point is inside closed meshes.

        Parameters
        ----------
        query_points, nthreads, nsamples
            As in `compute_signed_distance`.

        Returns
        -------
        array or Tensor, shape (...)
            1 inside and on the surface, 0 outside.
        """
        given, threads = _sampled(query_points, nthreads, nsamples)
        return given.reals(self._surface().tree.contains(given.flat, threads=threads))

    @overload
    @staticmethod
    def create_rays_pinhole(
        intrinsic_matrix: Any,
        extrinsic_matrix: Any,
        width_px: int,
        height_px: int,
        *,
        dtype: Any = ...,
    ) -> Any: ...

    @overload
    @staticmethod
    def create_rays_pinhole(
        fov_deg: float,
        center: Any,
        eye: Any,
        up: Any,
        width_px: int,
        height_px: int,
        *,
        dtype: Any = ...,
    ) -> Any: ...

    @staticmethod
    def create_rays_pinhole(*args: Any, dtype: Any = np.float32, **kwargs: Any) -> Any:
        """Return the rays of a pinhole camera, through the centres of its pixels, row by row.

        Called as ``create_rays_pinhole(intrinsic_matrix, extrinsic_matrix, width_px, height_px)``
        or as ``create_rays_pinhole(fov_deg, center, eye, up, width_px, height_px)``.

        Parameters
        ----------
        *args, **kwargs
            By position or by name, either of

            - ``intrinsic_matrix``, shape (3, 3): from camera coordinates to pixels, upper
              triangular; ``extrinsic_matrix``, shape (4, 4): from world to camera, a rotation and
              a translation
            - ``fov_deg``: the horizontal field of view in degrees; ``center``, ``eye`` and ``up``,
              shape (3,): target, position and up direction of the camera

            and then ``width_px`` and ``height_px``, the size of the picture. With ``up``, as in
            Open3D, its first row is at the bottom of the view and its first column at the right.
            Arrays may be Tensors.
        dtype : float32 or float64
            Type of the rays. Open3D always returns float32; float64 is more accurate for a camera
            far from the origin.

        Returns
        -------
        array or Tensor, shape (height_px, width_px, 6)
            A Tensor if one of the arguments is one.

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape, type or range; the message names it.

        Examples
        --------
        >>> from bvh.compat.open3d import RaycastingScene
        >>> rays = RaycastingScene.create_rays_pinhole(90, [0, 0, 0], [0, 0, 2], [0, 1, 0], 2, 1)
        >>> rays.numpy().round(6) + 0.0
        array([[[ 0. ,  0. ,  2. ,  0.5,  0. , -1. ],
                [ 0. ,  0. ,  2. , -0.5,  0. , -1. ]]], dtype=float32)
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        by_matrices = "intrinsic_matrix" in kwargs or "extrinsic_matrix" in kwargs
        if by_matrices or (len(args) + len(kwargs) == 4 and "fov_deg" not in kwargs):
            rays = rays_of_matrices(*args, **kwargs)
        else:
            rays = rays_of_view(*args, **kwargs)
        return given_like(narrowed(rays, dtype), *args, *kwargs.values())


def _shaped(given: InputRows, found: Arrays) -> Arrays:
    """Return flat arrays in the shape of the input."""
    return {name: given.shaped(array) for name, array in found.items()}


def _sampled(query_points: Any, nthreads: int, nsamples: int) -> tuple[InputRows, int]:
    """Return checked points and the number of threads."""
    count = one_index("nsamples", nsamples)
    if count < 1 or count % 2 == 0:
        raise ValueError(f"nsamples must be odd and at least 1, got {count}")
    return InputRows("query_points", query_points, 3), thread_limit(nthreads)
