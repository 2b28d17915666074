"""What rays ask of a tree: the nearest hit, and whether there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh import batches
from bvh.arguments import cull_code, thread_count
from bvh.hierarchy import Hierarchy
from bvh.primitives import Triangles
from bvh.progress_bars import ProgressLike, heard
from bvh.rays import Hits, RayBatch, check_rays, plain_ray, ray_batch, single_hit
from bvh.user_code import optional_filter

Caster = Callable[..., tuple[float, int, float, float, bool]]


class RayQueries(Hierarchy):
    """The questions that rays ask."""

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
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in rays. True shows a bar, of rich or tqdm; of tqdm, a
            bar or the class will do, too.
        sort : bool, optional
            Take the rays in an order that suits the caches. By default done where a sample shows
            that it pays: in large batches of dear rays. The answers are the same, in your order.
        filter : function compiled with numba.njit, optional
            ``filter(ray_id, prim_id, t, u, v, data) -> bool`` says whether a hit counts: cut-outs,
            groups, the face that a ray starts on. It is compiled when it is first asked, once for
            each type of `data` in a process. It is called in no particular order, from several
            threads, for hits that may be the nearest, so it should have no effects. ray_id counts
            the rays of the batch flat.
        data : object, optional
            What the filter is given as its last argument: an array, a number, or a tuple of them.
        counters : bool
            Count what each ray costs. Rays are then taken one by one, never in packets.

        Returns
        -------
        Hits
            With fields of the rays' leading shape; scalars for a single ray. With `counters` a
            `CountedHits`, which has `nodes` and `tests`, too.

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
                cast = self._cast or self._single_ray()
                return single_hit(cast(self._place, ray, t_min, t_max, 0))
        batch, code = self._batch(origins, directions, t_min, t_max, cull, validate_rays)
        if counters and filter is not None:
            raise ValueError("counters must be False where there is a filter, got True")
        accept = optional_filter(filter, data)
        hits: Hits
        with heard(progress) as report:
            workers = thread_count(threads)
            if counters:
                hits = batches.counted_hits(self._arrays, batch, code, workers, report)
            else:
                hits = batches.closest_hit(self._arrays, batch, code, workers, report, sort, accept)
        return hits

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
            t_min: float = 0.0, t_max: float = np.inf, _tree: RayQueries = self,
        ) -> tuple[float, int, float, float, bool]:  # fmt: skip
            # The tree among the defaults stays alive as long as the function does.
            hit: tuple[float, int, float, float, bool] = kernel(
                place,
                (float(ox), float(oy), float(oz), float(dx), float(dy), float(dz)),
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
        """Tell for each ray whether it hits anything: exactly when `closest_hit` has a hit.

        Faster than `closest_hit`, because a ray ends at the first hit that is found. For whether
        q can be seen from p, ask for the segment: origin p, direction q - p, t_max 1.

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
            # A single ray is found to the end sooner than a batch is prepared.
            ray = plain_ray(origins, directions)
            if ray is not None:
                cast = self._cast or self._single_ray()
                return bool(cast(self._place, ray, t_min, t_max, 0)[1] >= 0)
        batch, code = self._batch(origins, directions, t_min, t_max, cull, validate_rays)
        accept = optional_filter(filter, data)
        workers = thread_count(threads)
        with heard(progress) as report:
            return batches.any_hit(self._arrays, batch, code, workers, report, sort, accept)

    def _batch(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike,
        cull: str | None, validate_rays: bool,
    ) -> tuple[RayBatch, int]:  # fmt: skip
        """Return checked rays and the side to cull."""
        code = self._cull(cull)
        batch = ray_batch(origins, directions, t_min, t_max)
        if validate_rays:
            check_rays(batch)
        return batch, code

    def _cull(self, cull: str | None) -> int:
        code = cull_code(cull)
        if code and not isinstance(self._arrays.primitives, Triangles):
            raise ValueError(f"cull must be None for {self.kind}: they have no winding")
        return code
