"""Deviation: how far is a scan from the plan, in the coordinates of a map?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import PLACE, bulge, tower
from bvh.docs.programs.gallery.sheet import SIGN, Lit, Sheet, colours, ground

TEXT = "A scan's signed distance from its plan, 5 800 000 m north"


def main(path: Path, width: int = 1000, n: int = 400) -> dict[str, float]:
    """Draw the deviation by float64 and by float32; return the largest error of each.

    Errors are differences from `bulge`, which is how the tower was made to deviate.
    """
    (points, faces), built = tower(n)
    scan, sheet = bvh.Scene(), Sheet(width, 7.4, "Is the tower built as planned?", TEXT)
    scan.add(built)
    floor = ground(scan, PLACE, 2e3)
    size, eye = sheet.raster(5.9, 6.2), PLACE + [-60.0, -320.0, 100.0]
    camera = bvh.Camera.look_at(eye, PLACE + [0.0, 0.0, 54.0], fov_y=23.5, **size)
    view, errors = Lit(scan, camera, floor, 0.7, lamp=[-0.2, -1.0, 1.3]), {}
    for k, kind in enumerate((np.float64, np.float32)):
        plan = bvh.BVH.from_triangles(points.astype(kind), faces)
        found = plan.signed_distance(view.position.astype(kind))
        on_tower = ~view.shadow  # a mask of points on the floor
        worst = float(np.abs(found - bulge(view.position))[on_tower].max())
        # The bar has colours from -0.06 m to 0.06 m.
        sheet.panel(0.1 + 5.9 * k, 1.1, 5.9, 6.2, view.painted(colours(0.5 + found / 0.12, SIGN)))
        text = f"{kind.__name__}: wrong by up to {1e3 * worst:.1f} mm"
        sheet.text(1.7 + 5.9 * k, 1.2, text, size=12.5)
        errors[kind.__name__] = worst
    sheet.bar(9.2, 0.55, SIGN, [-6, -3, 0, 3, "6 cm"], "From the plan")
    sheet.save(path)
    return errors
