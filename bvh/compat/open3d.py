"""Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types.

With ``from bvh.compat.open3d import RaycastingScene`` hits are exact, in float64 for float64 input,
on numpy arrays or on Tensors of Open3D.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from bvh.compat.open3d_results import (
    INVALID_ID,
    CastSurface,
    Geometry,
    Given,
    InputRows,
    given_like,
    narrowed,
    plain,
    thread_limit,
)
from bvh.io.meshes import surface_of
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import face_rows, number_of, one_index, owned, reals, rows, whole_number

__all__ = ["RaycastingScene"]
__dir__ = __all__.copy

Arrays = dict[str, Any]
Found = TypeVar("Found")


class RaycastingScene:
    """Ray and point queries of triangle meshes, with the interface of Open3D's class.

    Each mesh has a geometry id, counted from 0; the tree over all of them is built by the first
    query after the last mesh. Rays have the shape (..., 6), points (..., 3); keys and shapes of
    results are Open3D's. They are numpy arrays, or Tensors for input that is a Tensor. Real numbers
    are float32 for float32 input, else float64; ids are uint32. Arguments of the wrong shape or
    type raise a ValueError or TypeError that names them.

    Parameters
    ----------
    nthreads : int
        Threads to build with, and of a query to answer with; 0 for one per CPU.
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
    >>> import numpy as np, trimesh
    >>> from bvh.compat.open3d import RaycastingScene
    >>> scene = RaycastingScene()
    >>> scene.add_triangles(mesh=trimesh.creation.box([2.0, 2.0, 2.0]))
    0
    >>> rays = np.array([[0.75, 0.25, 3, 0, 0, -1], [9, 9, 9, 1, 0, 0]], np.float32)
    >>> answer = scene.cast_rays(rays)
    >>> answer["t_hit"].numpy(), answer["geometry_ids"].numpy()
    (array([ 2., inf], dtype=float32), array([         0, 4294967295], dtype=uint32))
    >>> answer["primitive_normals"].numpy()[:, 2]
    array([1., 0.], dtype=float32)
    >>> scene.test_occlusions(rays).numpy(), scene.count_intersections(rays).numpy()
    (array([ True, False]), array([2, 0], dtype=int32))
    >>> found = scene.list_intersections(rays)
    >>> found["ray_splits"].numpy(), found["t_hit"].numpy()
    (array([0, 2, 2], dtype=uint32), array([2., 4.], dtype=float32))
    >>> points = [[0.0, 0.0, 0.25], [0.0, 0.0, 2.5]]
    >>> scene.compute_closest_points(points)["points"].numpy()[1]
    array([0., 0., 1.])
    >>> scene.compute_distance(points).numpy(), scene.compute_signed_distance(points).numpy()
    (array([0.75, 1.5 ]), array([-0.75,  1.5 ]))
    >>> scene.compute_occupancy(points).numpy()
    array([1., 0.])
    >>> rays = RaycastingScene.create_rays_pinhole(90, [0, 0, 0], [0, 0, 2], [0, 1, 0], 2, 1)
    >>> rays.numpy().round(6).tolist()
    [[[0.0, 0.0, 2.0, 0.5, 0.0, -1.0], [0.0, 0.0, 2.0, -0.5, 0.0, -1.0]]]
    """

    INVALID_ID = INVALID_ID

    def __init__(self, nthreads: int = 0, device: object = None) -> None:
        self._threads = thread_limit(nthreads)
        self._geometries: list[Geometry] = []
        # The list of meshes that the tree was built from, and the tree.
        self._built: tuple[list[Geometry], CastSurface] | None = None

    def add_triangles(
        self, vertex_positions: Given | None = None, triangle_indices: Given | None = None, *,
        mesh: object = None,
    ) -> int:  # fmt: skip
        """Add a mesh to the scene, and return its geometry id, as in Open3D.

        Coordinates are converted to float64. `mesh` is a TriangleMesh of ``open3d.t``, or any mesh
        that `bvh.BVH.from_mesh` takes; as the only argument it needs no keyword.
        """
        if triangle_indices is None:
            if (mesh is None) == (vertex_positions is None):
                raise TypeError("add_triangles takes a mesh, or vertex_positions and indices")
            vertices, faces, _ = surface_of(vertex_positions if mesh is None else mesh)
        elif mesh is not None:
            raise TypeError("add_triangles takes either a mesh or triangle_indices, got both")
        else:
            vertices, faces = plain(vertex_positions), plain(triangle_indices)
        points = rows("vertex_positions", vertices)
        index = face_rows("triangle_indices", faces, len(points))
        self._geometries = [*self._geometries, (owned(points), owned(index, np.int32))]
        return len(self._geometries) - 1

    @property
    def tree(self) -> BVH:
        """The tree over all triangles, for other queries.

        Its prim_id counts the triangles of all geometries, in order of their ids.
        """
        return self._surface().tree

    def __repr__(self) -> str:
        count = number_of(len(self._geometries), "geometries")
        triangles = number_of(sum(len(faces) for _, faces in self._geometries), "triangles")
        return f"{type(self).__name__}({count}, {triangles})"

    def cast_rays(self, rays: Given, nthreads: int = 0) -> Arrays:
        """Find the closest hit of each ray, as in Open3D.

        Misses have t_hit inf, both ids `INVALID_ID`, primitive_uvs and primitive_normals zero.
        Normals are unit vectors by the winding.
        """
        given, surface, hits = self._cast(BVH.closest_hit, rays, nthreads)
        return {"t_hit": given.reals(hits.t)} | surface.given_details(hits, given)

    def test_occlusions(
        self, rays: Given, tnear: float = 0.0, tfar: float = np.inf, nthreads: int = 0
    ) -> Any:
        """Return whether each ray hits anything from tnear to tfar, both included, as in Open3D."""
        given, _, hit = self._cast(BVH.any_hit, rays, nthreads, tnear, tfar)
        return given.shaped(np.reshape(hit, -1))

    def count_intersections(self, rays: Given, nthreads: int = 0) -> Any:
        """Count the crossings of each ray with the scene as int32, as in Open3D.

        For a closed mesh it is an even number from outside, and an odd number from inside.
        """
        given, _, counts = self._cast(BVH.count_hits, rays, nthreads)
        return given.shaped(np.reshape(counts, -1).astype(np.int32))

    def list_intersections(self, rays: Given, nthreads: int = 0) -> Arrays:
        """List the crossings of `count_intersections`, as in Open3D, but sorted by (ray, t, id).

        Crossings ``ray_splits[i] : ray_splits[i + 1]`` are those of ray i of the flattened rays.
        """
        given, surface, hits = self._cast(BVH.all_hits, rays, nthreads, edges="once")
        result = surface.details(hits, given, normals=False)
        result["ray_splits"] = hits.offsets.astype(np.uint32)
        result["ray_ids"] = hits.ray_id.astype(np.uint32)
        result["t_hit"] = narrowed(hits.t, given.dtype)
        return {name: given.give(array) for name, array in result.items()}

    def compute_closest_points(self, query_points: Given, nthreads: int = 0) -> Arrays:
        """Find the closest point of the scene for each point, as in Open3D.

        If the scene is empty or the point is not finite, the closest point is NaN, and the rest as
        for a miss in `cast_rays`.
        """
        given, surface = InputRows("query_points", query_points, 3, nthreads), self._surface()
        near = surface.tree.closest_point(given.flat, threads=given.threads)
        points = narrowed(near.position, given.dtype)
        return {"points": given.shaped(points)} | surface.given_details(near, given)

    def compute_distance(self, query_points: Given, nthreads: int = 0) -> Any:
        """Return the distance of each point, as in Open3D.

        It is inf if the scene is empty or the point is not finite.
        """
        return self._measure(BVH.distance, query_points, nthreads)

    def compute_signed_distance(
        self, query_points: Given, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Return the distance of points from closed meshes, negative inside, as in Open3D.

        It is 0 on the surface, inf for an empty scene or points that are not finite. `nsamples`, an
        odd number, changes nothing, because the sign is exact.
        """
        return self._measure(BVH.signed_distance, query_points, nthreads, nsamples)

    def compute_occupancy(self, query_points: Given, nthreads: int = 0, nsamples: int = 1) -> Any:
        """Return 1 for points inside closed meshes or on their surface, else 0, as in Open3D.

        `nsamples`, an odd number, changes nothing, because containment is exact.
        """
        return self._measure(BVH.contains, query_points, nthreads, nsamples)

    @overload
    @staticmethod
    def create_rays_pinhole(
        intrinsic_matrix: Given, extrinsic_matrix: Given, width_px: int, height_px: int, *,
        dtype: DTypeLike = ...,
    ) -> Any: ...  # fmt: skip

    @overload
    @staticmethod
    def create_rays_pinhole(
        fov_deg: float, center: Given, eye: Given, up: Given, width_px: int, height_px: int, *,
        dtype: DTypeLike = ...,
    ) -> Any: ...  # fmt: skip

    @staticmethod
    def create_rays_pinhole(*args: Any, dtype: DTypeLike = np.float32, **kwargs: Any) -> Any:
        """Return the rays of a pinhole camera, shape (height_px, width_px, 6), as in Open3D.

        Called as ``create_rays_pinhole(intrinsic_matrix, extrinsic_matrix, width_px, height_px)``
        or as ``create_rays_pinhole(fov_deg, center, eye, up, width_px, height_px)``, with *args or
        **kwargs. Rays go through the centres of pixels, row by row; with ``up``, as in Open3D, the
        first row is at the bottom of the view and the first column at the right. Open3D returns
        float32; `dtype` may also be float64, which is more accurate far from the origin.
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        by_matrices = "intrinsic_matrix" in kwargs or "extrinsic_matrix" in kwargs
        if by_matrices or (len(args) + len(kwargs) == 4 and "fov_deg" not in kwargs):
            rays = _rays_of_matrices(*args, **kwargs)
        else:
            rays = _rays_of_view(*args, **kwargs)
        return given_like(narrowed(rays, dtype), *args, *kwargs.values())

    def _surface(self) -> CastSurface:
        """Return all triangles and their tree, built anew after a mesh was added."""
        geometries, built = self._geometries, self._built
        # `add_triangles` replaces the list.
        if built is None or built[0] is not geometries:
            # Two threads may both build the same tree.
            built = self._built = geometries, CastSurface(geometries, self._threads)
        return built[1]

    def _cast(
        self, query: Callable[..., Found], rays: Given, nthreads: int, *limits: float,
        **options: Any,
    ) -> tuple[InputRows, CastSurface, Found]:  # fmt: skip
        """Return the checked rays, the triangles, and the answer of a method of BVH for the rays.

        `limits` are t_min and t_max, and `options` other arguments of the method.
        """
        given, surface = InputRows("rays", rays, 6, nthreads), self._surface()
        o, d = given.origins_and_directions()
        return given, surface, query(surface.tree, o, d, *limits, threads=given.threads, **options)

    def _measure(
        self, query: Callable[..., ArrayLike], points: Given, nthreads: int, nsamples: int = 1
    ) -> Any:
        """Return the answers of `query`, a method of BVH, for points; `nsamples` must be odd."""
        count = one_index("nsamples", nsamples)
        if count < 1 or count % 2 == 0:
            raise ValueError(f"nsamples must be odd and at least 1, got {count}")
        given = InputRows("query_points", points, 3, nthreads)
        return given.reals(query(self.tree, given.flat, threads=given.threads))


def _rays_of_matrices(
    intrinsic_matrix: Given, extrinsic_matrix: Given, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays (height_px, width_px, 6) of the camera that two matrices describe.

    The matrices map from the camera to pixels (3, 3), and from the world to the camera (4, 4).
    """
    intrinsic = _array("intrinsic_matrix", intrinsic_matrix, (3, 3))
    extrinsic = _array("extrinsic_matrix", extrinsic_matrix, (4, 4))
    try:
        inverse = np.linalg.inv(intrinsic)
    except np.linalg.LinAlgError:
        raise ValueError("intrinsic_matrix must have an inverse, got a singular one") from None
    width, height = whole_number("width_px", width_px, 0), whole_number("height_px", height_px, 0)
    # From the camera to the world: the inverse of a rotation is its transpose.
    rotation = extrinsic[:3, :3].T
    pixels = np.ones((height, width, 3))
    pixels[..., 0] = np.arange(width) + 0.5
    pixels[..., 1] = (np.arange(height) + 0.5)[:, None]
    rays = np.empty((height, width, 6))
    rays[..., :3] = -(rotation @ extrinsic[:3, 3])
    rays[..., 3:] = pixels @ (rotation @ inverse).T
    return rays


def _rays_of_view(
    fov_deg: float, center: Given, eye: Given, up: Given, width_px: int, height_px: int
) -> NDArray[np.float64]:
    """Return the rays (height_px, width_px, 6) of a camera at `eye` that looks at `center`.

    `fov_deg` is the angle across the width; `up` is any direction that is up in the view.
    """
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
    width, height = whole_number("width_px", width_px, 0), whole_number("height_px", height_px, 0)
    focal = 0.5 * width / math.tan(math.radians(float(angle)) / 2.0)  # in pixels
    intrinsic = np.array([[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]])
    if focal == 0.0:  # A width of 0: the matrix has no inverse.
        return np.empty((height, 0, 6))
    # A rotation alone, as origins are then set to the eye: by a matrix they would be rounded.
    extrinsic = np.eye(4)
    extrinsic[:3, :3] = right, np.cross(ahead, right), ahead
    rays = _rays_of_matrices(intrinsic, extrinsic, width, height)
    rays[..., :3] = position
    return rays


def _array(name: str, value: Given, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the argument `name` as float64; raise a ValueError if it has another `shape`."""
    array = reals(name, plain(value))
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a unit vector, or None for zero or infinite length."""
    length = math.hypot(*vector)
    return vector / length if 0.0 < length < math.inf else None
