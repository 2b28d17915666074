"""Drawn coordinates of the ray lab: the part of space in view, translated and scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bvh.apps.lab.state import (
    Array,
    LabBox,
    LabState,
    Vector,
    at,
    crossings,
    flattened,
    in_plane,
    rotation,
)
from bvh.apps.viewer.box_overlay import corners_of

# Boxes fit a ball of radius FIT; the ray is drawn up to REACH from its centre.
FIT, REACH = 2.0, 6.0
# The ray's ends and crossings are in view within so many radii of the boxes.
WITHIN, CROSSING_WITHIN = 5.0, 2.0
# Dragged coordinates are rounded to this share of the boxes' size, as a power of ten.
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
            found: Array = (np.asarray(point, np.float64) - np.array(self.centre)) * self.scale
        return np.where(np.isfinite(found), found, 0.0)

    def point(self, drawn: Array | Vector, near: Vector) -> Vector:
        """Return the point drawn here, in round numbers.

        Coordinates that are drawn where those of `near` are keep their bits.
        """
        point = np.asarray(drawn, np.float64)
        moved = point / self.scale + np.array(self.centre)
        kept = np.abs(point - self.drawn(near)) < 1e-4
        return tuple(
            n if k else self.tidy(m) for n, m, k in zip(near, moved.tolist(), kept, strict=True)
        )

    def tidy(self, x: float) -> float:
        """Round x to a step that is small beside what is drawn."""
        decimals = -round(math.log10(STEP / self.scale))
        # Adding 0 turns -0.0 into 0.
        return round(x, decimals) + 0.0 if math.isfinite(x) else x


def corners(box: LabBox) -> Array:
    """Return the corners of a box, shape (8, 3); bit k of the row is the side along axis k."""
    found: Array = corners_of(np.array([[box.lower, box.upper]]))[0]
    if box.turned:
        found = (found - box.centre) @ rotation(box.turn).T + box.centre
    return found


def drawn_boxes(state: LabState) -> tuple[LabBox, ...]:
    """Return the boxes to draw: if flat, without height."""
    return flattened(state.boxes, 0.0) if state.flat else state.boxes


@np.errstate(all="ignore")
def fitted(state: LabState) -> Frame:
    """Return the frame around all boxes, and the ray's ends and crossings that are not far away."""
    seen = in_plane(state)
    points = np.concatenate([corners(box) for box in drawn_boxes(state)])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.array([[-1.0] * 3, [1.0] * 3])
    middle, radius = _ball(points)
    near = [(np.array(end), WITHIN) for end in (seen.origin, seen.tip)]
    near += [(at(state, crossing.t), CROSSING_WITHIN) for crossing in crossings(state)]
    for point, within in near:
        if np.isfinite(point).all() and np.linalg.norm(point - middle) <= within * radius:
            points = np.vstack([points, point])
    middle, radius = _ball(points)
    return Frame(tuple(middle.tolist()), FIT / radius)


def _ball(points: Array) -> tuple[Array, float]:
    """Return the centre and half the diagonal of the box around points, never 0."""
    # Halves first, because sums and differences may overflow.
    low, high = points.min(axis=0) / 2, points.max(axis=0) / 2
    return low + high, min(math.hypot(*(high - low)), LARGEST) or 1.0


@dataclass(frozen=True)
class DrawnRay:
    """The ray in drawn coordinates; a length along it is s = t * |d| * scale."""

    start: Array
    unit: Array
    length: float
    scale: float

    def point(self, t: float) -> Array:
        """Return where a t is drawn, clamped far outside the view."""
        s = min(max(self.along(t), -1e9), 1e9)
        return self.start + s * self.unit

    def along(self, t: float) -> float:
        """Return the drawn length from the origin to a t."""
        # In this order a subnormal length is multiplied by a huge t first.
        return t * self.length * self.scale if t else 0.0

    def visible(self) -> tuple[float, float] | None:
        """Return the drawn lengths between which the line is within REACH, or None."""
        middle = -float(self.start @ self.unit)
        aside = self.start + middle * self.unit
        rest = REACH**2 - float(aside @ aside)
        return None if rest <= 0.0 else (middle - math.sqrt(rest), middle + math.sqrt(rest))

    def part(self, t0: float, t1: float) -> Array | None:
        """Return the drawn ends of the visible part from t0 to t1, shape (2, 3), or None."""
        seen = self.visible()
        if seen is None:
            return None
        s0, s1 = max(self.along(t0), seen[0]), min(self.along(t1), seen[1])
        if not s0 <= s1:
            return None
        return np.array([self.start + s0 * self.unit, self.start + s1 * self.unit])


def drawn_ray(state: LabState, frame: Frame) -> DrawnRay | None:
    """Return the ray to draw, or None for an invalid one."""
    seen = in_plane(state)
    if not seen.is_ray:
        return None
    d = np.array(seen.direction)
    # Scaled by a power of two, so that the norm neither underflows nor overflows.
    largest = float(np.abs(d).max())
    unit = np.ldexp(d, -math.frexp(largest)[1])
    norm = float(np.linalg.norm(unit))
    length = float(np.ldexp(norm, math.frexp(largest)[1]))
    return DrawnRay(frame.drawn(seen.origin), unit / norm, length, frame.scale)
