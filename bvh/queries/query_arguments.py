"""Arguments of queries: what is searched, and rays and points, checked, as kernels take them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set, ValuesView
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import (
    INSIDE_RULES,
    MAX_ROWS,
    Cull,
    EdgeRule,
    bit_masks,
    check_option,
    common_shape,
    cull_code,
    flag,
    kernel_input,
    lengths,
    points,
    reals,
    thread_count,
)
from bvh.runtime.progress_bars import Progress, ProgressLike, heard
from bvh.runtime.user_calls import FILTER, SCENE_FILTER, UserCall, optional_filter
from bvh.traversal.rays.ray_batch import EVERY, Rays, read_only
from bvh.tree.instanced import Instanced
from bvh.tree.primitives import Triangles

EDGES: dict[EdgeRule, bool] = {"closed": False, "once": True}

ARRAY, FLOAT64 = np.ndarray, np.dtype(np.float64)
THREE = (3,)
# What a single ray may consist of, beside Python's integers up to the largest that are floats.
PLAIN_NUMBERS = frozenset({float, np.float64, np.float32, np.int64, np.int32})
LARGEST_INTEGER = 2**1000
# What has a length and items, and is no ray: masked arrays, too, whose masks count.
NO_SEQUENCES: tuple[type[Any], ...] = (Set, Mapping, ValuesView, bytes, np.ma.MaskedArray)

# Flags of arrays that are C-contiguous and aligned.
IN_ORDER = 0x0101
ZERO, INFINITY = kernel_input(np.zeros(1)), kernel_input(np.full(1, np.inf))


class Target(NamedTuple):
    """Arrays of the tree or scene that a query searches.

    Attributes
    ----------
    arrays : TreeArrays
        Of a tree, or of a scene's top level.
    split : bool
        A primitive may be in several leaves of a tree.
    owner : object
        Keeps alive, while kernels run, arrays that they know by their addresses only.
    mask : int
        Bits that choose among faces, and the instances of a scene, as int32; for queries of points.
    metrics : ndarray of float64, optional
        Lengths in instances against lengths in the world; for queries of points.
    merged : callable, optional
        Of a scene: merged(rays, threads) is one tree that has the same hits, or None where it does
        not pay; its `arrays` are searched, and `named` makes the hits those of the scene.
    masked : callable, optional
        Of a tree: masked() is its arrays with the bits of faces, if these have any.
    """

    arrays: Any
    split: bool = True
    owner: object = None
    mask: int = -1
    metrics: NDArray[np.float64] | None = None
    merged: Callable[[int, int], Any] | None = None
    masked: Callable[[], Any] | None = None


class RayArguments(NamedTuple):
    """Arguments of a ray query as the caller has given them."""

    origins: ArrayLike
    directions: ArrayLike
    t_min: ArrayLike
    t_max: ArrayLike
    cull: Cull | None
    threads: int | None
    validate_rays: bool
    progress: ProgressLike | None
    filter: Any
    data: Any
    sort: bool | None = None
    mask: ArrayLike | None = None


class RayBatch(NamedTuple):
    """Checked rays, flat, and their leading shape."""

    rays: Rays
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of rays."""
        return math.prod(self.shape)


class PointBatch(NamedTuple):
    """Points as kernels take them, flat, and their leading shape.

    `limits` has the largest distance for each point, or a single one for all.
    """

    points: NDArray[np.float64]
    limits: NDArray[np.float64]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)


class RayOptions(NamedTuple):
    """Checked options of a ray query; `cull` as of `cull_code`, `accept` the user's filter."""

    cull: int = 0
    accept: UserCall | None = None
    threads: int = 1
    progress: Progress | None = None
    sort: bool | None = None


def cast(
    run: Callable[[Any, RayBatch, RayOptions], Any], target: Target, given: RayArguments,
    mergeable: bool = False,
) -> Any:  # fmt: skip
    """Check the arguments of a query; run it as run(arrays, batch, options).

    A mergeable one has the same result, but for the names of primitives, in a merged tree.
    """
    check_options(given.sort, given.validate_rays, given.filter, given.data)
    arrays = target.arrays
    in_scene = isinstance(arrays.primitives, Instanced)
    batch = ray_batch(given.origins, given.directions, given.t_min, given.t_max)
    if given.mask is not None:
        batch = masked(batch, given.mask)
        arrays = arrays if target.masked is None else target.masked()
    if given.validate_rays:
        check_rays(batch)
    if not in_scene and len(arrays.face_bits) == 0:
        batch = _unmasked(batch)
    code = checked_cull(given.cull, arrays)
    accept = optional_filter(given.filter, given.data, SCENE_FILTER if in_scene else FILTER)
    threads = thread_count(given.threads)
    whole = None
    if mergeable and target.merged is not None and given.mask is None and accept is None:
        whole = target.merged(batch.size, threads)
    searched = arrays if whole is None else whole.arrays
    if given.progress is None:
        found = run(searched, batch, RayOptions(code, accept, threads, None, given.sort))
    else:
        with heard(given.progress) as report:
            found = run(searched, batch, RayOptions(code, accept, threads, report, given.sort))
    return found if whole is None else whole.named(found)


def check_options(sort: Any, validate_rays: Any, filter: Any = None, data: Any = None) -> None:
    """Raise for options of a query of rays that are no flags, and for data that nothing takes."""
    if sort is not None:
        flag("sort", sort)
    flag("validate_rays", validate_rays)
    if filter is None and data is not None:
        raise ValueError(f"data must be None where there is no filter, got {type(data).__name__}")


def check_method(method: str) -> None:
    """Raise unless a method tells inside from outside."""
    # The usual one at once, for the sake of single points.
    if type(method) is not str or method != "parity":
        check_option("method", method, INSIDE_RULES)


def checked_cull(cull: Cull | None, arrays: Any) -> int:
    """Return the side to ignore; raise where primitives have none."""
    code, primitives = cull_code(cull), arrays.primitives
    if code and not isinstance(primitives, Triangles | Instanced):
        kind = type(primitives).__name__.lower()
        raise ValueError(f"cull must be None for {kind}: they have no winding")
    return code


def edge_rule(edges: EdgeRule) -> bool:
    """Return whether each crossing is to be one hit."""
    if type(edges) is not str or edges not in EDGES:
        check_option("edges", edges, tuple(EDGES))
    return EDGES[edges]


def ray_batch(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike
) -> RayBatch:
    """Check and flatten rays; what is the same for all rays stays one row."""
    plain = plain_rays(origins, directions, t_min, t_max, MAX_ROWS)
    if plain is not None:
        return RayBatch(read_only(plain), plain.origins.shape[:1])
    o, d = points("origins", origins), points("directions", directions)
    low, high = reals("t_min", t_min), reals("t_max", t_max)
    shape = common_shape(
        origins=o.shape[:-1], directions=d.shape[:-1], t_min=low.shape, t_max=high.shape
    )
    rays = _flat(o, shape, 3), _flat(d, shape, 3), _flat(low, shape, 0), _flat(high, shape, 0)
    return RayBatch(Rays(*rays), shape)


def plain_rays(origins: Any, directions: Any, t_min: Any, t_max: Any, most: int) -> Rays | None:
    """Return rays that are as kernels take them, which is told sooner than they are checked.

    They are at most so many, in two arrays of equal shape (n, 3), which may be writable, and with
    one range for all. None for others.
    """
    if not (type(origins) is type(directions) is ARRAY and type(t_min) is type(t_max) is float):
        return None
    shape = origins.shape
    if (
        len(shape) != 2
        or shape[1] != 3
        or shape[0] > most
        or directions.shape != shape
        or origins.dtype is not FLOAT64
        or directions.dtype is not FLOAT64
        or origins.flags.num & directions.flags.num & IN_ORDER != IN_ORDER
    ):
        return None
    low = ZERO if t_min == 0.0 else kernel_input(np.array((t_min,)))
    high = INFINITY if t_max == math.inf else kernel_input(np.array((t_max,)))
    return Rays(origins, directions, low, high)


def point_batch(positions: ArrayLike, max_distance: ArrayLike = np.inf) -> PointBatch:
    """Check and flatten points; broadcast the limits of their distances."""
    rows, limits = points("points", positions), lengths("max_distance", max_distance)
    shape = common_shape(points=rows.shape[:-1], max_distance=limits.shape)
    whole = rows if rows.shape == (*shape, 3) else np.broadcast_to(rows, (*shape, 3))
    flat = kernel_input(whole.reshape(-1, 3))
    return PointBatch(flat, _flat(limits, shape, 0), shape)


def _flat(array: NDArray[np.float64], shape: tuple[int, ...], width: int) -> Any:
    """Return (n, width) rows (or n numbers, for width 0); one row where all queries share it."""
    tail = (width,) if width else ()
    if array.size == max(width, 1):
        return kernel_input(array.reshape(1, *tail))
    if array.shape != shape + tail:
        array = np.broadcast_to(array, shape + tail)
    return kernel_input(array if len(shape) == 1 else array.reshape(-1, *tail))


def one_mask(mask: int | None) -> int:
    """Return the bits of a mask that is one number, as int32; all of them by default."""
    if mask is None:
        return -1
    bits = bit_masks("mask", mask).view(np.int32)
    if bits.ndim:
        raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
    return int(bits)


def masked(batch: RayBatch, mask: ArrayLike) -> RayBatch:
    """Return rays with their masks, or one for all of them."""
    bits = bit_masks("mask", mask).view(np.int32)
    if bits.size != 1:
        try:
            bits = np.broadcast_to(bits, batch.shape)
        except ValueError:
            raise ValueError(
                f"mask must have a shape that broadcasts to the rays', {batch.shape}, "
                f"got {bits.shape}"
            ) from None
    return batch._replace(rays=batch.rays._replace(masks=kernel_input(bits.reshape(-1))))


def _unmasked(batch: RayBatch) -> RayBatch:
    """Return rays for what has all bits: those without any miss."""
    rays, nothing = batch.rays, batch.rays.masks == 0
    if nothing.any():
        # No t is in that range.
        rays = rays._replace(t_max=kernel_input(np.where(nothing, np.nan, rays.t_max)))
    return batch._replace(rays=rays._replace(masks=EVERY))


def check_rays(batch: RayBatch) -> None:
    """Raise a ValueError that names the first ray which could only miss.

    Those are rays with a NaN or infinite origin or direction, a zero direction, a NaN bound, or
    t_min above t_max.
    """
    rays = batch.rays
    reasons = {
        "an origin that is not finite": ~np.isfinite(rays.origins).all(axis=-1),
        "a direction that is not finite": ~np.isfinite(rays.directions).all(axis=-1),
        "a zero direction": (rays.directions == 0).all(axis=-1),
        "a range that is empty or NaN": ~(rays.t_min <= rays.t_max),
    }
    # A row that all rays share is the fault of the first of them.
    found = [(int(bad.argmax()), reason) for reason, bad in reasons.items() if bad.any()]
    if not found or batch.size == 0:
        return
    first, reason = min(found, key=lambda item: item[0])
    where = ", ".join(str(int(i)) for i in np.unravel_index(first, batch.shape)) or "0"
    raise ValueError(f"ray {where} has {reason}")


def plain_ray(origin: Any, direction: Any) -> tuple[float, ...] | None:
    """Return the six numbers of a single ray; None for a batch, and for what must be checked.

    A ray is two arrays, or sequences, of three real numbers. The usual ones come first.
    """
    try:
        if type(origin) is type(direction) is ARRAY:
            if origin.shape != THREE or direction.shape != THREE:
                return None
            ray = (*origin.tolist(), *direction.tolist())
            if origin.dtype is direction.dtype is FLOAT64:
                return ray
        elif len(origin) == len(direction) == 3:
            if not (_is_row(origin) and _is_row(direction)):
                return None
            ray = (*origin, *direction)
        else:
            return None
        for x in ray:
            if type(x) is not float:
                return tuple([_plain_number(x) for x in ray])
    except (TypeError, ValueError, NotImplementedError):  # the last from views of memory
        return None
    return ray


def _is_row(given: Any) -> bool:
    """Return whether something with a length is a sequence whose items are its numbers."""
    kind = type(given)
    if kind is tuple or kind is list or kind is ARRAY:
        return True
    # The items of a table are the names of its columns.
    return getattr(given, "ndim", 1) == 1 and not isinstance(given, NO_SEQUENCES)


def plain_point(point: Any) -> Any:
    """Return the three numbers of a single point; None for a batch, and for what must be checked.

    A point is an array, tuple or list of three real numbers. The usual ones come first.
    """
    kind = type(point)
    if kind is ARRAY:
        if point.shape != THREE:
            return None
        numbers = point.tolist()
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
    """Return a number as a float; raises TypeError for what is none, and for integers beyond."""
    if type(x) is int:
        if abs(x) > LARGEST_INTEGER:
            raise TypeError
    elif type(x) not in PLAIN_NUMBERS:
        raise TypeError
    return float(x)
