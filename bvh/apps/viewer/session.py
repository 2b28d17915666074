"""Session: one page in a browser, with its panel, picks, selections and marks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer import readouts
from bvh.apps.viewer.box_overlay import BoxOverlay
from bvh.apps.viewer.drawing import (
    Drawing,
    PageFrame,
    Part,
    edges_of,
    outlines_of_faces,
    triangles_of_faces,
)
from bvh.apps.viewer.tracing import Latest, Tracer
from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking.results import Pick, Selection
from bvh.pictures.shading import SHADES
from bvh.scene.scene import Scene

Floats = NDArray[np.float64]

# Faces of a selection that are drawn at most; all are counted.
MAX_MARKED = 200_000
# Marks are drawn nearer to the eye by this share of their distance.
LIFT = 2e-3
ORANGE, BLUE, GREY = (255, 120, 20), (30, 110, 255), (90, 90, 90)
# Length of the normal, as a share of the distance from the eye.
NORMAL_SHARE = 0.09
MESH = "mesh"


class Session:
    """State of one client of the server, with its last pick and its last selection.

    `head` is the HTML of the head of the panel.
    """

    def __init__(
        self, client: Any, scene: Scene, frame: PageFrame, drawing: Drawing, head: str,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.client, self.scene, self.frame, self.threads = client, scene, frame, threads
        self.pick: Pick | None = None
        self.selection: Selection | None = None
        self._lock = threading.RLock()
        # On the page, a new mark replaces that of the same name.
        self._marks: dict[str, Any] = {}
        self._tracer = Tracer(scene, self.camera, self._show_picture, threads)
        self._hover = Latest(self._look_under_cursor)
        self._meshes = [self._add_part(k, part) for k, part in enumerate(drawing.parts)]
        if len(drawing.boxes):
            self._lines("left_out", edges_of(drawing.boxes), GREY, 1.5)
        self._make_panel(head)
        client.scene.on_click()(self._clicked)
        client.scene.on_rect_select(modifier="shift")(self._dragged)
        client.camera.on_update(lambda _: self._tracer.moved())
        if drawing.left_out:
            # A picture shows what is not drawn as a mesh.
            self._picture.value = "clay"

    def close(self) -> None:
        """Stop casting pictures."""
        self._tracer.close()

    def camera(self) -> Camera:
        """Return the page's current camera, in world coordinates."""
        now = self.client.camera
        width, height = max(1, now.image_width), max(1, now.image_height)
        return self.frame.camera(now.wxyz, now.position, now.fov, width, height)

    def _make_panel(self, head: str) -> None:
        gui = self.client.gui
        gui.add_html(head)
        self._pick_text = gui.add_html(readouts.picked(None))
        self._selection_text = gui.add_html(readouts.selected(None, 0.0, 0))
        with gui.add_folder("Pointer"):
            self._visible_only = gui.add_checkbox(
                "Visible only", True, hint="A rectangle selects only faces that can be seen."
            )
            gui.add_html(readouts.watching_html())
            self._cursor = gui.add_text(
                "Cursor",
                "",
                hint="The pointer, in percent of the picture. Type to look there.",
            )
            self._hover_text = gui.add_html(readouts.hovered(None, 0.0, 0.0))
        with gui.add_folder("Picture"):
            self._picture = gui.add_dropdown(
                "Shows", (MESH, *SHADES), initial_value=MESH,
                hint="The mesh as drawn by the browser, or a ray-cast picture.",
            )  # fmt: skip
            self._picture_text = gui.add_html("", visible=False)
            gui.add_html(readouts.frame_time())
        with gui.add_folder("Boxes"):
            self._boxes = BoxOverlay(self)
        self._cursor.on_update(lambda _: self._hover())
        self._picture.on_update(lambda _: self._choose_picture())

    def _add_part(self, number: int, part: Part) -> Any:
        scene, name = self.client.scene, f"/meshes/{number}"
        shared = {"flat_shading": not part.smooth, "side": "double", "cast_shadow": False}
        if len(part.places) > 1:
            return scene.add_batched_meshes_simple(
                name, part.vertices, part.faces, part.turns, part.places,
                batched_scales=part.scales, batched_colors=part.colours, lod="off",
                receive_shadow=False, **shared,
            )  # fmt: skip
        return scene.add_mesh_simple(
            name, part.vertices, part.faces, color=tuple(part.colours[0].tolist()),
            scale=tuple(part.scales[0].tolist()), wxyz=part.turns[0], position=part.places[0],
            receive_shadow=False, **shared,
        )  # fmt: skip

    def _clicked(self, event: Any) -> None:
        """Pick the face that the ray of a click hits."""
        camera = self.frame.ray_camera(event.ray_origin, event.ray_direction)
        began = time.perf_counter()
        pick = self.scene.pick(camera, 0.5, 0.5)
        seconds = time.perf_counter() - began
        with self._lock:
            self.pick = pick
            self._pick_text.content = readouts.picked(pick and pick.resolve(), seconds)
            self._mark_pick(camera)
            self._boxes.follow()

    def _mark_pick(self, camera: Camera) -> None:
        pick = self.pick
        if pick is None:
            self._unmark("face", "edges", "normal")
            return
        marked = np.array([pick.prim_id])
        corners = self._of_faces(triangles_of_faces, pick.leaf, marked)
        edges = self._of_faces(outlines_of_faces, pick.leaf, marked)
        self._surface("face", self._lifted(corners, camera.eye), ORANGE)
        self._lines("edges", self._lifted(edges, camera.eye), ORANGE, 3.0)
        # The normal on the visible side.
        normal = pick.normal if pick.normal @ camera.forward < 0.0 else -pick.normal
        start = self.frame.to_page(pick.position)
        size = NORMAL_SHARE * float(np.linalg.norm(start - self.frame.to_page(camera.eye)))
        if not (np.isfinite(normal).all() and size > 0.0):
            self._unmark("normal")
            return
        arrow = np.stack([start, start + size * normal])[None].astype(np.float32)
        self._marks["normal"] = self.client.scene.add_arrows(
            "/marks/normal", arrow, BLUE, shaft_radius=0.02 * size, head_radius=0.06 * size,
            head_length=0.2 * size,
        )  # fmt: skip

    def _dragged(self, event: Any) -> None:
        """Select the faces in a rectangle."""
        camera = self.camera()
        size = np.array([camera.width, camera.height])
        (x0, y0), (x1, y1) = event.screen_min * size, event.screen_max * size
        began = time.perf_counter()
        found = self.scene.pick_rect(
            camera, x0, y0, x1, y1, visible_only=self._visible_only.value, threads=self.threads
        )
        seconds = time.perf_counter() - began
        parts, drawn = [], 0
        for row, leaf in enumerate(found.leaf.tolist()):
            ids = found[row][: MAX_MARKED - drawn]
            parts.append(self._of_faces(triangles_of_faces, leaf, ids))
            drawn += len(ids)
        with self._lock:
            self.selection = found
            self._selection_text.content = readouts.selected(found, seconds, drawn)
            if drawn:
                corners = self._lifted(np.concatenate(parts), camera.eye)
                self._surface("selection", corners, BLUE)
            else:
                self._unmark("selection")

    def _look_under_cursor(self) -> None:
        """Show what is under the pointer, and outline it."""
        cursor = readouts.cursor_of(self._cursor.value)
        camera = self.camera()
        began = time.perf_counter()
        pick = None
        if cursor is not None:
            pick = self.scene.pick(camera, cursor[0] * camera.width, cursor[1] * camera.height)
        seconds = time.perf_counter() - began
        with self._lock:
            if pick is None:
                self._hover_text.content = readouts.hovered(None, 0.0, seconds)
                self._unmark("hover")
                return
            away = float(np.linalg.norm(pick.position - camera.eye))
            self._hover_text.content = readouts.hovered(pick, away, seconds)
            edges = self._of_faces(outlines_of_faces, pick.leaf, np.array([pick.prim_id]))
            self._lines("hover", self._lifted(edges, camera.eye), BLUE, 2.0)

    def _choose_picture(self) -> None:
        chosen = self._picture.value
        for mesh in self._meshes:
            mesh.visible = chosen == MESH
        self._picture_text.visible = chosen != MESH
        self._tracer.choose(None if chosen == MESH else chosen)

    def _show_picture(self, pixels: NDArray[np.uint8] | None, text: str) -> None:
        if pixels is None:
            self.client.scene.set_background_image(None)
            return
        self.client.scene.set_background_image(pixels, format="jpeg", jpeg_quality=90)
        self._picture_text.content = text

    def _of_faces(
        self, shape: Callable[[Any, NDArray[Any]], Floats], leaf: int, ids: NDArray[Any]
    ) -> Floats:
        """Return triangles or lines of faces of an instance, in page coordinates."""
        leaves = self.scene.leaves
        local = shape(leaves.trees[leaves.tree_of[leaf]], ids)
        world = moved(np.ascontiguousarray(local.reshape(-1, 3)), leaves.matrices[leaf])
        return self.frame.to_page(world).reshape(local.shape)

    def _lifted(self, points: Floats, eye: Floats) -> Floats:
        """Return points a little nearer to the eye, at the same pixels."""
        return points + LIFT * (self.frame.to_page(eye) - points)

    def _surface(self, name: str, corners: Floats, colour: tuple[int, int, int]) -> None:
        faces = np.arange(3 * len(corners), dtype=np.uint32).reshape(-1, 3)
        self._marks[name] = self.client.scene.add_mesh_simple(
            f"/marks/{name}", corners.reshape(-1, 3).astype(np.float32), faces, color=colour,
            flat_shading=True, side="double", cast_shadow=False, receive_shadow=False,
        )  # fmt: skip

    def _lines(
        self, name: str, points: Floats, colour: tuple[int, int, int], thickness: float
    ) -> None:
        self._marks[name] = self.client.scene.add_line_segments(
            f"/marks/{name}", points.astype(np.float32), colour, thickness=thickness,
            thickness_units="screen",
        )  # fmt: skip

    def _unmark(self, *names: str) -> None:
        for name in names:
            handle = self._marks.pop(name, None)
            if handle is not None:
                handle.remove()
