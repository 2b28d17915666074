"""Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types.

With ``from bvh.compat.open3d import RaycastingScene`` hits are exact, in float64 for float64 input,
on numpy arrays or on Tensors of Open3D.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.compat.geometries import INVALID_ID, Geometries, Surface
from bvh.compat.tensors import InputRows, given_like, narrowed, plain
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import one_index, reals

__all__ = ["RaycastingScene"]

Arrays = dict[str, Any]


def __dir__() -> list[str]:
    """List the public names, and no others."""
    return __all__


class RaycastingScene(Geometries):
    """Ray and point queries of triangle meshes, with the interface of Open3D's class.

    Each mesh has a geometry id, counted from 0; the tree over all of them is built by the first
    query after the last mesh. Results are numpy arrays, or Tensors for input that is a Tensor. Real
    numbers are float32 for float32 input, else float64; ids are uint32. Arguments of the wrong
    shape or type raise a ValueError or TypeError that names them.

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
        """
        given, surface, hits = self._cast(BVH.closest_hit, rays, nthreads)
        return {"t_hit": given.reals(hits.t)} | _details(surface, hits, given)

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
        given, _, hit = self._cast(BVH.any_hit, rays, nthreads, tnear, tfar)
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
        given, _, counts = self._cast(BVH.count_hits, rays, nthreads)
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
        given, surface, hits = self._cast(BVH.all_hits, rays, nthreads, edges="once")
        found = surface.details(hits, given, normals=False)
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
        """
        given, surface = InputRows("query_points", query_points, 3, nthreads), self._surface()
        near = surface.tree.closest_point(given.flat, threads=given.threads)
        points = narrowed(near.position, given.dtype)
        return {"points": given.shaped(points)} | _details(surface, near, given)

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
        return self._measure(BVH.distance, query_points, nthreads)

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
        return self._measure(BVH.signed_distance, query_points, nthreads, nsamples)

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
        return self._measure(BVH.contains, query_points, nthreads, nsamples)

    def _cast(
        self, query: Callable[..., Any], rays: Any, nthreads: int, *limits: float, **options: Any
    ) -> tuple[InputRows, Surface, Any]:
        """Return the checked rays, the triangles, and the answer to a query of their tree."""
        given, surface = InputRows("rays", rays, 6, nthreads), self._surface()
        o, d = given.origins_and_directions()
        return given, surface, query(surface.tree, o, d, *limits, threads=given.threads, **options)

    def _measure(
        self, query: Callable[..., Any], points: Any, nthreads: int, nsamples: int = 1
    ) -> Any:
        """Return a number for each point."""
        count = one_index("nsamples", nsamples)
        if count < 1 or count % 2 == 0:
            raise ValueError(f"nsamples must be odd and at least 1, got {count}")
        given = InputRows("query_points", points, 3, nthreads)
        return given.reals(query(self.tree, given.flat, threads=given.threads))

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


def _details(surface: Surface, found: Any, given: InputRows) -> Arrays:
    """Return the details of hits or closest points in the shape of the input."""
    details = surface.details(found, given)
    return {name: given.shaped(array) for name, array in details.items()}


def rays_of_matrices(
    intrinsic_matrix: Any, extrinsic_matrix: Any, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays of a calibrated camera, shape (height_px, width_px, 6)."""
    intrinsic = _array("intrinsic_matrix", intrinsic_matrix, (3, 3))
    extrinsic = _array("extrinsic_matrix", extrinsic_matrix, (4, 4))
    try:
        inverse = np.linalg.inv(intrinsic)
    except np.linalg.LinAlgError:
        raise ValueError("intrinsic_matrix must have an inverse, got a singular one") from None
    width, height = _pixels("width_px", width_px), _pixels("height_px", height_px)
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
    fov_deg: float, center: Any, eye: Any, up: Any, width_px: int, height_px: int
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
    turn = np.stack([right, np.cross(ahead, right), ahead])
    width, height = _pixels("width_px", width_px), _pixels("height_px", height_px)
    focal = 0.5 * width / math.tan(math.radians(float(angle)) / 2.0)
    intrinsic = np.array([[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]])
    if focal == 0.0:
        return np.empty((height, 0, 6))
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = turn
    rays = rays_of_matrices(intrinsic, extrinsic, width, height)
    # The eye itself, which the matrix would round.
    rays[..., :3] = position
    return rays


def _array(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a checked value as float64 of a given shape."""
    array = reals(name, plain(value))
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def _pixels(name: str, value: int) -> int:
    """Return a checked number of pixels, which may be 0."""
    number = one_index(name, value)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {number}")
    return number


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a unit vector, or None for zero or infinite length."""
    length = math.hypot(*vector)
    return vector / length if 0.0 < length < math.inf else None
