"""Presets of the ray lab: each shows a flaw of common box tests."""

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from bvh.apps.lab.state import LabBox, LabState, edited

CUBE = LabBox((0.5, 0.5, 0.5), (2.0, 2.0, 2.0))
# The box that the check box "Second box" adds.
SECOND = LabBox((2.5, 0.75, 0.75), (3.5, 1.75, 1.75))


class Preset(NamedTuple):
    """A named state, with a sentence on what it shows."""

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
