"""Page of the ray lab, its panels with numbers and answers, and `ray_lab`, which serves it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from bvh.apps import page_server
from bvh.apps.lab.answers import STYLE, chart, exact_answer, naive_answers, short_answer
from bvh.apps.lab.drawing import LabDrawing, dragged, drawn, framed
from bvh.apps.lab.state import PRESETS, LabState, edited, text_of
from bvh.apps.viewer.tracing import Latest

PORT = 8090
TITLE, EDITED = "bvh lab", "Custom"
# The camera at first: position and field of view in degrees. It looks at the origin.
EYE, FOV = (3.3, -7.5, 3.9), 38.0
BEGIN = files(__package__).joinpath("begin.js").read_text("utf-8")
HELP = (("Drag an arrow", "move the ray or a corner"), *page_server.CAMERA_KEYS)
# For each choice of what is dragged, the names of its points.
DRAGS = {
    "ray": ("origin", "tip"), "box": ("lower", "upper"), "second box": ("lower_2", "upper_2"),
    "nothing": (),
}  # fmt: skip
VECTOR_HINT = "x, y, z, to the last digit: 0.1, -0.0, 1e-300 or inf"
FIELDS = {
    "origin": ("Origin", VECTOR_HINT), "direction": ("Direction", VECTOR_HINT),
    "t_range": ("t_min, t_max", "The smallest and the largest t: 0, inf"),
    "lower": ("Lower corner", VECTOR_HINT), "upper": ("Upper corner", VECTOR_HINT),
    "lower_2": ("Second lower corner", VECTOR_HINT),
    "upper_2": ("Second upper corner", VECTOR_HINT),
}  # fmt: skip


class RayLab(page_server.Page):
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
        # The arguments are those of `ray_lab`.
        super().__init__(host, port, TITLE, origins, url)
        # Held while an event is handled: events come in many threads.
        self._lock = threading.RLock()
        # True while `_show` sets controls, whose events are not changes by the user then.
        self._silent = False
        self._state = PRESETS[0].state
        up, fov = (0.0, 0.0, 1.0), np.radians(FOV)
        page_server.set_up(self._server, up, light=1.6, eye=EYE, target=np.zeros(3), fov=fov)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._drawing = LabDrawing(self._server.scene)
        self._arrows = {name: self._arrow(name) for names in DRAGS.values() for name in names}
        # The point that was dragged last, and whether the mouse still holds it.
        self._moved, self._held = "", False
        self._follow = Latest(self._drag_point)
        self._make_controls()
        self._choose(PRESETS[0].name)

    @property
    def state(self) -> LabState:
        """The ray, the boxes and the range on the page."""
        return self._state

    def _show(self, state: LabState, preset: str = EDITED, typed: str = "") -> None:
        """Show a state and its answers, as the case `preset`.

        `typed` names the field that the user is typing in, which keeps its text; "" for none.
        """
        self._state, self._silent = state, True
        try:
            self._preset.value = preset
            other = "A ray and a box of your own."
            text = escape(next((case.text for case in PRESETS if case.name == preset), other))
            self._text.content = (
                f'{STYLE}<div class="lab">{short_answer(state)}'
                f'<span class="grey">{text}</span></div>'
            )
            self._second.value = state.second
            # Only boxes that exist can be dragged.
            choices = [name for name in DRAGS if state.second or name != "second box"]
            if list(self._drag.options) != choices:
                chosen = self._drag.value if self._drag.value in choices else choices[0]
                self._drag.options = choices
                self._drag.value = chosen
            for name, field in self._fields.items():
                field.visible = state.second or not name.endswith("_2")
                if name != typed:
                    field.value = text_of(getattr(state, name))
        finally:
            self._silent = False
        self._error.visible = False
        self._exact.content = exact_answer(state)
        self._chart.content = chart(state)
        self._naive.content = naive_answers(state)
        self._draw()

    def _draw(self) -> None:
        with self._server.atomic():
            self._drawing.update(self._state, self._frame, self._planes.value)
            for name, arrow in self._arrows.items():
                arrow.visible = name in DRAGS[self._drag.value]
                # The arrow that the mouse holds stays with the mouse.
                if not (self._held and name == self._moved):
                    arrow.position = drawn(self._frame, getattr(self._state, name))

    def _arrow(self, name: str) -> Any:
        """Add and return the arrows, a gizmo of viser, that drag the point with a name in DRAGS."""
        gizmo: Any = self._server.scene.add_transform_controls(
            f"/arrows/{name}", scale=0.55, disable_rotations=True, disable_sliders=True,
            depth_test=False, visible=False,
        )  # fmt: skip

        # A coroutine, because a pool of threads would not keep the order of the messages.
        @gizmo.on_update
        async def _(event: Any) -> None:
            self._moved, self._held = name, event.phase != "end"

        gizmo.on_update(lambda _: self._follow())
        return gizmo

    def _drag_point(self) -> None:
        """Apply the latest position of the point that is dragged."""
        with self._lock:
            name = self._moved
            state = dragged(self._state, self._frame, name, self._arrows[name].position.copy())
            if state != self._state:
                self._show(state)
            else:
                # When released, an arrow snaps to its rounded coordinates.
                self._draw()

    def _make_controls(self) -> None:
        gui: Any = self._server.gui
        gui.set_panel_label(TITLE)
        cases = [*(preset.name for preset in PRESETS), EDITED]
        intro = "Choose a case, drag the arrows in the scene, or type numbers."
        hidden = f"{page_server.head_html(TITLE)}{page_server.script_html(BEGIN)}"
        gui.add_html(f'{STYLE}<div class="lab">{intro}</div>{hidden}')
        self._preset = gui.add_dropdown("Case", cases)
        self._text = gui.add_html("")
        hint = "Object that the arrows in the scene move."
        self._drag = gui.add_dropdown("Drag", list(DRAGS), hint=hint)
        self._planes = gui.add_checkbox("Planes", True, hint="Show the six planes of the box.")
        self._second = gui.add_checkbox("Second box", False)
        self._fields = {
            name: gui.add_text(label, "", hint=hint) for name, (label, hint) in FIELDS.items()
        }
        self._error = gui.add_html("", visible=False)
        with gui.add_folder("Mouse and keys", expand_by_default=False):
            gui.add_html(page_server.help_html(HELP))
        gui.main_panel.dock_left()
        gui.main_panel.set_width(270)
        panel = gui.add_panel()
        with panel.add_tab("Answers"):
            self._exact, self._chart, self._naive = (gui.add_html("") for _ in range(3))
        panel.dock_right()
        panel.set_width(350)
        self._on_update(self._preset, lambda: self._choose(self._preset.value))
        self._on_update(self._second, self._set_second)
        self._on_update(self._drag, self._draw)
        self._on_update(self._planes, self._draw)
        for name, field in self._fields.items():
            self._on_update(field, partial(self._edit, name))

    def _on_update(self, control: Any, act: Callable[[], None]) -> None:
        """Call `act` when the user changes a control, not when `_show` does."""

        def update(_: object) -> None:
            with self._lock:
                if not self._silent:
                    act()

        control.on_update(update)

    def _choose(self, name: str) -> None:
        """Show the preset with a name, fitted into the page; EDITED keeps the current state."""
        state = next((preset.state for preset in PRESETS if preset.name == name), self._state)
        self._frame = framed(state)
        self._show(state, name)

    def _set_second(self) -> None:
        state = replace(self._state, second=self._second.value)
        self._frame = framed(state)
        self._show(state)

    def _edit(self, name: str) -> None:
        """Apply the text of the field `name`, or show its error and leave the state as it is."""
        try:
            state = edited(self._state, name, self._fields[name].value)
        except ValueError as error:
            text = f'<div id="bvh-error" class="wrong">{escape(str(error))}</div>'
            self._error.content, self._error.visible = f'<div class="lab">{text}</div>', True
            return
        self._error.visible = False
        # Text of the same numbers, such as "0.50", changes nothing; else it stays as typed.
        if text_of(getattr(state, name)) != text_of(getattr(self._state, name)):
            self._frame = framed(state)
            self._show(state, typed=name)


def ray_lab(
    *, host: str = page_server.HOST, port: int = PORT, origins: Sequence[str] | None = None,
    url: str | None = None,
) -> RayLab:  # fmt: skip
    """Serve a page on which a ray and a box can be dragged.

    The page shows the six plane crossings, the interval of t in each slab, and the exact answer
    next to those of common box tests, with what goes wrong in them. A list of cases shows each
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
