"""Batches of rays, checked once, and what a query gives back for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import common_shape, kernel_input, points, reals


class RayBatch(NamedTuple):
    """Rays as kernels read them: flat, C-contiguous, float64.

    Each array has one row for every ray, or a single row that all rays share. `masks` choose among
    the instances of a scene; None chooses all.
    """

    origins: NDArray[np.float64]
    directions: NDArray[np.float64]
    t_min: NDArray[np.float64]
    t_max: NDArray[np.float64]
    shape: tuple[int, ...]
    masks: NDArray[np.int32] | None = None

    @property
    def size(self) -> int:
        """Number of rays."""
        return math.prod(self.shape)


def ray_batch(
    origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike
) -> RayBatch:
    """Check and flatten rays; what is the same for all rays stays one row."""
    o, d = points("origins", origins), points("directions", directions)
    low, high = reals("t_min", t_min), reals("t_max", t_max)
    shape = common_shape(
        origins=o.shape[:-1], directions=d.shape[:-1], t_min=low.shape, t_max=high.shape
    )
    return RayBatch(
        _flat(o, shape, 3), _flat(d, shape, 3), _flat(low, shape, 0), _flat(high, shape, 0), shape
    )


def broadcast_rays(
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike,
    t_max: ArrayLike,
    **shapes: NDArray[np.float64],
) -> tuple[RayBatch, list[NDArray[np.float64]]]:
    """Broadcast rays against the vectors of a shape, and give every one of them a row a ray."""
    o, d = points("origins", origins), points("directions", directions)
    low, high = reals("t_min", t_min), reals("t_max", t_max)
    shape = common_shape(
        origins=o.shape[:-1],
        directions=d.shape[:-1],
        t_min=low.shape,
        t_max=high.shape,
        **{name: array.shape[:-1] for name, array in shapes.items()},
    )

    def full(array: NDArray[np.float64], tail: tuple[int, ...]) -> NDArray[np.float64]:
        return kernel_input(np.broadcast_to(array, shape + tail).reshape(-1, *tail))

    batch = RayBatch(full(o, (3,)), full(d, (3,)), full(low, ()), full(high, ()), shape)
    return batch, [full(array, array.shape[-1:]) for array in shapes.values()]


def plain_ray(origin: Any, direction: Any) -> tuple[float, ...] | None:
    """Return the six numbers of a single ray; None for a batch, and for what must be checked.

    A ray is two arrays, or sequences, of three real numbers. The usual ones come first.
    """
    try:
        if type(origin) is np.ndarray and type(direction) is np.ndarray:
            if origin.shape != THREE or direction.shape != THREE:
                return None
            ray = (*origin.tolist(), *direction.tolist())
            if origin.dtype is FLOAT64 and direction.dtype is FLOAT64:
                return ray
        else:
            ray = (*origin, *direction)
        if len(ray) != 6 or len(origin) != 3:
            return None
        for x in ray:
            if type(x) is not float:
                return tuple([_plain_number(x) for x in ray])
    except (TypeError, ValueError, NotImplementedError):  # the last from views of memory
        return None
    return ray


def _plain_number(x: Any) -> float:
    """Return a number as a float; raises TypeError for what is none, and for integers beyond."""
    if type(x) is int:
        if abs(x) > LARGEST_INTEGER:
            raise TypeError
    elif type(x) not in PLAIN_NUMBERS:
        raise TypeError
    return float(x)


def check_rays(batch: RayBatch) -> None:
    """Raise a ValueError that names the first ray which could only miss.

    Those are rays with a NaN or infinite origin or direction, a zero direction, a NaN bound, or
    t_min above t_max.
    """
    reasons = {
        "an origin that is not finite": ~np.isfinite(batch.origins).all(axis=-1),
        "a direction that is not finite": ~np.isfinite(batch.directions).all(axis=-1),
        "a zero direction": (batch.directions == 0).all(axis=-1),
        "a range that is empty or NaN": ~(batch.t_min <= batch.t_max),
    }
    # A row that all rays share is the fault of the first of them.
    found = [(int(bad.argmax()), reason) for reason, bad in reasons.items() if bad.any()]
    if not found or batch.size == 0:
        return
    first, reason = min(found, key=lambda item: item[0])
    where = ", ".join(str(int(i)) for i in np.unravel_index(first, batch.shape)) or "0"
    raise ValueError(f"ray {where} has {reason}")


def shaped(shape: tuple[int, ...], *arrays: NDArray[Any]) -> tuple[Any, ...]:
    """Give flat results the leading shape of the rays; scalars for a single ray."""
    if shape == ():
        return tuple(array[0].item() for array in arrays)
    return tuple(array.reshape(shape) for array in arrays)


def told_shape(shape: tuple[int, ...]) -> str:
    """Return the shape of a batch in words, such as 480 x 640."""
    return " x ".join(map(str, shape))


def told_costs(nodes: NDArray[np.int32], tests: NDArray[np.int32]) -> str:
    """Return in words what rays cost on average."""
    if nodes.size == 0:
        return ""
    return f", {nodes.mean():.4g} nodes and {tests.mean():.4g} tests a ray"


def _flat(array: NDArray[np.float64], shape: tuple[int, ...], width: int) -> Any:
    """Return (n, width) rows (or n numbers, for width 0); one row where all rays share it."""
    tail = (width,) if width else ()
    if array.size == max(width, 1):
        return kernel_input(array.reshape(1, *tail))
    return kernel_input(np.broadcast_to(array, shape + tail).reshape(-1, *tail))


FLOAT64 = np.dtype(np.float64)
THREE = (3,)
# What a single ray may be made of, beside Python's integers up to the largest that are floats.
PLAIN_NUMBERS = frozenset({float, np.float64, np.float32, np.int64, np.int32})
LARGEST_INTEGER = 2**1000
new_object = object.__new__


@dataclass(frozen=True, eq=False, repr=False)
class Hits:
    """The nearest hit of each ray, every field with the rays' leading shape.

    Attributes
    ----------
    t : ndarray of float64 or float
        Distance along the ray in units of its direction's length; +inf for a miss.
    prim_id : ndarray of int32 or int
        Face, or box, that is hit; -1 for a miss.
    u, v : ndarray of float64 or float
        Weights of the face's second and third vertex, so that the hit is
        (1-u-v) v0 + u v1 + v v2. NaN for a miss and for boxes.
    front : ndarray of bool or bool
        The ray meets the face against its winding normal, or enters the box from outside.
        False for a miss.
    """

    t: Any
    prim_id: Any
    u: Any
    v: Any
    front: Any

    @property
    def mask(self) -> Any:
        """True where a ray hits."""
        return self.prim_id >= 0

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, index: Any) -> Hits:
        """Select rays as from an array of the same shape."""
        return type(self)(*(getattr(self, field.name)[index] for field in fields(self)))

    def __repr__(self) -> str:
        kind = type(self).__name__
        if np.ndim(self.t) == 0:
            inner = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
            return f"{kind}({inner})"
        mask, seen = self.mask, ""
        if mask.any():
            near, far = float(self.t[mask].min()), float(self.t[mask].max())
            seen = f"{self._owners(mask)}, t {near:.6g} to {far:.6g}"
        count = int(np.count_nonzero(mask))
        return f"{kind}({count} of {told_shape(mask.shape)} rays hit{seen}{self._costs()})"

    def _owners(self, mask: NDArray[np.bool_]) -> str:
        """Tell, where it is known, how many instances are hit."""
        return ""

    def _costs(self) -> str:
        """Tell, where it is known, what rays cost."""
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class SceneHits(Hits):
    """The nearest hit of each ray in a scene.

    Attributes
    ----------
    instance_id : ndarray of int32 or int
        The instance that is hit, by its id in the scene that was asked; -1 for a miss.
    leaf : ndarray of int32 or int
        The row of `Scene.leaves` that is hit: tells the instances apart that a nested scene is
        made of. -1 for a miss.
    prim_id : ndarray of int32 or int
        Face, or box, of the leaf's tree; -1 for a miss.
    """

    instance_id: Any
    leaf: Any

    def _owners(self, mask: NDArray[np.bool_]) -> str:
        return f" {len(np.unique(self.instance_id[mask]))} instances"


def single_hit(hit: tuple[float, int, float, float, bool]) -> Hits:
    """Return the hit of one ray, past the slow `__init__` of a frozen class."""
    hits = new_object(Hits)
    fields = hits.__dict__
    fields["t"], fields["prim_id"], fields["u"], fields["v"], fields["front"] = hit
    return hits


@dataclass(frozen=True, eq=False, repr=False)
class CountedHits(Hits):
    """The nearest hits of rays, and what it took to find each.

    Attributes
    ----------
    nodes : ndarray of int32 or int
        Nodes whose children the ray was tested against, `WIDTH` of them at a time.
    tests : ndarray of int32 or int
        Primitives that the ray was tested against.
    """

    nodes: Any
    tests: Any

    def _costs(self) -> str:
        return told_costs(self.nodes, self.tests)


@dataclass(frozen=True, eq=False, repr=False)
class AllHits:
    """All hits of each ray, those of ray i at ``offsets[i] : offsets[i + 1]``, nearest first.

    Attributes
    ----------
    prim_id : ndarray of int32, shape (m,)
        Faces, or boxes, that are hit.
    t, u, v : ndarray of float64, shape (m,)
        As in `Hits`.
    front : ndarray of bool, shape (m,)
        As in `Hits`.
    offsets : ndarray of int64, shape (n + 1,)
        Where the hits of each ray begin, rays counted flat; the last entry is m.
    shape : tuple of int
        Leading shape of the rays.
    """

    prim_id: NDArray[np.int32]
    t: NDArray[np.float64]
    u: NDArray[np.float64]
    v: NDArray[np.float64]
    front: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    @property
    def ray_id(self) -> NDArray[np.int64]:
        """The ray of each hit, counted flat, shape (m,)."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int64), np.diff(self.offsets))

    @property
    def counts(self) -> Any:
        """Hits of each ray, with the rays' leading shape; an int for a single ray."""
        return shaped(self.shape, np.diff(self.offsets))[0]

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        n = len(self.offsets) - 1
        owners = self._owners() if len(self) else ""
        return f"{type(self).__name__}({len(self)} hits of {n} ray{'s' if n != 1 else ''}{owners})"

    def _owners(self) -> str:
        """Tell, where it is known, how many instances are hit."""
        return ""


@dataclass(frozen=True, eq=False, repr=False)
class SceneAllHits(AllHits):
    """All hits of each ray in a scene.

    Attributes
    ----------
    instance_id, leaf : ndarray of int32, shape (m,)
        As in `SceneHits`.
    """

    instance_id: NDArray[np.int32]
    leaf: NDArray[np.int32]

    def _owners(self) -> str:
        return f" on {len(np.unique(self.instance_id))} instances"


@dataclass(frozen=True, eq=False, repr=False)
class CountedSceneHits(SceneHits):
    """The nearest hits of rays in a scene, and what it took to find each.

    Attributes
    ----------
    nodes, tests : ndarray of int32 or int
        As in `CountedHits`.
    """

    nodes: Any
    tests: Any

    def _costs(self) -> str:
        return told_costs(self.nodes, self.tests)


def single_scene_hit(hit: tuple[float, int, float, float, bool, int], owner: int) -> SceneHits:
    """Return the hit of one ray in a scene."""
    hits = new_object(SceneHits)
    fields = hits.__dict__
    (
        fields["t"], fields["prim_id"], fields["u"], fields["v"], fields["front"], fields["leaf"]
    ) = hit  # fmt: skip
    fields["instance_id"] = owner
    return hits
