"""Point query kernels: closest point, k nearest, winding numbers.

Each file imports only from those above it.

| file | contents |
|---|---|
| `point_bounds.py` | Bounds of the distances from a point to boxes and to triangles, WIDTH at a time, in float32 |
| `parity.py` | Points inside or outside by parity: directions of their rays, and which of them are near faces |
| `scratch.py` | Scratch memory of a thread for point queries: a stack, and candidates |
| `edge_factors.py` | Angles of single edges as seen from a point, exactly, and sums of them far away |
| `boundary_angles.py` | Winding numbers of points: signed crossings of a ray, and angles over the boundary's edges |
| `winding_number.py` | Winding numbers by a series: multipoles of far nodes, solid angles of near faces |
| `world_metric.py` | The world metric of an instance, and distances from points to its boxes and triangles by it |
| `point_walks.py` | Traversal loops of point queries, in float32 and float64, shared by trees and scenes |
| `closest_point.py` | The closest triangle of points, in a tree or a scene, and the k nearest triangles |
| `instanced_closest_point.py` | Closest points in a scene: its TLAS, and distances in the frames of its BLAS |
| `shape_points.py` | Spheres and capsules nearest to points, and around them, in a tree or a scene |
"""
