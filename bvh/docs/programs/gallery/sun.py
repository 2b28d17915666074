"""Sun hours and a viewshed: how long does the sun shine there, and from where is the tower seen?"""

from pathlib import Path

import numpy as np

import bvh
from bvh.docs.programs.gallery.scenery import city
from bvh.docs.programs.gallery.sheet import BLUE, SUN, Lit, Sheet, colours

TEXT = "Rays to the sun all of a day in April, and to the mast"
VIEW = ["#e4e7ea", BLUE]
TOP, LATITUDE, TILT = np.array([0.0, 0.0, 150.0]), np.radians(48.0), np.radians(12.0)


def main(path: Path, width: int = 1000, n: int = 4) -> dict[str, float]:
    """Draw both; return the longest sunshine and the share of points that see the tower."""
    sheet = Sheet(width, 7.2, "Where does the sun shine, and who sees the tower?", TEXT)
    town, hours = bvh.BVH.from_triangles(*city(n)), np.arange(-7.0, 7.0, 1.0 / 3.0)
    turn = np.radians(15.0 * hours)
    high = np.sin(LATITUDE) * np.sin(TILT) + np.cos(LATITUDE) * np.cos(TILT) * np.cos(turn)
    south = np.sin(LATITUDE) * np.cos(TILT) * np.cos(turn) - np.cos(LATITUDE) * np.sin(TILT)
    suns = np.stack([-np.cos(TILT) * np.sin(turn), -south, high], axis=1)[high > 0.0]
    size, map_size = sheet.raster(6.7, 6.0), sheet.raster(5.1, 5.1)
    camera = bvh.Camera.look_at([-420, -560, 440], [15, 5, 20], fov_y=34, **size)
    view = Lit(town, camera, contrast=0.4, lamp=[-0.6, -0.5, 0.7])
    start, total = view.position + 1e-6 * view.normals, np.zeros(len(view.id))
    for sun in suns:
        total += (view.normals @ sun > 0.0) & ~town.any_hit(start, sun)
    sheet.panel(0.0, 1.1, 6.7, 6.0, view.painted(colours(total / len(suns), SUN)))
    above = bvh.Camera.orthographic([0, 0, 500], [0, 0, 0], "y", 97.0 * n, **map_size)
    seen = Lit(town, above, contrast=0.4, lamp=[0.0, 0.0, 1.0])
    start = seen.position + 1e-6 * seen.normals
    sees = 1.0 - np.asarray(town.any_hit(start, TOP - start, t_max=1.0))
    sheet.panel(6.6, 1.75, 5.1, 5.1, seen.painted(colours(sees, VIEW)))
    sheet.text(6.6, 1.62, "Blue: the top of the mast is seen from here", size=12.5)
    sheet.bar(9.2, 0.55, SUN, [0, 3.4, 6.8, 10.3, "13.7 h"], "Hours of sun")
    sheet.save(path)
    return {"hours": float(total.max()) / 3.0, "seeing": float(sees.mean())}
