"""Presets of the ray lab: each shows a flaw of common box tests."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from bvh.apps.lab.state import LabBox, LabState, edited

CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# The box that the check box "Second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))

# Names and what each shows. Below, fields of the page: those of the box only if it is not the cube.
TABLE = """
Straight through: All tests agree with the exact answer.
    origin = -1, 0.25, 0; direction = 1, 0.5, 0.625
Ray in a face plane: The ray lies in the plane y = 0.5. The box is closed, so this is a hit.
    origin = -1, 0.5, 1; direction = 1, 0, 0
Negative zero: The y and z components of the direction are -0.0, as after a reflection.
    origin = -1, 1, 1; direction = 1, -0.0, -0.0
Through an edge: The ray leaves the y slab exactly where it enters the x slab: it touches an edge.
    origin = 0.4375, -1.0625, 1; direction = 0.0625, 3.0625, 0
Through a corner: The intervals of the three slabs share a single t, at the corner (0.5, 2, 2).
    origin = -0.5, -1.0625, 3; direction = 1, 3.0625, -1
Hit lost to rounding: The ray passes inside the edge at (0.5, 2) by less than a rounding error.
    origin = -0.3, -0.4, 1; direction = 0.5, 1.5, 0
False hit by rounding: The ray passes outside the edge at (0.5, 2) by less than a rounding error.
    origin = -1.9, -1.2, 1; direction = 0.6, 0.8, 0
Origin inside the box: The box is solid and contains the origin, so t_near is 0.
    origin = 1, 1, 1; direction = 0.3, 0.2, 0.1
Box behind the origin: The line crosses the box, but the ray points away from it.
    origin = 4, 1, 1; direction = 1, 0.125, 0.125
Segment ends before the box: With t_max = 1 the ray is a segment, which ends before the box.
    origin = -1, 1, 1; direction = 1.25, 0, 0.25; t range = 0, 1
First hit is not the closest: A loop that returns the first box it hits returns the one behind.
    origin = -1, 1, 1; direction = 1, 0.125, 0.125; lower = 2.5, 0.5, 0.5; upper = 4, 2, 2
    lower 2 = 0, 0.75, 0.75; upper 2 = 1, 1.75, 1.75
Box a million units away: The box is a million units from the origin.
    origin = 0, 0, 0; direction = 1, 0, 0; lower = 999999, -1, -1; upper = 1000001, 1, 1
Almost parallel: A slope of 0.0008 in y adds up to 4 units over a distance of 5000.
    origin = 0, 0, 0; direction = 1, 0.0008, 0; lower = 4999, 3, -1; upper = 5001, 5, 1
Large coordinates: Differences of 0.1 at a distance of 10 million from the origin.
    origin = 9999999.75, 10000000.125, 0; direction = 0.25, 0.015625, 0
    lower = 10000000.125, 10000000.0625, -0.125; upper = 10000000.375, 10000000.25, 0.125
Origin one ulp outside: The origin is the next double beyond the face x = 2; the ray points away.
    origin = 2.0000000000000004, 1, 1; direction = 1, 0.125, 0.125
Subnormal direction: Directions may have any length; 1 / 4e-309 overflows.
    origin = 0.375, 0.625, 0.625; direction = 4e-309, 0, 0; upper = 0.875, 0.875, 0.875
Different x and y extents: Shows a slab test with the axes swapped, which a cube would hide.
    origin = -1, -1, -1; direction = 1, 1, 1; lower = 0.5, 3, 0.5; upper = 2, 4, 2
Oriented box: The slabs of an oriented box are along its own axes.
    origin = -1, 1, 1; direction = 1, 0.125, 0.125; turn = 20, 30, 40
Zero direction: A ray with a zero direction is invalid and hits nothing, even from inside.
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
