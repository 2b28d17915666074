"""Panels of the ray lab's page: presets, what to drag, exact numbers, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from html import escape
from typing import Any

from bvh.apps.lab.answers import chart, exact_answer, naive_answers
from bvh.apps.lab.fields import BOX_FIELDS, edited, texts_of
from bvh.apps.lab.presets import PRESETS, SECOND
from bvh.apps.lab.state import LabState

EDITED = "My own"
SPACE, PLANE = "3-D", "2-D, from above"
# The names of the handles of each choice, and the index of their box.
DRAGS: dict[str, tuple[tuple[str, ...], int]] = {
    "ray": (("origin", "tip"), 0),
    "box": (("middle",), 0),
    "size of box": (("size",), 0),
    "second box": (("middle",), 1),
    "size of second box": (("size",), 1),
    "nothing": ((), 0),
}
VECTOR_HINT = "Three numbers, to the last digit: 0.1, -0.0, 1e-300, 0x1.8p-3, inf"
TURN_HINT = "Degrees about x, y, z"
TEXT = '<div style="padding:2px 12px 4px 12px;font-size:12px;line-height:1.4">{}</div>'
ERROR = '<div data-lab="error" style="padding:4px 12px;font-size:12px;color:#c53030">{}</div>'


class Panel:
    """Controls and answers of the page.

    Parameters
    ----------
    server : viser.ViserServer
    state : LabState
    lock : threading.RLock
        Held while an event is handled; events come from many threads.
    changed : callable
        Called as changed(state) with the state that the user chose or typed.
    redraw : callable
        Called without arguments where only the drawing has to change.
    """

    def __init__(
        self,
        server: Any,
        state: LabState,
        lock: AbstractContextManager[Any],
        changed: Callable[[LabState], None],
        redraw: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._gui = server.gui
        self._state = state
        self._changed, self._redraw = changed, redraw
        # True while controls are set from here, which is no change by the user.
        self._silent = False
        self._fields: dict[str, Any] = {}
        self._make_controls()
        self._make_answers()
        self.update(state, PRESETS[0].name)

    @property
    def drag(self) -> tuple[tuple[str, ...], int]:
        """Names of the handles to show, and the index of their box."""
        names, index = DRAGS[self._drag.value]
        return (names, index) if index < len(self._state.boxes) else ((), 0)

    @property
    def planes(self) -> bool:
        """Whether to draw the planes."""
        return bool(self._planes.value)

    def update(self, state: LabState, preset: str = EDITED) -> None:
        """Show a state and its answers."""
        self._state = state
        with self._silently():
            self._preset.value = preset
            text = next((p.text for p in PRESETS if p.name == preset), "Your own ray and box.")
            self._text.content = TEXT.format(escape(text))
            self._view.value = PLANE if state.flat else SPACE
            self._second.value = self._second_box.visible = len(state.boxes) > 1
            for name, text in texts_of(state).items():
                self._fields[name].value = text
            self._error.visible = False
        self._exact.content = exact_answer(state)
        self._chart.content = chart(state)
        self._naive.content = naive_answers(state)

    def _make_controls(self) -> None:
        gui = self._gui
        gui.set_panel_label("Ray lab")
        names = [preset.name for preset in PRESETS]
        self._preset = gui.add_dropdown("Case", [*names, EDITED], initial_value=names[0])
        self._text = gui.add_html("")
        self._view = gui.add_dropdown("View", [SPACE, PLANE])
        self._drag = gui.add_dropdown("Drag", list(DRAGS))
        self._planes = gui.add_checkbox("Planes", True, hint="The six planes of the box.")
        with gui.add_folder("Ray"):
            self._add_field("origin", VECTOR_HINT)
            self._add_field("direction", VECTOR_HINT)
            self._add_field("t range", "The first and the last t: 0, inf")
        with gui.add_folder("Box"):
            for name in BOX_FIELDS:
                self._add_field(name, TURN_HINT if name == "turn" else VECTOR_HINT)
        self._second = gui.add_checkbox("Second box", False)
        with gui.add_folder("Second box", visible=False) as self._second_box:
            for name in BOX_FIELDS:
                self._add_field(f"{name} 2", TURN_HINT if name == "turn" else VECTOR_HINT)
        self._error = gui.add_html("", visible=False)
        gui.main_panel.dock_left()
        gui.main_panel.set_width(270)
        self._on_update(self._preset, self._choose_preset)
        self._on_update(self._view, self._choose_view)
        self._on_update(self._second, self._choose_second)
        self._on_update(self._drag, self._redraw)
        self._on_update(self._planes, self._redraw)

    def _make_answers(self) -> None:
        panel = self._gui.add_panel()
        with panel.add_tab("Answers"):
            self._exact, self._chart, self._naive = (self._gui.add_html("") for _ in range(3))
        panel.dock_right()
        panel.set_width(400)

    def _add_field(self, name: str, hint: str) -> None:
        field = self._gui.add_text(name.removesuffix(" 2"), "", hint=hint)
        self._on_update(field, lambda: self._edit(name))
        self._fields[name] = field

    def _on_update(self, control: Any, act: Callable[[], None]) -> None:
        """Call a function when the user changes a control, not when `update` does."""

        def update(event: Any) -> None:
            with self._lock:
                if not self._silent:
                    act()

        control.on_update(update)

    @contextmanager
    def _silently(self) -> Iterator[None]:
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def _choose_preset(self) -> None:
        chosen = next((p.state for p in PRESETS if p.name == self._preset.value), None)
        if chosen is not None:
            state = replace(chosen, flat=self._state.flat)
            self.update(state, self._preset.value)
            self._changed(state)
        else:
            self.update(self._state)

    def _choose_view(self) -> None:
        state = replace(self._state, flat=self._view.value == PLANE)
        self.update(state, self._preset.value)
        self._changed(state)

    def _choose_second(self) -> None:
        boxes = self._state.boxes[:1]
        state = replace(self._state, boxes=(*boxes, SECOND) if self._second.value else boxes)
        self.update(state)
        self._changed(state)

    def _edit(self, name: str) -> None:
        """Apply the text of a field, or show what is wrong with it and keep the state."""
        typed = self._fields[name].value
        try:
            state = edited(self._state, name, typed)
        except ValueError as error:
            self._error.content = ERROR.format(escape(str(error)))
            self._error.visible = True
            return
        self._error.visible = False
        # Text that means the same, such as "0.50", changes nothing; else it stays as typed.
        if texts_of(state) != texts_of(self._state):
            self.update(state)
            with self._silently():
                self._fields[name].value = typed
            self._changed(state)
