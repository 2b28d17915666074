"""Ray queries of a tree: the closest hit, any hit, all hits, how many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.batches import ray_batches
from bvh.queries.batches.all_hit_batches import find_all_hits, find_counts
from bvh.queries.ray_arguments import (
    RayArguments,
    RayOptions,
    cast,
    checked_cull,
    plain_ray,
    ray_batch,
)
from bvh.queries.results import AllHits, Hits, single_hit
from bvh.queries.targets import Target
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import kernel_input, whole_number
from bvh.runtime.jit import warms
from bvh.runtime.progress_bars import ProgressLike
from bvh.tree.build import build
from bvh.tree.primitives import Triangles

Caster = Callable[..., tuple[float, int, float, float, bool]]

EDGES = {"closed": False, "once": True}


class RayQueries(TreeBase):
    """Ray queries of a tree."""

    __slots__ = ()

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
        progress: ProgressLike | None = None,
        sort: bool | None = None,
        filter: Any = None,
        data: Any = None,
        counters: bool = False,
    ) -> Hits:
        """Find the closest hit of each ray.

        The hit with the smallest t; of equal t, the one with the lowest id. Hit or miss is
        decided as real arithmetic on the given doubles decides it, and t is the real distance
        rounded to the nearest double. The result does not depend on the tree, on threads, or on the
        other rays of the batch.

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
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in rays. True shows a bar, of rich or tqdm; of tqdm, a
            bar or the class will do, too.
        sort : bool, optional
            Sort the rays so that neighbours use the same nodes. By default this is done where a
            sample shows that it pays: in large batches of incoherent rays. Results are the same, in
            the order of the rays.
        filter : function compiled with numba.njit, optional
            ``filter(ray_id, prim_id, t, u, v, data) -> bool`` returns whether a hit counts: for
            cut-outs, groups, the face that a ray starts on. It is compiled at its first use, once
            for each type of `data` in a process. It is called in no particular order, from several
            threads, for candidates of the closest hit, so it should have no side effects. ray_id
            is the flat index of the ray.
        data : object, optional
            Last argument of the filter: an array, a number, or a tuple of them.
        counters : bool
            Count what each ray costs. Rays are then traced one by one, never in packets.

        Returns
        -------
        Hits
            Fields have the rays' leading shape; scalars for a single ray. With `counters` a
            `CountedHits`, which also has `nodes` and `tests`.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; the message names it.
        """
        if (
            type(t_min) is type(t_max) is float
            and cull is threads is progress is filter is None
            and not (validate_rays or counters)
        ):
            ray = plain_ray(origins, directions)
            if ray is not None:
                kernel = self._cast or self._single_ray()
                return single_hit(kernel(self._address, *ray, t_min, t_max, 0))
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, sort,
        )  # fmt: skip
        hits: Hits = closest_hit(self._target(), given, counters)
        return hits

    def caster(self, *, cull: str | None = None) -> Caster:
        """Return a function that casts one ray at a time, as fast as Python can call it.

        For a cursor that hovers, or for loops in which a ray depends on the hit before. It takes
        plain numbers and checks nothing: ``cast(ox, oy, oz, dx, dy, dz, t_min, t_max)`` returns
        ``(t, prim_id, u, v, front)`` as in `closest_hit`; t_min and t_max default to 0 and +inf. It
        can be called from many threads at once.

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
        code, address = checked_cull(cull, self._arrays), self._address
        kernel = self._cast or self._single_ray()

        def cast(
            ox: float, oy: float, oz: float, dx: float, dy: float, dz: float,
            t_min: float = 0.0, t_max: float = np.inf, _tree: RayQueries = self,
        ) -> tuple[float, int, float, float, bool]:  # fmt: skip
            # The tree among the defaults stays alive as long as the function does.
            hit: tuple[float, int, float, float, bool] = kernel(
                address, float(ox), float(oy), float(oz), float(dx), float(dy), float(dz),
                float(t_min), float(t_max), code,
            )  # fmt: skip
            return hit

        cast.__qualname__ = f"cast of {self!r}"
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
        progress: ProgressLike | None = None,
        sort: bool | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> NDArray[np.bool_] | bool:
        """Return for each ray whether it hits anything: exactly when `closest_hit` has a hit.

        Faster than `closest_hit`, because a ray ends at the first hit that is found. To test
        whether q is visible from p, cast the segment: origin p, direction q - p, t_max 1.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress, sort
            As in `closest_hit`.
        filter, data
            As in `closest_hit`; the filter is called until it accepts a hit.

        Returns
        -------
        ndarray of bool or bool, shape (...)
        """
        if (
            type(t_min) is type(t_max) is float
            and cull is threads is progress is filter is None
            and not validate_rays
        ):
            # A single ray is finished sooner than a batch is prepared.
            ray = plain_ray(origins, directions)
            if ray is not None:
                kernel = self._cast or self._single_ray()
                return bool(kernel(self._address, *ray, t_min, t_max, 0)[1] >= 0)
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter,
            data, sort,
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
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> AllHits:
        """Find all hits of each ray, or the first few.

        The list is complete, and sorted by ray, t and prim_id. It takes 29 bytes a hit, 37 while
        it is made, and some 110 for each hit of a block of 256 rays on every thread.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress
            As in `closest_hit`.
        max_hits : int, optional
            Keep only this many hits of each ray, the closest ones; what is behind them is not
            visited. All by default.
        edges : {"closed", "once"}
            Which faces are hit by a ray through a shared edge or vertex: "closed", all that it
            touches; "once", those that it would cross if it were moved by an infinitesimal that is
            the same for all faces (Edelsbrunner and Mücke 1990, "Simulation of simplicity"). Each
            crossing of a closed mesh is then one hit, however the ray is aimed. For boxes both are
            the same.
        filter, data
            As in `closest_hit`; only hits that the filter accepts are kept, and count towards
            `max_hits`.

        Returns
        -------
        AllHits
            Flat arrays, and offsets to each ray's hits.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range; the message names it.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2], [0, 2, 3]])
        >>> diagonal = [0.5, 0.5, 1.0], [0.0, 0.0, -1.0]
        >>> tree.all_hits(*diagonal).prim_id
        array([0, 1], dtype=int32)
        >>> tree.all_hits(*diagonal, edges="once").prim_id
        array([0], dtype=int32)
        """
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter, data
        )
        hits: AllHits = all_hits(self._target(), given, edges, max_hits)
        return hits

    def count_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        edges: str = "once",
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
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress
            As in `closest_hit`.
        edges : {"once", "closed"}
            As in `all_hits`. By default each crossing of a closed mesh counts once: an even number
            for rays from outside, an odd number from inside.
        filter, data
            As in `all_hits`.

        Returns
        -------
        ndarray of int64 or int, shape (...)

        Examples
        --------
        >>> import bvh, trimesh
        >>> tree = bvh.BVH.from_mesh(trimesh.creation.box())
        >>> tree.count_hits([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
        1
        """
        given = RayArguments(
            origins, directions, t_min, t_max, cull, threads, validate_rays, progress, filter, data
        )
        counts: NDArray[np.int64] | int = count_hits(self._target(), given, edges)
        return counts

    def _target(self) -> Target:
        return Target(self._arrays, self._quality == "high", self)


def closest_hit(target: Target, given: RayArguments, counters: bool) -> Any:
    """Return the closest hits of checked rays in a tree or a scene."""
    if counters and given.filter is not None:
        raise ValueError("counters must be False where there is a filter, got True")
    return cast(ray_batches.counted_hits if counters else ray_batches.closest_hit, target, given)


def all_hits(target: Target, given: RayArguments, edges: str, max_hits: int | None) -> Any:
    """Return all hits of checked rays in a tree or a scene, or the closest `max_hits` of each."""
    limit = None if max_hits is None else whole_number("max_hits", max_hits)
    once = edge_rule(edges)
    return cast(partial(find_all_hits, once=once, limit=limit), target, given)


def count_hits(target: Target, given: RayArguments, edges: str) -> Any:
    """Return the number of hits of checked rays in a tree or a scene."""
    once = edge_rule(edges)
    return cast(partial(find_counts, once=once, split=target.split), target, given)


def edge_rule(edges: str) -> bool:
    """Return whether each crossing is to be one hit."""
    if not isinstance(edges, str) or edges not in EDGES:
        raise ValueError(f"edges must be 'closed' or 'once', got {edges!r}")
    return EDGES[edges]


@warms("all hits")
def _warm() -> None:
    """Compile what lists and counts of hits need."""
    points, faces = kernel_input(np.eye(3)), np.arange(3, dtype=np.int32).reshape(1, 3)
    arrays, _ = build(Triangles(points, kernel_input(faces)), "medium", 1, None)
    batch, options = ray_batch(np.ones((2, 3)), -np.ones((2, 3)), 0.0, np.inf), RayOptions()
    for limit in (None, 1):
        find_all_hits(arrays, batch, options, True, limit)
    ray_batches.counted_hits(arrays, batch, options)
