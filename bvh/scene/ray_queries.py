"""Ray queries of a scene: as of a tree, with masks, and with the instance that is hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries import ray_queries
from bvh.queries.batches import ray_batches
from bvh.queries.ray_arguments import RayArguments, cast, plain_ray
from bvh.queries.results import SceneAllHits, SceneHits, single_scene_hit
from bvh.queries.targets import Target
from bvh.runtime.arguments import ALL_BITS, bit_masks, cull_code
from bvh.runtime.progress_bars import ProgressLike
from bvh.scene.content import SceneContent
from bvh.traversal.rays.one_ray import cast_function

SceneCaster = Callable[..., tuple[float, int, float, float, bool, int]]


class SceneRays(SceneContent):
    """Ray queries of a scene."""

    __slots__ = ()

    def closest_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        mask: ArrayLike = ALL_BITS,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        sort: bool | None = None,
        filter: Any = None,
        data: Any = None,
        counters: bool = False,
    ) -> SceneHits:
        """Find the closest hit of each ray in all instances.

        The same hit as in the mesh that `flattened` returns, bit for bit; of equal t, the one of
        the leaf that comes first, which has the lowest instance_id, and there the lowest prim_id.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress, sort, counters
            As in `BVH.closest_hit`. Rays are in the scene's coordinates, and t in units of their
            directions' lengths. The front of a face is where its moved vertices wind
            counterclockwise, so reflections turn faces over. Boxes are not culled.
        mask : int or array_like of int, shape (...)
            32 bits for each ray, which ignores instances whose mask shares none of them.
        filter : function compiled with numba.njit, optional
            ``filter(ray_id, instance_id, prim_id, t, u, v, data) -> bool``; see `BVH.closest_hit`.
        data : object, optional
            Last argument of the filter.

        Returns
        -------
        SceneHits
            With `instance_id` and `leaf`; with `counters` also `nodes` and `tests`.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; the message names it.

        Notes
        -----
        Two levels of trees: Wald et al. 2003, "Distributed interactive ray tracing of dynamic
        scenes".

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> lifted = np.eye(4)
        >>> lifted[2, 3] = 2.0
        >>> scene.add(tree), scene.add(tree, lifted)
        (0, 1)
        >>> hit = scene.closest_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0])
        >>> hit.t, hit.instance_id, hit.prim_id
        (3.0, 1, 0)
        """
        if (
            type(t_min) is type(t_max) is float
            and mask is ALL_BITS
            and cull is threads is progress is filter is None
            and not (validate_rays or counters)
        ):
            ray = plain_ray(origins, directions)
            if ray is not None:
                view = self._current()
                hit = cast_function(view.arrays)(view.address, *ray, t_min, t_max, (0, -1))
                return single_scene_hit(hit, view.owner(hit[5]))
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, sort, mask,
        )  # fmt: skip
        found: SceneHits = ray_queries.closest_hit(self._target(), given, counters)
        return found

    def caster(self, *, cull: str | None = None, mask: int = ALL_BITS) -> SceneCaster:
        """Return a function that casts one ray at a time, as fast as Python can call it.

        As `BVH.caster`, but it returns ``(t, prim_id, u, v, front, leaf)``. It uses the scene as it
        is at every call.

        Parameters
        ----------
        cull, mask
            As in `closest_hit`; the mask is one number.

        Returns
        -------
        callable
        """
        code, bits = cull_code(cull), bit_masks("mask", mask)
        if bits.ndim:
            raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
        options = code, int(bits.view(np.int32))
        kernel, current = cast_function(self._current().arrays), self._current

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf,
        ) -> tuple[float, int, float, float, bool, int]:  # fmt: skip
            view = current()
            hit: tuple[float, int, float, float, bool, int] = kernel(
                view.address, float(ox), float(oy), float(oz), float(dx), float(dy), float(dz),
                float(t_min), float(t_max), options,
            )  # fmt: skip
            return hit

        cast.__qualname__ = f"cast of {type(self).__name__}"
        return cast

    def any_hit(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        mask: ArrayLike = ALL_BITS,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        sort: bool | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> NDArray[np.bool_] | bool:
        """Return for each ray whether it hits anything: exactly when `closest_hit` has a hit.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, cull, threads, validate_rays, progress, sort
            As in `closest_hit`.
        filter, data
            As in `closest_hit`; the filter is called until it accepts a hit.

        Returns
        -------
        ndarray of bool or bool, shape (...)
        """
        if (
            type(t_min) is type(t_max) is float
            and mask is ALL_BITS
            and cull is threads is progress is filter is None
            and not validate_rays
        ):
            ray = plain_ray(origins, directions)
            if ray is not None:
                view = self._current()
                return bool(
                    cast_function(view.arrays)(view.address, *ray, t_min, t_max, (0, -1))[5] >= 0
                )
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, sort, mask,
        )  # fmt: skip
        return cast(ray_batches.any_hit, self._target(), given)

    def all_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        max_hits: int | None = None,
        edges: str = "closed",
        mask: ArrayLike = ALL_BITS,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> SceneAllHits:
        """Find all hits of each ray, or the first few, sorted by ray, t, leaf and prim_id.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, cull, threads, validate_rays, progress
            As in `closest_hit`.
        max_hits, edges
            As in `BVH.all_hits`.
        filter, data
            As in `closest_hit`; only hits that the filter accepts are kept, and count towards
            `max_hits`.

        Returns
        -------
        SceneAllHits
        """
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, None, mask,
        )  # fmt: skip
        found: SceneAllHits = ray_queries.all_hits(self._target(), given, edges, max_hits)
        return found

    def count_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        edges: str = "once",
        mask: ArrayLike = ALL_BITS,
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> NDArray[np.int64] | int:
        """Count the hits of each ray.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, cull, threads, validate_rays, progress
            As in `closest_hit`.
        edges
            As in `BVH.count_hits`.
        filter, data
            As in `all_hits`.

        Returns
        -------
        ndarray of int64 or int, shape (...)
        """
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, None, mask,
        )  # fmt: skip
        counts: NDArray[np.int64] | int = ray_queries.count_hits(self._target(), given, edges)
        return counts

    def _target(self) -> Target:
        view = self._current()
        # Kernels have only addresses of the trees, and `progress` may release them.
        return Target(view.arrays, view.split, view)
