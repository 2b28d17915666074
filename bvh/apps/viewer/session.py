"""Session: one page in a browser, with its panel, picks, selections and marks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.apps.page_server import CAMERA_KEYS, help_html
from bvh.apps.viewer import readouts
from bvh.apps.viewer.box_overlay import BoxOverlay
from bvh.apps.viewer.drawing import PageDrawing, PageFrame, edges_of, face_outlines, face_triangles
from bvh.apps.viewer.meshes import Meshes
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.tracing import Latest, Tracer
from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking.results import Pick, Selection
from bvh.pictures.shading import SHADES
from bvh.queries.hierarchy import BVH
from bvh.scene.scene import Scene
from bvh.tree.arrays import TreeArrays

if TYPE_CHECKING:
    from viser import ClientHandle, SceneClickEvent, SceneNodeHandle, SceneRectSelectEvent

Floats = NDArray[np.float64]
Ids = NDArray[np.integer]

# Faces of a selection that are drawn at most; all are counted.
MAX_MARKED = 200_000
# And of one whose instances move.
MAX_MOVED = 20_000
# Marks are drawn nearer to the eye by this share of their distance.
LIFT = 2e-3
Colour = tuple[int, int, int]
ORANGE, BLUE, GREY = (255, 120, 20), (30, 110, 255), (90, 90, 90)
# Length of the normal, as a share of the distance from the eye.
NORMAL_SHARE = 0.09
MESH = "mesh"
KEYS = (("Click", "pick a face"), ("Shift-drag", "select faces"), *CAMERA_KEYS)


class Marked(NamedTuple):
    """Faces of one leaf that are marked, and the map and the arrays with which they were drawn."""

    path: tuple[int, ...]
    tree: BVH
    leaf: int
    ids: Ids
    matrix: Floats
    arrays: TreeArrays


class Session:
    """One client: what it queries, a copy of the scene, and shows; `head` is HTML of the panel."""

    def __init__(
        self, client: ClientHandle, copy: SceneCopy, drawing: PageDrawing, head: str,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.client, self.frame, self.threads = client, drawing.frame, threads
        self.pick: Pick | None = None
        self.selection: Selection | None = None
        # Of all pages of the scene, whose copy changes only while it is held.
        self._copy, self._lock = copy, copy.lock
        self._closed = False
        # On the page, a new mark replaces that of the same name.
        self._marks: dict[str, SceneNodeHandle] = {}
        self._picked: Marked | None = None
        self._selected: list[Marked] = []
        self._tracer = Tracer(copy.source, self.camera, self._show_picture, threads)
        self._hover = Latest(self._look_under_cursor)
        self._meshes = Meshes(client.scene)
        self._meshes.show(drawing.parts)
        self._left_out = np.empty((0, 8, 3))
        self._show_left_out(drawing)
        self._make_panel(head)
        client.scene.on_click()(self._clicked)
        client.scene.on_rect_select(modifier="shift")(self._dragged)
        client.camera.on_update(lambda _: self._tracer.moved())
        if drawing.left_out:
            # A picture shows what is not drawn as a mesh.
            self._picture.value = "clay"

    @property
    def scene(self) -> Scene:
        """The copy of the scene, as it was when it was brought up to date last."""
        return self._copy.scene

    def close(self) -> None:
        """Stop casting pictures."""
        self._closed = True
        self._tracer.close()

    def show(self, drawing: PageDrawing, head: str) -> None:
        """Show what has changed since the last drawing; the lock is held."""
        if self._closed:
            return
        with self.client.atomic():
            if drawing.frame is not self.frame:
                self._reframe(drawing.frame)
            self._meshes.show(drawing.parts)
            self._show_left_out(drawing)
            self._head.content = head
            self._follow_marks()
            self._boxes.follow()
        if self._cursor.value:
            self._hover()
        self._tracer.changed()

    def _reframe(self, frame: PageFrame) -> None:
        """Change page coordinates; the camera stays where it is in the world."""
        camera, old, self.frame = self.client.camera, self.frame, frame
        points = camera.position, camera.look_at
        camera.position, camera.look_at = [frame.to_page(old.to_world(point)) for point in points]
        # Marks are made again.
        self._selected = [_unplaced(each) for each in self._selected]
        self._picked = None if self._picked is None else _unplaced(self._picked)

    def _show_left_out(self, drawing: PageDrawing) -> None:
        """Show boxes of what is not drawn."""
        if np.array_equal(drawing.boxes, self._left_out):
            return
        self._left_out = drawing.boxes
        self._lines("left_out", edges_of(drawing.boxes), GREY, 1.5)

    def camera(self) -> Camera:
        """Return the page's current camera, in world coordinates."""
        now = self.client.camera
        width, height = max(1, now.image_width), max(1, now.image_height)
        return self.frame.camera(now.wxyz, now.position, now.fov, width, height)

    def _make_panel(self, head: str) -> None:
        gui: Any = self.client.gui
        self._head = gui.add_html(head)
        self._pick_text = gui.add_html(readouts.picked(None))
        self._hover_text = gui.add_html(readouts.hovered(None, 0.0, 0.0))
        gui.add_html(readouts.watching_html())
        # The page hides this field, into which its script writes.
        self._cursor = gui.add_text("Cursor", "")
        with gui.add_folder("Selection"):
            self._selection_text = gui.add_html(readouts.selected(None, 0.0, 0))
            hint = "A rectangle selects only faces that can be seen."
            self._visible_only = gui.add_checkbox("Visible only", True, hint=hint)
        with gui.add_folder("View"):
            self._picture = gui.add_dropdown(
                "Shading", (MESH, *shades_of(self.scene)), initial_value=MESH,
                hint="The mesh as drawn by the browser, or a ray-cast picture.",
            )  # fmt: skip
            self._picture_text = gui.add_html("", visible=False)
            gui.add_html(readouts.frame_time())
        with gui.add_folder("Bounding boxes"):
            self._boxes = BoxOverlay(self)
        with gui.add_folder("Mouse and keys", expand_by_default=False):
            gui.add_html(help_html(KEYS))
        self._cursor.on_update(lambda _: self._hover())
        self._picture.on_update(lambda _: self._choose_picture())

    def _clicked(self, event: SceneClickEvent) -> None:
        """Pick the face that the ray of a click hits."""
        with self._lock:
            self._copy.follow()
            camera = self.frame.ray_camera(event.ray_origin, event.ray_direction)
            began = time.perf_counter()
            pick = self.scene.pick(camera, 0.5, 0.5)
            seconds = time.perf_counter() - began
            self.pick = pick
            self._pick_text.content = readouts.picked(pick and pick.resolve(), seconds)
            self._mark_pick(camera)
            self._boxes.follow()

    def _mark_pick(self, camera: Camera) -> None:
        pick = self.pick
        self._unmark("face", "edges", "normal")
        self._picked = None
        if pick is None:
            return
        self._picked = self._marked(pick.leaf, np.array([pick.prim_id]))
        self._outline(self._picked, camera)
        # The normal on the visible side.
        normal = pick.normal if pick.normal @ camera.forward < 0.0 else -pick.normal
        start = self.frame.to_page(pick.position)
        size = NORMAL_SHARE * float(np.linalg.norm(start - self.frame.to_page(camera.eye)))
        if not (np.isfinite(normal).all() and size > 0.0):
            return
        arrow = np.stack([start, start + size * normal])[None].astype(np.float32)
        self._marks["normal"] = self.client.scene.add_arrows(
            "/marks/normal", arrow, BLUE, shaft_radius=0.02 * size, head_radius=0.06 * size,
            head_length=0.2 * size,
        )  # fmt: skip

    def _outline(self, marked: Marked, camera: Camera) -> None:
        """Mark a face that was picked, and its outline."""
        corners = self._of_faces(face_triangles, marked)
        self._surface("face", self._lifted(corners, camera.eye), ORANGE)
        edges = self._of_faces(face_outlines, marked)
        self._lines("edges", self._lifted(edges, camera.eye), ORANGE, 3.0)

    def _dragged(self, event: SceneRectSelectEvent) -> None:
        """Select the faces in a rectangle."""
        with self._lock:
            self._copy.follow()
            camera = self.camera()
            size = np.array([camera.width, camera.height])
            (x0, y0), (x1, y1) = event.screen_min * size, event.screen_max * size
            began = time.perf_counter()
            found = self.scene.pick_rect(
                camera, x0, y0, x1, y1, visible_only=self._visible_only.value, threads=self.threads
            )
            seconds = time.perf_counter() - began
            self._selected, drawn = [], 0
            for row, leaf in enumerate(found.leaf.tolist()):
                self._selected.append(self._marked(leaf, found[row][: MAX_MARKED - drawn]))
                drawn += len(self._selected[-1].ids)
            self.selection = found
            self._selection_text.content = readouts.selected(found, seconds, drawn)
            self._colour_selection(camera)

    def _colour_selection(self, camera: Camera) -> None:
        """Mark the faces that are selected."""
        marks = [self._of_faces(face_triangles, each) for each in self._selected]
        corners = np.concatenate([np.empty((0, 3, 3)), *marks])
        self._surface("selection", self._lifted(corners, camera.eye), BLUE)

    def _marked(self, leaf: int, ids: Ids) -> Marked:
        """Return faces of a leaf, and what tells whether they have moved."""
        leaves, path = self.scene.leaves, self.scene.path(leaf)
        tree = leaves.trees[leaves.tree_of[leaf]]
        return Marked(path, tree, leaf, ids, leaves.matrices[leaf].copy(), tree.arrays)

    def _follow_marks(self) -> None:
        """Move what is marked with its instances; marks of those that are gone are removed."""
        camera = self.camera()
        if self._picked is not None:
            now = self._found(self._picked)
            if now is not self._picked:
                # The arrow belongs to the place of the click.
                self._unmark("face", "edges", "normal")
                self._picked = now
                if now is not None:
                    self._outline(now, camera)
        now_selected = [self._found(each) for each in self._selected]
        if any(new is not old for new, old in zip(now_selected, self._selected, strict=True)):
            self._selected = [each for each in now_selected if each is not None]
            if sum(len(each.ids) for each in self._selected) > MAX_MOVED:
                self._selected = []
            self._colour_selection(camera)

    def _found(self, marked: Marked) -> Marked | None:
        """Return marked faces as they are now, the same if they have not moved; None if gone."""
        scene, leaves = self.scene, self.scene.leaves
        for leaf in np.flatnonzero(leaves.instance_id == marked.path[0]).tolist():
            tree = leaves.trees[leaves.tree_of[leaf]]
            if tree is marked.tree and scene.path(leaf) == marked.path:
                same = tree.arrays is marked.arrays and leaf == marked.leaf
                if same and np.array_equal(leaves.matrices[leaf], marked.matrix):
                    return marked
                return self._marked(leaf, marked.ids)
        return None

    def _look_under_cursor(self) -> None:
        """Show what is under the pointer, and outline it."""
        cursor = readouts.cursor_of(self._cursor.value)
        with self._lock:
            self._copy.follow()
            camera = self.camera()
            began = time.perf_counter()
            pick = None
            if cursor is not None:
                pick = self.scene.pick(camera, cursor[0] * camera.width, cursor[1] * camera.height)
            seconds = time.perf_counter() - began
            if pick is None:
                self._hover_text.content = readouts.hovered(None, 0.0, seconds)
                self._unmark("hover")
                return
            away = float(np.linalg.norm(pick.position - camera.eye))
            self._hover_text.content = readouts.hovered(pick, away, seconds)
            hovered = self._marked(pick.leaf, np.array([pick.prim_id]))
            edges = self._of_faces(face_outlines, hovered)
            self._lines("hover", self._lifted(edges, camera.eye), BLUE, 2.0)

    def _choose_picture(self) -> None:
        chosen = self._picture.value
        self._meshes.set_visible(chosen == MESH)
        self._picture_text.visible = chosen != MESH
        self._tracer.choose(None if chosen == MESH else chosen)

    def _show_picture(self, pixels: NDArray[np.uint8] | None, text: str) -> None:
        self.client.scene.set_background_image(pixels, format="jpeg", jpeg_quality=90)
        self._picture_text.content = text

    def _of_faces(self, shape: Callable[[BVH, Ids], Floats], marked: Marked) -> Floats:
        """Return triangles or lines of marked faces, in page coordinates."""
        local = shape(marked.tree, marked.ids)
        world = moved(np.ascontiguousarray(local.reshape(-1, 3)), marked.matrix)
        return self.frame.to_page(world).reshape(local.shape)

    def _lifted(self, points: Floats, eye: Floats) -> Floats:
        """Return points a little nearer to the eye, at the same pixels."""
        return points + LIFT * (self.frame.to_page(eye) - points)

    def _surface(self, name: str, corners: Floats, colour: Colour) -> None:
        if not len(corners):
            return self._unmark(name)
        faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)
        self._marks[name] = self.client.scene.add_mesh_simple(
            f"/marks/{name}", corners.reshape(-1, 3).astype(np.float32), faces, color=colour,
            flat_shading=True, side="double", cast_shadow=False, receive_shadow=False,
        )  # fmt: skip

    def _lines(self, name: str, points: Floats, colour: Colour, thickness: float) -> None:
        if not len(points):
            return self._unmark(name)
        self._marks[name] = self.client.scene.add_line_segments(
            f"/marks/{name}", points.astype(np.float32), colour, thickness=thickness,
            thickness_units="screen",
        )  # fmt: skip

    def _unmark(self, *names: str) -> None:
        for name in names:
            handle = self._marks.pop(name, None)
            if handle is not None:
                handle.remove()


def shades_of(scene: Scene) -> tuple[str, ...]:
    """Return the shades that show something of a scene."""
    known = [scene.attributes(tree) for tree in scene.leaves.trees]
    needed = ("uv", "material")
    without = {name for name in needed if all(getattr(each, name) is None for each in known)}
    return tuple(shade for shade in SHADES if shade not in without)


def _unplaced(marked: Marked) -> Marked:
    """Return marked faces with a map that no leaf has."""
    return marked._replace(matrix=np.full((3, 4), np.nan))
