"""HTML export: one file that shows a scene, picks, and the costs of rays, without a server."""

from __future__ import annotations

import html
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

from bvh.apps.page_server import HOST, new_server, set_up, silent
from bvh.apps.viewer.drawing import DrawnMesh, Floats, PageDrawing, face_triangles
from bvh.apps.viewer.meshes import Meshes
from bvh.apps.viewer.tools.marks import ORANGE, Marked, Marks
from bvh.apps.viewer.tools.sectioning import placed
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


def written_html(
    path: str | os.PathLike[str], scene: Scene, drawing: PageDrawing, camera: Camera, up: Floats,
    picks: Sequence[Pick] = (), title: str = "Scene",
) -> int:  # fmt: skip
    """Write a page of a drawing of a scene, seen by a world camera; return its size in bytes.

    The page shows the meshes, then the picks, too, then the cost of a ray to each vertex.
    """
    check_page_path(path)
    coloured = sum(len(part.places) * len(part.vertices) for part in drawing.parts) <= LARGEST
    server = new_server(HOST, 0, title)
    try:
        text = _played(server, scene, drawing, camera, up, picks, coloured)
    finally:
        with silent():
            server.stop()
    rows = ["drag to turn", *map(_told, picks)]
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
    picks: Sequence[Pick], coloured: bool,
) -> str:  # fmt: skip
    """Return a page, as HTML, that shows meshes, picks and, if `coloured`, costs in turn."""
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
    marks = Marks(server.scene, lambda: frame)
    for k, pick in enumerate(picks):
        marked = Marked.of(scene, pick.leaf, np.array([pick.prim_id]))
        corners = marks.placed(marked, face_triangles(marked.tree, marked.ids))
        marks.surface(f"pick {k}", corners, camera.eye, ORANGE)
        marks.label(f"picked {k}", _told(pick), frame.to_page(pick.position))
    if picks:
        record.insert_sleep(SHOWN)
    if costs:
        meshes.set_visible(False)
        for handle in costs:
            handle.visible = True
        record.insert_sleep(SHOWN)
    return str(record.as_html())


def _told(pick: Pick) -> str:
    """Return the text of a pick's label."""
    name = "" if pick.name is None else f" of {pick.name}"
    return f"face {grouped(pick.prim_id)}{name}, t = {pick.t:.6g}"


def _costs(scene: Scene, drawing: PageDrawing, eye: Floats) -> list[trimesh.Trimesh]:
    """Return the meshes of a drawing with a colour of each vertex: the cost of a ray to it."""
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
