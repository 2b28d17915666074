"""Open3D's RaycastingScene on the exact tree: the same methods, keys, shapes and types.

Change one line, ``from bvh.compat.open3d import RaycastingScene``, and rays are decided exactly, in
float64 where you give float64, by numpy arrays or, where Open3D is at hand, by its Tensors.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from bvh.arguments import one_index
from bvh.compat.geometries import Geometries, thread_limit
from bvh.compat.pinholes import rays_of_matrices, rays_of_view
from bvh.compat.surface import INVALID_ID, split_rays
from bvh.compat.tensors import Asked, given_like, narrowed

Answers = dict[str, Any]


class RaycastingScene(Geometries):
    """Triangle meshes that rays and points ask about, with the interface of Open3D's class.

    Each mesh has a geometry id, counted from 0; the tree over all of them is built by the first
    question after the last mesh. Answers are numpy arrays; to questions that are Tensors, they are
    Tensors. Of those, real numbers are float32 for questions in float32, and float64 for all
    others; ids are uint32.

    Parameters
    ----------
    nthreads : int
        Threads to build with; 0 for one for each CPU.
    device : object
        Taken for the sake of programs that name one. Everything is computed by the CPU, and
        Tensors are given back on the device that they came from.

    Notes
    -----
    Open3D answers the same but for rounding and for rays that meet edges and vertices. Here

    - vertices and rays in float64 are taken as they are, where Open3D refuses them;
    - a ray through an edge or a vertex hits, and is one crossing of a closed mesh for
      `count_intersections` and `list_intersections`, whose hits are sorted by t. A ray that passes
      along the outline of a mesh crosses it twice or not at all, and one through the border of a
      mesh that is open once or not at all, always in the same way: see `edges` in
      `bvh.BVH.all_hits`;
    - insides are told by exact parity: `nsamples` changes nothing;
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

    def cast_rays(self, rays: ArrayLike, nthreads: int = 0) -> Answers:
        """Find the first hit of each ray.

        Parameters
        ----------
        rays : array_like or Tensor, shape (..., 6)
            Origins and directions, [ox, oy, oz, dx, dy, dz]. Directions need not be normalised.
        nthreads : int
            Threads to use; 0 for one for each CPU.

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
            Where an argument has the wrong shape or type; the message names it.
        """
        asked, threads = Asked("rays", rays, 6), thread_limit(nthreads)
        surface = self._surface()
        hits = surface.tree.closest_hit(*split_rays(asked.rows, threads), threads=threads)
        described = surface.described(hits, asked.dtype, threads)
        return {"t_hit": asked.reals(hits.t)} | _answers(asked, described)

    def test_occlusions(
        self, rays: ArrayLike, tnear: float = 0.0, tfar: float = np.inf, nthreads: int = 0
    ) -> Any:
        """Tell for each ray whether it hits anything.

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
        asked, threads = Asked("rays", rays, 6), thread_limit(nthreads)
        o, d = split_rays(asked.rows, threads)
        hit = self._surface().tree.any_hit(o, d, tnear, tfar, threads=threads)
        return asked.answer(np.reshape(hit, -1))

    def count_intersections(self, rays: ArrayLike, nthreads: int = 0) -> Any:
        """Count how often each ray crosses the scene.

        Parameters
        ----------
        rays, nthreads
            As in `cast_rays`.

        Returns
        -------
        array or Tensor of int32, shape (...)
            For a closed mesh an even number from outside, and an odd number from inside.
        """
        asked, threads = Asked("rays", rays, 6), thread_limit(nthreads)
        o, d = split_rays(asked.rows, threads)
        counts = self._surface().tree.count_hits(o, d, threads=threads)
        return asked.answer(np.reshape(counts, -1).astype(np.int32))

    def list_intersections(self, rays: ArrayLike, nthreads: int = 0) -> Answers:
        """List where each ray crosses the scene, as often as `count_intersections` counts.

        Parameters
        ----------
        rays, nthreads
            As in `cast_rays`.

        Returns
        -------
        dict
            For n rays, counted flat, with m crossings in all, sorted by (ray, t, id):
            ``ray_splits`` (n + 1,), uint32: those of ray i are
            ``ray_splits[i] : ray_splits[i + 1]``; ``ray_ids``, ``geometry_ids`` and
            ``primitive_ids`` (m,), uint32; ``t_hit`` (m,) and ``primitive_uvs`` (m, 2) as in
            `cast_rays`.
        """
        asked, threads = Asked("rays", rays, 6), thread_limit(nthreads)
        surface = self._surface()
        o, d = split_rays(asked.rows, threads)
        hits = surface.tree.all_hits(o, d, edges="once", threads=threads)
        found = surface.described(hits, asked.dtype, threads, normals=False)
        found["ray_splits"] = hits.offsets.astype(np.uint32)
        found["ray_ids"] = hits.ray_id.astype(np.uint32)
        found["t_hit"] = narrowed(hits.t, asked.dtype)
        return {name: asked.give(array) for name, array in found.items()}

    def compute_closest_points(self, query_points: ArrayLike, nthreads: int = 0) -> Answers:
        """Find the nearest point of the scene for each point.

        Parameters
        ----------
        query_points : array_like or Tensor, shape (..., 3)
        nthreads : int
            Threads to use; 0 for one for each CPU.

        Returns
        -------
        dict
            ``points`` (..., 3), the nearest points; ``geometry_ids``, ``primitive_ids``,
            ``primitive_uvs`` and ``primitive_normals`` as in `cast_rays`. Without a nearest point,
            because the scene is empty or the point is not finite, the point is NaN.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; the message names it.
        """
        asked, threads = Asked("query_points", query_points, 3), thread_limit(nthreads)
        surface = self._surface()
        near = surface.tree.closest_point(asked.flat, threads=threads)
        described = surface.described(near, asked.dtype, threads)
        points = narrowed(near.position, asked.dtype)
        return {"points": asked.answer(points)} | _answers(asked, described)

    def compute_distance(self, query_points: ArrayLike, nthreads: int = 0) -> Any:
        """Return the distance of each point from the scene.

        Parameters
        ----------
        query_points, nthreads
            As in `compute_closest_points`.

        Returns
        -------
        array or Tensor, shape (...)
            inf without a nearest point.
        """
        asked, threads = Asked("query_points", query_points, 3), thread_limit(nthreads)
        return asked.reals(self._surface().tree.distance(asked.flat, threads=threads))

    def compute_signed_distance(
        self, query_points: ArrayLike, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Return the distance of each point from closed meshes, negative inside.

        Parameters
        ----------
        query_points, nthreads
            As in `compute_closest_points`.
        nsamples : int
            An odd number. The sign is exact without votes, so that it changes nothing.

        Returns
        -------
        array or Tensor, shape (...)
            0 on the surface, inf without a nearest point.
        """
        asked, threads = _sampled(query_points, nthreads, nsamples)
        return asked.reals(self._surface().tree.signed_distance(asked.flat, threads=threads))

    def compute_occupancy(
        self, query_points: ArrayLike, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Tell for each point whether it is inside closed meshes.

        Parameters
        ----------
        query_points, nthreads, nsamples
            As in `compute_signed_distance`.

        Returns
        -------
        array or Tensor, shape (...)
            1 inside and on the surface, 0 outside.
        """
        asked, threads = _sampled(query_points, nthreads, nsamples)
        return asked.reals(self._surface().tree.contains(asked.flat, threads=threads))

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
        """Make the rays of a pinhole camera, through the centres of its pixels, row by row.

        Called as ``create_rays_pinhole(intrinsic_matrix, extrinsic_matrix, width_px, height_px)``
        or as ``create_rays_pinhole(fov_deg, center, eye, up, width_px, height_px)``.

        Parameters
        ----------
        *args, **kwargs
            By position or by name, either of

            - ``intrinsic_matrix``, shape (3, 3): from points before the camera to pixels, upper
              triangular; ``extrinsic_matrix``, shape (4, 4): from the world to the camera, a
              rotation and a translation
            - ``fov_deg``: the angle between the left and the right edge of the picture, in
              degrees; ``center``, ``eye`` and ``up``, shape (3,): what the camera looks at, where
              it is, and which way is up

            and then ``width_px`` and ``height_px``, the size of the picture. With ``up``, as in
            Open3D, its first row is at the bottom of the view and its first column at the right.
            Arrays may be Tensors.
        dtype : float32 or float64
            Type of the rays. float32 is what Open3D makes of any camera; float64 keeps a camera
            exact that is far from the origin.

        Returns
        -------
        array or Tensor, shape (height_px, width_px, 6)
            A Tensor if one of the arguments is one.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range; the message names it.

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


def _answers(asked: Asked, described: Answers) -> Answers:
    return {name: asked.answer(array) for name, array in described.items()}


def _sampled(query_points: Any, nthreads: int, nsamples: int) -> tuple[Asked, int]:
    """Return checked points and threads."""
    votes = one_index("nsamples", nsamples)
    if votes < 1 or votes % 2 == 0:
        raise ValueError(f"nsamples must be odd and at least 1, got {votes}")
    return Asked("query_points", query_points, 3), thread_limit(nthreads)
