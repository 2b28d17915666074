"""Clearances: how close does a robot come to what is around it, and where?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import robot, swing, table
from bvh.docs.programs.gallery.sheet import BLUE, GREEN, INK, ORANGE, RED, Lit, Sheet, ground, rgb

TEXT = "Each link's distance from the table and what stands on it, in one swing"
NAMES, PENS = ("base", "upper arm", "forearm", "hand"), (GREEN, BLUE, ORANGE, RED)


def main(path: Path, width: int = 1000, n: int = 121) -> dict[str, float]:
    """Draw the closest moment and all of the swing; return each link's least distance."""
    around, motion = bvh.BVH.from_triangles(*table()), swing(n)
    links = [bvh.BVH.from_triangles(*link) for link in robot()]
    # A batch of matrices for each link, a distance for each matrix.
    found = [around.distance_to(*each) for each in zip(links, motion, strict=True)]
    least = {name: float(each.distance.min()) for name, each in zip(NAMES, found, strict=True)}
    moment, scene = int(found[3].distance.argmin()), bvh.Scene()
    scene.add(around)
    arm = [scene.add(link, part[moment]) for link, part in zip(links, motion, strict=True)]
    sheet, floor = Sheet(width, 6.4, "How close does the robot come?", TEXT), ground(scene)
    size = sheet.raster(6.6, 5.3)
    camera = bvh.Camera.look_at([4.6, -4.6, 3.4], [1.15, 0, 0.6], fov_y=30, **size)
    view = Lit(scene, camera, floor)
    paint = np.full((len(view.id), 3), 0.8)
    for k, name in enumerate(PENS):
        paint[view.instance == arm[k]] = 0.25 + 0.75 * rgb(name)
    axes = sheet.panel(0.0, 1.1, 6.6, 5.3, view.painted(paint))
    chart = sheet.panel(7.4, 1.5, 4.3, 4.2)
    for each, name, pen in zip(found, NAMES, PENS, strict=True):
        x, y, _ = camera.project(each.position[moment])
        axes.plot(x, y, "o-", color=INK, lw=1.6, ms=3.5)
        chart.plot(np.linspace(0.0, 4.0, n), 100.0 * each.distance, color=pen, lw=2.2, label=name)
    chart.set(xticks=range(5), yticks=range(0, 81, 20), xlabel="seconds", ylim=(0, None))
    chart.grid(color="#e7ebee")
    chart.legend(frameon=False, fontsize=11, loc="upper center")
    sheet.text(7.4, 1.4, "Clearance in cm", size=12.5)
    sheet.save(path)
    return least
