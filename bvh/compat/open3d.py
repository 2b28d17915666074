"""Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types.

With ``from bvh.compat.open3d import RaycastingScene`` hits are exact, in float64 for float64 input,
on numpy arrays or on Tensors of Open3D.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bvh.compat.geometries import INVALID_ID, CastSurface, Geometries
from bvh.compat.pinhole_rays import PinholeRays
from bvh.compat.tensors import Given, InputRows, narrowed
from bvh.queries.answers.closest_points import ClosestPoints
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.runtime.arguments import one_index

__all__ = ["RaycastingScene"]
__dir__ = __all__.copy

Arrays = dict[str, Any]
Found = TypeVar("Found")


class RaycastingScene(Geometries, PinholeRays):
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

    def cast_rays(self, rays: Given, nthreads: int = 0) -> Arrays:
        """Find the closest hit of each ray, as in Open3D.

        Misses have t_hit inf, both ids `INVALID_ID`, primitive_uvs and primitive_normals zero.
        Normals are unit vectors by the winding.
        """
        given, surface, hits = self._cast(BVH.closest_hit, rays, nthreads)
        return {"t_hit": given.reals(hits.t)} | _details(surface, hits, given)

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
        """List what `count_intersections` counts, as in Open3D, but sorted by (ray, t, id).

        Those of ray i, of n flattened ones, are ``ray_splits[i] : ray_splits[i + 1]``.
        """
        given, surface, hits = self._cast(BVH.all_hits, rays, nthreads, edges="once")
        found = surface.details(hits, given, normals=False)
        found["ray_splits"] = hits.offsets.astype(np.uint32)
        found["ray_ids"] = hits.ray_id.astype(np.uint32)
        found["t_hit"] = narrowed(hits.t, given.dtype)
        return {name: given.give(array) for name, array in found.items()}

    def compute_closest_points(self, query_points: Given, nthreads: int = 0) -> Arrays:
        """Find the closest point of the scene for each point, as in Open3D.

        If the scene is empty or the point is not finite, the closest point is NaN, and the rest as
        for a miss in `cast_rays`.
        """
        given, surface = InputRows("query_points", query_points, 3, nthreads), self._surface()
        near = surface.tree.closest_point(given.flat, threads=given.threads)
        points = narrowed(near.position, given.dtype)
        return {"points": given.shaped(points)} | _details(surface, near, given)

    def compute_distance(self, query_points: Given, nthreads: int = 0) -> Any:
        """Return the distance of each point, as in Open3D; inf without a closest point."""
        return self._measure(BVH.distance, query_points, nthreads)

    def compute_signed_distance(
        self, query_points: Given, nthreads: int = 0, nsamples: int = 1
    ) -> Any:
        """Return the distance of points from closed meshes, negative inside, as in Open3D.

        It is 0 on the surface, inf without a closest point. `nsamples`, an odd number, changes
        nothing, because the sign is exact.
        """
        return self._measure(BVH.signed_distance, query_points, nthreads, nsamples)

    def compute_occupancy(self, query_points: Given, nthreads: int = 0, nsamples: int = 1) -> Any:
        """Return 1 for points inside closed meshes or on their surface, else 0, as in Open3D.

        `nsamples` is as in `compute_signed_distance`.
        """
        return self._measure(BVH.contains, query_points, nthreads, nsamples)

    def _cast(
        self, query: Callable[..., Found], rays: Given, nthreads: int, *limits: float,
        **options: Any,
    ) -> tuple[InputRows, CastSurface, Found]:  # fmt: skip
        """Return the checked rays, the triangles, and the answer to a query of their tree."""
        given, surface = InputRows("rays", rays, 6, nthreads), self._surface()
        o, d = given.origins_and_directions()
        return given, surface, query(surface.tree, o, d, *limits, threads=given.threads, **options)

    def _measure(
        self, query: Callable[..., ArrayLike], points: Given, nthreads: int, nsamples: int = 1
    ) -> Any:
        """Return a number for each point."""
        count = one_index("nsamples", nsamples)
        if count < 1 or count % 2 == 0:
            raise ValueError(f"nsamples must be odd and at least 1, got {count}")
        given = InputRows("query_points", points, 3, nthreads)
        return given.reals(query(self.tree, given.flat, threads=given.threads))


def _details(surface: CastSurface, found: Hits | ClosestPoints, given: InputRows) -> Arrays:
    """Return the details of hits or closest points in the shape of the input."""
    return {name: given.shaped(array) for name, array in surface.details(found, given).items()}
