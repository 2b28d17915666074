"""Exact predicates: one shape a file, its ray test, its distance, its overlaps.

Each file imports only from those above it.

| file | contents |
|---|---|
| `arithmetic/` | Floating-point and rational arithmetic that geometric predicates rely on. |
| `point_triangle.py` | Distance from a point to a triangle: a filter with a proven bound, then an exact computation |
| `ray_shapes.py` | Arguments and results of the `ray_*` functions, which test each ray against its own shape |
| `planes.py` | The exact intersection of a ray with a plane, and `ray_plane` |
| `boxes.py` | The exact slab test of a ray against an axis-aligned box, and `ray_box` |
| `spheres.py` | The interval of a ray in a solid ball, and `ray_sphere` |
| `capsules.py` | The interval of a ray in a solid capsule |
| `round_distances.py` | Distances of points from spheres and capsules, to 4 units in the last place |
| `region_overlap.py` | Overlap tests of triangles and boxes with balls and convex polytopes |
| `transforms.py` | Affine transforms of instances: validation, and correctly rounded application to points |
| `obbs.py` | The exact interval of a ray in an oriented box, and `ray_obb` |
| `pairs/` | Pairs of triangles: whether they overlap, and how far apart they are; pairs with round shapes. |
| `triangles.py` | The exact intersection of a ray with a triangle, and `ray_triangle` |
"""
