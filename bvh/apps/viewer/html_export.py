"""HTML export: one file that shows a scene, picks, and the costs of rays, without a server."""

from __future__ import annotations

import html
import io
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bvh.apps.page_server import HOST, new_server, set_up, silent
from bvh.apps.viewer.drawing import (
    DrawnMesh,
    Floats,
    PageDrawing,
    PageFrame,
    drawing_of,
    face_triangles,
)
from bvh.apps.viewer.meshes import Meshes
from bvh.apps.viewer.tools.marks import ORANGE, Marked, Marks
from bvh.apps.viewer.tools.sectioning import placed
from bvh.apps.viewer.tools.views import first_view
from bvh.camera.camera import Camera
from bvh.picking.results import Pick
from bvh.pictures.colours import heat, hottest_of, in_bytes
from bvh.pictures.picture import check_path, write
from bvh.runtime.arguments import grouped
from bvh.scene.scene import Scene

# Seconds that each of mesh, picks and costs is shown.
SHOWN = 4.0
# Largest number of vertices for which costs are shown.
LARGEST = 400_000
CAPTION = (
    '<div style="position:fixed;left:1em;bottom:4.2em;max-width:calc(100% - 2em);font:0.85em '
    'sans-serif;padding:0.4em 0.7em;border-radius:6px;background:#fffc;color:#1f2937">{}</div>'
)


def write_page(
    path: str | os.PathLike[str], scene: Scene, title: str, up: Floats, max_faces: int,
    camera: Camera | None = None, pick: Pick | None = None,
) -> int:  # fmt: skip
    """Write a page of a scene, seen by a world camera; return its size in bytes.

    The page shows the meshes, then the pick, too, then the cost of a ray to each vertex.
    """
    check_page_path(path)
    frame = PageFrame.around(scene.bounds)
    drawing = drawing_of(scene, frame, max_faces)
    if camera is None:
        seen = first_view(scene, frame, up)
        camera = replace(seen, eye=frame.to_world(seen.eye))
    # A pick of a removed instance is left out.
    if pick and not (pick.leaf < len(scene.leaves) and scene.path(pick.leaf) == pick.path):
        pick = None
    coloured = sum(len(part.places) * len(part.vertices) for part in drawing.parts) <= LARGEST
    server = new_server(HOST, 0, title)
    try:
        text = _played(server, scene, drawing, camera, up, pick, coloured)
    finally:
        with silent():
            server.stop()
    rows = ["drag to turn"] + ([] if pick is None else [_label(pick)])
    if coloured:
        rows.append("at the end: nodes and groups of triangles that a ray visits")
    caption = f"<b>{html.escape(title)}</b>: {html.escape('; '.join(rows))}"
    content = text.replace("</body>", CAPTION.format(caption) + "</body>", 1).encode()
    write(path, io.BytesIO(content))
    return len(content)


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Raise if no page can be written to a path."""
    file = Path(path)
    check_path(file, "page", file.suffix.lower() in (".html", ".htm"))


def _played(
    server: Any, scene: Scene, drawing: PageDrawing, camera: Camera, up: Floats,
    pick: Pick | None, coloured: bool,
) -> str:  # fmt: skip
    """Return a page, as HTML, that shows meshes, a pick and, if `coloured`, costs in turn."""
    frame = drawing.frame
    eye = frame.to_page(camera.eye)
    target = eye + camera.forward * float(np.linalg.norm(eye))
    set_up(server, up, 1.2, eye, target, 2.0 * math.atan(camera.half_height))
    meshes, record = Meshes(server.scene), server.get_scene_serializer()
    meshes.show(drawing.parts)
    costs = [
        server.scene.add_mesh_trimesh(f"/costs/{k}", mesh, visible=False)
        for k, mesh in enumerate(_costs(scene, drawing, camera.eye) if coloured else ())
    ]
    record.insert_sleep(SHOWN)
    if pick is not None:
        marks = Marks(server.scene, lambda: frame)
        marked = Marked.of(scene, pick.leaf, np.array([pick.prim_id]))
        corners = marks.placed(marked, face_triangles(marked.tree, marked.ids))
        marks.surface("pick", corners, camera.eye, ORANGE)
        marks.label("picked", _label(pick), frame.to_page(pick.position))
        record.insert_sleep(SHOWN)
    if costs:
        meshes.set_visible(False)
        for handle in costs:
            handle.visible = True
        record.insert_sleep(SHOWN)
    return str(record.as_html())


def _label(pick: Pick) -> str:
    """Return the text of a pick's label."""
    name = "" if pick.name is None else f" of {pick.name}"
    return f"face {grouped(pick.prim_id)}{name}, t = {pick.t:.6g}"


def _costs(scene: Scene, drawing: PageDrawing, eye: Floats) -> list[Any]:
    """Return the meshes of a drawing with a colour of each vertex: the cost of a ray to it."""
    import trimesh

    copies: list[tuple[DrawnMesh, Floats]] = [
        (part, placed(part, k)) for part in drawing.parts for k in range(len(part.places))
    ]
    costs = []
    for _, points in copies:
        hits: Any = scene.closest_hit(eye, drawing.frame.to_world(points) - eye, counters=True)
        costs.append(np.asarray(hits.nodes + hits.tests, np.float64))
    hottest = hottest_of(np.concatenate([np.empty(0), *costs]))
    found = []
    for (part, points), cost in zip(copies, costs, strict=True):
        mesh = trimesh.Trimesh(points, part.faces, process=False)
        colours = in_bytes(heat(cost, hottest))
        mesh.visual = trimesh.visual.ColorVisuals(mesh, vertex_colors=colours)
        found.append(mesh)
    return found
