"""What part of space the ray lab draws, and where: exact coordinates brought near the camera."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bvh.lab.state import LabBox, LabState, Vector, at, crossings, in_plane, rotation

Array = NDArray[np.float64]

# What is of interest fits a ball of radius 2; the ray is drawn up to REACH from its centre.
FIT, REACH = 2.0, 6.0
# The ray's ends and crossings are of interest within so many sizes of the boxes.
WITHIN, CROSSING_WITHIN = 5.0, 2.0
# Moved things land on multiples of so much of the boxes' size, rounded to a power of ten.
STEP = 1e-2
# The largest radius whose reciprocal is an ordinary double.
LARGEST = 1e307


@dataclass(frozen=True)
class Frame:
    """Drawn coordinates are (p - centre) * scale."""

    centre: Vector
    scale: float

    def drawn(self, point: Array | Vector) -> Array:
        """Return where a point is drawn, 0 along axes on which it is not finite."""
        with np.errstate(all="ignore"):
            place: Array = (np.asarray(point, np.float64) - np.array(self.centre)) * self.scale
        return np.where(np.isfinite(place), place, 0.0)

    def point(self, drawn: Array | Vector, near: Vector) -> Vector:
        """Return the point that was moved to a drawn place, in round numbers.

        Coordinates that are drawn where those of `near` are stay as they are, bit for bit.
        """
        place, old = np.asarray(drawn, np.float64), self.drawn(near)
        moved = place / self.scale + np.array(self.centre)
        kept = np.abs(place - old) < 1e-4
        x, y, z = (
            n if k else self.tidy(float(m)) for n, m, k in zip(near, moved, kept, strict=True)
        )
        return x, y, z

    def tidy(self, x: float) -> float:
        """Return the multiple of a step, fine beside what is drawn, that is nearest to x."""
        places = -round(math.log10(STEP / self.scale))
        # Adding 0 turns -0.0, which nobody has dragged to, into 0.
        return round(x, places) + 0.0 if math.isfinite(x) else x


def corners(box: LabBox) -> Array:
    """Return the corners of a box, shape (8, 3); bit k of the row is the side along axis k."""
    low, high = np.array(box.lower), np.array(box.upper)
    found = np.array([[(low, high)[bits[2 - k]][k] for k in range(3)]
                      for bits in product((0, 1), repeat=3)])  # fmt: skip
    if box.turned:
        found = (found - box.centre) @ rotation(box.turn).T + box.centre
    return found


def drawn_boxes(state: LabState) -> tuple[LabBox, ...]:
    """Return the boxes as they are drawn: in the plane, without height."""
    if not state.flat:
        return state.boxes
    return tuple(
        LabBox((*box.lower[:2], 0.0), (*box.upper[:2], 0.0), (0.0, 0.0, box.turn[2]))
        for box in state.boxes
    )


@np.errstate(all="ignore")
def fitted(state: LabState) -> Frame:
    """Choose what is drawn: all boxes, and what the ray has that is not far away."""
    seen = in_plane(state)
    points = np.concatenate([corners(box) for box in drawn_boxes(state)])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.array([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]])
    middle, radius = _ball(points)
    near = [(np.array(end), WITHIN) for end in (seen.origin, seen.tip)]
    near += [(at(state, crossing.t), CROSSING_WITHIN) for crossing in crossings(state)]
    for place, within in near:
        if np.isfinite(place).all() and np.linalg.norm(place - middle) <= within * radius:
            points = np.vstack([points, place])
    middle, radius = _ball(points)
    x, y, z = middle.tolist()
    return Frame((x, y, z), FIT / radius)


def _ball(points: Array) -> tuple[Array, float]:
    """Return the middle and half the diagonal of a box around points, never 0."""
    # Halves first: the sum and the difference of two doubles may be none.
    low, high = points.min(axis=0) / 2, points.max(axis=0) / 2
    return low + high, min(math.hypot(*(high - low)), LARGEST) or 1.0


@dataclass(frozen=True)
class DrawnRay:
    """The ray in drawn coordinates, where lengths along it are s = t * |d| * scale.

    Directions may be as short or as long as doubles go; so d is scaled before it is measured.
    """

    start: Array
    unit: Array
    length: float
    scale: float

    def place(self, t: float) -> Array:
        """Return where a t is drawn, within REACH or a little beyond."""
        s = min(max(self.along(t), -1e9), 1e9)
        return self.start + s * self.unit

    def along(self, t: float) -> float:
        """Return the drawn length from the origin to a t."""
        # In this order a denormal length meets a huge t first.
        return t * self.length * self.scale if t else 0.0

    def visible(self) -> tuple[float, float] | None:
        """Return the drawn lengths between which the line is within REACH; None for nowhere."""
        middle = -float(self.start @ self.unit)
        aside = self.start + middle * self.unit
        rest = REACH**2 - float(aside @ aside)
        return None if rest <= 0.0 else (middle - math.sqrt(rest), middle + math.sqrt(rest))

    def part(self, t0: float, t1: float) -> Array | None:
        """Return the two drawn ends of the ray's part from t0 to t1, shape (2, 3), or None."""
        seen = self.visible()
        if seen is None:
            return None
        s0, s1 = max(self.along(t0), seen[0]), min(self.along(t1), seen[1])
        if not s0 <= s1:
            return None
        return np.array([self.start + s0 * self.unit, self.start + s1 * self.unit])


def drawn_ray(state: LabState, frame: Frame) -> DrawnRay | None:
    """Return the ray as it is drawn; None if it is none."""
    seen = in_plane(state)
    if not seen.is_ray:
        return None
    d = np.array(seen.direction)
    largest = float(np.abs(d).max())
    unit = np.ldexp(d, -math.frexp(largest)[1])
    norm = float(np.linalg.norm(unit))
    length = float(np.ldexp(norm, math.frexp(largest)[1]))
    return DrawnRay(frame.drawn(seen.origin), unit / norm, length, frame.scale)
