"""State of the ray lab: a ray and boxes, the exact answers, its numbers as text, and presets."""

import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.boxes import ray_box

Vector = tuple[float, ...]
Array = NDArray[np.float64]

AXES = "xyz"
INF = math.inf


@dataclass(frozen=True)
class LabState:
    """A ray o + t d, its range of t, and corners of a box, and of another one if `second`."""

    origin: Vector
    direction: Vector
    t_range: Vector = (0.0, INF)
    lower: Vector = (0.5, 0.5, 0.5)
    upper: Vector = (2.0, 2.0, 2.0)
    lower_2: Vector = (2.5, 0.75, 0.75)
    upper_2: Vector = (3.5, 1.75, 1.75)
    second: bool = False

    @property
    def boxes(self) -> list[tuple[Vector, Vector]]:
        """Lower and upper corner of each box."""
        return [(self.lower, self.upper), (self.lower_2, self.upper_2)][: 1 + self.second]

    @property
    def tip(self) -> Vector:
        """The ray's point at t = 1."""
        return tuple(o + d for o, d in zip(self.origin, self.direction, strict=True))

    @property
    def is_ray(self) -> bool:
        """Whether the ray is finite, has a direction, and a range that is not empty."""
        finite = all(map(math.isfinite, (*self.origin, *self.direction)))
        return finite and any(self.direction) and self.t_range[0] <= self.t_range[1]


class Interval(NamedTuple):
    """Range of t inside a box, from `near` to `far`: (inf, -inf) for a miss."""

    hit: bool
    near: float
    far: float


class Slab(NamedTuple):
    """Range of t of a line between the two planes of an axis, correctly rounded.

    `kind` is "crossed", or "inside" or "outside" where the line is parallel to the planes and the
    ends are infinite.
    """

    axis: int
    kind: str
    near: float
    far: float


def interval(state: LabState, index: int = 0) -> Interval:
    """Return the exact range of t in the box `index`, clipped to the ray's range."""
    hit, near, far = ray_box(state.origin, state.direction, *state.boxes[index], *state.t_range)
    return Interval(bool(hit), float(near), float(far))


def slabs(state: LabState, index: int = 0) -> list[Slab]:
    """Return the exact range of t in which the ray's line is in each of a box's three slabs."""
    # A slab is a box that is unbounded along the other axes.
    bounded = np.eye(3, dtype=bool)
    lower, upper = state.boxes[index]
    slab = np.where(bounded, lower, -INF), np.where(bounded, upper, INF)
    ranges = np.stack(ray_box(state.origin, state.direction, *slab, -INF, INF), axis=1)
    rows = []
    for axis, (hit, near, far) in enumerate(ranges.tolist()):
        kind = "crossed" if hit else "outside"
        if hit and math.isinf(near) and math.isinf(far):
            kind, near, far = "inside", -INF, INF
        rows.append(Slab(axis, kind, near, far))
    return rows


def crossings(state: LabState, index: int = 0) -> list[tuple[float, bool, int]]:
    """Return where the ray's line crosses a box's planes, sorted: (t, leaving, axis)."""
    ranges = slabs(state, index)
    ends = [(slab.near, False, slab.axis) for slab in ranges]
    ends += [(slab.far, True, slab.axis) for slab in ranges]
    return sorted(end for end in ends if math.isfinite(end[0]))


def nearest(state: LabState) -> int | None:
    """Return the index of the box that the ray enters first, of equals the lowest; None if none."""
    ranges = [interval(state, index) for index in range(len(state.boxes))]
    hits = [index for index, span in enumerate(ranges) if span.hit]
    return min(hits, key=lambda index: ranges[index].near, default=None)


def at(state: LabState, t: float) -> Array:
    """Return the ray's point o + t d at a finite t, rounded; it may overflow to inf or NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(state.origin) + t * np.array(state.direction)


def number(x: float) -> str:
    """Return the shortest text that reads back as the same double."""
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def text_of(numbers: Iterable[float]) -> str:
    """Return numbers with commas between them, each as `number` writes it."""
    return ", ".join(map(number, numbers))


def edited(state: LabState, name: str, text: str) -> LabState:
    """Return the state with the numbers in `text` as its field `name`, or raise a ValueError."""
    words, count = text.replace(",", " ").split(), len(getattr(state, name))
    label = name.replace("_", " ")
    if len(words) != count:
        raise ValueError(f"{label} must be {count} numbers, got {len(words)}")
    try:
        numbers = tuple(map(float, words))
    except ValueError:
        raise ValueError(f"{label} must be numbers, got {text!r}") from None
    return replace(state, **{name: numbers})  # type: ignore[arg-type]


class Preset(NamedTuple):
    """A named state that shows a flaw of common box tests, with a sentence on it."""

    name: str
    text: str
    state: LabState


def _presets() -> Iterator[Preset]:
    """Yield the presets in `presets.toml`, whose fields are texts as they are typed."""
    content = files(__package__).joinpath("presets.toml").read_text("utf-8")
    for fields in tomllib.loads(content)["preset"]:
        name, text = fields.pop("name"), fields.pop("text")
        state = LabState((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), second="lower_2" in fields)
        for field, numbers in fields.items():
            state = edited(state, field, numbers)
        yield Preset(name, text, state)


PRESETS = tuple(_presets())
