"""The cases of the ray lab: each shows one flaw of the box tests that articles teach."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bvh.lab.state import LabBox, LabState

CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# What "second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))


@dataclass(frozen=True)
class Preset:
    """A case to look at: its name, what is special in it, its state."""

    name: str
    words: str
    state: LabState


def _boxed(centre: float, y: float) -> LabBox:
    """Return the box from -1 to 1 about (centre, y, 0)."""
    return LabBox((centre - 1, y - 1, -1.0), (centre + 1, y + 1, 1.0))


PRESETS = (
    Preset(
        "Straight through",
        "Nothing special: all of them agree.",
        LabState((-1.0, 0.25, 0.0), (1.0, 0.5, 0.625), (CUBE,)),
    ),
    Preset(
        "In a face plane",
        "The ray is parallel to y and z, and lies in the plane y = 0.5. A closed box is hit.",
        LabState((-1.0, 0.5, 1.0), (1.0, 0.0, 0.0), (CUBE,)),
    ),
    Preset(
        "Minus zero",
        "The direction's y and z are -0.0, as a reflection or a product makes them.",
        LabState((-1.0, 1.0, 1.0), (1.0, -0.0, -0.0), (CUBE,)),
    ),
    Preset(
        "Through an edge",
        "The ray enters the x slab at the very t where it leaves the y slab: it touches one edge.",
        LabState((0.4375, -1.0625, 1.0), (0.0625, 3.0625, 0.0), (CUBE,)),
    ),
    Preset(
        "Through a corner",
        "All three slabs share a single t, in the corner (0.5, 2, 2).",
        LabState((-0.5, -1.0625, 3.0), (1.0, 3.0625, -1.0), (CUBE,)),
    ),
    Preset(
        "Lost by a hair",
        "The ray passes the edge (0.5, 2) inside, by less than quotients are rounded.",
        LabState((-0.3, -0.4, 1.0), (0.5, 1.5, 0.0), (CUBE,)),
    ),
    Preset(
        "Invented by a hair",
        "The ray passes the edge (0.5, 2) outside, by less than quotients are rounded.",
        LabState((-1.9, -1.2, 1.0), (0.6, 0.8, 0.0), (CUBE,)),
    ),
    Preset(
        "Starting inside",
        "The box is solid, and the ray is in it from the start: t_near is 0.",
        LabState((1.0, 1.0, 1.0), (0.3, 0.2, 0.1), (CUBE,)),
    ),
    Preset(
        "Behind the origin",
        "The line meets the box, the ray points away from it.",
        LabState((4.0, 1.0, 1.0), (1.0, 0.125, 0.125), (CUBE,)),
    ),
    Preset(
        "A segment that ends early",
        "With t_max = 1 the ray is the segment from origin to tip, and ends before the box.",
        LabState((-1.0, 1.0, 1.0), (1.25, 0.0, 0.25), (CUBE,), t_max=1.0),
    ),
    Preset(
        "The first is not the nearest",
        "The list begins with the box behind. A loop that breaks at the first hit picks that one.",
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
        "The box is real, and a million units off.",
        LabState((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (_boxed(1e6, 0.0),)),
    ),
    Preset(
        "Almost parallel",
        "The direction climbs by 0.0008 in y, which makes 4 over 5000 units.",
        LabState((0.0, 0.0, 0.0), (1.0, 0.0008, 0.0), (_boxed(5000.0, 4.0),)),
    ),
    Preset(
        "Huge coordinates",
        "Millimetres, ten thousand kilometres from the origin.",
        LabState(
            (1e7 - 0.25, 1e7 + 0.125, 0.0),
            (0.25, 0.015625, 0.0),
            (LabBox((1e7 + 0.125, 1e7 + 0.0625, -0.125), (1e7 + 0.375, 1e7 + 0.25, 0.125)),),
        ),
    ),
    Preset(
        "Outside by one ulp",
        "The ray begins at the next double after the face x = 2, and leaves.",
        LabState((math.nextafter(2.0, 3.0), 1.0, 1.0), (1.0, 0.125, 0.125), (CUBE,)),
    ),
    Preset(
        "A denormal direction",
        "Directions have any length: 4e-309 is one, but its reciprocal is no double.",
        LabState(
            (0.375, 0.625, 0.625),
            (4e-309, 0.0, 0.0),
            (LabBox((0.5, 0.5, 0.5), (0.875, 0.875, 0.875)),),
        ),
    ),
    Preset(
        "A tall box",
        "A box that is not as high as it is wide tells a y slab that was copied from x.",
        LabState((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0), (LabBox((0.5, 3.0, 0.5), (2.0, 4.0, 2.0)),)),
    ),
    Preset(
        "A turned box",
        "An oriented box: the same slabs, along the box's own axes.",
        LabState(
            (-1.0, 1.0, 1.0), (1.0, 0.125, 0.125),
            (LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0), (20.0, 30.0, 40.0)),),
        ),
    ),
    Preset(
        "No direction",
        "A direction of zero length is no ray, not even from inside.",
        LabState((1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (CUBE,)),
    ),
)  # fmt: skip
