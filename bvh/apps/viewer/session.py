"""Session: one page in a browser, with its panel, picks, selections and marks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.page_server import CAMERA_KEYS, help_html
from bvh.apps.viewer import readouts
from bvh.apps.viewer.box_overlay import BoxOverlay
from bvh.apps.viewer.drawing import PageDrawing, PageFrame, edges_of, face_outlines, face_triangles
from bvh.apps.viewer.meshes import Meshes
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.tools.instance_list import InstanceList
from bvh.apps.viewer.tools.marks import BLUE, GREY, ORANGE, Marked, Marks
from bvh.apps.viewer.tools.measuring import Measuring
from bvh.apps.viewer.tools.page_events import PageEvents
from bvh.apps.viewer.tools.sectioning import OFF, Sectioning, cut_by
from bvh.apps.viewer.tools.selecting import Selecting
from bvh.apps.viewer.tools.views import WIDE, Views
from bvh.apps.viewer.tracing import Latest, Tracer
from bvh.camera.camera import Camera
from bvh.camera.placement import corners_of
from bvh.picking.results import Pick
from bvh.pictures.drawn_shapes import is_round
from bvh.pictures.shading import SHADES
from bvh.queries.hierarchy import BVH
from bvh.runtime.jit import notice
from bvh.scene.scene import Scene
from bvh.tree.primitives import THIN

# Length of the normal as a share of the distance from the eye.
NORMAL_SHARE = 0.03
# Seconds after which the page says that it waits for the compiler.
PATIENCE = 0.4
# Radius of picks of points and segments, in pixels.
SNAP = 6.0
MESH = "mesh"
KEYS = (
    ("Click, tap", "pick a face"), ("Enter", "pick under the pointer, or in the middle"),
    ("Shift-drag", "select in a rectangle"), ("Esc", "clear picks and selections"), *CAMERA_KEYS,
)  # fmt: skip


class Session:
    """The page of one client, which queries a copy of the scene."""

    def __init__(
        self, client: Any, copy: SceneCopy, drawing: PageDrawing, head: str,
        up: NDArray[np.float64], threads: int | None,
    ) -> None:  # fmt: skip
        """Fill the page of `client`, viser's handle, which queries `copy` and shows `drawing`.

        `head` is the HTML at the top of the panel: title, content and notices. `up` is a unit
        vector. `threads` are for selections and pictures.
        """
        self.client, self.frame, self.threads = client, drawing.frame, threads
        self.pick: Pick | None = None
        # Shared by all pages of the scene; the copy is replaced only while the lock is held.
        self._copy, self.lock = copy, copy.lock
        self._closed = False
        self.marks = Marks(client.scene, lambda: self.frame)
        self._picked: Marked | None = None
        self._tracer = Tracer(copy, self.camera, self._show_picture, threads)
        self._hover = Latest(self._look_under_cursor)
        self._drawing = PageDrawing(drawing.frame, [], 0, np.empty((0, 8, 3)))
        self._meshes = Meshes(client.scene)
        self._make_panel(head, up)
        client.scene.on_click()(lambda e: self.pick_along(e.ray_origin, e.ray_direction))
        client.scene.on_rect_select(modifier="shift")(
            lambda event: self.selecting.select(np.array([event.screen_min, event.screen_max]))
        )
        client.camera.on_update(lambda _: self._tracer.moved())
        # Shown after the handlers are set, so that what can be seen can be clicked.
        self._draw(drawing)
        if drawing.left_out:
            # A picture shows the meshes that are left out.
            self._picture.value = "clay"

    @property
    def scene(self) -> Scene:
        """The copy of the scene that the page queries, as it was last updated."""
        return self._copy.scene

    @property
    def is_whole(self) -> bool:
        """Whether the page shows meshes, not a ray-cast picture, and no section plane cuts them."""
        return bool(self._picture.value == MESH and self._section.plane is None)

    def shade(self, name: str) -> None:
        """Show the meshes, if `name` is MESH; or else pictures, `name` being one of SHADES."""
        self._picture.value = name

    def cut(self, across: str, share: float) -> None:
        """Show the meshes, cut across an axis, such as "x", at `share` percent of their extent."""
        self.shade(MESH)
        self._section.cut(across, share)

    def reset(self) -> None:
        """Clear all marks and the section plane."""
        self._clear()
        self._section.cut(OFF, 50.0)

    def close(self) -> None:
        self._closed = True
        self._tracer.close()

    @contextmanager
    def updated_scene(self) -> Iterator[None]:
        """Lock the updated scene, and show a note on the page while kernels are compiled."""
        answered = threading.Event()
        watch = threading.Thread(target=self._watch_compiler, args=(answered,), daemon=True)
        watch.start()
        try:
            with self.lock:
                self._copy.follow()
                yield
        finally:
            answered.set()
            watch.join()
            if self._status.content:
                self._status.content = ""

    def _watch_compiler(self, answered: threading.Event) -> None:
        """Show a note on the page once a kernel is being compiled, until `answered` is set."""
        # Checked repeatedly, since a compilation may begin late: after the wait for the lock.
        while not answered.wait(PATIENCE):
            if notice.busy and not self._status.content:
                self._status.content = readouts.COMPILING

    def show(self, drawing: PageDrawing, head: str) -> None:
        """Show a new drawing and head, and what depends on the scene; the caller holds the lock."""
        if self._closed:
            return
        with self.client.atomic():
            if drawing.frame is not self.frame:
                self._reframe(drawing.frame)
            self._draw(drawing)
            self._head.content = head
            self._follow_marks()
            self._boxes.follow()
            self._list.follow()
        if self._cursor.value:
            self._hover()
        self._tracer.changed()

    def _draw(self, drawing: PageDrawing) -> None:
        """Draw the meshes, and boxes in place of those left out; the caller holds the lock."""
        if not np.array_equal(drawing.boxes, self._drawing.boxes):
            self.marks.lines("left_out", edges_of(drawing.boxes), GREY, 1.5)
        self._drawing = drawing
        self.redraw()

    def redraw(self) -> None:
        """Draw the meshes, cut by the section plane; the caller holds the lock."""
        cut = cut_by(self._section.plane, self._drawing.parts, self.frame)
        self._meshes.show(cut.parts)
        cut.mark(self.marks, self.camera().eye)
        self._show_whole_or_cut()

    def _show_whole_or_cut(self) -> None:
        """Show the shadow of a whole scene or the caps of a cut one; neither with a picture."""
        self.views.show_shadow()
        self.marks.set_visible(self._picture.value == MESH, "caps", "curves")

    def _reframe(self, frame: PageFrame) -> None:
        """Change page coordinates to those of `frame`; the camera keeps its place in the world."""
        camera, old, self.frame = self.client.camera, self.frame, frame
        points = camera.position, camera.look_at
        camera.position, camera.look_at = [frame.to_page(old.to_world(point)) for point in points]
        # Marks without positions are drawn again, in the new coordinates, at the next update.
        self.selecting.unplace()
        self._picked = None if self._picked is None else self._picked.unplaced()
        self.views.draw_ground()
        self.views.draw_shadow()

    def camera(self) -> Camera:
        """Return the page's current camera, in world coordinates."""
        now = self.client.camera
        width, height = max(1, now.image_width), max(1, now.image_height)
        return self.frame.camera(now.wxyz, now.position, now.fov, width, height)

    def _make_panel(self, head: str, up: NDArray[np.float64]) -> None:
        """Add texts, folders and controls to the panel, and handlers of the page's events."""
        gui: Any = self.client.gui
        self._head = gui.add_html(head)
        self._status = gui.add_html("")
        self._pick_text = gui.add_html(readouts.picked(None))
        self._hover_text = gui.add_html(readouts.hovered(None, 0.0, 0.0))
        gui.add_html(readouts.watching_html())
        # The script of the page writes into these fields, which it hides.
        self._cursor = gui.add_text("Cursor", "")
        PageEvents(gui, {
            "pick": lambda event: self.pick_at(event["x"], event["y"]),
            "region": lambda event: self.selecting.select(event["points"], event.get("mode", "")),
            "escape": lambda _: self._clear(),
            "hide": lambda event: self._hide(int(event["id"])),
            "frame": lambda event: self._frame_instance(int(event["id"])),
            "dark": lambda event: gui.configure_theme(
                dark_mode=bool(event["value"]), **readouts.THEME
            ),
            "narrow": lambda _: self.views.look("Iso"),
        })  # fmt: skip
        with gui.add_folder("View"):
            self._picture = gui.add_dropdown(
                "Shading", (MESH, *shades_of(self.scene)), initial_value=MESH,
                hint="The mesh as drawn by the browser, or a ray-cast picture.",
            )  # fmt: skip
            self._picture_text = gui.add_html("", visible=False)
            self.views = Views(self, up)
        with gui.add_folder("Measure"):
            self.measuring = Measuring(self)
        with gui.add_folder("Section plane"):
            self._section = Sectioning(self)
        with gui.add_folder("Selection"):
            self.selecting = Selecting(self)
        self._list = InstanceList(gui, self._copy)
        with gui.add_folder("Bounding boxes", expand_by_default=False):
            self._boxes = BoxOverlay(self)
        with gui.add_folder("Mouse and keys", expand_by_default=False):
            gui.add_html(help_html(KEYS))
        self._cursor.on_update(lambda _: self._hover())
        self._picture.on_update(lambda _: self._choose_picture())

    def _clear(self) -> None:
        """Clear the pick, the selection and the measurement, as the Escape key does."""
        with self.lock:
            self.pick = None
            self._clear_pick()
            self._pick_text.content = readouts.picked(None)
            self.selecting.clear()
            self.measuring.clear()

    def _clear_pick(self) -> None:
        self._picked = None
        self.marks.clear("face", "edges", "normal")

    def pick_at(self, x: float, y: float) -> None:
        """Pick at a position, given as shares of the picture's width and height."""
        camera = self.camera()
        origin, direction = camera.ray(float(x) * camera.width, float(y) * camera.height)
        self.pick_along(self.frame.to_page(origin), direction)

    def pick_along(self, origin: Any, direction: Any) -> None:
        """Pick the face that a ray hits, and show it; `origin` is in page coordinates."""
        with self.updated_scene():
            ray_camera = self.frame.ray_camera(origin, direction)
            pick, seconds = self._timed_pick(ray_camera)
            self.pick, many = pick, len(self.scene.leaves) > 1
            # Resolved while the lock is held: the scene may change later.
            self._pick_text.content = readouts.picked(pick and pick.resolve(), seconds, many)
            self._mark_pick(ray_camera)
            self.measuring.add(pick)
            self._boxes.follow()

    def _timed_pick(self, ray_camera: Camera) -> tuple[Pick | None, float]:
        """Return the pick of a camera with one ray, and the seconds that it took.

        What the section plane has removed is not picked.
        """
        camera, radius = self._section.limited(ray_camera), self._snap(ray_camera)
        began = notice.clock()
        # The ray is in the middle of the camera's only pixel. None: the section plane hides it.
        pick = None if camera is None else self.scene.pick(camera, 0.5, 0.5, radius=radius)
        return pick, notice.clock() - began

    def _snap(self, camera: Camera) -> float:
        """Return the radius of picks, in pixels of a camera: above 0 for points and segments.

        Points and segments have no area to hit. With spheres or capsules in the scene, it is 0.
        """
        trees = self.scene.leaves.trees
        if all(tree.kind not in THIN for tree in trees) or any(map(is_round, trees)):
            return 0.0
        # From pixels of the page to those of the camera, at the same angle.
        page = self.camera()
        return SNAP * page.half_height / page.height * camera.height / camera.half_height

    def _hide(self, instance_id: int) -> None:
        """Hide an instance on all pages of the scene, or show it again."""
        with self.updated_scene():
            if instance_id in self.scene:
                self._copy.hide(instance_id)
                self._list.follow()

    def _frame_instance(self, instance_id: int) -> None:
        """Fit an instance of the outermost scene, by its id, into the view."""
        with self.updated_scene():
            leaves = self.scene.leaves
            corners = [
                corners_of(leaf.tree.bounds) @ leaf.transform[:3, :3].T + leaf.transform[:3, 3]
                for leaf in leaves[:] if leaf.path[0] == instance_id
            ]  # fmt: skip
            if corners:
                # "" is no view: the camera keeps its direction.
                self.views.look("", np.array([np.min(corners, (0, 1)), np.max(corners, (0, 1))]))

    def _mark_pick(self, camera: Camera) -> None:
        """Mark the picked face, so that `camera` sees the marks in front of it, and its normal."""
        pick = self.pick
        self._clear_pick()
        if pick is None:
            return
        self._outline(Marked.of(self.scene, pick.leaf, np.array([pick.prim_id])), camera)
        if np.isnan(pick.normal).any():
            return  # Points and segments have no normal.
        # Draw the normal on the visible side, at the same size on the page for all fields of view.
        normal = pick.normal if pick.normal @ camera.forward < 0.0 else -pick.normal
        start = self.frame.to_page(pick.position)
        away = float(np.linalg.norm(start - self.frame.to_page(camera.eye)))
        opening = np.tan(0.5 * self.client.camera.fov) / np.tan(np.radians(0.5 * WIDE))
        self.marks.arrow("normal", start, NORMAL_SHARE * away * opening * normal)

    def _outline(self, marked: Marked, camera: Camera) -> None:
        """Mark the picked face, `marked`, and its edges, so that the camera sees them in front."""
        self._picked = marked
        corners = self.marks.placed(marked, face_triangles(marked.tree, marked.ids))
        self.marks.surface("face", corners, camera.eye, ORANGE)
        edges = self.marks.placed(marked, face_outlines(marked.tree, marked.ids))
        self.marks.lines("edges", edges, ORANGE, 3.0, camera.eye)

    def _follow_marks(self) -> None:
        """Move the marks with their instances; remove marks of removed instances."""
        camera = self.camera()
        if self._picked is not None:
            now = self.refreshed(self._picked)
            if now is not self._picked:
                # The arrow is not drawn again, as it belongs to the position of the click.
                self._clear_pick()
                if now is not None:
                    self._outline(now, camera)
        self.selecting.follow(camera)

    def refreshed(self, marked: Marked) -> Marked | None:
        """Return `marked` if its leaf has not changed, else as it is now; None if it is removed."""
        leaf = self.leaf_now(marked.path, marked.tree, marked.leaf)
        if leaf is None:
            return None
        same = marked.tree.arrays is marked.arrays and leaf == marked.leaf
        if same and np.array_equal(self.scene.leaves.matrices[leaf], marked.matrix):
            return marked
        return Marked.of(self.scene, leaf, marked.ids)

    def leaf_now(self, path: tuple[int, ...], tree: BVH, before: int) -> int | None:
        """Return the number of the leaf of a tree under a path of instances; None if it is removed.

        `before` is its number at an earlier time.
        """
        scene, leaves = self.scene, self.scene.leaves

        def fits(leaf: int) -> bool:
            return leaves.trees[leaves.tree_of[leaf]] is tree and scene.path(leaf) == path

        if before < len(leaves) and fits(before):
            return before
        return next(filter(fits, np.flatnonzero(leaves.instance_id == path[0]).tolist()), None)

    def _look_under_cursor(self) -> None:
        cursor = readouts.cursor_of(self._cursor.value)
        with self.lock:
            self._copy.follow()
            camera = self.camera()
            pick, seconds, away = None, 0.0, 0.0
            if cursor is not None:
                origin, direction = camera.ray(cursor[0] * camera.width, cursor[1] * camera.height)
                ray_camera = self.frame.ray_camera(self.frame.to_page(origin), direction)
                pick, seconds = self._timed_pick(ray_camera)
            if pick is not None:
                away = float(np.linalg.norm(pick.position - camera.eye))
            self._hover_text.content = readouts.hovered(pick, away, seconds)
            if pick is None:
                return self.marks.clear("hover")
            hovered = Marked.of(self.scene, pick.leaf, np.array([pick.prim_id]))
            edges = self.marks.placed(hovered, face_outlines(hovered.tree, hovered.ids))
            self.marks.lines("hover", edges, BLUE, 2.0, camera.eye)

    def _choose_picture(self) -> None:
        chosen = self._picture.value
        self._meshes.set_visible(chosen == MESH)
        self._show_whole_or_cut()
        self._picture_text.visible = chosen != MESH
        self._tracer.choose(None if chosen == MESH else chosen)

    def _show_picture(self, pixels: NDArray[np.uint8] | None, text: str) -> None:
        """Show a picture (h, w, 3) behind the scene, or none, and HTML about it in the panel."""
        self.client.scene.set_background_image(pixels, format="jpeg", jpeg_quality=90)
        self._picture_text.content = text


def shades_of(scene: Scene) -> tuple[str, ...]:
    """Return the shades of SHADES that a scene has data for: "uv" and "material" may lack it."""
    attributes = [scene.attributes(tree) for tree in scene.leaves.trees]
    needed = ("uv", "material")
    without = {name for name in needed if all(getattr(each, name) is None for each in attributes)}
    return tuple(shade for shade in SHADES if shade not in without)
