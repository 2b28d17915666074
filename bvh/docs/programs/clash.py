"""Where do two solids meet, how much do they share, and how deep are they in each other?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.docs.programs.gallery.sheet import BLUE, INK, ORANGE, RED, Lit, Sheet, ground, rgb

TEXT = "A rod through the wall of a flange, and both in section"


def main(path: Path, width: int = 1000, segments: int = 96) -> dict[str, float]:
    """Draw both solids, the curves in which they meet, and a section; return what they share."""
    part = bvh.BVH.from_triangles(*bundled("meshes.cad_part").cad_part())
    ends = [(0.0, -60.0), (6.0, -60.0), (6.0, 60.0), (0.0, 60.0)]
    points, faces = bundled("meshes.shapes").lathe(ends, segments)
    a = np.radians(52.0)
    turned = points @ [[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]]
    rod = bvh.BVH.from_triangles(turned + [38.0, -1.0, 34.0], faces)
    shared, depth = part.overlap_volume(rod), part.penetration(rod)
    curves = part.intersections(rod).polylines
    sheet, scene = Sheet(width, 6.0, "Where do they clash?", TEXT), bvh.Scene()
    scene.add(part), scene.add(rod)
    floor = ground(scene)
    camera = bvh.Camera.look_at([190, -330, 250], [8, 0, 24], fov_y=18, **sheet.raster(6.6, 4.9))
    view = Lit(scene, camera, floor, lamp=[0.6, -0.7, 1.2])
    paint = np.where((view.instance == 1)[:, None], rgb(BLUE) * 1.2, 0.8)
    axes = sheet.panel(0.1, 1.0, 6.6, 4.9, view.painted(paint))
    for line in curves:
        x, y, _ = camera.project(line)
        seen = scene.visible(line, camera.eye, margin=1e-3)
        axes.plot(np.where(seen, x, np.nan), y, color=RED, lw=2.4)
    axes = sheet.panel(6.9, 1.4, 4.9, 3.4)
    for solid, colour in ((part, ORANGE), (rod, BLUE)):
        for loop in solid.section([0, 1, 0, 0]).loops:
            axes.fill(loop[:, 0], loop[:, 2], color=colour, alpha=0.55, lw=0)
            axes.plot(loop[:, 0], loop[:, 2], color=INK, lw=1.2)
    axes.set_aspect("equal")
    text = f"{part.relation(rod)}: {shared.volume:.1f} mm³ shared, {depth.depth:.2f} mm deep"
    sheet.text(7.1, 5.4, text, size=12)
    sheet.save(path)
    return {"volume": float(shared.volume), "depth": float(depth.depth)}
