"""Ray queries of trees and scenes: the closest hit, any hit, all hits, how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from bvh.queries.batches import quick_calls
from bvh.queries.query_arguments import (
    Filter,
    answer_rays,
    edge_rule,
    is_foreign,
    plain_ray,
    ray_batch,
)
from bvh.queries.results import AllHits, Hits
from bvh.queries.targets import RayTarget
from bvh.queries.verbs import RAY_ARRAYS, Merge, verb
from bvh.runtime.arguments import CountResult, Cull, EdgeRule, TruthResult, flag, whole_number
from bvh.runtime.foreign_arrays import foreign_answer
from bvh.runtime.progress_bars import ProgressLike

HitOfOne = TypeVar("HitOfOne", covariant=True)


class Cast(Protocol[HitOfOne]):
    """Function of `BVH.caster` and `Scene.caster`: casts a ray o + t d, t from t_min to t_max."""

    def __call__(
        self, ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, t_min: float = 0.0,
        t_max: float = np.inf,
    ) -> HitOfOne:  # fmt: skip
        """Cast a ray from (ox, oy, oz) along (dx, dy, dz) at the tree or scene.

        Return (t, prim_id, u, v, front), in a scene also leaf; (inf, -1, nan, nan, False) and a
        leaf of -1 for a miss.
        """


TreeCast: TypeAlias = Cast[tuple[float, int, float, float, bool]]
SceneCast: TypeAlias = Cast[tuple[float, int, float, float, bool, int]]


# The docstring of the functions that `caster` returns. `inspect.signature` reads the signature from
# its first line, where only literals are allowed: 1e999 is inf.
DESCRIPTION = """cast(ox, oy, oz, dx, dy, dz, t_min=0.0, t_max=1e999)
--

Cast one ray o + t d, with t from t_min to t_max, at a {}.

Returns
-------
t, prim_id, u, v, front{} : float, int, float, float, bool{}
    As in `{}.closest_hit`; (inf, -1, nan, nan, False{}) for a miss.
"""
TREE_CAST = DESCRIPTION.format("tree", "", "", "BVH", "")
SCENE_CAST = DESCRIPTION.format("scene, as it is at every call", ", leaf", ", int", "Scene", ", -1")


class RayQueries:
    """Ray queries of `BVH`, `Scene` and `Parts`, which supply the target."""

    __slots__ = ()

    # Returns the target of rays as it is now.
    _ray_target: Callable[[], RayTarget]
    # A `Searched`, for single calls; None where there are only batches, as of meshes in parts.
    _quick: Any = None

    def _rays_without(self, exclude: int | str | ArrayLike) -> RayTarget:
        """Return the target of rays that ignore the instances `exclude`, ids or names.

        Only scenes have such a target: here a ValueError is raised.
        """
        raise ValueError(f"exclude must be None where there are no instances, got {exclude!r}")

    @verb(RAY_ARRAYS, Hits, Merge.LEAST)
    def closest_hit(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf, *, mask: ArrayLike | None = None,
        exclude: int | str | ArrayLike | None = None, cull: Cull | None = None,
        threads: int | None = None, validate_rays: bool = False,
        progress: ProgressLike | None = None, sort: bool | None = None,
        filter: Filter | None = None, data: object = None, counters: bool = False,
    ) -> Hits:  # fmt: skip
        """Find the closest hit of each ray.

        The hit with the smallest t; of equal t, the one with the lowest id. Hit or miss is decided
        exactly for the given doubles, and t is the exact distance rounded to the
        nearest double. The result depends on neither the tree, threads, nor other rays.

        In a scene, rays are in its coordinates, and the hit is that in the mesh that `flattened`
        returns, bit for bit: of equal t, the one of the leaf that comes first, which has the lowest
        instance_id. Reflections turn faces over, as their moved vertices wind the other way. (Two
        levels of trees: Wald et al. 2003, "Distributed interactive ray tracing of dynamic scenes".)

        Parameters
        ----------
        origins, directions : array_like, shape (..., 3)
            Rays o + t d, broadcast against each other. Directions need not be normalised.
        t_min, t_max : array_like, shape (...)
            Range of t, both ends included, in units of the direction's length; -inf and +inf
            make a line.
        mask : int or array_like of int, shape (...), optional
            32 bits for each ray, which ignores faces whose `groups`, and instances whose mask,
            share none of them. Faces without groups have all bits, as rays have by default.
        exclude : int, str or array_like of these, optional
            Ids or names of a scene's instances that the rays ignore, with all that is in them. The
            scene is not changed, so several threads may exclude different instances.
        cull : {None, "back", "front"}
            Triangles to ignore: those seen from behind, or from the front. Boxes have no sides: a
            scene never ignores them, and a tree of them raises a ValueError. For spheres
            and capsules, "back" ignores points where rays leave, "front" those where they enter.
        threads : int, optional
            Threads to use; one for each CPU by default, and -1 for all CPUs of the affinity.
        validate_rays : bool
            Raise on the first ray that is not finite, has no direction or an empty range. Without
            it such rays miss.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in rays. True shows a bar; one of tqdm is accepted.
        sort : bool, optional
            Sort the rays, some thousands at a time, so that neighbours use the same nodes; by
            default if a trial shows that it saves time. Results keep the order of the rays.
        filter : function compiled with numba.njit, optional
            ``filter(ray_id, prim_id, t, u, v, data) -> bool``, in a scene ``filter(ray_id,
            instance_id, prim_id, t, u, v, data) -> bool``, returns whether a hit counts: for
            cut-outs, or to skip the face a ray starts on. It is compiled at its first use, once
            for each type of `data` in a process. It is called in no particular order, from several
            threads, for candidates of the closest hit, so it should have no side effects. ray_id
            is the flat index of the ray; with Dask arrays, of those of its chunk.
        data : object, optional
            Last argument of `filter`: an array, a number, or a tuple of these. None without filter.
        counters : bool
            Count what each ray costs. Rays are then traced one by one, never in streams.

        Returns
        -------
        Hits
            Fields have the rays' leading shape; scalars for a single ray. `mask` is True for hits;
            misses have t +inf, prim_id -1, u and v NaN; `position` and `normal` are computed
            on access. In a scene also `instance_id`, `leaf`; with `counters`, `nodes` and `tests`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.closest_hit([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0]).t
        array([ 5., inf])
        >>> scene = bvh.Scene()
        >>> ids = scene.add(tree), scene.add(tree, np.diag([2.0, 2.0, 2.0, 1.0]))
        >>> hit = scene.closest_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0], exclude=0)
        >>> hit.t, hit.instance_id, hit.leaf, hit.prim_id
        (5.0, 1, 1, 0)
        """
        # A chain `mask is exclude is ... is None` would take longer.
        if (
            mask is None and exclude is None and cull is None and progress is None
            and sort is None and filter is None and data is None
            and validate_rays is False and counters is False
        ):  # fmt: skip
            # Without options, no batch is prepared for a single ray or a few of them.
            searched = self._quick
            if searched is not None:
                # `cast` is None before the first single ray, for which `quick_calls` compiles it.
                cast = searched.cast
                hits: Hits | None = None
                if cast is not None and threads is None:
                    hits = cast(origins, directions, t_min, t_max)
                if hits is None:
                    hits = quick_calls.closest_hit(
                        searched, origins, directions, t_min, t_max, threads
                    )
                if hits is not None:
                    return hits
        if flag("counters", counters) and filter is not None:
            raise ValueError("counters must be False where there is a filter, got True")
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.closest_hit, locals())
        target = self._ray_target() if exclude is None else self._rays_without(exclude)
        batch = ray_batch(origins, directions, t_min, t_max, mask, validate_rays, threads)
        return answer_rays(
            target.closest_hits, target, batch, cull, threads, progress, sort, filter, data,
            counters,
        )  # fmt: skip

    @verb(RAY_ARRAYS, np.bool_, Merge.ANY)
    def any_hit(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf, *, mask: ArrayLike | None = None,
        exclude: int | str | ArrayLike | None = None, cull: Cull | None = None,
        threads: int | None = None, validate_rays: bool = False,
        progress: ProgressLike | None = None, sort: bool | None = None,
        filter: Filter | None = None, data: object = None,
    ) -> TruthResult:  # fmt: skip
        """Return for each ray whether it hits anything: exactly when `closest_hit` has a hit.

        Faster than `closest_hit`: a ray ends at the first hit. For lines of sight, see `visible`.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, exclude, cull, threads, validate_rays, progress
            Rays and options, as in `closest_hit`.
        sort, filter, data
            Options, as in `closest_hit`; the filter is called until it accepts a hit.

        Returns
        -------
        ndarray of bool or bool, shape (...)
            True for rays that hit.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.any_hit([[0.2, 0.2, 5.0], [2.0, 2.0, 5.0]], [0.0, 0.0, -1.0])
        array([ True, False])
        """
        if (
            mask is None and exclude is None and cull is None and progress is None
            and sort is None and filter is None and data is None
            and validate_rays is False
        ):  # fmt: skip
            searched = self._quick
            if searched is not None:
                cast, blocked = searched.cast, None
                if cast is not None and threads is None:
                    # A fifth argument, 0, selects any-hit (see `cast_function`).
                    blocked = cast(origins, directions, t_min, t_max, 0)
                if blocked is None:
                    blocked = quick_calls.any_hit(
                        searched, origins, directions, t_min, t_max, threads
                    )
                if blocked is not None:
                    return blocked
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.any_hit, locals())
        target = self._ray_target() if exclude is None else self._rays_without(exclude)
        batch = ray_batch(origins, directions, t_min, t_max, mask, validate_rays, threads)
        return answer_rays(
            target.any_hits, target, batch, cull, threads, progress, sort, filter, data
        )

    @verb(RAY_ARRAYS, AllHits, Merge.LISTS)
    def all_hits(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf, *, max_hits: int | None = None, edges: EdgeRule = "closed",
        mask: ArrayLike | None = None, exclude: int | str | ArrayLike | None = None,
        cull: Cull | None = None, threads: int | None = None, validate_rays: bool = False,
        progress: ProgressLike | None = None, filter: Filter | None = None, data: object = None,
    ) -> AllHits:  # fmt: skip
        """Find all hits of each ray, or the first few.

        Hits are sorted by ray, t, leaf (in a scene) and prim_id. They take 29 bytes each, 37 during
        the query, and some 110 for each hit of a block of 256 rays on every thread; primitives
        other than triangles also take 48 a ray, from which positions are computed.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, exclude, cull, threads, validate_rays, progress
            Rays and options, as in `closest_hit`.
        max_hits : int, optional
            Return at most this many hits of each ray, the closest; the search ends after them.
        edges : {"closed", "once"}
            Which faces are hit by a ray through a shared edge or vertex: "closed", all that it
            touches; "once", those that it would cross if it were moved by an infinitesimal that is
            the same for all faces (Edelsbrunner and Mücke 1990, "Simulation of simplicity"). Each
            crossing of a closed mesh is then one hit, however the ray is aimed. For boxes both are
            the same.
        filter, data
            As in `closest_hit`; only accepted hits are returned, and count towards `max_hits`.

        Returns
        -------
        AllHits
            Flat arrays, and offsets to each ray's hits; `position` and `normal` on access.

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
        once = edge_rule(edges)
        plain = exclude is cull is mask is max_hits is threads is progress is filter is data is None
        searched = self._quick if plain and validate_rays is False else None
        if searched is not None:
            hits = quick_calls.all_hits(searched, origins, directions, t_min, t_max, once)
            if hits is not None:
                return hits
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.all_hits, locals())
        limit = None if max_hits is None else whole_number("max_hits", max_hits)
        target = self._ray_target() if exclude is None else self._rays_without(exclude)
        batch = ray_batch(origins, directions, t_min, t_max, mask, validate_rays, threads)
        return answer_rays(
            target.all_hits, target, batch, cull, threads, progress, None, filter, data, once, limit
        )

    @verb(RAY_ARRAYS, np.int64, Merge.SUM)
    def count_hits(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf, *, edges: EdgeRule = "once", mask: ArrayLike | None = None,
        exclude: int | str | ArrayLike | None = None, cull: Cull | None = None,
        threads: int | None = None, validate_rays: bool = False,
        progress: ProgressLike | None = None, filter: Filter | None = None, data: object = None,
    ) -> CountResult:  # fmt: skip
        """Count the hits of each ray.

        Parameters
        ----------
        origins, directions, t_min, t_max, mask, exclude, cull, threads, validate_rays, progress
            Rays and options, as in `closest_hit`.
        edges : {"once", "closed"}
            As in `all_hits`. By default each crossing of a closed mesh counts once: an even number
            for rays from outside, an odd number from inside. "closed" counts all faces at an edge.
        filter, data
            As in `closest_hit`; only hits that the filter accepts count.

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
        once = edge_rule(edges)
        plain = exclude is cull is mask is threads is progress is filter is data is None
        searched = self._quick if plain and validate_rays is False else None
        if searched is not None:
            ray = plain_ray(origins, directions)
            one = quick_calls.count_hits(searched, ray, t_min, t_max, once)
            if one is not None:
                return one
        if is_foreign(origins, directions, t_min, t_max, mask):
            return foreign_answer(self.count_hits, locals())
        target = self._ray_target() if exclude is None else self._rays_without(exclude)
        batch = ray_batch(origins, directions, t_min, t_max, mask, validate_rays, threads)
        return answer_rays(
            target.count_hits, target, batch, cull, threads, progress, None, filter, data, once
        )


class CasterQueries(RayQueries, Generic[HitOfOne]):
    """Ray queries of `BVH` and `Scene`, which also cast rays one at a time."""

    __slots__ = ()

    # Returns a function that casts single rays, for a side to cull (see `cull_code`) and a mask.
    _caster: Callable[[int, int | None], Cast[HitOfOne]]

    def caster(self, *, cull: Cull | None = None, mask: int | None = None) -> Cast[HitOfOne]:
        """Return a function that casts one ray at a time, as fast as Python can call it.

        For a cursor that hovers, or for loops in which a ray depends on the hit before. It takes
        plain numbers, checks nothing, and can be called from many threads at once.

        Parameters
        ----------
        cull, mask
            Side of faces to ignore, and bits of faces to hit, one number, as in `closest_hit`.

        Returns
        -------
        callable
            ``cast(ox, oy, oz, dx, dy, dz, t_min=0.0, t_max=inf)`` returns ``(t, prim_id, u, v,
            front)`` as in `closest_hit`, in a scene ``(t, prim_id, u, v, front, leaf)``.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> cast = tree.caster()
        >>> cast(0.25, 0.25, 1.0, 0.0, 0.0, -1.0)
        (1.0, 0, 0.25, 0.25, True)
        """
        return self._caster(self._ray_target().side_to_cull(cull), mask)
