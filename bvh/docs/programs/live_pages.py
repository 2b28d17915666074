"""Live pages: a lasso, a section, the cost of rays and a cloud of points, each as one HTML file.

Run it as ``python -m bvh.docs.programs.live_pages FOLDER``, with names of pages for some of them.
Each page can be turned, needs no server, and loads nothing. The site has them; `.ci/thumbnails.py`
takes their pictures.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.apps.demo import demo_scene
from bvh.apps.viewer.drawing import PageDrawing, PageFrame, face_triangles
from bvh.apps.viewer.html_export import write_page
from bvh.apps.viewer.tools.marks import BLUE, Marked, Marks
from bvh.apps.viewer.tools.sectioning import cut_by
from bvh.apps.viewer.tools.views import first_view
from bvh.docs.programs.gallery.scenery import street
from bvh.pictures.colours import RANGE, heat, hottest_of, in_bytes, ramp
from bvh.runtime.arguments import grouped

UP = np.array([0.0, 0.0, 1.0])


def lasso(path: Path) -> int:
    """Write a scene with the visible faces inside a lasso; return how many there are."""
    scene, _ = demo_scene()
    frame = PageFrame.around(scene.bounds)
    camera = first_view(scene, frame, UP)
    a = np.linspace(0.0, 2.0 * np.pi, 60, endpoint=False)
    middle = np.array([0.52, 0.5]) * [camera.width, camera.height]
    size = np.array([0.11, 0.09]) * camera.height
    line = middle + size * np.stack([np.cos(a), np.sin(a)], axis=1)
    seen = bvh.Camera.look_at(
        frame.to_world(camera.eye), frame.to_world(np.zeros(3)), UP,
        2.0 * np.degrees(np.arctan(camera.half_height)), camera.width, camera.height,
    )  # fmt: skip
    found = scene.pick_lasso(seen, line, mode="inside", visible_only=True)

    def draw(_: Any, marks: Marks, drawing: PageDrawing) -> list[Any]:
        for row, leaf in enumerate(found.leaf.tolist()):
            marked = Marked.of(scene, leaf, found[row])
            corners = marks.placed(marked, face_triangles(marked.tree, marked.ids))
            marks.surface(f"lasso {leaf}", corners, seen.eye, BLUE)
        # In front of what it selects.
        start, along = np.array([seen.ray(*point) for point in line]).swapaxes(0, 1)
        far = 0.8 * np.linalg.norm(seen.eye - frame.centre)
        loop = frame.to_page(start + far * along / np.linalg.norm(along, axis=1, keepdims=True))
        marks.lines("line", np.stack([loop, np.roll(loop, -1, axis=0)], axis=1), BLUE, 2.0)
        return drawing.parts

    instances = len(np.unique(found.instance_id))
    text = f"{grouped(len(found))} faces of {instances} instances are in the lasso"
    write_page(path, scene, "A lasso", UP, 10**6, seen, draw=draw, text=text)
    return len(found)


def section(path: Path) -> float:
    """Write a machine part that a plane has cut open; return the area of the section."""
    tree = bvh.BVH.from_triangles(*bundled("meshes.cad_part").cad_part())
    scene = bvh.Scene()
    scene.add(tree)
    normal, offset = np.array([0.0, -1.0, 0.0]), 0.0
    cut: Any = tree.section([*normal, -offset])

    def draw(server: Any, marks: Marks, drawing: PageDrawing) -> list[Any]:
        # It is that of the whole part.
        server.scene.remove_by_name("/shadow")
        found = cut_by((normal, offset), drawing.parts, drawing.frame)
        found.mark(marks, drawing.frame.to_world(3.0 * np.array([1.0, -2.0, 1.0])))
        return found.parts

    text = f"tree.section finds {len(cut.loops)} loops, {cut.area / 100.0:.1f} cm\u00b2"
    half = [np.where(normal < 0.0, offset, tree.bounds[0]), tree.bounds[1]]
    camera = bvh.Camera.framing(half, [0.45, 1.0, -0.45], UP, fill=0.8)
    write_page(path, scene, "A section", UP, 10**6, camera, draw=draw, text=text)
    return float(cut.area)


def cost(path: Path) -> int:
    """Write a sculpture coloured by the cost of rays; return the cost that is drawn as white."""
    vertices, faces = bundled("meshes.sculpture").sculpture(60)
    tree, scene = bvh.BVH.from_triangles(vertices, faces), bvh.Scene()
    scene.add(tree)
    frame = PageFrame.around(scene.bounds)
    eye = frame.to_world(first_view(scene, frame, UP).eye)
    hits = tree.closest_hit(eye, vertices - eye, counters=True)
    costs = (hits.nodes + hits.tests).astype(float)
    # Vertices have the mean of their neighbours, so that single rays do not make noise.
    for _ in range(2):
        total, count = np.zeros_like(costs), np.zeros_like(costs)
        for k in range(3):
            np.add.at(total, faces[:, k], costs[faces].mean(axis=1))
            np.add.at(count, faces[:, k], 1.0)
        costs = total / np.maximum(count, 1.0)
    hottest = hottest_of(costs)
    colours = in_bytes(heat(costs, hottest) ** 0.7)

    def draw(server: Any, _: Marks, drawing: PageDrawing) -> list[Any]:
        import trimesh

        points = drawing.frame.to_page(vertices)
        mesh = trimesh.Trimesh(points, faces, vertex_colors=colours, process=False)
        server.scene.add_mesh_trimesh("/cost", mesh, cast_shadow=False, receive_shadow=False)
        return []

    text = (
        f"nodes and groups of triangles that a ray visits, from 0 (blue) to {hottest:.0f} (white)"
    )
    write_page(path, scene, "The cost of rays", UP, 10**6, draw=draw, text=text)
    return int(hottest)


def cloud(path: Path) -> int:
    """Write the points that a lidar sees of a street, coloured by distance; return how many."""
    solid, leaves = street(24)
    trees = [bvh.BVH.from_mesh(part) for part in (solid, leaves)]
    turn, dip = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 1800), np.linspace(-0.4, 0.3, 64))
    pulses = np.stack([np.cos(dip) * np.cos(turn), np.cos(dip) * np.sin(turn), np.sin(dip)], -1)
    car = np.array([0.0, 0.0, 2.0])
    t = np.minimum(*(tree.closest_hit(car, pulses, t_max=70.0).t for tree in trees))
    hit = np.isfinite(t)
    points = car + t[hit, None] * pulses[hit]
    scene = bvh.Scene()
    scene.add(bvh.BVH.from_points(points))
    colours = in_bytes(ramp(np.sqrt(t[hit] / 70.0), RANGE))

    def draw(server: Any, _: Marks, drawing: PageDrawing) -> list[Any]:
        server.scene.add_point_cloud(
            "/cloud", drawing.frame.to_page(points).astype(np.float32), colours,
            point_size=0.003, point_shape="circle",
        )  # fmt: skip
        return []

    text = f"{grouped(len(points))} points of one turn, by distance"
    camera = bvh.Camera.look_at([-40.0, -45.0, 40.0], [2.0, 1.0, 0.0], UP, 35.0)
    write_page(path, scene, "A lidar in a street", UP, 10**6, camera, draw=draw, text=text)
    return len(points)


PAGES: dict[str, Callable[[Path], float]] = {
    "lasso": lasso, "section": section, "cost": cost, "cloud": cloud,
}  # fmt: skip


if __name__ == "__main__":
    parser = ArgumentParser("python -m bvh.docs.programs.live_pages", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where pages are written")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PAGES))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or PAGES:
        found = PAGES[name](given.folder / f"{name}.html")
        print(f"{name}.html: {found:.6g}")
