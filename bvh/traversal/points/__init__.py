"""Point query kernels: closest point, k nearest, winding number.

Each file imports only from those above it.

| file | contents |
|---|---|
| `point_bounds.py` | Bounds of the distances from a point to boxes and to triangles, WIDTH at a time, in float32 |
| `double_bounds.py` | Nodes as a point sees them in float64, and rows of nearest triangles |
| `scratch.py` | Scratch of a thread that takes points through trees: a stack, and candidates |
| `winding_number.py` | Winding numbers of points: nodes far away by their multipoles, near faces by their solid angles |
| `world_metric.py` | The world metric of an instance: how lengths in its tree compare with lengths in the world |
| `world_distances.py` | Distances in the world from a point to the boxes and triangles of an instance, in float32 |
| `point_walks.py` | The two loops that take a point through a tree, shared by trees and scenes |
| `closest_point.py` | The closest triangle and the k nearest triangles of points, in a tree or a scene |
| `instanced_closest_point.py` | What a scene adds to `closest_point`: its top level, and the frames of its instances' trees |
"""  # noqa: E501
