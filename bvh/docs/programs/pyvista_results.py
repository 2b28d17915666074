"""Results back in PyVista: the distance of a surface to another, and hits of rays, in a plotter.

Run with ``python -m bvh.docs.programs.pyvista_results SURFACE OTHER PICTURE.png``; needs PyVista.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import bvh


def plotter_of(surface: Any, other: Any, origins: ArrayLike, directions: ArrayLike) -> Any:
    """Return a plotter, off screen, of a PyVista mesh coloured by its distance to another one.

    `surface` gets a point array "distance", negative inside `other`, which is closed, and a cell
    array "seen", 1 for faces that are hit. Rays (n, 3) are drawn up to their hits; actors are
    "surface", "other", "rays" and "hits".
    """
    import pyvista as pv

    tree = bvh.BVH.from_mesh(surface)
    surface.point_data["distance"] = bvh.BVH.from_mesh(other).signed_distance(surface.points)
    hits = tree.closest_hit(origins, directions)
    # Cells may be quads or polygons, which are several triangles of the tree.
    seen = np.zeros(surface.n_cells, np.uint8)
    seen[tree.face_of(hits.prim_id[hits.mask])] = 1
    surface.cell_data["seen"] = seen
    start = np.broadcast_to(origins, hits.position.shape)[hits.mask]
    ends = hits.position[hits.mask]
    plotter: Any = pv.Plotter(off_screen=True)
    plotter.add_mesh(surface, scalars="distance", cmap="coolwarm", name="surface")
    plotter.add_mesh(other, style="wireframe", color="grey", opacity=0.3, name="other")
    if len(ends):
        lines = pv.line_segments_from_points(np.stack([start, ends], axis=1).reshape(-1, 3))
        plotter.add_mesh(lines, color="black", name="rays")
        points = pv.PolyData(ends)
        points["t"], points["prim_id"] = hits.t[hits.mask], hits.prim_id[hits.mask]
        plotter.add_mesh(points, color="orange", point_size=12.0, name="hits")
    plotter.view_isometric()
    return plotter


if __name__ == "__main__":
    import pyvista as pv

    if len(sys.argv) != 4:
        sys.exit("python -m bvh.docs.programs.pyvista_results SURFACE OTHER PICTURE.png")
    surface, other = (pv.read(name).extract_surface() for name in sys.argv[1:3])
    origins = np.asarray(surface.center) + 3.0 * surface.length * np.eye(3)
    plotter_of(surface, other, origins, surface.center - origins).screenshot(sys.argv[3])
