"""The demo: a scene that comes with the package, with moving parts and buttons to try."""

import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.bundled import bundled
from bvh.apps.viewer.session import MESH, Session
from bvh.apps.viewer.window import Viewer
from bvh.scene.scene import Scene

# The number of moons, and the seconds that an orbit takes.
MOONS, PERIOD = 7, 12.0
# Directions from the sculpture, in degrees: to the columns, and to the machine part.
BACK, FRONT = 148.0, -48.0
# The circle of a lasso: its centre and radius, as shares of the picture.
LASSO = (0.5, 0.5, 0.09)


def demo_scene() -> tuple[Scene, NDArray[np.int64]]:
    """Return the scene of the demo, and the ids of its moons, which are placed for 0 seconds.

    A sculpture, columns behind it and a machine part stand on the plane z = 0; moons orbit above.
    """
    scene = Scene()
    vertices, faces = bundled("meshes.sculpture").sculpture(frequency=40)
    scene.add((vertices, faces), _transform([0, 0, -vertices[:, 2].min()], 1.0), name="sculpture")
    # 8 columns on an arc around the sculpture.
    column = bundled("meshes.masonry").column(height=3.0, radius=0.3, steps=2, flutes=12)
    angles = np.radians(BACK + np.linspace(-105.0, 105.0, 8))
    places = np.stack([_transform([3.1 * np.cos(a), 3.1 * np.sin(a), 0], 1.0) for a in angles])
    scene.add_many(column, places, [f"column {k + 1}" for k in range(8)])
    moon = bundled("meshes.organic").organic(frequency=8)
    ids = scene.add_many(moon, moon_places(0.0), [f"moon {k + 1}" for k in range(MOONS)])
    vertices, faces = bundled("meshes.cad_part").cad_part()
    vertices = vertices - 0.5 * (vertices.min(axis=0) + vertices.max(axis=0))
    size, angle = 1.3 / np.ptp(vertices, axis=0).max(), np.radians(FRONT)
    place = [2.5 * np.cos(angle), 2.5 * np.sin(angle), -size * vertices[:, 2].min()]
    scene.add((vertices, faces), _transform(place, size), name="machine part")
    return scene, ids


def moon_places(seconds: float) -> NDArray[np.float64]:
    """Return the transforms (MOONS, 4, 4) of moons of three sizes after `seconds` in orbit."""
    moon = np.arange(MOONS)
    angle = 2.0 * np.pi * (seconds / PERIOD + moon / MOONS)
    height = 1.5 + 0.45 * np.sin(2.0 * angle + moon)
    places = np.stack([1.9 * np.cos(angle), 1.9 * np.sin(angle), height], axis=1)
    return np.stack([_transform(place, 0.12 + 0.03 * (k % 3)) for k, place in enumerate(places)])


class Motion:
    """Buttons on the pages of the demo, and the thread that moves its moons.

    The moons move while the check box is ticked. A page begins with a picture of clay.
    """

    def __init__(self, viewer: Viewer, ids: NDArray[np.int64]) -> None:
        """Add buttons to the viewer's pages, and start the thread for the instances `ids`."""
        self._viewer, self._ids = viewer, ids
        gui: Any = viewer._server.gui
        with gui.add_folder("Try"):
            for text, trial in TRIALS.items():
                button = gui.add_button(text, color="gray")
                button.on_click(lambda event, trial=trial: self._try(event.client_id, trial))
            self._moves = gui.add_checkbox("Moons move", False)
        self._moves.on_update(lambda _: self._show_meshes())
        viewer._on_each_page(self._prepare)
        threading.Thread(target=self._run, name="demo", daemon=True).start()

    def _prepare(self, session: Session) -> None:
        """Show a picture of clay, and below the meshes the shadow of all that does not move."""
        session.views.tick_shadow(without=self._ids.tolist())
        session.shade("clay")

    def _try(self, client_id: int, trial: Any) -> None:
        """Call `trial`, a function in TRIALS, with the page of a client, if it is still open.

        Marks and the cut of the trial before are removed first.
        """
        session = self._viewer._sessions.get(client_id)
        if session is not None:
            session.reset()
            trial(session)

    def _show_meshes(self) -> None:
        """Show no pictures while the moons move: each step would need a new one."""
        if self._moves.value:
            for session in list(self._viewer._sessions.values()):
                session.shade(MESH)

    def _run(self) -> None:
        seconds, before = 0.0, time.perf_counter()
        while not self._viewer.closed:
            time.sleep(1.0 / 30.0)
            now = time.perf_counter()
            if self._moves.value:
                seconds += now - before
                self._viewer.scene.set_transforms(self._ids, moon_places(seconds))
            before = now


def _lasso(session: Session) -> None:
    """Select the faces of the mesh in a circle in the middle of the picture."""
    x, y, radius = LASSO
    a = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    session.shade(MESH)
    # x and y are shares of the width and the height; pictures are some 1.4 times as wide as high.
    points = np.stack([x + radius * np.cos(a), y + 1.4 * radius * np.sin(a)], axis=1)
    session.selecting.select(points)


# Buttons: the text of each, and the function that a click calls with the session of a page.
TRIALS: dict[str, Any] = {
    "Pick in the middle": lambda session: session.pick_at(0.5, 0.5),
    "Lasso some faces": _lasso,
    "Measure part to column": lambda session: session.measuring.between("machine part", "column 1"),
    "Cut the sculpture open": lambda session: session.cut("y", 50.0),
    "What does a ray cost?": lambda session: session.shade("cost"),
    "Back to clay": lambda session: session.shade("clay"),
}


def _transform(place: Any, size: float) -> NDArray[np.float64]:
    """Return the matrix (4, 4) that scales by `size` and then moves the origin to `place`."""
    matrix = np.diag([size, size, size, 1.0])
    matrix[:3, 3] = place
    return matrix
