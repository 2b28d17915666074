"""`BVH`: a tree over triangles, boxes, spheres, capsules or your own, and its constructors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.public_names import PublicClass, public
from bvh.queries.refitting import Refitting
from bvh.queries.solid_queries import SolidQueries
from bvh.runtime.arguments import MAX_PRIMITIVES, Quality, flag, owned, rows
from bvh.runtime.calls.user_calls import INTERSECT, user_data, user_function
from bvh.runtime.jit import called_by_address, warms
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.registry import enrolled
from bvh.tree import shapes
from bvh.tree.primitives import Custom

if TYPE_CHECKING:
    from bvh.queries.on_devices import DeviceBVH


@public
class BVH(Refitting, SolidQueries, metaclass=PublicClass):
    """Bounding volume hierarchy over triangles, boxes, spheres, capsules or custom primitives.

    Create one with `from_triangles`, `from_mesh`, `from_file`, `from_heightfield`, `from_points`,
    `from_segments`, `from_boxes`, `from_obbs`, `from_spheres`, `from_capsules` or `from_custom`. A
    tree owns read-only copies of its input (except the data of `from_custom`, and triangles that
    are read-only already) and changes only by `refit`. It can be pickled, and queried from several
    threads at once and after a fork.

    Arguments with one entry for each ray, point or shape may also be Dask arrays. The
    result is then lazy: its fields are Dask arrays of the same chunks, and `threads` is 1 by
    default. The lazy result of `all_hits` and of overlap queries is a `LazyLists`.

    Queries also take arrays of other libraries for these arguments, such as PyTorch's and JAX's, if
    they are on the CPU: float64 is read in place. The arrays of the result are of that library,
    with the types of numpy's, and without axes where numpy would have numbers. This needs
    array-api-compat: ``pip install "raybvh[arrays]"``. Arrays of two libraries in one call, those
    that are on a GPU, traced by JAX or that require gradients, and JAX without its
    ``jax_enable_x64``, are a TypeError. Constructors take all these arrays, too.

    Arguments of the wrong shape or type, or out of range, raise a ValueError or TypeError that
    names them. So do queries that do not support the primitives of a tree or an included instance:
    queries of points, pairs and frustums need triangles, those of boxes and balls triangles or
    boxes. `distance_to`, `overlap_tree`, `self_overlaps`, `Scene.clearances`, `Scene.collisions`,
    queries of regions, and those of points but `winding_number`, also take spheres and capsules.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> tree
    BVH(1 triangle, 1 node)
    >>> tree.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
    Hits(t=1.0, prim_id=0, u=0.25, v=0.25, front=True)
    """

    __slots__ = ()

    @classmethod
    def from_boxes(
        cls, lower: ArrayLike, upper: ArrayLike, *, quality: Quality = "medium",
        threads: int | None = None, progress: ProgressLike | None = None, warn: bool = True,
    ) -> BVH:  # fmt: skip
        """Build a tree over axis-aligned boxes, solid and closed.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners. A box with lower > upper on an axis, or with a coordinate that is not finite,
            is ignored (other boxes keep their ids) and counted in `stats`. If no box is left, a
            `BVHWarning` is given.
        quality, threads, progress
            Quality of the tree, number of threads, and callback or bar, as in `from_triangles`.
        warn : bool
            False disables the `BVHWarning`, for a tree that may be empty.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
        >>> tree.closest_hit([9.0, 0.5, 0.5], [-1.0, 0.0, 0.0]).prim_id
        1
        """
        # With a noun, `_build` warns of an empty tree.
        points = shapes.BoxShape.points_of(*_corner_rows(lower, upper))
        noun = "boxes" if flag("warn", warn) else None
        return cls._build(shapes.Boxes(owned(points)), quality, threads, progress, noun)

    @classmethod
    def from_obbs(
        cls, lower: ArrayLike, upper: ArrayLike, transforms: ArrayLike, *,
        quality: Quality = "medium", threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> BVH:  # fmt: skip
        """Build a tree over oriented boxes: axis-aligned boxes, each under its own transform.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners in local coordinates, as in `from_boxes`.
        transforms : array_like, shape (n, 4, 4)
            From local to world coordinates: affine, invertible. `ray_obb` documents what is exact.
        quality, threads, progress
            Quality of the tree, number of threads, and callback or bar, as in `from_triangles`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> turned = np.eye(4)
        >>> turned[:2, :2] = [[0.6, -0.8], [0.8, 0.6]]
        >>> tree = bvh.BVH.from_obbs([[-1, -1, -1]], [[1, 1, 1]], [turned])
        >>> tree.closest_hit([[5, 0, 0], [5, 3, 0]], [-1, 0, 0]).t
        array([3.75,  inf])
        """
        points = shapes.ObbShape.points_of(*_corner_rows(lower, upper), transforms)
        return cls._build(shapes.Obbs(owned(points)), quality, threads, progress, "boxes")

    @classmethod
    def from_spheres(
        cls, centers: ArrayLike, radii: ArrayLike, *, quality: Quality = "medium",
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> BVH:  # fmt: skip
        """Build a tree over spheres: atoms, particles, joints.

        Spheres are closed surfaces: a ray that begins inside a sphere hits it where it leaves, with
        `front` False. Hits are decided exactly, touching included, as by `ray_sphere`; normals
        point outward. `all_hits` and `count_hits` have two hits of a sphere that a ray crosses,
        where it enters and where it leaves; other queries, and all with a filter, use the first in
        range. ``cull="back"`` ignores points where rays leave, "front" those where they enter. The
        closest point is on the surface, also for points inside. A point in or on any sphere is
        inside for `contains`. Winding numbers, sections, and queries of solids other than
        `relation` do not take spheres.

        Parameters
        ----------
        centers : array_like, shape (n, 3)
            Spheres whose centre is not finite are ignored (others keep their ids), see `stats`.
        radii : float or array_like, shape (n,)
            One radius for all, at least 0; or one for each: then spheres with a negative radius, or
            one that is not finite, are ignored. A ray may hit a sphere of radius 0, a point.
        quality, threads, progress
            Quality of the tree, number of threads, and callback or bar, as in `from_triangles`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_spheres([[0, 0, 0], [5, 0, 0]], 1.0)
        >>> hits = tree.closest_hit([[9, 0, 0], [0, 0, 0]], [[-1, 0, 0], [0, 1, 0]])
        >>> hits.t, hits.prim_id, hits.front
        (array([3., 1.]), array([1, 0], dtype=int32), array([ True, False]))
        >>> hits.normal
        array([[1., 0., 0.],
               [0., 1., 0.]])
        """
        points = shapes.SphereShape.points_of(_primitive_rows("centers", centers), radii)
        return cls._build(shapes.Spheres(owned(points)), quality, threads, progress, "spheres")

    @classmethod
    def from_capsules(
        cls, p: ArrayLike, q: ArrayLike, radii: ArrayLike, *, quality: Quality = "medium",
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> BVH:  # fmt: skip
        """Build a tree over capsules: limbs of robots and people, wires, pipes, bonds.

        A capsule is the surface of the set of points within a radius of a line segment. Capsules
        have the properties of spheres in `from_spheres`.

        Parameters
        ----------
        p, q : array_like, shape (n, 3)
            Ends of their axes. A capsule whose ends are one point is a sphere. A capsule with an
            end that is not finite is ignored.
        radii : float or array_like, shape (n,)
            One radius for all or one for each, as in `from_spheres`.
        quality, threads, progress
            Quality of the tree, number of threads, and callback or bar, as in `from_triangles`.

        Examples
        --------
        >>> import bvh
        >>> arm = bvh.BVH.from_capsules([[0, 0, 0]], [[4, 0, 0]], 1.0)
        >>> hits = arm.closest_hit([[2, 0, 5], [9, 0, 0]], [[0, 0, -1], [-1, 0, 0]])
        >>> hits.t, hits.normal
        (array([4., 4.]), array([[0., 0., 1.],
               [1., 0., 0.]]))
        """
        points = shapes.CapsuleShape.points_of(_primitive_rows("p", p), q, radii)
        return cls._build(shapes.Capsules(owned(points)), quality, threads, progress, "capsules")

    @classmethod
    def from_custom(
        cls, lower: ArrayLike, upper: ArrayLike, intersect: Any, data: Any = None, *,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> BVH:  # fmt: skip
        """Build a tree over custom primitives: discs, cones, patches.

        All ray queries work on it, except with `cull`; point and overlap queries do not, and it
        cannot be saved. The intersection function is compiled by the first query.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners of a bounding box of each primitive. Empty or not finite boxes are ignored.
        intersect : function compiled with numba.njit
            ``intersect(prim_id, origin, direction, t_min, t_max, data) -> (t, u, v)``: the smallest
            t in the range at which a ray meets the primitive, and two numbers of your choice, all
            float64; a t that is infinite, NaN or out of range is a miss. Origin and direction are
            tuples. It is called from several threads, possibly twice for one hit, and must return
            the same result. A hit may be outside its box by at most 1e-8 of the scene's size.
        data : object, optional
            The last argument of `intersect`: an array, a number, or a tuple of them. It is not
            copied and must not change.
        threads, progress
            Number of threads, and callback or bar, as in `from_triangles`.

        Examples
        --------
        >>> import bvh, math, numba, numpy as np
        >>> @numba.njit
        ... def disc(prim_id, origin, direction, t_min, t_max, radii):
        ...     t = -origin[2] / direction[2]
        ...     x, y = origin[0] + t * direction[0], origin[1] + t * direction[1]
        ...     return (t, x, y) if x * x + y * y <= radii[prim_id] ** 2 else (math.inf, x, y)
        >>> tree = bvh.BVH.from_custom([[-2, -2, 0]], [[2, 2, 0]], disc, np.array([2.0]))
        >>> tree.closest_hit([1.5, 0.0, 1.0], [0.0, 0.0, -1.0]).t
        1.0
        """
        corners = np.hstack(_corner_rows(lower, upper))
        function = user_function("intersect", intersect, INTERSECT)
        primitives = Custom(owned(corners), function, user_data(data))
        return cls._build(primitives, "medium", threads, progress, "primitives")

    def to(self, device: Any = "cuda") -> DeviceBVH:
        """Return a copy on a GPU, or on Warp's CPU device, for queries of rays and points.

        Answers are the same, bit for bit. It needs NVIDIA Warp: ``pip install "raybvh[gpu]"``.

        Parameters
        ----------
        device : str, warp.Device or torch.device
            As Warp names it: "cuda", "cuda:1", or "cpu", to test what will run on a GPU.

        Returns
        -------
        bvh.warp.DeviceBVH

        Raises
        ------
        TypeError, ValueError, ImportError
            If the tree is not over triangles; if there is no such device; without Warp.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.to("cpu").closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0]).t  # doctest: +SKIP
        1.0
        """
        return enrolled("trees on devices")(self, device)  # type: ignore[no-any-return]


def _corner_rows(
    lower: ArrayLike, upper: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the corners `lower` and `upper` of boxes as checked arrays, (n, 3) each."""
    low, high = _primitive_rows("lower", lower), rows("upper", upper)
    if low.shape != high.shape:
        raise ValueError(f"upper must have the shape of lower, {low.shape}, got {high.shape}")
    return low, high


def _primitive_rows(name: str, given: ArrayLike) -> NDArray[np.float64]:
    """Return the argument `name` as checked rows (n, 3); raise for more than MAX_PRIMITIVES."""
    array = rows(name, given)
    if len(array) > MAX_PRIMITIVES:
        raise ValueError(f"{name} must have at most {MAX_PRIMITIVES} rows, got {len(array)}")
    return array


@warms("trees and queries")
def _warm() -> None:
    """Compile builders and queries."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    rays = np.ones((2, 3)), -np.ones((2, 3))
    one_ray = 1.0, 1.0, 1.0, -1.0, -1.0, -1.0
    corners = np.zeros((1, 3)), np.ones((1, 3))
    tree.count_hits(rays[0][0], rays[1][0])
    tree.closest_hit(*rays, counters=True).position.sum()
    boxes = BVH.from_boxes(*corners), BVH.from_obbs(*corners, np.eye(4)[None])
    round_trees = BVH.from_spheres(corners[0], 1.0), BVH.from_capsules(*corners, 1.0)
    for any_tree in (tree, *boxes, *round_trees):
        any_tree.closest_hit(*rays)
        any_tree.closest_hit(*rays, sort=True, threads=1)
        any_tree.closest_hit(*rays, counters=True)
        any_tree.any_hit(*rays)
        for limit in (None, 1):
            any_tree.all_hits(*rays, max_hits=limit)
        any_tree.caster()(*one_ray)
    # For so many rays in a flat batch, a kernel finds out whether they are the rows of an image.
    tree.any_hit(rays[0][0], np.ones((5000, 3)))
    tree.visible(*rays)


@warms("point queries")
def _warm_points() -> None:
    """Compile what points need."""
    # A closed surface, because `contains` gives a warning for open ones.
    tree, points = BVH.from_triangles(np.eye(3), [[0, 1, 2], [0, 2, 1]]), np.zeros((1, 3))
    for count in (None, 1):
        tree.closest_point(points, k=count)
    tree.distance(points[0])
    tree.contains(np.zeros((2, 3)))
    tree.winding_number(points)
    # Only boundaries of many edges use the series: 40 equal faces have 120 open edges.
    BVH.from_triangles(np.eye(3), [[0, 1, 2]] * 40, warn=False).winding_number(points, 2.0)
    for tree in (BVH.from_spheres(points, 1.0), BVH.from_capsules(points, points, 1.0)):
        tree.closest_point(points)
        tree.contains(points)


@warms("refits")
def _warm_refits() -> None:
    """Compile the kernels of `refit`."""
    points, corners = np.eye(4, 3), (np.zeros((1, 3)), np.ones((1, 3)))
    tree = BVH.from_triangles(points, [[0, 1, 2], [1, 2, 3]])
    tree.refit(points)
    points[0] = np.nan  # a vertex, and with it a face, that is no longer finite
    tree.refit(points)
    BVH.from_boxes(*corners).refit(*corners)


@called_by_address
def _accept_all(ray_id, prim_id, t, u, v, data):
    """Return True: a filter that accepts every hit, with the arguments that all filters have."""
    return True


@called_by_address
def _plane_at_x_1(prim_id, origin, direction, t_min, t_max, data):
    """Return (t, u, v) of a ray's hit on the plane x = 1; u and v are 0.

    The arguments are those of all custom primitives; the caller checks that t is in the range.
    """
    return (1.0 - origin[0]) / direction[0], 0.0, 0.0


@warms("filters and custom primitives")
def _warm_users_code() -> None:
    """Compile the queries that call users' functions."""
    tree, rays = BVH.from_triangles(np.eye(3), [[0, 1, 2]]), (np.ones((2, 3)), -np.ones((2, 3)))
    tree.closest_hit(*rays, filter=_accept_all)
    tree.any_hit(*rays, filter=_accept_all)
    custom = BVH.from_custom(np.zeros((1, 3)), np.ones((1, 3)), _plane_at_x_1)
    for query in (custom.closest_hit, custom.any_hit, custom.all_hits):
        query(*rays)
    custom.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
