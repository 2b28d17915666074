"""HTML export: one file that shows a scene and a pick, without a server."""

import html
import io
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bvh.apps.page_server import HOST, new_server, set_up, silent
from bvh.apps.viewer import drawing as page_drawing
from bvh.apps.viewer.drawing import DrawnMesh, Floats, PageDrawing, PageFrame
from bvh.apps.viewer.ground_shadow import ground_shadow
from bvh.apps.viewer.meshes import Meshes
from bvh.apps.viewer.tools.marks import ORANGE, Marked, Marks
from bvh.apps.viewer.tools.views import first_view
from bvh.camera.camera import Camera
from bvh.picking.results import Pick
from bvh.pictures.picture import check_path, write
from bvh.runtime.arguments import grouped
from bvh.scene.scene import Scene

# In the colours of the system, light or dark, as the page.
CAPTION = (
    '<div style="position:fixed;left:1em;bottom:1em;max-width:calc(100% - 2em);font:0.85em '
    "sans-serif;padding:0.4em 0.7em;border-radius:6px;color-scheme:light dark;color:CanvasText;"
    'background:color-mix(in srgb,Canvas 80%,transparent)">{}</div>'
)
# Moves the first camera away on pages that are narrower than the scene needs.
NARROW = """<script>{{
  const eye = {}, target = {}, get = URLSearchParams.prototype.get;
  const far = Math.max(1, {} * innerHeight / innerWidth);
  const position = eye.map((x, k) => target[k] + far * (x - target[k])).join(',');
  URLSearchParams.prototype.get = function (name) {{
    return get.call(this, name) ?? (name === 'initialCameraPosition' ? position : null);
  }};
}}</script>"""
# What viser writes into a page, and what makes it follow the system's colour scheme.
LIGHT, SYSTEM = "darkMode:false", "darkMode:matchMedia('(prefers-color-scheme: dark)').matches"

# A function of viser's server, the marks of a page, and the drawing of its scene.
Draw = Callable[[Any, Marks, PageDrawing], list[DrawnMesh]]


def write_page(
    path: str | os.PathLike[str], scene: Scene, title: str, up: Floats, max_faces: int,
    camera: Camera | None = None, pick: Pick | None = None, draw: Draw | None = None,
    text: str = "",
) -> int:  # fmt: skip
    """Write a page that shows a scene, its shadow, and a pick; return its size in bytes.

    `camera`, in the world, is the first view; by default it sees all, with the unit vector `up`
    upward. At most `max_faces` faces are stored. `draw`, if given, may draw more on the page, and
    returns the meshes to show. The caption has `title`, and then `text`.
    """
    check_page_path(path)
    frame = PageFrame.around(scene.bounds)
    drawing = page_drawing.drawing_of(scene, frame, max_faces)
    if camera is None:
        seen = first_view(scene, frame, up)
        # Farther than the viewer, as pages of phones are narrow.
        camera = replace(seen, eye=frame.to_world(1.15 * seen.eye))
    # A pick of a removed instance is left out.
    if pick and not (pick.leaf < len(scene.leaves) and scene.path(pick.leaf) == pick.path):
        pick = None
    server = new_server(HOST, 0, title)
    try:
        page = _page_html(server, scene, drawing, camera, up, pick, draw)
    finally:
        with silent():
            server.stop()
    notes = [*([text] if text else []), "drag to turn"] + ([] if pick is None else [_label(pick)])
    caption = f"<b>{html.escape(title)}</b>: {html.escape('; '.join(notes))}"
    content = (
        page.replace(LIGHT, SYSTEM, 1)
        .replace("<head>", f"<head>{_narrow_script(scene, camera, frame)}", 1)
        .replace("</body>", CAPTION.format(caption) + "</body>", 1)
        .encode()
    )
    write(path, io.BytesIO(content))
    return len(content)


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Raise if a path does not end in .html or .htm, or if its folder does not exist."""
    file = Path(path)
    check_path(file, "page", file.suffix.lower() in (".html", ".htm"))


def _page_html(
    server: Any, scene: Scene, drawing: PageDrawing, camera: Camera, up: Floats,
    pick: Pick | None, draw: Draw | None,
) -> str:  # fmt: skip
    """Return the HTML of a page that `server`, viser's, makes of the `drawing` of a scene.

    `camera` is the first view; `up`, `pick` and `draw` are as in `write_page`.
    """
    frame = drawing.frame
    fov = 2.0 * math.atan(camera.half_height)  # Half the picture's height at distance 1.
    eye, target = _view_of(camera, frame)
    set_up(server, up, light=1.2, eye=eye, target=target, fov=fov)
    marks = Marks(server.scene, lambda: frame)
    shadow = ground_shadow(scene, up)
    if shadow is not None:
        shadow.show(server.scene, frame)
    Meshes(server.scene).show(drawing.parts if draw is None else draw(server, marks, drawing))
    if pick is not None:
        marked = Marked.of(scene, pick.leaf, np.array([pick.prim_id]))
        corners = marks.placed(marked, page_drawing.face_triangles(marked.tree, marked.ids))
        marks.surface("pick", corners, camera.eye, ORANGE)
        marks.label("picked", _label(pick), frame.to_page(pick.position))
    return str(server.get_scene_serializer().as_html())


def _view_of(camera: Camera, frame: PageFrame) -> tuple[Floats, Floats]:
    """Return (eye, target) of a camera of the world in page coordinates.

    The target is ahead of the eye, as far away as the origin of the page is.
    """
    eye = frame.to_page(camera.eye)
    return eye, eye + camera.forward * float(np.linalg.norm(eye))


def _narrow_script(scene: Scene, camera: Camera, frame: PageFrame) -> str:
    """Return a script, as HTML, that moves the first camera away where a page is narrow."""
    if not np.isfinite(scene.bounds).all():
        return ""
    # Columns of pixels, and depths, of the corners of the scene's bounds.
    x, _, depth = camera.project(page_drawing.corners_of(scene.bounds[None])[0])
    half = 0.5 * camera.height
    # The width that the scene needs, in heights of the picture; 1 if some of it is behind the eye.
    width = float(np.abs(x - 0.5 * camera.width).max()) / half if (depth > 0.0).all() else 1.0
    eye, target = _view_of(camera, frame)
    # With some room, and at most four times as far on a square page.
    return NARROW.format(eye.tolist(), target.tolist(), min(1.05 * width, 4.0))


def _label(pick: Pick) -> str:
    name = "" if pick.name is None else f" of {pick.name}"
    return f"face {grouped(pick.prim_id)}{name}, t = {pick.t:.6g}"
