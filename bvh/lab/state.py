"""The ray lab's state: a ray and one box or two, and the exact answers to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bvh.boxes import ray_box
from bvh.obbs import ray_obb

Vector = tuple[float, float, float]
Array = NDArray[np.float64]

AXES = "xyz"
INF = math.inf


@dataclass(frozen=True)
class LabBox:
    """A box: its corners before it is turned about its centre.

    Attributes
    ----------
    lower, upper : tuple of 3 floats
        Corners. Without a turn they are the box, to the bit.
    turn : tuple of 3 floats
        Degrees about x, then y, then z.
    """

    lower: Vector
    upper: Vector
    turn: Vector = (0.0, 0.0, 0.0)

    @property
    def turned(self) -> bool:
        """Tell an oriented box from an axis-aligned one."""
        return any(self.turn)

    @property
    def centre(self) -> Array:
        """The middle of the box, 0 where it is unlimited."""
        low, high = np.array(self.lower), np.array(self.upper)
        with np.errstate(invalid="ignore"):
            middle: Array = low + (high - low) / 2
        return np.where(np.isfinite(middle), middle, 0.0)

    @property
    def half(self) -> Array:
        """Half of each edge, negative where the box is empty."""
        half: Array = (np.array(self.upper) - np.array(self.lower)) / 2
        return half

    @property
    def matrix(self) -> Array:
        """The affine matrix of the box -half..half, shape (4, 4)."""
        matrix = np.eye(4)
        matrix[:3, :3] = rotation(self.turn)
        matrix[:3, 3] = self.centre
        return matrix


@dataclass(frozen=True)
class LabState:
    """All that the lab's page shows: a ray o + t d, and boxes.

    Attributes
    ----------
    origin, direction : tuple of 3 floats
        The direction is not normalised; the ray's tip is where t = 1.
    boxes : tuple of LabBox
        One or two, in the order in which a picking loop goes through them.
    t_min, t_max : float
        The range of t, both ends included.
    flat : bool
        Leave out z: rectangles and a ray in their plane.
    """

    origin: Vector
    direction: Vector
    boxes: tuple[LabBox, ...]
    t_min: float = 0.0
    t_max: float = INF
    flat: bool = False

    @property
    def dimensions(self) -> int:
        """How many coordinates take part: 3, or 2 in the plane."""
        return 2 if self.flat else 3

    @property
    def tip(self) -> Vector:
        """The ray's point at t = 1."""
        x, y, z = (o + d for o, d in zip(self.origin, self.direction, strict=True))
        return x, y, z

    @property
    def is_ray(self) -> bool:
        """Tell a ray from one that has no direction, is not finite, or has an empty range."""
        seen = in_plane(self)
        finite = all(map(math.isfinite, (*seen.origin, *seen.direction)))
        return finite and any(seen.direction) and self.t_min <= self.t_max


@dataclass(frozen=True)
class Interval:
    """The t where a ray is in something; +inf and -inf for a miss."""

    hit: bool
    near: float
    far: float


@dataclass(frozen=True)
class Slab:
    """The stay of a ray's line between the two planes of one axis.

    Attributes
    ----------
    axis : int
    kind : {"crossed", "inside", "outside"}
        Whether the line crosses both planes, or is parallel to them and always or never between.
    near, far : float
        Where it enters and leaves, correctly rounded; infinite where nothing is crossed.
    """

    axis: int
    kind: str
    near: float
    far: float


@dataclass(frozen=True)
class Crossing:
    """Where a ray's line crosses one plane of a box."""

    axis: int
    entering: bool
    t: float


def in_plane(state: LabState) -> LabState:
    """Return the state that is asked: in the plane, boxes without ends in z and a ray at z = 0."""
    if not state.flat:
        return state
    boxes = tuple(
        LabBox((*box.lower[:2], -INF), (*box.upper[:2], INF), (0.0, 0.0, box.turn[2]))
        for box in state.boxes
    )
    ray = (*state.origin[:2], 0.0), (*state.direction[:2], 0.0)
    return replace(state, origin=ray[0], direction=ray[1], boxes=boxes)


# Words, chart and scene all ask the same; and 0.0 and -0.0, which are equal, have equal answers.
@lru_cache(maxsize=64)
def interval(state: LabState, index: int = 0) -> Interval:
    """Return the exact stay of the ray in a box, clipped to its range."""
    seen = in_plane(state)
    box = seen.boxes[index]
    return _stay(seen, box, box.lower, box.upper, state.t_min, state.t_max)


@lru_cache(maxsize=64)
def slabs(state: LabState, index: int = 0) -> tuple[Slab, ...]:
    """Return the exact stay of the ray's line in each slab of a box, at all t."""
    seen = in_plane(state)
    box = seen.boxes[index]
    found = []
    for axis in range(state.dimensions):
        # A slab is a box that has no ends along the other axes.
        lower, upper = [-INF] * 3, [INF] * 3
        lower[axis], upper[axis] = box.lower[axis], box.upper[axis]
        stay = _stay(seen, box, lower, upper, -INF, INF)
        if not stay.hit:
            found.append(Slab(axis, "outside", INF, -INF))
        elif math.isinf(stay.near) and math.isinf(stay.far):
            found.append(Slab(axis, "inside", -INF, INF))
        else:
            found.append(Slab(axis, "crossed", stay.near, stay.far))
    return tuple(found)


def crossings(state: LabState, index: int = 0) -> list[Crossing]:
    """Return the crossings of a box's planes, at most six, in the order of t."""
    found = [
        Crossing(slab.axis, entering, t)
        for slab in slabs(state, index)
        for entering, t in ((True, slab.near), (False, slab.far))
        if math.isfinite(t)
    ]
    return sorted(found, key=lambda crossing: (crossing.t, not crossing.entering))


def nearest(state: LabState) -> int | None:
    """Return the box that is met first, the earlier one in the list of equals; None for a miss."""
    stays = [interval(state, index) for index in range(len(state.boxes))]
    met = [index for index, stay in enumerate(stays) if stay.hit]
    return min(met, key=lambda index: stays[index].near, default=None)


def at(state: LabState, t: float) -> Array:
    """Return the ray's point at a finite t, rounded."""
    seen = in_plane(state)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(seen.origin) + t * np.array(seen.direction)


def rotation(turn: Vector) -> Array:
    """Return the rotation about x, then y, then z by degrees, shape (3, 3); quarters are exact."""
    matrix = np.eye(3)
    for axis, degrees in enumerate(turn):
        c, s = _cosine_and_sine(degrees)
        step = np.eye(3)
        j, k = (axis + 1) % 3, (axis + 2) % 3
        step[j, j], step[j, k], step[k, j], step[k, k] = c, -s, s, c
        matrix = step @ matrix
    return matrix


def turn_of(matrix: Array) -> Vector:
    """Return degrees about x, then y, then z that make a rotation."""
    s = float(np.clip(-matrix[2, 0], -1.0, 1.0))
    if abs(s) > 1.0 - 1e-9:
        # x and z turn about the same axis: leave all of it to x.
        about_x = math.atan2(math.copysign(1.0, s) * matrix[0, 1], matrix[1, 1])
        return math.degrees(about_x), math.copysign(90.0, s), 0.0
    about_x = math.atan2(matrix[2, 1], matrix[2, 2])
    about_z = math.atan2(matrix[1, 0], matrix[0, 0])
    return math.degrees(about_x), math.degrees(math.asin(s)), math.degrees(about_z)


def _cosine_and_sine(degrees: float) -> tuple[float, float]:
    quarters = degrees / 90.0
    if quarters == round(quarters):
        return [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][round(quarters) % 4]
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def _stay(
    seen: LabState,
    box: LabBox,
    lower: list[float] | Vector,
    upper: list[float] | Vector,
    t_min: float,
    t_max: float,
) -> Interval:
    """Ask for the stay between corners, which are turned as the box is."""
    if not box.turned:
        hit, near, far = ray_box(seen.origin, seen.direction, lower, upper, t_min, t_max)
        return Interval(bool(hit), float(near), float(far))
    # About the centre the corners are -half and half; corners at infinity stay there.
    low = [-h if math.isfinite(c) else c for c, h in zip(lower, box.half, strict=True)]
    high = [h if math.isfinite(c) else c for c, h in zip(upper, box.half, strict=True)]
    hit, near, far = ray_obb(seen.origin, seen.direction, low, high, box.matrix, t_min, t_max)
    return Interval(bool(hit), float(near), float(far))
