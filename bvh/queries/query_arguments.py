"""Arguments of queries: rays, points and options, checked, as kernels take them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import square_matrices
from bvh.runtime import arguments
from bvh.runtime.arguments import Cull, EdgeRule, check_option, flag, kernel_input, thread_count
from bvh.runtime.calls.user_calls import UserCall
from bvh.runtime.foreign_arrays import ORDINARY, is_lazy, is_other
from bvh.runtime.progress_bars import Progress, ProgressLike, heard
from bvh.runtime.threads import copied, share
from bvh.traversal.rays.ray_batch import EVERY, Rays

EDGES: dict[EdgeRule, bool] = {"closed": False, "once": True}
ARRAY, FLOAT64 = np.ndarray, np.dtype(np.float64)
THREE = (3,)
# Types of the numbers of a single ray that are converted to float without a check; integers of
# Python are, too, up to LARGEST_INTEGER, as larger ones may overflow.
PLAIN_NUMBERS = frozenset({float, np.float64, np.float32, np.int64, np.int32})
LARGEST_INTEGER = 2**1000
# Bits of `ndarray.flags.num`: C-contiguous, aligned.
CONTIGUOUS, ALIGNED = 0x0001, 0x0100
# The default t_min and t_max of a batch: one number for all rays.
ZERO, INFINITY = kernel_input(np.zeros(1)), kernel_input(np.full(1, np.inf))
# Rows that a thread checks at a time; copies of more rows are shared by threads.
ROWS_AT_ONCE = 1 << 15
# Why a ray always misses, in the order of the tests in `check_rays`.
REASONS = (
    "an origin that is not finite", "a direction that is not finite", "a zero direction",
    "a range that is empty or NaN",
)  # fmt: skip
# Queries other than those of rays that support spheres and capsules, in trees and scenes.
SHAPE_QUERIES = {
    "closest_point", "distance", "signed_distance", "contains", "overlap_box", "overlap_sphere",
    "overlap_frustum", "overlap_tree", "self_overlaps", "collisions", "clearances", "relations",
}  # fmt: skip

Answer = TypeVar("Answer")
Filter = Callable[..., bool]  # a user's function that returns whether a hit counts


class RayBatch(NamedTuple):
    """Checked rays, flat, and their leading shape."""

    rays: Rays
    shape: tuple[int, ...]

    @property
    def masked(self) -> bool:
        """Whether the rays were given masks; without masks, `masks` is the constant EVERY."""
        return self.rays.masks is not EVERY

    @property
    def size(self) -> int:
        """Number of rays."""
        return math.prod(self.shape)


class PointBatch(NamedTuple):
    """Points as kernels take them, flat, and their leading shape."""

    points: NDArray[np.float64]
    limits: NDArray[np.float64]  # the largest distance for each, or one for all
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)


class RayOptions(NamedTuple):
    """Checked options of a query of rays."""

    cull: int = 0  # the side to ignore, as of `cull_code`
    accept: UserCall | None = None  # the user's filter
    threads: int = 1
    progress: Progress | None = None
    sort: bool | None = None


def is_foreign(*arguments: object) -> bool:
    """Return whether an argument is a lazy (Dask) array, or an array of another library."""
    for argument in arguments:
        if type(argument) not in ORDINARY and (is_lazy(argument) or is_other(argument)):
            return True
    return False


def check_options(sort: bool | None, validate: bool, filter: object, data: object) -> None:
    """Raise unless `sort` is a boolean or None, `validate` a boolean, and `data` has a `filter`."""
    if sort is not None:
        flag("sort", sort)
    flag("validate_rays", validate)
    if filter is None and data is not None:
        raise ValueError(f"data must be None where there is no filter, got {type(data).__name__}")


def with_progress(
    search: Callable[..., Answer], progress: ProgressLike | None, *given: object
) -> Answer:
    """Return `search(*given, report)`; `report` is the callback of `progress`, or None."""
    with heard(progress) as report:
        return search(*given, report)


def answer_rays(
    search: Callable[..., Answer], target: Any, batch: RayBatch, cull: Cull | None,
    threads: int | None, progress: ProgressLike | None, sort: bool | None, filter: Filter | None,
    data: object, *more: object,
) -> Answer:  # fmt: skip
    """Check the options of a query of rays; return `search(batch, options, *more)`.

    `search` is a method of `target`, a `RayTarget`, which also checks `cull` and `filter`; `more`
    are the method's other arguments. `data` is the last argument of the user's `filter`.
    """
    # `ray_batch` has checked the argument `validate_rays`.
    check_options(sort, validate=False, filter=filter, data=data)
    accept = None if filter is None else target.filter_call(filter, data)
    side, workers = target.side_to_cull(cull), thread_count(threads)
    with heard(progress) as report:
        return search(batch, RayOptions(side, accept, workers, report, sort), *more)


def check_method(method: str) -> None:
    """Raise a ValueError unless `method` is one of INSIDE_RULES."""
    # The default is compared first: `check_option` takes longer than a query of a single point.
    if type(method) is not str or method != "parity":
        check_option("method", method, arguments.INSIDE_RULES)


def edge_rule(edges: EdgeRule) -> bool:
    """Return True for the rule "once", one hit a crossing, False for "closed"; raise for others."""
    if type(edges) is not str or edges not in EDGES:
        check_option("edges", edges, tuple(EDGES))
    return EDGES[edges]


def ray_batch(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike = 0.0, t_max: ArrayLike = np.inf,
    mask: ArrayLike | None = None, validate: bool = False, threads: int | None = 1,
) -> RayBatch:  # fmt: skip
    """Return checked, flat rays; values that all rays share stay a single row.

    Arguments are those of `closest_hit`. If `validate`, its `validate_rays`, rays that always miss
    raise a ValueError. Rays that are not aligned, contiguous float64, the layout of kernels, are
    copied by up to `threads` threads.
    """
    # One ray, or a batch in the layout of kernels, needs no checks; both are None for others.
    ray = plain_ray(origins, directions) if type(t_min) is type(t_max) is float else None
    plain = None if ray is not None else plain_rays(origins, directions, t_min, t_max)
    if ray is not None:
        numbers = np.array((*ray, t_min, t_max))
        o, d = numbers[:6].reshape(2, 1, 3)
        batch = RayBatch(Rays(o, d, numbers[6:7], numbers[7:]), ())
    elif plain is not None:
        rays = plain.rays
        # Kernels take read-only views.
        o, d = kernel_input(rays.origins), kernel_input(rays.directions)
        batch = RayBatch(Rays(o, d, rays.t_min, rays.t_max), plain.shape)
    else:
        # Numbers of other types are converted when they are flattened.
        o = arguments.vectors("origins", arguments.numbers("origins", origins))
        d = arguments.vectors("directions", arguments.numbers("directions", directions))
        low, high = arguments.numbers("t_min", t_min), arguments.numbers("t_max", t_max)
        shape = arguments.common_shape(
            origins=o.shape[:-1], directions=d.shape[:-1], t_min=low.shape, t_max=high.shape
        )
        workers = thread_count(threads)
        o, d = (real_rows(array, shape, workers, 3) for array in (o, d))
        low, high = (real_rows(array, shape, workers) for array in (low, high))
        batch = RayBatch(Rays(o, d, low, high), shape)
    if mask is not None:
        batch = masked(batch, mask)
    if flag("validate_rays", validate):
        check_rays(batch, thread_count(threads))
    return batch


def plain_rays(origins: Any, directions: Any, t_min: Any, t_max: Any) -> RayBatch | None:
    """Return a batch of rays without copies; None unless the arrays are in the kernels' layout.

    The layout is aligned, contiguous float64 of shape (..., 3), or (3,) for one origin or direction
    of all rays. `t_min` and `t_max` must be floats, the same for all rays.
    """
    if not (type(origins) is type(directions) is ARRAY and type(t_min) is type(t_max) is float):
        return None
    shape = directions.shape if directions.ndim > 1 else origins.shape
    if len(shape) < 2 or shape[-1] != 3:
        return None
    o, d = _plain_rows(origins, shape), _plain_rows(directions, shape)
    if o is None or d is None:
        return None
    low = ZERO if t_min == 0.0 else kernel_input(np.array((t_min,)))
    high = INFINITY if t_max == math.inf else kernel_input(np.array((t_max,)))
    return RayBatch(Rays(o, d, low, high), shape[:-1])


def _plain_rows(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Return an array as rows (n, 3), or (1, 3) if all share a row; None if that needs a copy.

    `shape` is the full shape of the batch, (..., 3).
    """
    # The bits of `flags.num`: faster to read than the attributes of `flags`.
    flags = array.flags.num
    if array.dtype is not FLOAT64 or not flags & ALIGNED:
        return None
    if array.shape == shape:
        if flags & CONTIGUOUS:
            return array if len(shape) == 2 else array.reshape(-1, 3)
        # One row that was broadcast, such as the origin of a camera's rays, has strides of 0, but
        # for the last one: 8 bytes from number to number.
        *steps, step = array.strides
        return array[(0,) * len(steps)].reshape(1, 3) if step == 8 and not any(steps) else None
    return array.reshape(1, 3) if array.shape == THREE and flags & CONTIGUOUS else None


def point_batch(positions: ArrayLike, max_distance: ArrayLike = np.inf) -> PointBatch:
    """Return points (..., 3), checked and flat, with the largest distance of each or of all."""
    rows = arguments.points("points", positions)
    if type(max_distance) is float and max_distance == math.inf:
        return PointBatch(kernel_input(rows.reshape(-1, 3)), INFINITY, rows.shape[:-1])
    limits = arguments.lengths("max_distance", max_distance)
    shape = arguments.common_shape(points=rows.shape[:-1], max_distance=limits.shape)
    flat = kernel_input(np.broadcast_to(rows, (*shape, 3)).reshape(-1, 3))
    return PointBatch(flat, flat_rows(limits, shape), shape)


def flat_rows(array: NDArray[Any], shape: tuple[int, ...], width: int = 0) -> NDArray[Any]:
    """Return an array, broadcast to (*shape, width), as rows (n, width); for a width of 0, (n,).

    A row that all queries share stays one row, (1, width) or (1,).
    """
    tail = (width,) if width else ()
    leading = array.ndim - len(tail)
    if array.size and not any(array.strides[:leading]):
        # One row that was broadcast, such as the origin of a camera's rays.
        array = array[(0,) * leading]
    if array.size == max(width, 1):
        return kernel_input(array.reshape(1, *tail))
    if array.shape != shape + tail:
        array = np.broadcast_to(array, shape + tail)
    return kernel_input(array if len(shape) == 1 else array.reshape(-1, *tail))


def real_rows(
    array: NDArray[Any], shape: tuple[int, ...], threads: int, width: int = 0
) -> NDArray[np.float64]:
    """Return the rows of `flat_rows` as float64; threads share large copies."""
    tail = (width,) if width else ()
    rows = math.prod(shape)
    if rows > ROWS_AT_ONCE and array.size > 1 and any(array.strides[: array.ndim - len(tail)]):
        # Many rows, which are not all the same one: threads share the copy, if one is needed.
        given = np.broadcast_to(array, shape + tail)
        if not (given.dtype == FLOAT64 and given.flags.c_contiguous and given.flags.aligned):
            array = copied(given, threads)
    flat = flat_rows(array, shape, width)
    # Numbers beyond the range of float64, as of long doubles, become infinite without a warning.
    with np.errstate(over="ignore"):
        return flat if flat.dtype == FLOAT64 else kernel_input(flat.astype(np.float64))


def affine_matrices(transform: ArrayLike) -> NDArray[np.float64]:
    """Return `transform` as checked, finite affine matrices (..., 4, 4); they may be singular."""
    matrices = square_matrices("transform", transform)
    if not np.isfinite(matrices).all() or (matrices[..., 3, :] != [0, 0, 0, 1]).any():
        raise ValueError(
            "transform must be finite and affine, with last row 0 0 0 1; if its last column is "
            "that, transpose it"
        )
    return matrices


def one_mask(mask: int | None) -> int:
    """Return the 32 bits of a mask that is one number, as an int32; -1, all bits, for None."""
    if mask is None:
        return -1
    bits = arguments.bit_masks("mask", mask).view(np.int32)
    if bits.ndim:
        raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
    return int(bits)


def masked(batch: RayBatch, mask: ArrayLike) -> RayBatch:
    """Return the rays of `batch` with the argument `mask`: one mask for all rays, or one each."""
    bits = arguments.bit_masks("mask", mask).view(np.int32)
    if bits.size != 1:
        try:
            bits = np.broadcast_to(bits, batch.shape)
        except ValueError:
            raise ValueError(
                f"mask must have a shape that broadcasts to the rays', {batch.shape}, "
                f"got {bits.shape}"
            ) from None
    return batch._replace(rays=batch.rays._replace(masks=kernel_input(bits.reshape(-1))))


def unmasked(batch: RayBatch) -> RayBatch:
    """Return the rays of `batch` without masks, with the same hits on faces that have all bits.

    On such faces, only a ray with the mask 0 differs from one without a mask: it misses.
    """
    rays = batch.rays
    if not rays.masks.all():
        # No t is in a range that ends at NaN.
        rays = rays._replace(t_max=kernel_input(np.where(rays.masks == 0, np.nan, rays.t_max)))
    return batch._replace(rays=rays._replace(masks=EVERY))


def check_rays(batch: RayBatch, threads: int) -> None:
    """Raise a ValueError that names the first ray that can hit nothing, and the reason."""
    failures: list[tuple[int, int]] = []  # (number of a ray, index in REASONS)

    def work(begin: int, end: int) -> None:
        """Append to `failures` the first ray of begin..end-1 that fails, for each of the tests."""
        # If all rays share a row, and it fails, the first ray is named.
        o, d, low, high = (a[begin:end] if len(a) > 1 else a for a in batch.rays[:4])
        # Tests of all numbers together take a tenth of the time of tests ray by ray. Not `low >
        # high`, so that a NaN fails.
        has_direction = (d[:, 0] != 0).all() or (d != 0).any(axis=1).all()
        is_finite = np.isfinite(o).all() and np.isfinite(d).all()
        if has_direction and is_finite and (low <= high).all():
            return
        tests: Any = (
            ~np.isfinite(o).all(axis=1), ~np.isfinite(d).all(axis=1), (d == 0).all(axis=1),
            ~(low <= high),
        )  # fmt: skip
        first = ((begin + int(bad.argmax()), k) for k, bad in enumerate(tests) if bad.any())
        failures.extend(first)

    share(batch.size, ROWS_AT_ONCE, work, threads)
    if failures:
        first, reason = min(failures)
        where = ", ".join(str(int(i)) for i in np.unravel_index(first, batch.shape)) or "0"
        raise ValueError(f"ray {where} has {REASONS[reason]}")


def plain_ray(origin: Any, direction: Any) -> tuple[float, ...] | None:
    """Return (ox, oy, oz, dx, dy, dz) of one ray; None for batches, and types to be checked."""
    o = plain_point(origin)
    d = None if o is None else plain_point(direction)
    return None if o is None or d is None else (*o, *d)


def plain_point(point: Any) -> Sequence[float] | None:
    """Return (x, y, z) of one point; None for batches of points, and types to be checked."""
    kind = type(point)
    if kind is ARRAY:
        if point.shape != THREE:
            return None
        numbers: list[float] = point.tolist()
        if point.dtype is FLOAT64:
            return numbers
    elif (kind is tuple or kind is list) and len(point) == 3:
        numbers = point
    else:
        return None
    x, y, z = numbers
    if type(x) is type(y) is type(z) is float:
        return numbers
    try:
        return [_plain_number(x) for x in numbers]
    except TypeError:
        return None


def _plain_number(x: Any) -> float:
    """Return a number as a float; raise a TypeError for one that must be checked first.

    Numbers of types in PLAIN_NUMBERS, and integers up to LARGEST_INTEGER, need no check.
    """
    if type(x) is int:
        # Integers beyond 2**1000 may be too large for a float.
        if abs(x) > LARGEST_INTEGER:
            raise TypeError
    elif type(x) not in PLAIN_NUMBERS:
        raise TypeError
    return float(x)
