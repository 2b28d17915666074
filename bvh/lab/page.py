"""The ray lab: a page in the browser where a ray meets a box, and `ray_lab` that opens it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bvh.lab.drawing import Drawing
from bvh.lab.frame import fitted
from bvh.lab.handles import Handles
from bvh.lab.moves import Pose, moved
from bvh.lab.panel import Panel
from bvh.lab.presets import PRESETS
from bvh.lab.state import LabState
from bvh.pages import HOST, Page

# The camera: (position, up, field of view in degrees), from an angle and from above.
FROM_AN_ANGLE = ((3.6, -8.2, 4.2), (0.0, 0.0, 1.0), 38.0)
FROM_ABOVE = ((0.0, 0.0, 40.0), (0.0, 1.0, 0.0), 9.0)
# The scene's width over its height from which on nothing is cut off.
WIDE = 0.8
PORT = 8090


class RayLab(Page):
    """A ray lab that is being served; `ray_lab` makes one.

    Attributes
    ----------
    url : str
        Where the page is. It is on this machine; over ssh, forward its port:
        ``ssh -L 8090:localhost:8090 there``.
    """

    _height = 760

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port, "Ray lab")
        server = self._server
        self._lock = threading.RLock()
        self._woken = threading.Event()
        self._moves: dict[str, Pose] = {}
        self._state = PRESETS[0].state
        self._frame = fitted(self._state)
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.scene.set_up_direction("+z")
        # Shadows and reflections would tell nothing here, and cost most of a frame.
        server.scene.configure_default_lights(cast_shadow=False)
        server.scene.configure_environment_map(None)
        server.scene.add_light_ambient("/light", intensity=1.6)
        self._drawing = Drawing(server)
        self._handles = Handles(server, self._dragged)
        self._panel = Panel(server, self._state, self._lock, self._changed, self._draw)
        self._follower = threading.Thread(target=self._follow, name="ray lab", daemon=True)
        self._follower.start()
        self._look()
        server.on_client_connect(self._greet)
        self._draw()

    @property
    def state(self) -> LabState:
        """What the page shows: the ray, the boxes, the range."""
        return self._state

    def _leave(self) -> None:
        self._woken.set()
        self._follower.join()

    def _changed(self, state: LabState, fit: bool) -> None:
        """Show what the panel has made of the state."""
        with self._lock:
            turned = state.flat != self._state.flat
            self._state = state
            if fit:
                self._frame = fitted(state)
            self._draw()
        if turned:
            self._look()
            for client in self._server.get_clients().values():
                self._look(client)

    def _dragged(self, name: str, place: Pose) -> None:
        """Note where a handle is now; called on the server's own thread, which must not wait."""
        self._moves[name] = place
        self._woken.set()

    def _follow(self) -> None:
        """Follow the handles to their latest places, as fast as can be."""
        while not self.closed:
            self._woken.wait()
            self._woken.clear()
            while self._moves:
                name, place = self._moves.popitem()
                with self._lock:
                    _, index = self._panel.drag
                    state = moved(self._state, self._frame, name, index, place)
                    if state != self._state:
                        self._state = state
                        self._panel.update(state)
                    # Let go, a handle snaps to where its round numbers are.
                    self._draw()

    def _draw(self) -> None:
        with self._lock, self._server.atomic():
            state = self._state
            self._drawing.update(state, self._frame, self._panel.planes)
            self._handles.update(state, self._frame, *self._panel.drag)

    def _look(self, client: Any = None) -> None:
        """Put a client's camera where all is seen; without one, that of those to come."""
        position, up, degrees = FROM_ABOVE if self._state.flat else FROM_AN_ANGLE
        if client is None:
            camera = self._server.initial_camera
            camera.position, camera.look_at, camera.up = position, (0.0, 0.0, 0.0), up
            camera.fov = np.radians(degrees)
            return
        camera = client.camera
        with client.atomic():
            camera.up_direction = up
            camera.position = np.array(position) * _farther(camera)
            camera.look_at = (0.0, 0.0, 0.0)
            camera.fov = np.radians(degrees)

    def _greet(self, client: Any) -> None:
        """Show all to a new client, also where panels or the window become narrower."""
        self._look(client)
        seen_from = [_farther(client.camera)]

        def resized(camera: Any) -> None:
            before, seen_from[0] = seen_from[0], _farther(camera)
            if abs(seen_from[0] / before - 1.0) > 0.01:
                offset = camera.position - camera.look_at
                camera.position = camera.look_at + offset * (seen_from[0] / before)

        client.camera.on_update(resized)


def _farther(camera: Any) -> float:
    """Return how much farther away a camera must be whose picture is narrow."""
    return max(1.0, WIDE / max(float(camera.aspect), 0.1))


def ray_lab(*, host: str = HOST, port: int = PORT) -> RayLab:
    """Open a page where a ray and a box can be dragged, and see where and when they meet.

    The page shows the six plane crossings, the t between the planes of each axis, and the exact
    answer beside those of the box tests that articles teach, with what goes wrong in them. Cases
    that show each flaw are in a list; all numbers can be typed, to the last digit.

    Parameters
    ----------
    host : str
        The address to listen on. By default only this machine can open the page, and no page of
        another site can talk to it.
    port : int
        The port to listen on; the next free one where it is taken.

    Returns
    -------
    RayLab
        With `.url` and `.close()`. A notebook shows the page itself.

    Raises
    ------
    ImportError
        If viser is not installed: ``pip install "raybvh[view]"``.
    ValueError, TypeError
        If the host or the port is none.
    OSError
        If the host is no address of this machine, or no port from `port` on is free.

    Examples
    --------
    >>> import bvh
    >>> lab = bvh.ray_lab()                                   # doctest: +SKIP
    >>> lab.url                                               # doctest: +SKIP
    'http://127.0.0.1:8090'
    >>> lab.close()                                           # doctest: +SKIP
    """
    return RayLab(host, port)
