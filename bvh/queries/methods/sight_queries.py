"""Lines of sight in trees and scenes: which points see each other."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.arithmetic.floats import SMALLEST
from bvh.queries.batches.block_chunks import blocks_of
from bvh.queries.batches.hit_lists import for_kernels
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import RaySearch, is_image, trace_blocks
from bvh.queries.batches.scratch import id_type_of
from bvh.queries.query_arguments import (
    ROWS_AT_ONCE,
    Filter,
    RayBatch,
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
from bvh.runtime.memory import Shelf
from bvh.runtime.progress_bars import ProgressLike
from bvh.runtime.threads import share
from bvh.traversal.rays import windows
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.hit_details import Columns
from bvh.traversal.rays.ray_batch import AUTO, EVERY, TRIAL, Order, Rays
from bvh.traversal.rays.sight_lines import BELOW_ONE, Lines, write_lines
from bvh.traversal.rays.trials import UNMEASURED

# Lines of which a thread makes the rays at a time, at least.
FEWEST_LINES = 1 << 13
# Lines that a thread traces at a time, at most and at least: windows of rays that may be sorted.
MAX_LINES, MIN_LINES = windows.WINDOW * BLOCK, windows.SMALLEST * BLOCK

# Memory of the lines of a chunk, reused from batch to batch.
_SHELF: Shelf[Lines] = Shelf(lambda: _new_lines(MAX_LINES))


class Ends(NamedTuple):
    """The ends of n lines of sight: points (n, 3), or (1, 3) for all lines."""

    p: NDArray[np.float64]
    q: NDArray[np.float64]
    size: int  # n
    margin: float


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
    search: RaySearch, ends: Ends, shape: tuple[int, ...], cull: Cull | None, threads: int | None
) -> NDArray[np.bool_] | None:
    """Return which lines nothing blocks, (...); None for an image, whose rays must answer.

    A thread makes the rays of some lines, and traces them at once.
    """
    if len(shape) == 0 or (len(shape) > 1 and is_image(shape[-1], ends.size)):
        return None
    options = RayOptions(search.side_to_cull(cull), threads=thread_count(threads))
    n, none = ends.size, np.empty(0)
    # `like` stands for the rays, which are made chunk by chunk: only their number is used. `_alive`
    # keeps the memory of `arrays`; `measured` is which ways of tracing have been faster so far.
    like = Rays(ends.p, ends.q, none, none)
    arrays, _alive = for_kernels(search.chosen(RayBatch(like, (n,)), options, mergeable=True)[0])
    goal, measured = ClosestGoal(any_hit=True, cull=options.cull), UNMEASURED.copy()
    # The kernel writes the column `front` alone, and nothing for an empty tree.
    no_columns = Columns(none, np.empty(0, id_type_of(arrays.primitives)), none, none, none)
    result = np.zeros(n, np.bool_) if arrays.nodes.data.size == 0 else np.empty(n, np.bool_)

    def work(begin: int, end: int) -> None:
        memory, size, seen = _SHELF.take(), end - begin, result[begin:end]
        columns: Any = (column[:size] for column in memory)
        lines = Lines(*columns)
        p, q = (a[begin:end] if len(a) > 1 else a for a in (ends.p, ends.q))
        write_lines(p, q, ends.margin, 0, size, lines)
        rays = Rays(p, lines.directions, lines.t_min, lines.t_max, EVERY)
        order, out = Order(size, 0, AUTO, TRIAL), no_columns._replace(front=seen.view(np.uint8))
        trace_blocks(measured, arrays.row, rays, order, goal, 0, blocks_of(order), out)
        # The kernel has marked the lines that hit something.
        np.logical_not(seen, out=seen)
        np.logical_and(seen, lines.finite, out=seen)
        _SHELF.give_back(memory)

    share(n, MAX_LINES, work, options.threads, None, MIN_LINES)
    return result.reshape(shape)


def _new_lines(size: int) -> Lines:
    """Return memory for `size` lines."""
    t_min, t_max = np.empty(size), np.empty(size)
    return Lines(np.empty((size, 3)), t_min, t_max, np.empty(size, np.uint8))


def _segments(
    ends: Ends, shape: tuple[int, ...], threads: int | None
) -> tuple[tuple[ArrayLike, ...], NDArray[np.bool_]]:
    """Return (origins, directions, t_min, t_max) of rays from p to q, and which are finite, (...).

    t is 0 at p and 1 at q. Ranges leave out a part at both ends, whose length is `margin` times the
    largest coordinate of p and q.
    """
    n, p = ends.size, ends.p
    lines = _new_lines(n)

    def work(first: int, last: int) -> None:
        write_lines(p, ends.q, ends.margin, first, last, lines)

    share(n, ROWS_AT_ONCE, work, thread_count(threads), None, FEWEST_LINES)
    along, low, high, finite = lines
    start = p.reshape(*shape, 3) if len(p) == n else p[0]
    if shape == ():
        # Python's numbers, which queries of single rays take without conversion.
        return (start, along[0], float(low[0]), float(high[0])), finite.view(np.bool_)[0]
    rays = along.reshape(*shape, 3), low.reshape(shape), high.reshape(shape)
    return (start, *rays), finite.view(np.bool_).reshape(shape)


def _visible_pair(target: Any, p: Any, q: Any, margin: Any) -> bool | None:
    """Return whether nothing is between two points; None where a batch must answer.

    `target` is the tree or scene. The range of t, without the `margin` at both ends, is computed as
    in `_segments`, so that answers are the same.
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
