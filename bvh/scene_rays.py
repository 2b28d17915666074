"""What rays ask of a scene: as of a tree, with the instance that is hit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh import batches
from bvh.arguments import ALL_BITS, bit_masks, cull_code, kernel_input, thread_count, whole_number
from bvh.crossing_queries import edge_rule
from bvh.many_hits import Request
from bvh.progress_bars import ProgressLike, heard
from bvh.rays import (
    RayBatch,
    SceneAllHits,
    SceneHits,
    check_rays,
    plain_ray,
    ray_batch,
    single_scene_hit,
)
from bvh.scene_content import SceneContent
from bvh.traversal.one_ray import way_in
from bvh.two_level import TwoLevel
from bvh.user_calls import SCENE_FILTER
from bvh.user_code import optional_filter

SceneCaster = Callable[..., tuple[float, int, float, float, bool, int]]


class SceneRays(SceneContent):
    """The questions that rays ask of a scene."""

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
        """Find the nearest hit of each ray in all instances.

        The same hit as in the mesh that `flattened` returns, bit for bit; of equal t, the one of
        the leaf that comes first, which has the lowest instance_id, and there the lowest prim_id.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress, sort, counters
            As in `BVH.closest_hit`. Rays are in the scene's coordinates, and t in units of their
            directions' lengths. The front of a face is where its moved vertices wind
            counterclockwise, so reflections turn faces over. Boxes are not culled.
        mask : int or array_like of int, shape (...)
            32 bits of each ray; a ray passes through instances with whose mask it shares none.
        filter : function compiled with numba.njit, optional
            ``filter(ray_id, instance_id, prim_id, t, u, v, data) -> bool``; see `BVH.closest_hit`.
        data : object, optional
            What the filter is given as its last argument.

        Returns
        -------
        SceneHits
            With `instance_id` and `leaf`; `nodes` and `tests`, too, with `counters`.

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
                hit = way_in(view.arrays)(view.place, ray, t_min, t_max, 0, -1)
                return single_scene_hit(hit, view.owner(hit[5]))
        batch = _batch(origins, directions, t_min, t_max, mask, validate_rays)
        # Held while rays are under way: kernels know the trees by addresses alone, and `progress`
        # may let go of them.
        view, code = self._current(), cull_code(cull)
        arrays = view.arrays
        if counters and filter is not None:
            raise ValueError("counters must be False where there is a filter, got True")
        accept = optional_filter(filter, data, SCENE_FILTER)
        found: SceneHits
        with heard(progress) as report:
            workers = thread_count(threads)
            if counters:
                found = batches.counted_hits(arrays, batch, code, workers, report)
            else:
                found = batches.closest_hit(arrays, batch, code, workers, report, sort, accept)
        return found

    def caster(self, *, cull: str | None = None, mask: int = ALL_BITS) -> SceneCaster:
        """Return a function that casts one ray at a time, as fast as Python can call it.

        As `BVH.caster`, but it returns ``(t, prim_id, u, v, front, leaf)``. It sees the scene as it
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
        signed = int(bits.view(np.int32))
        kernel, current = way_in(self._current().arrays), self._current

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf,
        ) -> tuple[float, int, float, float, bool, int]:  # fmt: skip
            view = current()
            hit: tuple[float, int, float, float, bool, int] = kernel(
                view.place,
                (float(ox), float(oy), float(oz), float(dx), float(dy), float(dz)),
                float(t_min), float(t_max), code, signed,
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
        """Tell for each ray whether it hits anything: exactly when `closest_hit` has a hit.

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
                return bool(way_in(view.arrays)(view.place, ray, t_min, t_max, 0, -1)[5] >= 0)
        batch = _batch(origins, directions, t_min, t_max, mask, validate_rays)
        accept = optional_filter(filter, data, SCENE_FILTER)
        # Held while rays are under way, as in `closest_hit`.
        view = self._current()
        code, workers = cull_code(cull), thread_count(threads)
        with heard(progress) as report:
            return batches.any_hit(view.arrays, batch, code, workers, report, sort, accept)

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
            As in `closest_hit`; the filter says which hits are kept, and counted by `max_hits`.

        Returns
        -------
        SceneAllHits
        """
        most = None if max_hits is None else whole_number("max_hits", max_hits)
        # The second is held while rays are under way, as in `closest_hit`.
        request, _view = self._request(
            origins, directions, t_min, t_max, mask, cull, validate_rays, edges, filter, data
        )
        with heard(progress) as report:
            hits: SceneAllHits = request.all_hits(most, thread_count(threads), report)
        return hits

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
        request, view = self._request(
            origins, directions, t_min, t_max, mask, cull, validate_rays, edges, filter, data
        )
        workers = thread_count(threads)
        with heard(progress) as report:
            counts: NDArray[np.int64] | int = request.counts(view.split, workers, report)
        return counts

    def _request(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike,
        mask: ArrayLike, cull: str | None, validate_rays: bool, edges: str, filter: Any, data: Any,
    ) -> tuple[Request, TwoLevel]:  # fmt: skip
        """Return the checked request, and what it is made to, to be held until it is answered."""
        once = edge_rule(edges)
        batch = _batch(origins, directions, t_min, t_max, mask, validate_rays)
        accept = optional_filter(filter, data, SCENE_FILTER)
        view = self._current()
        return Request(view.arrays, batch, cull_code(cull), once, accept), view


def _batch(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike,
    mask: ArrayLike, validate_rays: bool,
) -> RayBatch:  # fmt: skip
    """Return checked rays with their masks."""
    batch = ray_batch(origins, directions, t_min, t_max)
    if validate_rays:
        check_rays(batch)
    if mask is ALL_BITS:
        return batch
    bits = bit_masks("mask", mask)
    if bits.size == 1:
        return batch._replace(masks=kernel_input(bits.reshape(1).view(np.int32)))
    try:
        spread = np.broadcast_to(bits, batch.shape)
    except ValueError:
        raise ValueError(
            f"mask must have a shape that broadcasts to the rays', {batch.shape}, got {bits.shape}"
        ) from None
    return batch._replace(masks=kernel_input(spread.reshape(-1).view(np.int32)))
