"""Surfaces: how two solids are related, where meshes meet, sections, volumes; exact signs decide.

Each file imports only from those above it. Trees and their queries are arguments of all of them.

| file | contents |
|---|---|
| `numbering.py` | Numbers of distinct rows, edges and connected parts; two meshes that meet, with point ids |
| `pair_signs.py` | Signs of pairs of faces, and the points in which edges cross faces; kernels |
| `surface.py` | `Surface`: the faces of a closed mesh, and the tables that queries of them share |
| `cells.py` | Cells around a point and at contacts: which sides of surfaces meet there, decided exactly |
| `curves.py` | Curves in which two meshes meet, or one meets itself: segments of pairs of faces |
| `sections.py` | Sections of a mesh by a plane; segments as polylines; the parts of faces in a box |
| `relations.py` | How two solids are related: disjoint, touching, overlapping, one inside the other, or equal; parts of edges inside |
| `penetrations.py` | How deep two solids are in each other: the deepest place, with a bound |
| `overlap_terms.py` | Terms of the volume of a solid, or of what two share; kernels |
| `volumes.py` | Volume, centroid and area of a solid: sums over its faces; the volume is correctly rounded |
| `overlap_volumes.py` | The volume that two solids share: its size, centroid, surface area and box |
| `thicknesses.py` | Thickness of a solid at points of its surface: along the normal, or by the ball that fits in |
"""
