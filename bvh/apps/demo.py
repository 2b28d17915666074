"""The demo: a scene that comes with the package, with parts that move and things to try."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.bundled import bundled
from bvh.apps.page_server import block
from bvh.apps.viewer.window import Viewer
from bvh.scene.scene import Scene

# Moons, and seconds that each takes around the sculpture.
MOONS, PERIOD = 7, 12.0
TRY = (
    "Click or tap a face: its id, position and normal are exact.",
    "Selection, tool Lasso: draw around some faces; Ctrl adds, Alt removes.",
    "Measure between two instances: click a moon, then the part next to it.",
    "View, shading cost: what each ray costs, in your browser.",
    "Section plane across z: look inside.",
    "Stop the moons with the box above.",
)


def demo_scene() -> tuple[Scene, NDArray[np.int64]]:
    """Return the scene of the demo, and the ids of its moons, which are at their first positions.

    It has a sculpture, columns around it, a machine part and moons, which are all generated.
    """
    organic, part = bundled("meshes.organic").organic, bundled("meshes.cad_part").cad_part
    scene, shapes = Scene(), bundled("meshes.shapes")
    scene.add(shapes.box((-6, -6, -1.62), (6, 6, -1.5)), name="floor")
    scene.add(organic(40), name="sculpture")
    vertices, faces = part()
    vertices = vertices - 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    size = 1.6 / np.ptp(vertices, axis=0).max()
    scene.add((vertices, faces), _placed([3.4, -2.0, -0.8], size), name="machine part")
    column = bundled("meshes.masonry").column(3.0, 0.3, 2, flutes=12)
    turns = 2.0 * np.pi * np.arange(8) / 8
    places = np.stack([_placed([5 * np.cos(a), 5 * np.sin(a), -1.5], 1.0) for a in turns])
    scene.add_many(column, places, [f"column {k + 1}" for k in range(8)])
    moon = organic(8)
    ids = scene.add_many(moon, moon_places(0.0), [f"moon {k + 1}" for k in range(MOONS)])
    return scene, ids


def moon_places(seconds: float) -> NDArray[np.float64]:
    """Return the transforms of the moons at a time, shape (n, 4, 4)."""
    k = np.arange(MOONS)
    a = 2.0 * np.pi * (seconds / PERIOD + k / MOONS)
    high = 0.6 * np.sin(2.0 * a + k)
    at = np.stack([2.6 * np.cos(a), 2.6 * np.sin(a), high], axis=1)
    return np.stack([_placed(place, 0.16 + 0.03 * (j % 3)) for j, place in enumerate(at)])


class Motion:
    """Thread that moves the moons of the demo while the check box on the page is ticked."""

    def __init__(self, viewer: Viewer, ids: NDArray[np.int64]) -> None:
        self._viewer, self._ids = viewer, ids
        gui: Any = viewer._server.gui
        with gui.add_folder("Try"):
            self._moves = gui.add_checkbox("Moons move", True)
            rows = "".join(f"<li>{text}</li>" for text in TRY)
            gui.add_html(block(f'<ol id="bvh-try" style="margin:0;padding-left:1.4em">{rows}</ol>'))
        threading.Thread(target=self._run, name="demo", daemon=True).start()

    def _run(self) -> None:
        passed, before = 0.0, time.perf_counter()
        while not self._viewer.closed:
            time.sleep(1.0 / 30.0)
            now = time.perf_counter()
            if self._moves.value:
                passed += now - before
                self._viewer.scene.set_transforms(self._ids, moon_places(passed))
            before = now


def _placed(place: Any, size: float) -> NDArray[np.float64]:
    """Return the matrix that scales by a size and moves to a place."""
    found = np.diag([size, size, size, 1.0])
    found[:3, 3] = place
    return found
