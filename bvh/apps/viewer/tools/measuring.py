"""Measuring: the distance between the last two picks, or between their instances."""

from typing import Any

import numpy as np

from bvh.apps.viewer import readouts
from bvh.apps.viewer.drawing import Floats
from bvh.apps.viewer.tools.marks import GREEN
from bvh.picking.results import Pick
from bvh.scene.scene import Scene

OFF, POINTS, INSTANCES = "off", "two picks", "two instances"


class Measuring:
    """Controls of measurements on the page of a `Session`, and the last measurement."""

    def __init__(self, session: Any) -> None:
        self._session = session
        # The last one or two picks: position in the world, and id of the outermost instance.
        self._picks: list[tuple[Floats, int]] = []
        gui = session.client.gui
        hint = (
            "Click twice: the line between the points, or the shortest one between the instances."
        )
        self._between = gui.add_dropdown("Between", (OFF, POINTS, INSTANCES), hint=hint)
        self._text = gui.add_html("", visible=False)
        self._between.on_update(lambda _: self.clear())

    def clear(self) -> None:
        """Forget the picks, and remove the last measurement from the page."""
        self._picks = []
        self._text.visible = self._between.value != OFF
        self._text.content = readouts.measured(None)
        self._session.marks.clear("measure", "measured")

    def between(self, first: str, second: str) -> None:
        """Measure between two instances of the outermost scene, by name, if there are both."""
        self._between.value = INSTANCES
        with self._session.updated_scene():
            scene = self._session.scene
            if first in scene and second in scene:
                # Between instances, positions of picks have no effect.
                self._picks = [(np.zeros(3), scene[name].id) for name in (first, second)]
                self._measure()

    def add(self, pick: Pick | None) -> None:
        """Add a pick as an end of the measurement; show the distance between the last two."""
        if self._between.value == OFF or pick is None:
            return
        before = self._picks[-1:]
        if self._between.value == INSTANCES:
            # The instance may have been removed since its pick.
            before = [one for one in before if one[1] in self._session.scene]
        self._picks = [*before, (pick.position, pick.instance_id)]
        if len(self._picks) < 2:
            self._text.content = readouts.measured(None, started=True)
            return
        self._measure()

    def _measure(self) -> None:
        ends = np.array([position for position, _ in self._picks])
        distance = float(np.linalg.norm(ends[1] - ends[0]))
        if self._between.value == INSTANCES:
            first, second = (instance for _, instance in self._picks)
            if first == second:
                # Wait for a pick of another instance.
                self._text.content = readouts.measured(None, started=True)
                return
            distance, ends = clearance(self._session.scene, first, second)
        self._text.content = readouts.measured(ends, distance)
        frame, marks = self._session.frame, self._session.marks
        line = frame.to_page(ends)
        marks.lines("measure", line[None], GREEN, 3.0, self._session.camera().eye)
        marks.label("measured", f"{distance:.6g}", line.mean(axis=0))


def clearance(scene: Scene, first: int, second: int) -> tuple[float, Floats]:
    """Return the distance between two instances, by their ids, and their nearest points (2, 3)."""
    pair = Scene()
    for number in (first, second):
        instance = scene[number]
        pair.add(instance.child, instance.transform)
    found = pair.clearances()
    return float(found.distance[0]), np.asarray(found.position[0])
