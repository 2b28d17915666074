"""Point query kernels: closest point, k nearest, winding number.

Each file imports only from those above it.

| file | contents |
|---|---|
| `point_bounds.py` | Bounds of the distances from a point to boxes and to triangles, WIDTH at a time, in float32 |
| `closest_shape.py` | The nearest spheres or capsules of points, in float64 throughout |
| `scratch.py` | Scratch memory of a thread for point queries: a stack, and candidates |
| `winding_number.py` | Winding numbers of points: multipoles of far nodes, solid angles of near faces |
| `world_metric.py` | The world metric of an instance, and distances from points to its boxes and triangles by it |
| `counted_faces.py` | Faces that count for a query of points: those that share a bit with its mask |
| `point_walks.py` | Traversal loops of point queries, in float32 and float64, shared by trees and scenes |
| `closest_point.py` | The closest triangle and the k nearest triangles of points, in a tree or a scene |
| `instanced_closest_point.py` | Closest points in a scene: its TLAS, and distances in the frames of its BLAS |
"""
