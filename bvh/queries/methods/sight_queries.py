"""Lines of sight in trees and scenes: which points see each other."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import is_image
from bvh.queries.batches.sight_batches import Ends, new_lines, visible_lines
from bvh.queries.query_arguments import (
    ROWS_AT_ONCE,
    Filter,
    RayOptions,
    is_foreign,
    plain_point,
    plain_rays,
    real_rows,
)
from bvh.queries.targets import ray_target
from bvh.queries.verbs import verb
from bvh.runtime import arguments
from bvh.runtime.arguments import Cull, TruthResult, kernel_input, thread_count
from bvh.runtime.foreign_arrays import foreign_answer
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.threads import share
from bvh.traversal.rays.sight_lines import BELOW_ONE, write_lines

# Lines that a thread takes at a time, at least.
FEWEST_LINES = 1 << 13


class SightQueries:
    """Lines of sight of `BVH` and `Scene`, by their `any_hit`."""

    __slots__ = ()

    any_hit: Callable[..., TruthResult]

    @verb({"p": (3,), "q": (3,), "mask": ()}, np.bool_)
    def visible(
        self, p: ArrayLike, q: ArrayLike, *, margin: float = 1e-10, mask: ArrayLike | None = None,
        cull: Cull | None = None, threads: int | None = None, progress: ProgressLike | None = None,
        sort: bool | None = None, filter: Filter | None = None, data: object = None,
    ) -> TruthResult:  # fmt: skip
        """Return for each pair of points whether nothing is between them.

        The end points are left out, so that a point on a surface sees and is seen; a ray of
        `any_hit` from p along q - p up to ``t_max=1`` is blocked by the surfaces of p and q.

        Parameters
        ----------
        p, q : array_like, shape (..., 3)
            Points, broadcast against each other; the order of the two does not matter, except that
            one `p` for all is the fastest.
        margin : float
            How much of the line is left out at both ends, at least 0: a share of the largest
            coordinate of p and q. Computed points of a surface, such as `Hits.position`, are off by
            some 1e-16 of that, and a line at a low angle is near the surface for longer. Use 1e-6
            for points that were rounded to float32; with 0, only the end points are left out.
        mask, cull, threads, progress, sort
            Options of rays, as in `closest_hit`.
        filter, data
            As in `any_hit`; hits that the filter rejects are transparent.

        Returns
        -------
        ndarray of bool or bool, shape (...)
            True if nothing is between the points, if they are equal, or nearer to each other than
            two margins. False if one of them is not finite.

        Notes
        -----
        A hit counts if its t, rounded to the nearest double, is strictly between 0 and 1, and
        further from both than the margin. No margin helps if two points of one oblique plane
        are rounded to different sides of it: the line may cross it anywhere. Move them off along
        `Hits.normal`. Boxes are solid: they hide whatever is inside.

        Examples
        --------
        >>> import bvh, trimesh
        >>> room = bvh.BVH.from_mesh(trimesh.creation.box([4, 4, 4]))
        >>> room.visible([0, 0, 0], [[1, 1, 1], [9, 1, 1], [2, 0, 0.5]])
        array([ True, False,  True])
        >>> room.any_hit([0, 0, 0], [2, 0, 0.5], t_max=1.0)
        True
        """
        if (
            mask is None and cull is None and threads is None and progress is None and sort is None
            and filter is None and data is None
        ):  # fmt: skip
            # A single pair takes less time than the preparation of a batch.
            seen = _visible_pair(self, p, q, margin)
            if seen is not None:
                return seen
        if is_foreign(p, q, mask):
            return foreign_answer(self.visible, locals())
        ends, shape = _ends(p, q, margin, threads)
        if mask is None and progress is None and sort is None and filter is None and data is None:
            found = _visible_batch(ray_target(self), ends, shape, cull, threads)
            if found is not None:
                return found
        rays, finite = _segments(ends, shape, threads)
        hidden = self.any_hit(
            *rays, mask=mask, cull=cull, threads=threads, progress=progress, sort=sort,
            filter=filter, data=data,
        )  # fmt: skip
        if not isinstance(hidden, np.ndarray):
            return bool(finite) and not hidden
        # In place: new memory for the answer takes longer.
        np.logical_not(hidden, out=hidden)
        return np.logical_and(hidden, finite, out=hidden)


def checked_margin(margin: float) -> float:
    """Return the margin of lines of sight as a float; raise unless it is finite and at least 0."""
    if type(margin) is float and 0.0 <= margin < inf:
        return margin
    relative_margin = arguments.lengths("margin", margin, finite=True)
    if relative_margin.ndim:
        raise ValueError(f"margin must be a finite number of at least 0, got {margin!r}")
    return float(relative_margin)


def _ends(
    p: ArrayLike, q: ArrayLike, margin: float, threads: int | None
) -> tuple[Ends, tuple[int, ...]]:
    """Return the points p and q (..., 3), checked and flat, and the leading shape of the lines."""
    plain = plain_rays(p, q, 0.0, inf)
    if plain is not None:
        p_rows, q_rows = kernel_input(plain.rays.origins), kernel_input(plain.rays.directions)
        return Ends(p_rows, q_rows, plain.size, checked_margin(margin)), plain.shape
    start, end = arguments.points("p", p), arguments.points("q", q)
    workers = thread_count(threads)
    shape = arguments.common_shape(p=start.shape[:-1], q=end.shape[:-1])
    relative_margin = checked_margin(margin)
    p_rows, q_rows = (real_rows(rows, shape, workers, 3) for rows in (start, end))
    return Ends(p_rows, q_rows, prod(shape), relative_margin), shape


def _visible_batch(
    target: Any, ends: Ends, shape: tuple[int, ...], cull: Cull | None, threads: int | None
) -> NDArray[np.bool_] | None:
    """Return which lines nothing blocks, (...); None for an image, whose rays must answer."""
    if len(shape) == 0 or (len(shape) > 1 and is_image(shape[-1], ends.size)):
        return None
    options = RayOptions(target.side_to_cull(cull), threads=thread_count(threads))
    return visible_lines(target, ends, options).reshape(shape)


def _segments(
    ends: Ends, shape: tuple[int, ...], threads: int | None
) -> tuple[tuple[ArrayLike, ...], NDArray[np.bool_]]:
    """Return (origins, directions, t_min, t_max) of rays from p to q, and which are finite, (...).

    t is 0 at p and 1 at q; ranges leave out the margin at both ends.
    """
    n, p = ends.size, ends.p
    lines = new_lines(n)

    def work(first: int, last: int) -> None:
        write_lines(p, ends.q, ends.margin, first, last, lines)

    share(n, ROWS_AT_ONCE, work, thread_count(threads), None, FEWEST_LINES)
    along, low, high, finite = lines
    start = p.reshape(*shape, 3) if len(p) == n else p[0]
    rays = along.reshape(*shape, 3), low.reshape(shape), high.reshape(shape)
    return (start, *rays), finite.view(np.bool_).reshape(shape)


def _visible_pair(target: Any, p: Any, q: Any, margin: Any) -> bool | None:
    """Return whether nothing is between two points; None where a batch must answer.

    The range of t is computed as in `_segments`, so that answers are the same.
    """
    start, end = plain_point(p), plain_point(q)
    if start is None or end is None or type(margin) is not float or not 0.0 <= margin < inf:
        return None
    (px, py, pz), (qx, qy, qz) = start, end
    x, y, z = qx - px, qy - py, qz - pz
    size = max(abs(x), abs(y), abs(z))
    # A batch answers for equal points, and if a difference is not finite: 0.0 times it is NaN.
    if x * 0.0 + y * 0.0 + z * 0.0 != 0.0 or size == 0.0:
        return None
    a, b, c = x / size, y / size, z / size
    largest = max(abs(px), abs(py), abs(pz), abs(qx), abs(qy), abs(qz))
    # The margin in units of t. Even without a margin, the ends 0 and 1 themselves are left out.
    gap = margin * largest / (size * sqrt(a * a + b * b + c * c))
    low, high = max(gap, float(SMALLEST)), min(1.0 - gap, BELOW_ONE)
    # The argument 0 selects any-hit (see `cast_function`).
    searched: Searched = target._quick
    blocked = (searched.cast or searched.first_cast())(start, (x, y, z), low, high, 0)
    return None if blocked is None else not blocked
