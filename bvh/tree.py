"""`BVH`: a tree over triangles, boxes or oriented boxes, and the questions it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh import batches
from bvh.arguments import (
    MAX_PRIMITIVES,
    cull_code,
    face_rows,
    owned,
    reals,
    rows,
    thread_count,
)
from bvh.arrays import build
from bvh.hierarchy import Hierarchy
from bvh.jit import warms
from bvh.obbs import local_frames
from bvh.primitives import Boxes, Obbs, Primitives, Triangles
from bvh.rays import Hits, check_rays, plain_ray, ray_batch, single_hit
from bvh.sources import triangles_of
from bvh.workers import Progress

Caster = Callable[..., tuple[float, int, float, float, bool]]


class BVH(Hierarchy):
    """A bounding volume hierarchy over triangles, boxes or oriented boxes.

    Make one with `from_triangles`, `from_mesh`, `from_boxes` or `from_obbs`. A tree owns read-only
    copies of what it was made of and never changes; it can be pickled, and queried from many
    threads at once and after a fork.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> tree
    BVH(1 triangles, 1 nodes)
    >>> tree.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
    Hits(t=1.0, prim_id=0, u=0.25, v=0.25, front=True)
    """

    __slots__ = ()

    @classmethod
    def from_triangles(
        cls,
        vertices: ArrayLike,
        faces: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> BVH:
        """Build a tree over triangles.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Coordinates, taken as float64. Faces with a NaN or infinite vertex are ignored (their
            ids stay in place) and counted in `stats`.
        faces : array_like of int, shape (m, 3)
            Vertex indices; the normal is (v1-v0) x (v2-v0).
        quality : {"low", "medium", "high"}
            Builder: "medium" is binned SAH; "low" builds in half the time and is traced a little
            slower; "high" also splits large triangles between nodes, which pays where they are
            long and oblique, and takes several times as long.
        threads : int, optional
            Threads to build with; one for each CPU by default. The tree does not depend on it.
        progress : callable, optional
            Called as progress(done, total) in primitives, a few times a second.

        Returns
        -------
        BVH

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range; the message names it.
        """
        points = rows("vertices", vertices)
        index = face_rows("faces", faces, len(points))
        primitives = Triangles(owned(points), owned(index, np.int32))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> BVH:
        """Build a tree over a mesh.

        Parameters
        ----------
        mesh : trimesh.Trimesh, trimesh.Scene or (vertices, faces)
            A scene is flattened, its instances in the order of its graph.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH
        """
        vertices, faces = triangles_of(mesh)
        return cls.from_triangles(
            vertices, faces, quality=quality, threads=threads, progress=progress
        )

    @classmethod
    def from_boxes(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> BVH:
        """Build a tree over axis-aligned boxes, solid and closed.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners. A box with lower > upper on an axis, or with a coordinate that is not finite,
            is ignored (its id stays in place) and counted in `stats`.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_boxes([[0, 0, 0], [2, 0, 0]], [[1, 1, 1], [3, 1, 1]])
        >>> tree.closest_hit([9.0, 0.5, 0.5], [-1.0, 0.0, 0.0]).prim_id
        1
        """
        low, high = _corner_rows(lower, upper)
        primitives = Boxes(owned(np.hstack([low, high])))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def from_obbs(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        transforms: ArrayLike,
        *,
        quality: str = "medium",
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> BVH:
        """Build a tree over oriented boxes: axis-aligned boxes, each under its own transform.

        Parameters
        ----------
        lower, upper : array_like, shape (n, 3)
            Corners in local coordinates; as in `from_boxes`.
        transforms : array_like, shape (n, 4, 4)
            Affine matrices from local to world coordinates: rotation, scale, shear, reflection.
            See `ray_obb` for what is exact.
        quality, threads, progress
            As in `from_triangles`.

        Returns
        -------
        BVH

        Raises
        ------
        ValueError
            If a matrix is singular, not finite, or not affine.
        """
        low, high = _corner_rows(lower, upper)
        matrices = reals("transforms", transforms)
        if matrices.size == 0:
            matrices = matrices.reshape(0, 4, 4)
        if matrices.shape != (len(low), 4, 4):
            raise ValueError(f"transforms must have shape ({len(low)}, 4, 4), got {matrices.shape}")
        frames = local_frames("transforms", matrices)
        primitives = Obbs(owned(np.hstack([low, high, frames.reshape(-1, 12)])))
        return cls._build(primitives, quality, threads, progress)

    @classmethod
    def _build(
        cls,
        primitives: Primitives,
        quality: str,
        threads: int | None,
        progress: Progress | None,
    ) -> BVH:
        """Build the tree over primitives."""
        workers = thread_count(threads)
        began = time.perf_counter()
        arrays, bounds = build(primitives, quality, workers, progress)
        # Nothing can be seen half-built: the object comes last.
        tree = object.__new__(cls)
        tree._set_arrays(arrays)
        tree._bounds = bounds
        tree._quality = quality
        tree._build_seconds = time.perf_counter() - began
        return tree

    def closest_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: Progress | None = None,
        sort: bool | None = None,
    ) -> Hits:
        """Find the nearest hit of each ray.

        The hit with the smallest t; of equal t, the one with the lowest id. Hit or miss is
        decided as real arithmetic on the given doubles decides it, and t is the real distance
        rounded to the nearest double. The answer does not depend on the tree, on threads, or on
        the batch that a ray comes in.

        Parameters
        ----------
        origins, directions : array_like, shape (..., 3)
            Rays o + t d, broadcast against each other. Directions need not be normalised.
        t_min, t_max : array_like, shape (...)
            Range of t, both ends included, in units of the direction's length; -inf and +inf
            make a line.
        cull : {None, "back", "front"}
            Triangles to ignore: those seen from behind, or from the front.
        threads : int, optional
            Threads to use; one for each CPU by default.
        validate_rays : bool
            Raise on the first ray that is not finite, has no direction or an empty range. Without
            it such rays miss.
        progress : callable, optional
            Called as progress(done, total) in rays.
        sort : bool, optional
            Take the rays in an order that suits the caches. By default done where a sample shows
            that it pays: in large batches of dear rays. The answers are the same, in your order.

        Returns
        -------
        Hits
            With fields of the rays' leading shape; scalars for a single ray.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; the message names it.
        """
        if (
            type(t_min) is type(t_max) is float
            and cull is threads is progress is None
            and not validate_rays
        ):
            ray = plain_ray(origins, directions)
            if ray is not None:
                cast = self._cast or self._single_ray()
                return single_hit(cast(self._place, *ray, t_min, t_max, 0))
        code = self._cull(cull)
        batch = ray_batch(origins, directions, t_min, t_max)
        if validate_rays:
            check_rays(batch)
        return batches.closest_hit(self._arrays, batch, code, thread_count(threads), progress, sort)

    def caster(self, *, cull: str | None = None) -> Caster:
        """Return a function that casts one ray at a time, as fast as Python can call it.

        For a cursor that hovers, or for loops that must see one hit before they know the next ray.
        It takes plain numbers and checks nothing: ``cast(ox, oy, oz, dx, dy, dz, t_min, t_max)``
        returns ``(t, prim_id, u, v, front)``, as `closest_hit` has them; t_min and t_max default
        to 0 and +inf. It can be called from many threads at once.

        Parameters
        ----------
        cull : {None, "back", "front"}
            As in `closest_hit`.

        Returns
        -------
        callable

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> cast = tree.caster()
        >>> cast(0.25, 0.25, 1.0, 0.0, 0.0, -1.0)
        (1.0, 0, 0.25, 0.25, True)
        """
        code, place = self._cull(cull), self._place
        kernel = self._cast or self._single_ray()

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf, _tree: BVH = self,
        ) -> tuple[float, int, float, float, bool]:  # fmt: skip
            # The tree among the defaults stays alive as long as the function does.
            hit: tuple[float, int, float, float, bool] = kernel(
                place, float(ox), float(oy), float(oz), float(dx), float(dy), float(dz),
                float(t_min), float(t_max), code,
            )  # fmt: skip
            return hit

        return cast

    def any_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: Progress | None = None,
        sort: bool | None = None,
    ) -> NDArray[np.bool_] | bool:
        """Tell for each ray whether it hits anything: exactly when `closest_hit` has a hit.

        Faster than `closest_hit`, because a ray ends at the first hit that is found. For whether
        q can be seen from p, ask for the segment: origin p, direction q - p, t_max 1.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress, sort
            As in `closest_hit`.

        Returns
        -------
        ndarray of bool or bool, shape (...)
        """
        code = self._cull(cull)
        batch = ray_batch(origins, directions, t_min, t_max)
        if validate_rays:
            check_rays(batch)
        return batches.any_hit(self._arrays, batch, code, thread_count(threads), progress, sort)

    def _cull(self, cull: str | None) -> int:
        code = cull_code(cull)
        if code and not isinstance(self._arrays.primitives, Triangles):
            raise ValueError(f"cull must be None for {self.kind}: they have no winding")
        return code


def _corner_rows(
    lower: ArrayLike, upper: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = rows("lower", lower), rows("upper", upper)
    if len(low) > MAX_PRIMITIVES:
        raise ValueError(f"lower must have at most {MAX_PRIMITIVES} rows, got {len(low)}")
    if low.shape != high.shape:
        raise ValueError(f"upper must have the shape of lower, {low.shape}, got {high.shape}")
    return low, high


@warms("trees and queries")
def _warm() -> None:
    """Compile what building and querying need."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    rays = np.ones((2, 3)), -np.ones((2, 3))
    corners = np.zeros((1, 3)), np.ones((1, 3))
    for any_tree in (tree, BVH.from_boxes(*corners), BVH.from_obbs(*corners, np.eye(4)[None])):
        any_tree.closest_hit(*rays)
        any_tree.closest_hit(*rays, sort=True)
        any_tree.any_hit(*rays)
        any_tree.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)
