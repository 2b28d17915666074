"""Wall thickness: how much material is behind each point of a part?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.docs.programs.gallery.sheet import THICK, Lit, Sheet, colours, ground

THINNEST, THICKEST = 4.0, 14.0


def main(path: Path, width: int = 1000) -> dict[str, float]:
    """Draw the flange in the colours of its walls; return the thinnest and the thickest seen."""
    part, scene = bvh.BVH.from_triangles(*bundled("meshes.cad_part").cad_part()), bvh.Scene()
    scene.add(part)
    floor = ground(scene)
    text = "A ray inward from every point that is seen"
    sheet = Sheet(width, 7.0, "How thick are the walls?", text)
    camera = bvh.Camera.look_at([210, -420, 330], [2, 0, 17], fov_y=11, **sheet.raster(11.4, 5.9))
    view = Lit(scene, camera, floor, lamp=[-0.55, -0.5, 0.9])
    found = np.asarray(part.thickness(points_at=view.position[~view.shadow]))
    shares = np.zeros(len(view.id))
    shares[~view.shadow] = (found - THINNEST) / (THICKEST - THINNEST)
    sheet.panel(0.3, 0.95, 11.4, 5.9, view.painted(colours(shares, THICK)))
    sheet.bar(9.2, 0.55, THICK, [4, 6.5, 9, 11.5, "≥ 14"], "Thickness in mm")
    sheet.save(path)
    return {"thinnest": float(found.min()), "thickest": float(found.max())}
