"""Labels of the ray lab: where each stands, so that none covers another or a point."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from bvh.apps.lab.state import Array
from bvh.camera.camera import Camera

# Cameras: position, up, field of view in degrees. They look at the origin.
FROM_AN_ANGLE = ((3.6, -8.2, 4.2), (0.0, 0.0, 1.0), 38.0)
FROM_ABOVE = ((0.0, 0.0, 40.0), (0.0, 1.0, 0.0), 9.0)

# Pixels of the smallest picture for which labels are placed; in larger ones they only move apart.
WIDTH, HEIGHT = 390, 500
# Pixels of a letter, a line and the border of a label, and from a point to its label.
LETTER, LINE, BORDER, GAP = 6.8, 20.0, 12.0, 14.0
# Costs of a covered point, and of a pixel that is covered twice, or out of the picture.
POINT, TWICE, OUTSIDE = 150.0, 20.0, 0.2
Anchor = Literal[
    "top-left", "top-center", "top-right", "center-left", "center-right", "bottom-left",
    "bottom-center", "bottom-right",
]  # fmt: skip
# Where the corner of a label that the anchor names is, in drawn coordinates.
Spot = tuple[Array, Anchor]

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


def first_camera(flat: bool) -> Camera:
    """Return the first camera of the page over the smallest picture, with y up."""
    position, up, degrees = FROM_ABOVE if flat else FROM_AN_ANGLE
    return Camera.look_at(position, (0.0, 0.0, 0.0), up, degrees, WIDTH, HEIGHT, y="up")


def placed(labels: Sequence[Label], points: Sequence[Array], flat: bool) -> dict[str, Spot]:
    """Return a spot for each label, the first ones choosing first, that leaves points visible."""
    camera, sides = first_camera(flat), np.array(list(SIDES))
    marks = np.stack(camera.project(np.reshape(points, (-1, 3)))[:2], axis=1)
    taken: list[Array] = []
    found = {}
    for label in labels:
        x, y, depth = camera.project(label.point)
        half = np.array([LETTER * len(label.text) + BORDER, LINE]) / 2
        middles = np.array([x, y]) + sides * (GAP + half)
        choices = np.stack([middles - half, middles + half], axis=1)
        # The first of equal ones.
        best = int(np.argmin([_cost(frame, taken, marks) for frame in choices]))
        taken.append(choices[best])
        right, up = GAP * depth * sides[best]
        position = label.point + right * camera.step_x + up * camera.step_y
        found[label.name] = position, list(SIDES.values())[best]
    return found


def _cost(frame: Array, taken: Sequence[Array], marks: Array) -> float:
    """Return how bad a place is."""
    covered = int(((marks >= frame[0]) & (marks <= frame[1])).all(axis=1).sum())
    size = float(np.prod(frame[1] - frame[0]))
    inside = _common(frame, np.array([[0, 0], [WIDTH, HEIGHT]]))
    twice = sum(_common(frame, other) for other in taken)
    return POINT * covered + TWICE * twice + OUTSIDE * (size - inside)


def _common(a: Array, b: Array) -> float:
    """Return the area that two rectangles share."""
    return float(np.prod(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0.0)))
