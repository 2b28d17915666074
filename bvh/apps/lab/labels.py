"""Labels of the ray lab: where each stands, so that none covers another or a point."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from bvh.apps.lab.state import Array

# Cameras: position, up, field of view in degrees. They look at the origin.
FROM_AN_ANGLE = ((3.6, -8.2, 4.2), (0.0, 0.0, 1.0), 38.0)
FROM_ABOVE = ((0.0, 0.0, 40.0), (0.0, 1.0, 0.0), 9.0)

# Pixels of the smallest picture for which labels are placed; in larger ones they only move apart.
WIDTH, HEIGHT = 390.0, 500.0
# Pixels of a letter, a line and the border of a label, and from a point to its label.
LETTER, LINE, BORDER, GAP = 6.8, 20.0, 12.0, 14.0
# Costs of a covered point, and of a pixel that is covered twice, or out of the picture.
POINT, TWICE, OUTSIDE = 150.0, 20.0, 0.2
Anchor = Literal[
    "top-left", "top-center", "top-right", "center-left", "center-right", "bottom-left",
    "bottom-center", "bottom-right",
]  # fmt: skip

# Directions from a point to its label, with y up, and the corner of the label that is there.
SIDES: dict[tuple[int, int], Anchor] = {
    (0, -1): "top-center", (0, 1): "bottom-center", (1, 0): "center-left", (-1, 0): "center-right",
    (1, -1): "top-left", (-1, -1): "top-right", (1, 1): "bottom-left", (-1, 1): "bottom-right",
}  # fmt: skip


class Label(NamedTuple):
    """A text at a point in drawn coordinates."""

    name: str
    text: str
    point: Array


class Spot(NamedTuple):
    """Where the corner of a label that `anchor` names is, in drawn coordinates."""

    position: Array
    anchor: Anchor


def placed(labels: Sequence[Label], points: Sequence[Array], flat: bool) -> dict[str, Spot]:
    """Return a spot for each label, as seen by the page's first camera.

    The first labels have the first choice. `points` are to be left visible.
    """
    view = _View(flat)
    marks = np.array([view.pixel(point) for point in points]).reshape(-1, 2)
    taken: list[Array] = []
    found = {}
    for label in labels:
        choices = [view.frame(label, side) for side in SIDES]
        costs = [_cost(frame, taken, marks) for frame in choices]
        # The first of equal ones.
        best = int(np.argmin(costs))
        side = list(SIDES)[best]
        taken.append(choices[best])
        found[label.name] = Spot(view.moved(label.point, side), SIDES[side])
    return found


class _View:
    """The first camera of the page over the smallest picture."""

    def __init__(self, flat: bool) -> None:
        position, up, degrees = FROM_ABOVE if flat else FROM_AN_ANGLE
        self._eye = np.array(position)
        self._ahead = -self._eye / np.linalg.norm(self._eye)
        right = np.cross(self._ahead, up)
        self._right = right / np.linalg.norm(right)
        self._up = np.cross(self._right, self._ahead)
        self._focal = HEIGHT / 2 / math.tan(math.radians(degrees) / 2)

    def _depth(self, point: Array) -> float:
        return max(float((point - self._eye) @ self._ahead), 0.1)

    def pixel(self, point: Array) -> Array:
        """Return where a point is seen, from the centre of the picture, with y up."""
        scale = self._focal / self._depth(point)
        return scale * np.array([point @ self._right, point @ self._up])

    def moved(self, point: Array, side: tuple[int, int]) -> Array:
        """Return a point at the distance of a label, to one side."""
        step = GAP * self._depth(point) / self._focal
        return np.asarray(point + step * (side[0] * self._right + side[1] * self._up))

    def frame(self, label: Label, side: tuple[int, int]) -> Array:
        """Return the lower and the upper corner of a label in pixels, shape (2, 2)."""
        size = np.array([LETTER * len(label.text) + BORDER, LINE])
        middle = self.pixel(label.point) + np.array(side) * (GAP + size / 2)
        return np.stack([middle - size / 2, middle + size / 2])


def _cost(frame: Array, taken: Sequence[Array], marks: Array) -> float:
    """Return how bad a place is."""
    covered = int(((marks >= frame[0]) & (marks <= frame[1])).all(axis=1).sum())
    edge = np.array([WIDTH, HEIGHT]) / 2
    size = float(np.prod(frame[1] - frame[0]))
    inside = _common(frame, np.stack([-edge, edge]))
    twice = sum(_common(frame, other) for other in taken)
    return POINT * covered + TWICE * twice + OUTSIDE * (size - inside)


def _common(a: Array, b: Array) -> float:
    """Return the area that two rectangles share."""
    return float(np.prod(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0.0)))
