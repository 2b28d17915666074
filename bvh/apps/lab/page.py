"""Page of the ray lab, and `ray_lab`, which serves it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bvh.apps.lab.drawing import FROM_ABOVE, FROM_AN_ANGLE, Handles, LabNodes
from bvh.apps.lab.frame import Pose, fitted, moved
from bvh.apps.lab.panel import EDITED, Panel
from bvh.apps.lab.presets import PRESETS
from bvh.apps.lab.state import LabState
from bvh.apps.page_server import HOST, Page

if TYPE_CHECKING:
    from viser import CameraHandle, ClientHandle

# The aspect ratio from which on nothing is cut off.
WIDE = 0.8
PORT = 8090


class RayLab(Page):
    """A ray lab that is being served, as returned by `ray_lab`.

    Attributes
    ----------
    url : str
        Address of the page.
    port : int
        The port in use.

    Examples
    --------
    >>> import bvh
    >>> lab = bvh.ray_lab()  # doctest: +SKIP
    >>> lab.url  # doctest: +SKIP
    """

    _height = 760

    def __init__(
        self, host: str, port: int, origins: Sequence[str] | None = None, url: str | None = None
    ) -> None:
        super().__init__(host, port, "bvh lab", origins, url)
        server = self._server
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._moves: dict[str, Pose] = {}
        self._state = PRESETS[0].state
        self._frame = fitted(self._state)
        self._dress("+z", 1.6)
        self._drawing = LabNodes(server)
        self._handles = Handles(server, self._dragged)
        self._panel = Panel(self)
        self._follower = threading.Thread(target=self._follow, name="ray lab", daemon=True)
        self._follower.start()
        self._set_camera()
        server.on_client_connect(self._connected)
        self._draw()

    @property
    def state(self) -> LabState:
        """The ray, the boxes and the range on the page."""
        return self._state

    def _leave(self) -> None:
        self._wake.set()
        self._follower.join()

    def _show(self, state: LabState, preset: str = EDITED, typed: str = "") -> None:
        """Show a state that was chosen or typed, and bring it into view."""
        with self._lock:
            turned = state.flat != self._state.flat
            self._state = state
            self._frame = fitted(state)
            self._panel.update(preset, typed)
            self._draw()
        if turned:
            self._set_camera()
            for client in self._server.get_clients().values():
                self._set_camera(client)

    def _dragged(self, name: str, pose: Pose) -> None:
        """Store a handle's pose; called on the server's own thread, which must not block."""
        self._moves[name] = pose
        self._wake.set()

    def _follow(self) -> None:
        """Apply the latest poses of dragged handles, until the page is closed."""
        while not self.closed:
            self._wake.wait()
            self._wake.clear()
            while self._moves:
                name, pose = self._moves.popitem()
                with self._lock:
                    _, index = self._panel.drag
                    state = moved(self._state, self._frame, name, index, pose)
                    if state != self._state:
                        self._state = state
                        self._panel.update()
                    # When released, a handle snaps to its rounded coordinates.
                    self._draw()

    def _draw(self) -> None:
        with self._lock, self._server.atomic():
            self._drawing.update(self._state, self._frame, self._panel.planes)
            self._handles.update(self._state, self._frame, *self._panel.drag)

    def _set_camera(self, client: ClientHandle | None = None) -> None:
        """Set the camera of a client, or the initial one, so that everything is in view."""
        position, up, degrees = FROM_ABOVE if self._state.flat else FROM_AN_ANGLE
        if client is None:
            first = self._server.initial_camera
            first.position, first.look_at, first.up = position, (0.0, 0.0, 0.0), up
            first.fov = np.radians(degrees)
            return
        camera = client.camera
        with client.atomic():
            camera.up_direction, camera.fov = up, np.radians(degrees)
            camera.position = np.array(position) * _distance_factor(camera)
            camera.look_at = (0.0, 0.0, 0.0)

    def _connected(self, client: ClientHandle) -> None:
        """Set a new client's camera, and keep everything in view when its window is resized."""
        self._set_camera(client)
        factor = [_distance_factor(client.camera)]

        def resized(camera: CameraHandle) -> None:
            before, factor[0] = factor[0], _distance_factor(camera)
            if abs(factor[0] / before - 1.0) > 0.01:
                offset = camera.position - camera.look_at
                camera.position = camera.look_at + offset * (factor[0] / before)

        client.camera.on_update(resized)


def _distance_factor(camera: CameraHandle) -> float:
    """Return by how much a camera moves back because its picture is narrow."""
    return max(1.0, WIDE / max(float(camera.aspect), 0.1))


def ray_lab(
    *, host: str = HOST, port: int = PORT, origins: Sequence[str] | None = None,
    url: str | None = None,
) -> RayLab:  # fmt: skip
    """Serve a page on which a ray and a box can be dragged.

    The page shows the six plane crossings, the interval of t in each slab, and the exact answer
    beside those of common box tests, with what goes wrong in them. A list of cases shows each
    flaw; all numbers can be typed, to the last digit. Over ssh, forward its port:
    ``ssh -L 8090:localhost:8090 machine``.

    Parameters
    ----------
    host, port, origins, url
        As in `view`.

    Returns
    -------
    RayLab
        With `.url` and `.close()`. A notebook shows the page itself. Errors are as in `view`.

    Examples
    --------
    >>> import bvh
    >>> lab = bvh.ray_lab()                                   # doctest: +SKIP
    >>> lab.url                                               # doctest: +SKIP
    'http://127.0.0.1:8090'
    >>> lab.close()                                           # doctest: +SKIP
    """
    return RayLab(host, port, origins, url)
