"""State of the ray lab: a ray and boxes, the exact answers, its numbers as text, and presets."""

import math
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.boxes import ray_box
from bvh.geometry.obbs import ray_obb

Vector = tuple[float, ...]
Array = NDArray[np.float64]

AXES = "xyz"
INF = math.inf
BOX_FIELDS = ("lower", "upper", "turn")


@dataclass(frozen=True)
class LabBox:
    """A box: two corners, and a rotation about its centre in degrees about x, then y, then z."""

    lower: Vector
    upper: Vector
    turn: Vector = (0.0, 0.0, 0.0)

    @property
    def turned(self) -> bool:
        """Whether the box is oriented rather than axis-aligned."""
        return any(self.turn)

    @property
    def centre(self) -> Array:
        """Centre of the box, 0 along axes where it is unbounded."""
        low, high = np.array(self.lower), np.array(self.upper)
        with np.errstate(invalid="ignore"):
            middle: Array = low + (high - low) / 2
        return np.where(np.isfinite(middle), middle, 0.0)

    @property
    def half(self) -> Array:
        """Half extents, negative where the box is empty."""
        return np.subtract(self.upper, self.lower) / 2

    @property
    def matrix(self) -> Array:
        """Affine matrix that moves the box -half..half here, shape (4, 4)."""
        return np.vstack([np.column_stack([rotation(self.turn), self.centre]), np.eye(4)[3]])


@dataclass(frozen=True)
class LabState:
    """A ray o + t d, t from t_min to t_max, and one or two boxes; if flat, in the plane z = 0."""

    origin: Vector
    direction: Vector
    boxes: tuple[LabBox, ...]
    t_min: float = 0.0
    t_max: float = INF
    flat: bool = False

    @property
    def dimensions(self) -> int:
        """Number of coordinates, 3 or 2."""
        return 2 if self.flat else 3

    @property
    def tip(self) -> Vector:
        """The ray's point at t = 1."""
        return tuple(o + d for o, d in zip(self.origin, self.direction, strict=True))

    @property
    def is_ray(self) -> bool:
        """Whether the ray is finite, has a direction, and a range that is not empty."""
        ray = (*self.seen.origin, *self.seen.direction)
        return all(map(math.isfinite, ray)) and any(ray[3:]) and self.t_min <= self.t_max

    @property
    def seen(self) -> Self:
        """The state to compute with: if flat, boxes unbounded in z and a ray at z = 0."""
        if not self.flat:
            return self
        origin, direction = (*self.origin[:2], 0.0), (*self.direction[:2], 0.0)
        return replace(self, origin=origin, direction=direction, boxes=self._flattened(INF))

    @property
    def drawn_boxes(self) -> tuple[LabBox, ...]:
        """The boxes to draw: if flat, without height."""
        return self._flattened(0.0) if self.flat else self.boxes

    def _flattened(self, height: float) -> tuple[LabBox, ...]:
        """Return the boxes from -height to height, turned about z only."""
        return tuple(
            LabBox((*box.lower[:2], -height), (*box.upper[:2], height), (0.0, 0.0, box.turn[2]))
            for box in self.boxes
        )


class Interval(NamedTuple):
    """Range of t inside a box or a slab; (inf, -inf) for a miss."""

    hit: bool
    near: float
    far: float


class Slab(NamedTuple):
    """Range of t of a line between the two planes of an axis, correctly rounded."""

    axis: int
    # "crossed", or, where the line is parallel to the planes and the ends infinite, "inside" or
    # "outside".
    kind: str
    near: float
    far: float


class Crossing(NamedTuple):
    """Crossing of a line with one plane of a box."""

    axis: int
    entering: bool
    t: float


# Cached, as several parts of the page need it. States with 0.0 and -0.0 compare equal, and have the
# same answers.
@lru_cache(maxsize=64)
def interval(state: LabState, index: int = 0) -> Interval:
    """Return the exact range of t in a box, clipped to the ray's range."""
    box = state.seen.boxes[index]
    return _between(state.seen, box, box.lower, box.upper)


@lru_cache(maxsize=64)
def slabs(state: LabState, index: int = 0) -> tuple[Slab, ...]:
    """Return the exact range of t of the ray's line in each slab of a box."""
    line = replace(state.seen, t_min=-INF, t_max=INF)
    box = line.boxes[index]
    found = []
    for axis in range(state.dimensions):
        # A slab is a box that is unbounded along the other axes.
        lower, upper = [-INF] * 3, [INF] * 3
        lower[axis], upper[axis] = box.lower[axis], box.upper[axis]
        hit, near, far = _between(line, box, lower, upper)
        kind = "crossed" if hit else "outside"
        if hit and math.isinf(near) and math.isinf(far):
            kind, near, far = "inside", -INF, INF
        found.append(Slab(axis, kind, near, far))
    return tuple(found)


def crossings(state: LabState, index: int = 0) -> list[Crossing]:
    """Return the crossings with a box's planes, at most six, sorted by t."""
    found = []
    for axis, _, near, far in slabs(state, index):
        found += [Crossing(axis, True, near), Crossing(axis, False, far)]
    finite = [crossing for crossing in found if math.isfinite(crossing.t)]
    return sorted(finite, key=lambda crossing: (crossing.t, not crossing.entering))


def nearest(state: LabState) -> int | None:
    """Return the index of the closest box that is hit, the lower one of equals; None for a miss."""
    ranges = [interval(state, index) for index in range(len(state.boxes))]
    hits = [index for index, span in enumerate(ranges) if span.hit]
    return min(hits, key=lambda index: ranges[index].near, default=None)


def at(state: LabState, t: float) -> Array:
    """Return the ray's point at a finite t, rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(state.seen.origin) + t * np.array(state.seen.direction)


def rotation(turn: Vector) -> Array:
    """Return the rotation about x, then y, then z in degrees, shape (3, 3); exact by quarters."""
    matrix = np.eye(3)
    for axis, degrees in enumerate(turn):
        c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
        if degrees % 90.0 == 0.0:
            c, s = round(c), round(s)
        step = np.eye(3)
        j, k = (axis + 1) % 3, (axis + 2) % 3
        step[j, j], step[j, k], step[k, j], step[k, k] = c, -s, s, c
        matrix = step @ matrix
    return matrix


def turn_of(matrix: Array) -> Vector:
    """Return the degrees about x, then y, then z of a rotation."""
    from trimesh.transformations import euler_from_matrix

    return tuple(map(math.degrees, euler_from_matrix(matrix, "sxyz")))  # type: ignore[no-untyped-call]


def _between(
    seen: LabState, box: LabBox, lower: Sequence[float], upper: Sequence[float]
) -> Interval:
    """Return the exact range of t in the box with these corners, rotated as `box` is."""
    ray, span = (seen.origin, seen.direction), (seen.t_min, seen.t_max)
    if not box.turned:
        hit, near, far = ray_box(*ray, lower, upper, *span)
    else:
        # The matrix moves a box about the origin to the centre; infinite corners stay.
        low = np.where(np.isfinite(lower), -box.half, lower)
        high = np.where(np.isfinite(upper), box.half, upper)
        hit, near, far = ray_obb(*ray, low, high, box.matrix, *span)
    return Interval(bool(hit), float(near), float(far))


def number(x: float) -> str:
    """Return the shortest text that reads back as the same double."""
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def text_of(numbers: Iterable[float]) -> str:
    """Return numbers with commas between them, each as `number` writes it."""
    return ", ".join(map(number, numbers))


def numbers_of(name: str, text: str, count: int) -> Vector:
    """Read the numbers of a field: decimal, hexadecimal (0x1.8p-3), inf; -0.0 keeps its sign."""
    words = text.replace(",", " ").split()
    if len(words) != count:
        raise ValueError(f"{name} takes {count} numbers, got {len(words)}")
    return tuple(_double(name, word) for word in words)


def texts_of(state: LabState) -> dict[str, str]:
    """Return the texts of all fields; names of the second box end in " 2"."""
    span = (state.t_min, state.t_max)
    fields = {"origin": state.origin, "direction": state.direction, "t range": span}
    for box, suffix in zip(state.boxes, ("", " 2"), strict=False):
        fields |= {f"{part}{suffix}": getattr(box, part) for part in BOX_FIELDS}
    return {name: text_of(numbers) for name, numbers in fields.items()}


def edited(state: LabState, name: str, text: str) -> LabState:
    """Return the state with one field changed; raise ValueError, with its name, if that fails."""
    if name == "t range":
        t_min, t_max = numbers_of(name, text, 2)
        return replace(state, t_min=t_min, t_max=t_max)
    vector = numbers_of(name, text, 3)
    if name == "origin":
        return replace(state, origin=vector)
    if name == "direction":
        return replace(state, direction=vector)
    part, index = name.removesuffix(" 2"), int(name.endswith(" 2"))
    if part == "turn" and not all(abs(degrees) <= 1e6 for degrees in vector):
        raise ValueError(f"turn must be finite degrees, got {text}")
    boxes = list(state.boxes)
    boxes[index] = replace(boxes[index], **{part: vector})
    return replace(state, boxes=tuple(boxes))


def _double(name: str, word: str) -> float:
    try:
        return float.fromhex(word) if "0x" in word.lower() else float(word)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: {word!r} is not a number") from None


CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# The box that the check box "Second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))


class Preset(NamedTuple):
    """A named state that shows a flaw of common box tests, with a sentence on it."""

    name: str
    text: str
    state: LabState


def _presets() -> Iterator[Preset]:
    content = files(__package__).joinpath("presets.toml").read_text("utf-8")
    for fields in tomllib.loads(content)["preset"]:
        name, text = fields.pop("name"), fields.pop("text")
        boxes = (CUBE, SECOND) if "lower 2" in fields else (CUBE,)
        state = LabState((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), boxes)
        for field, numbers in fields.items():
            state = edited(state, field, numbers)
        yield Preset(name, text, state)


PRESETS = tuple(_presets())
