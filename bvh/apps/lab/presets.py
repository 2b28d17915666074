"""Presets of the ray lab: each shows a flaw of the box tests in articles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from bvh.apps.lab.state import LabBox, LabState, edited

CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# The box that the check box "Second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))

# Names and what each shows. Below, fields of the page: those of the box only if it is not the cube.
TABLE = """
Straight through: All tests agree.
    origin = -1, 0.25, 0; direction = 1, 0.5, 0.625
In a face plane: The ray lies in the plane y = 0.5. A closed box is hit.
    origin = -1, 0.5, 1; direction = 1, 0, 0
Minus zero: The direction's y and z are -0.0, as after a reflection.
    origin = -1, 1, 1; direction = 1, -0.0, -0.0
Through an edge: The ray enters the x slab where it leaves the y slab: it touches an edge.
    origin = 0.4375, -1.0625, 1; direction = 0.0625, 3.0625, 0
Through a corner: The three slabs share a single t, at the corner (0.5, 2, 2).
    origin = -0.5, -1.0625, 3; direction = 1, 3.0625, -1
Lost by a hair: The ray passes inside the edge (0.5, 2), by less than a rounding error.
    origin = -0.3, -0.4, 1; direction = 0.5, 1.5, 0
Invented by a hair: The ray passes outside the edge (0.5, 2), by less than a rounding error.
    origin = -1.9, -1.2, 1; direction = 0.6, 0.8, 0
Starting inside: The box is solid and contains the origin: t_near is 0.
    origin = 1, 1, 1; direction = 0.3, 0.2, 0.1
Behind the origin: The line crosses the box, but the ray points away from it.
    origin = 4, 1, 1; direction = 1, 0.125, 0.125
A segment that ends early: With t_max = 1 the ray is a segment, which ends before the box.
    origin = -1, 1, 1; direction = 1.25, 0, 0.25; t range = 0, 1
The first is not the nearest: A loop that stops at the first hit returns the box behind.
    origin = -1, 1, 1; direction = 1, 0.125, 0.125; lower = 2.5, 0.5, 0.5; upper = 4, 2, 2
    lower 2 = 0, 0.75, 0.75; upper 2 = 1, 1.75, 1.75
A million units away: The box is a million units from the origin.
    origin = 0, 0, 0; direction = 1, 0, 0; lower = 999999, -1, -1; upper = 1000001, 1, 1
Almost parallel: The slope of 0.0008 in y makes 4 over 5000 units.
    origin = 0, 0, 0; direction = 1, 0.0008, 0; lower = 4999, 3, -1; upper = 5001, 5, 1
Huge coordinates: Millimetres at 10 000 km from the origin.
    origin = 9999999.75, 10000000.125, 0; direction = 0.25, 0.015625, 0
    lower = 10000000.125, 10000000.0625, -0.125; upper = 10000000.375, 10000000.25, 0.125
Outside by one ulp: The ray starts one double beyond the face x = 2 and points away.
    origin = 2.0000000000000004, 1, 1; direction = 1, 0.125, 0.125
A denormal direction: Directions may have any length; 1 / 4e-309 overflows.
    origin = 0.375, 0.625, 0.625; direction = 4e-309, 0, 0; upper = 0.875, 0.875, 0.875
A tall box: A box with different x and y shows a y slab that was copied from x.
    origin = -1, -1, -1; direction = 1, 1, 1; lower = 0.5, 3, 0.5; upper = 2, 4, 2
A turned box: An oriented box has the same slabs, along its own axes.
    origin = -1, 1, 1; direction = 1, 0.125, 0.125; turn = 20, 30, 40
No direction: A zero direction is no ray, not even from inside.
    origin = 1, 1, 1; direction = 0, 0, 0
"""


class Preset(NamedTuple):
    """A named state, with a sentence on what it shows."""

    name: str
    text: str
    state: LabState


def _presets() -> Iterator[Preset]:
    for name, text, fields in re.findall(r"^(\S.*?): (.*)\n((?: .*\n)+)", TABLE, re.MULTILINE):
        boxes = (CUBE, SECOND) if "lower 2" in fields else (CUBE,)
        state = LabState((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), boxes)
        for field, numbers in re.findall(r"([a-z][a-z 2]*) = ([^;\n]*)", fields):
            state = edited(state, field, numbers)
        yield Preset(name, text, state)


PRESETS = tuple(_presets())
