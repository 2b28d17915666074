"""The ray lab's panels: the case, what to drag, exact numbers, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from html import escape
from typing import Any

from bvh.lab.answers import exact_answer, intervals, naive_answers
from bvh.lab.numbers import numbers_of, text_of
from bvh.lab.presets import PRESETS, SECOND
from bvh.lab.state import LabBox, LabState

EDITED = "My own"
SPACE, PLANE = "3-D", "2-D, from above"
NOTHING = "nothing"
# What can be dragged: the handles of it, and of which box.
DRAGS: dict[str, tuple[tuple[str, ...], int]] = {
    "ray": (("origin", "tip"), 0),
    "box": (("middle",), 0),
    "size of box": (("size",), 0),
    "second box": (("middle",), 1),
    "size of second box": (("size",), 1),
    NOTHING: ((), 0),
}
VECTOR_HINT = "Three numbers, to the last digit: 0.1, -0.0, 1e-300, 0x1.8p-3, inf"
WORDS = '<div style="padding:2px 12px 4px 12px;font-size:12px;line-height:1.4">{}</div>'
ERROR = '<div data-lab="error" style="padding:4px 12px;font-size:12px;color:#c53030">{}</div>'

Changed = Callable[[LabState, bool], None]


class Panel:
    """The controls and the answers; tells what the user has changed.

    Parameters
    ----------
    server : viser.ViserServer
    state : LabState
    lock : threading.RLock
        Held while what the user has done is taken in; events come from many threads.
    changed : callable
        Called as changed(state, fit): the user's new state, and whether it is to be brought into
        view.
    redraw : callable
        Called without arguments where only the way of drawing has changed.
    """

    def __init__(
        self,
        server: Any,
        state: LabState,
        lock: AbstractContextManager[Any],
        changed: Changed,
        redraw: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._gui = server.gui
        self._state = state
        self._changed, self._redraw = changed, redraw
        # Setting a control from here is no change by the user.
        self._silent = False
        self._fields: dict[str, Any] = {}
        self._make_controls()
        self._make_answers()
        self.update(state, PRESETS[0].name)

    @property
    def drag(self) -> tuple[tuple[str, ...], int]:
        """Which handles to show, and of which box."""
        names, index = DRAGS[self._drag.value]
        return (names, index) if index < len(self._state.boxes) else ((), 0)

    @property
    def planes(self) -> bool:
        """Tell whether to draw the planes."""
        return bool(self._planes.value)

    def update(self, state: LabState, case: str = EDITED) -> None:
        """Show a state and the answers to it."""
        self._state = state
        with self._silently():
            self._case.value = case
            words = next((p.words for p in PRESETS if p.name == case), "Your own ray and box.")
            self._words.content = WORDS.format(escape(words))
            self._view.value = PLANE if state.flat else SPACE
            self._second.value = self._second_box.visible = len(state.boxes) > 1
            for name, text in _texts(state).items():
                self._fields[name].value = text
            self._error.visible = False
        self._exact.content = exact_answer(state)
        self._intervals.content = intervals(state)
        self._naive.content = naive_answers(state)

    def _make_controls(self) -> None:
        gui = self._gui
        gui.set_panel_label("Ray lab")
        names = [preset.name for preset in PRESETS]
        self._case = gui.add_dropdown("Case", [*names, EDITED], initial_value=names[0])
        self._words = gui.add_html("")
        self._view = gui.add_dropdown("View", [SPACE, PLANE])
        self._drag = gui.add_dropdown("Drag", list(DRAGS))
        self._planes = gui.add_checkbox("Planes", True, hint="The six planes of the box.")
        with gui.add_folder("Ray"):
            self._text("origin", VECTOR_HINT)
            self._text("direction", VECTOR_HINT)
            self._text("t range", "The first and the last t: 0, inf")
        with gui.add_folder("Box"):
            for name in ("lower", "upper", "turn"):
                self._text(name, "Degrees about x, y, z" if name == "turn" else VECTOR_HINT)
        self._second = gui.add_checkbox("Second box", False)
        with gui.add_folder("Second box", visible=False) as self._second_box:
            for name in ("lower", "upper", "turn"):
                self._text(f"{name} 2", "As of the first box")
        self._error = gui.add_html("", visible=False)
        gui.main_panel.dock_left()
        gui.main_panel.set_width(270)
        self._on_update(self._case, self._choose)
        self._on_update(self._view, self._turn)
        self._on_update(self._second, self._pair)
        self._on_update(self._drag, self._redraw)
        self._on_update(self._planes, self._redraw)

    def _on_update(self, control: Any, act: Callable[[], None]) -> None:
        """Act on what the user does to a control, but not on what is set from here."""

        def update(event: Any) -> None:
            with self._lock:
                if not self._silent:
                    act()

        control.on_update(update)

    def _make_answers(self) -> None:
        panel = self._gui.add_panel()
        with panel.add_tab("Answers"):
            self._exact = self._gui.add_html("")
            self._intervals = self._gui.add_html("")
            self._naive = self._gui.add_html("")
        panel.dock_right()
        panel.set_width(400)

    def _text(self, name: str, hint: str) -> None:
        """Add a field of numbers."""
        field = self._gui.add_text(name.removesuffix(" 2"), "", hint=hint)
        self._on_update(field, lambda: self._edit(name))
        self._fields[name] = field

    @contextmanager
    def _silently(self) -> Iterator[None]:
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def _choose(self) -> None:
        """Take the state of a preset, in the view that there is."""
        chosen = next((p.state for p in PRESETS if p.name == self._case.value), None)
        if chosen is not None:
            state = replace(chosen, flat=self._state.flat)
            self.update(state, self._case.value)
            self._changed(state, True)
        else:
            self.update(self._state)

    def _turn(self) -> None:
        state = replace(self._state, flat=self._view.value == PLANE)
        self.update(state, self._case.value)
        self._changed(state, True)

    def _pair(self) -> None:
        """Add a second box, or take it away."""
        boxes = self._state.boxes[:1]
        state = replace(self._state, boxes=(*boxes, SECOND) if self._second.value else boxes)
        self.update(state)
        self._changed(state, True)

    def _edit(self, name: str) -> None:
        """Take numbers that were typed; tell what is wrong with them, and keep the old ones."""
        try:
            state = edited(self._state, name, self._fields[name].value)
        except ValueError as error:
            self._error.content = ERROR.format(escape(str(error)))
            self._error.visible = True
            return
        self._error.visible = False
        # Text such as "0.50" stays as it was typed where it means the same.
        if _texts(state) != _texts(self._state):
            typed = self._fields[name].value
            self.update(state)
            with self._silently():
                self._fields[name].value = typed
            self._changed(state, True)


def edited(state: LabState, name: str, text: str) -> LabState:
    """Return the state with one field of numbers changed.

    Raises
    ------
    ValueError
        If the text does not hold such numbers; the message names the field.
    """
    if name == "t range":
        t_min, t_max = numbers_of(name, text, 2)
        return replace(state, t_min=t_min, t_max=t_max)
    x, y, z = numbers_of(name, text, 3)
    if name == "origin":
        return replace(state, origin=(x, y, z))
    if name == "direction":
        return replace(state, direction=(x, y, z))
    index = 1 if name.endswith(" 2") else 0
    boxes = list(state.boxes)
    if name.startswith("turn"):
        if not all(abs(degrees) <= 1e6 for degrees in (x, y, z)):
            raise ValueError(f"turn must be finite degrees, got {text}")
        boxes[index] = replace(boxes[index], turn=(x, y, z))
    elif name.startswith("lower"):
        boxes[index] = replace(boxes[index], lower=(x, y, z))
    else:
        boxes[index] = replace(boxes[index], upper=(x, y, z))
    return replace(state, boxes=tuple(boxes))


def _texts(state: LabState) -> dict[str, str]:
    """Return what all fields of numbers show."""
    texts = {
        "origin": text_of(state.origin),
        "direction": text_of(state.direction),
        "t range": text_of((state.t_min, state.t_max)),
    }
    for index, box in enumerate((*state.boxes, LabBox(*[(0.0, 0.0, 0.0)] * 2))[:2]):
        tail = " 2" if index else ""
        texts |= {
            f"lower{tail}": text_of(box.lower),
            f"upper{tail}": text_of(box.upper),
            f"turn{tail}": text_of(box.turn),
        }
    return texts
