"""Presets of the ray lab: each shows a flaw of the box tests in articles."""

from __future__ import annotations

import math
from typing import NamedTuple

from bvh.apps.lab.state import LabBox, LabState

CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# The box that the check box "Second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))


class Preset(NamedTuple):
    """A named state, with a sentence on what it shows."""

    name: str
    text: str
    state: LabState


def _cube(x: float, y: float) -> LabBox:
    """Return the cube of edge 2 around (x, y, 0)."""
    return LabBox((x - 1, y - 1, -1.0), (x + 1, y + 1, 1.0))


PRESETS = (
    Preset(
        "Straight through",
        "All tests agree.",
        LabState((-1.0, 0.25, 0.0), (1.0, 0.5, 0.625), (CUBE,)),
    ),
    Preset(
        "In a face plane",
        "The ray lies in the plane y = 0.5. A closed box is hit.",
        LabState((-1.0, 0.5, 1.0), (1.0, 0.0, 0.0), (CUBE,)),
    ),
    Preset(
        "Minus zero",
        "The direction's y and z are -0.0, as after a reflection.",
        LabState((-1.0, 1.0, 1.0), (1.0, -0.0, -0.0), (CUBE,)),
    ),
    Preset(
        "Through an edge",
        "The ray enters the x slab where it leaves the y slab: it touches an edge.",
        LabState((0.4375, -1.0625, 1.0), (0.0625, 3.0625, 0.0), (CUBE,)),
    ),
    Preset(
        "Through a corner",
        "The three slabs share a single t, at the corner (0.5, 2, 2).",
        LabState((-0.5, -1.0625, 3.0), (1.0, 3.0625, -1.0), (CUBE,)),
    ),
    Preset(
        "Lost by a hair",
        "The ray passes inside the edge (0.5, 2), by less than a rounding error.",
        LabState((-0.3, -0.4, 1.0), (0.5, 1.5, 0.0), (CUBE,)),
    ),
    Preset(
        "Invented by a hair",
        "The ray passes outside the edge (0.5, 2), by less than a rounding error.",
        LabState((-1.9, -1.2, 1.0), (0.6, 0.8, 0.0), (CUBE,)),
    ),
    Preset(
        "Starting inside",
        "The box is solid and contains the origin: t_near is 0.",
        LabState((1.0, 1.0, 1.0), (0.3, 0.2, 0.1), (CUBE,)),
    ),
    Preset(
        "Behind the origin",
        "The line crosses the box, but the ray points away from it.",
        LabState((4.0, 1.0, 1.0), (1.0, 0.125, 0.125), (CUBE,)),
    ),
    Preset(
        "A segment that ends early",
        "With t_max = 1 the ray is a segment, which ends before the box.",
        LabState((-1.0, 1.0, 1.0), (1.25, 0.0, 0.25), (CUBE,), t_max=1.0),
    ),
    Preset(
        "The first is not the nearest",
        "A loop that stops at the first hit returns the box behind.",
        LabState(
            (-1.0, 1.0, 1.0),
            (1.0, 0.125, 0.125),
            (
                LabBox((2.5, 0.5, 0.5), (4.0, 2.0, 2.0)),
                LabBox((0.0, 0.75, 0.75), (1.0, 1.75, 1.75)),
            ),
        ),
    ),
    Preset(
        "A million units away",
        "The box is a million units from the origin.",
        LabState((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (_cube(1e6, 0.0),)),
    ),
    Preset(
        "Almost parallel",
        "The slope of 0.0008 in y makes 4 over 5000 units.",
        LabState((0.0, 0.0, 0.0), (1.0, 0.0008, 0.0), (_cube(5000.0, 4.0),)),
    ),
    Preset(
        "Huge coordinates",
        "Millimetres at 10 000 km from the origin.",
        LabState(
            (1e7 - 0.25, 1e7 + 0.125, 0.0),
            (0.25, 0.015625, 0.0),
            (LabBox((1e7 + 0.125, 1e7 + 0.0625, -0.125), (1e7 + 0.375, 1e7 + 0.25, 0.125)),),
        ),
    ),
    Preset(
        "Outside by one ulp",
        "The ray starts one double beyond the face x = 2 and points away.",
        LabState((math.nextafter(2.0, 3.0), 1.0, 1.0), (1.0, 0.125, 0.125), (CUBE,)),
    ),
    Preset(
        "A denormal direction",
        "Directions may have any length; 1 / 4e-309 overflows.",
        LabState(
            (0.375, 0.625, 0.625),
            (4e-309, 0.0, 0.0),
            (LabBox((0.5, 0.5, 0.5), (0.875, 0.875, 0.875)),),
        ),
    ),
    Preset(
        "A tall box",
        "A box with different x and y shows a y slab that was copied from x.",
        LabState((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0), (LabBox((0.5, 3.0, 0.5), (2.0, 4.0, 2.0)),)),
    ),
    Preset(
        "A turned box",
        "An oriented box has the same slabs, along its own axes.",
        LabState(
            (-1.0, 1.0, 1.0), (1.0, 0.125, 0.125),
            (LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0), (20.0, 30.0, 40.0)),),
        ),
    ),
    Preset(
        "No direction",
        "A zero direction is no ray, not even from inside.",
        LabState((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (CUBE,)),
    ),
)  # fmt: skip
