"""Page of the ray lab, its panels with numbers and answers, and `ray_lab`, which serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bvh.apps.lab.answers import STYLE, chart, exact_answer, naive_answers
from bvh.apps.lab.drawing import FROM_ABOVE, FROM_AN_ANGLE, Handles, LabDrawing
from bvh.apps.lab.frame import Pose, fitted, moved
from bvh.apps.lab.state import BOX_FIELDS, PRESETS, SECOND, LabState, edited, texts_of
from bvh.apps.page_server import CAMERA_KEYS, HOST, Page, accessible, help_html, tab_title

if TYPE_CHECKING:
    from viser import CameraHandle, ClientHandle

# Aspect ratio of pictures below which cameras move back, so that nothing is cut off.
WIDE = 0.8
PORT = 8090

EDITED = "Custom"
SPACE, PLANE = "3D", "2D, from above"
TITLE = "bvh lab"
HELP = (("Drag an arrow", "move the ray or the box"), *CAMERA_KEYS)
# For each choice of what is dragged: the names of its handles, and the index of their box.
DRAGS: dict[str, tuple[tuple[str, ...], int]] = {
    "ray": (("origin", "tip"), 0), "box": (("middle",), 0), "box size": (("size",), 0),
    "second box": (("middle",), 1), "second box size": (("size",), 1), "nothing": ((), 0),
}  # fmt: skip
LABELS = {
    "origin": "Origin", "direction": "Direction", "t range": "t_min, t_max",
    "lower": "Lower corner", "upper": "Upper corner", "turn": "Rotation",
}  # fmt: skip
VECTOR_HINT = "x, y, z, to the last digit: 0.1, -0.0, 1e-300, 0x1.8p-3 or inf"
HINTS = {
    "t range": "The smallest and the largest t: 0, inf",
    "turn": "Degrees about x, then y, then z",
}


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
        super().__init__(host, port, TITLE, origins, url)
        server = self._server
        self._lock = threading.RLock()
        self._wake = threading.Event()
        # The latest poses of dragged handles that have not been applied, by name.
        self._moves: dict[str, Pose] = {}
        self._state = PRESETS[0].state
        self._frame = fitted(self._state)
        self._dress("+z", 1.6)
        self._drawing = LabDrawing(server)
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
        """Show a state that was chosen or typed, in the field `typed`, and bring it into view."""
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


class Panel:
    """Controls and answers of the page."""

    def __init__(self, lab: RayLab) -> None:
        # The lock of the lab is held while an event is handled: events come in many threads.
        self._lab = lab
        self._gui: Any = lab._server.gui
        # True while `update` sets controls: their events are no changes by the user.
        self._silent = False
        self._fields: dict[str, Any] = {}
        self._make_controls()
        self.update(PRESETS[0].name)

    @property
    def drag(self) -> tuple[tuple[str, ...], int]:
        """Names of the handles to show, and the index of their box."""
        names, index = DRAGS[self._drag.value]
        return (names, index) if index < len(self._lab.state.boxes) else ((), 0)

    @property
    def planes(self) -> bool:
        """Whether to draw the planes."""
        return bool(self._planes.value)

    def update(self, preset: str = EDITED, typed: str = "") -> None:
        """Show the state and its answers; a field that is being typed keeps its text."""
        state = self._lab.state
        self._silent = True
        try:
            self._preset.value = preset
            own = "A ray and a box of your own."
            text = escape(next((p.text for p in PRESETS if p.name == preset), own))
            self._text.content = f'{STYLE}<div class="lab"><span class="grey">{text}</span></div>'
            self._view.value = PLANE if state.flat else SPACE
            self._second.value = self._second_box.visible = len(state.boxes) > 1
            # Only boxes that exist can be dragged.
            there = tuple(name for name, (_, k) in DRAGS.items() if k < len(state.boxes))
            if tuple(self._drag.options) != there:
                chosen = self._drag.value if self._drag.value in there else there[0]
                self._drag.options = there
                self._drag.value = chosen
            for name, text in texts_of(state).items():
                if name != typed:
                    self._fields[name].value = text
        finally:
            self._silent = False
        self._error.visible = False
        self._exact.content = exact_answer(state)
        self._chart.content = chart(state)
        self._naive.content = naive_answers(state)

    def _make_controls(self) -> None:
        gui = self._gui
        gui.set_panel_label(TITLE)
        names = [preset.name for preset in PRESETS]
        intro = "Choose a case, drag the arrows in the scene, or type numbers."
        gui.add_html(f'{STYLE}<div class="lab">{intro}</div>{tab_title(TITLE)}{accessible()}')
        self._preset = gui.add_dropdown("Case", [*names, EDITED], initial_value=names[0])
        self._text = gui.add_html("")
        self._view = gui.add_dropdown("View", [SPACE, PLANE])
        hint = "What the arrows in the scene move."
        self._drag = gui.add_dropdown("Drag", list(DRAGS), hint=hint)
        self._planes = gui.add_checkbox("Planes", True, hint="Show the six planes of the box.")
        with gui.add_folder("Ray"):
            self._add_fields("origin", "direction", "t range")
        with gui.add_folder("Box"):
            self._add_fields(*BOX_FIELDS)
        self._second = gui.add_checkbox("Second box", False)
        with gui.add_folder("Second box", visible=False) as self._second_box:
            self._add_fields(*(f"{name} 2" for name in BOX_FIELDS))
        self._error = gui.add_html("", visible=False)
        with gui.add_folder("Mouse and keys", expand_by_default=False):
            gui.add_html(help_html(HELP))
        gui.main_panel.dock_left()
        gui.main_panel.set_width(270)
        self._on_update(self._preset, self._choose_preset)
        self._on_update(self._view, self._choose_view)
        self._on_update(self._second, self._choose_second)
        self._on_update(self._drag, self._lab._draw)
        self._on_update(self._planes, self._lab._draw)
        panel = gui.add_panel()
        with panel.add_tab("Answers"):
            self._exact, self._chart, self._naive = (gui.add_html("") for _ in range(3))
        panel.dock_right()
        panel.set_width(350)

    def _add_fields(self, *names: str) -> None:
        for name in names:
            part = name.removesuffix(" 2")
            field = self._gui.add_text(LABELS[part], "", hint=HINTS.get(part, VECTOR_HINT))
            self._on_update(field, partial(self._edit, name))
            self._fields[name] = field

    def _on_update(self, control: Any, act: Callable[[], None]) -> None:
        """Call a function when the user changes a control, not when `update` does."""

        def update(event: object) -> None:
            with self._lab._lock:
                if not self._silent:
                    act()

        control.on_update(update)

    def _choose_preset(self) -> None:
        chosen = next((p.state for p in PRESETS if p.name == self._preset.value), None)
        if chosen is not None:
            self._lab._show(replace(chosen, flat=self._lab.state.flat), self._preset.value)
        else:
            self.update()

    def _choose_view(self) -> None:
        state = replace(self._lab.state, flat=self._view.value == PLANE)
        self._lab._show(state, self._preset.value)

    def _choose_second(self) -> None:
        boxes = self._lab.state.boxes[:1] + (SECOND,) * self._second.value
        self._lab._show(replace(self._lab.state, boxes=boxes))

    def _edit(self, name: str) -> None:
        """Apply the text of a field, or show what is wrong with it and keep the state."""
        state = self._lab.state
        try:
            new = edited(state, name, self._fields[name].value)
        except ValueError as error:
            text = f'<div data-lab="error" class="wrong">{escape(str(error))}</div>'
            self._error.content = f'<div class="lab">{text}</div>'
            self._error.visible = True
            return
        self._error.visible = False
        # Text that means the same, such as "0.50", changes nothing; else it stays as typed.
        if texts_of(new) != texts_of(state):
            self._lab._show(new, typed=name)


def _distance_factor(camera: CameraHandle) -> float:
    """Return the factor by which a camera is farther away because its picture is narrow."""
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
