"""Selecting: faces, vertices and instances in rectangles and lassos, added up and exported."""

import json
from typing import Any

import numpy as np

from bvh.apps.page_server import block
from bvh.apps.viewer import readouts
from bvh.apps.viewer.drawing import Floats, corners_of, edges_of, face_triangles
from bvh.apps.viewer.tools.marks import BLUE, Ids, Marked
from bvh.apps.viewer.tools.page_events import copying_html
from bvh.camera.camera import Camera
from bvh.picking.results import Selection
from bvh.queries.hierarchy import BVH
from bvh.runtime.jit import notice

# Largest number of selected faces or vertices that are drawn; all are counted.
MAX_MARKED = 200_000
# The same while instances move; larger selections lose their marks.
MAX_MOVED = 20_000
TOOLS = {"Orbit and pick": "", "Rectangle": "rectangle", "Lasso": "lasso"}
WHAT = ("faces", "vertices", "instances")
MODES = ("replace", "add", "remove")


class Selecting:
    """Controls of selections on the page of a `Session`, and the selection, `found`."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.found: Selection | None = None
        # What is marked on the page, an item for each leaf, and the leaves of the selection.
        self._marked: list[Marked] = []
        self._places: list[tuple[tuple[int, ...], BVH]] = []
        gui = session.client.gui
        self._text = gui.add_html(readouts.selected(None, 0.0, 0))
        hint = "Use of dragging. Shift-drag is a rectangle with any tool."
        self._tool = gui.add_dropdown("Tool", tuple(TOOLS), hint=hint)
        self._what = gui.add_dropdown("Select", WHAT)
        hint = "With Ctrl or Cmd held, add; with Alt, remove."
        self._mode = gui.add_dropdown("Mode", MODES, hint=hint)
        hint = "All of a face or instance, or a part of it, has to be in the region."
        self._take = gui.add_dropdown("Take what is", ("inside", "touching"), hint=hint)
        hint = "Leave out what is hidden behind something else."
        self._visible_only = gui.add_checkbox("Visible only", True, hint=hint)
        buttons = gui.add_button_group("Ids", ("Copy", "Save", "Clear"))
        self._script = gui.add_html(readouts.dragging(""))
        self._tool.on_update(lambda _: self._choose())
        buttons.on_click(lambda _: self._export(buttons.value))

    def _choose(self) -> None:
        self._script.content = readouts.dragging(TOOLS[self._tool.value])

    def select(self, polygon: Floats, mode: str = "") -> None:
        """Select what is in a lasso or, between two points, in a rectangle.

        `polygon` (n, 2) is in shares of the picture's width and height. `mode` is one of MODES; ""
        stands for the mode chosen on the page.
        """
        session = self._session
        with session.updated_scene():
            camera = session.camera()
            shares = np.asarray(polygon, np.float64).reshape(-1, 2)
            # Rounded, so that a border through centres of pixels is not moved off them by the
            # rounding of shares.
            at = np.round(shares * [camera.width, camera.height], 6)
            options = {
                "what": self._what.value, "mode": self._take.value,
                "visible_only": self._visible_only.value, "threads": session.threads,
            }  # fmt: skip
            began = notice.clock()
            if len(at) == 2:
                found = session.scene.pick_rect(camera, *at.ravel().tolist(), **options)
            elif len(at) > 2:
                found = session.scene.pick_lasso(camera, at, **options)
            else:
                return
            seconds, mode = notice.clock() - began, mode or self._mode.value
            if mode != "replace" and self.found is not None and self.found.what == found.what:
                found = combined(self._current(self.found), found, mode == "add")
            self._show(found, seconds, camera)

    def _current(self, found: Selection) -> Selection:
        """Return the selection with the numbers that leaves have now; removed ones are left out."""
        rows = {}
        for row, (place, leaf) in enumerate(zip(self._places, found.leaf.tolist(), strict=True)):
            now = self._session.leaf_now(*place, leaf)
            if now is not None:
                rows[now] = int(found.instance_id[row]), found.names[row], found[row]
        return _selection(found.what, rows)

    def clear(self) -> None:
        self.found, self._marked, self._places = None, [], []
        self._text.content = readouts.selected(None, 0.0, 0)
        self._session.marks.clear("selection")

    def follow(self, camera: Camera) -> None:
        """Move marks with their instances, as `camera` sees them; drop marks of removed ones."""
        now = [self._session.refreshed(each) for each in self._marked]
        if any(new is not old for new, old in zip(now, self._marked, strict=True)):
            self._marked = [each for each in now if each is not None]
            if sum(len(each.ids) for each in self._marked) > MAX_MOVED:
                self._marked = []
            self._mark(camera)

    def unplace(self) -> None:
        """Make the next update draw the marks again, as page coordinates have changed."""
        self._marked = [each.unplaced() for each in self._marked]

    def _show(self, found: Selection, seconds: float, camera: Camera) -> None:
        """Mark a selection, or its first MAX_MARKED faces, and describe it in the panel."""
        self.found, self._marked, drawn = found, [], 0
        for row, leaf in enumerate(found.leaf.tolist()):
            # Of an instance no ids are marked, but the box of its first leaf.
            ids: Ids = np.empty(0, np.int32) if found.what == "instances" else found[row]
            self._marked.append(Marked.of(self._session.scene, leaf, ids[: MAX_MARKED - drawn]))
            drawn += len(self._marked[-1].ids)
        self._places = [(each.path, each.tree) for each in self._marked]
        shown = len(found) if found.what == "instances" else drawn
        self._text.content = readouts.selected(found, seconds, shown, len(self._session.scene))
        self._mark(camera)

    def _mark(self, camera: Camera) -> None:
        """Mark the selection for `camera`: faces, vertices, or the boxes of instances."""
        marks = self._session.marks
        if not self._marked:
            marks.clear("selection")
            return
        what = "faces" if self.found is None else self.found.what
        parts = [marks.placed(each, _shape_of(each, what)) for each in self._marked]
        shapes = np.concatenate(parts)
        if what == "instances":
            marks.lines("selection", edges_of(shapes), BLUE, 3.0)
        elif what == "vertices":
            marks.points("selection", shapes, camera.eye)
        else:
            marks.surface("selection", shapes, camera.eye, BLUE)

    def _export(self, how: str) -> None:
        """Copy or save the selection as JSON, or clear it: `how` is the text of the button."""
        if how == "Clear":
            with self._session.updated_scene():
                self.clear()
        elif self.found is not None:
            text = as_json(self.found)
            if how == "Copy":
                self._text.content = block("Copied as JSON.") + copying_html(text)
            else:
                send = self._session.client.send_file_download
                send("selection.json", text.encode(), save_immediately=True)


def _shape_of(marked: Marked, what: str) -> Floats:
    """Return the corners (1, 8, 3) of the tree's box, vertices (n, 3), or triangles (n, 3, 3)."""
    if what == "instances":
        return corners_of(marked.tree.bounds[None])
    if what == "vertices":
        return np.asarray(marked.tree.vertices[marked.ids])
    return face_triangles(marked.tree, marked.ids)


def combined(old: Selection, new: Selection, adds: bool) -> Selection:
    """Return the old selection with the new one added if `adds`, or else removed from it."""
    before, given = _by_leaf(old), _by_leaf(new)
    result = {}
    for leaf, (instance, name, ids) in sorted((given | before if adds else before).items()):
        # `ids` are the old ones if the leaf is in both.
        if leaf in before and leaf in given:
            join = np.union1d if adds else np.setdiff1d
            ids = join(ids, given[leaf][2])
            # Leaves of which nothing is left are dropped.
            if not adds and not len(ids):
                continue
        result[leaf] = instance, name, ids
    return _selection(old.what, result)


def _selection(what: Any, rows: dict[int, tuple[int, str | None, Any]]) -> Selection:
    """Return the selection that `_by_leaf` takes apart into `rows`."""
    lists = [ids for _, _, ids in rows.values()]
    return Selection(
        what, np.array([instance for instance, _, _ in rows.values()], np.int32),
        np.array(list(rows), np.int32), tuple(name for _, name, _ in rows.values()),
        np.concatenate([np.empty(0, np.int32), *lists]).astype(np.int32),
        np.cumsum([0, *map(len, lists)]),
    )  # fmt: skip


def as_json(found: Selection) -> str:
    """Return a selection as JSON: the ids of each instance, which has an id and perhaps a name."""
    rows = [
        {"instance_id": instance, "leaf": leaf, "name": name, "ids": ids.tolist()}
        for leaf, (instance, name, ids) in _by_leaf(found).items()
    ]
    return json.dumps({"what": found.what, "instances": rows})


def _by_leaf(found: Selection) -> dict[int, tuple[int, str | None, Any]]:
    """Return {number of a leaf: (id of its instance, name of this, ids selected in the leaf)}."""
    columns = zip(found.leaf.tolist(), found.instance_id.tolist(), found.names, strict=True)
    return {leaf: (i, name, found[row]) for row, (leaf, i, name) in enumerate(columns)}
