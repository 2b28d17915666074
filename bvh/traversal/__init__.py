"""Traversal kernels: what rays, points and regions meet in a tree or a scene.

Each file imports only from those above it.

| file | contents |
|---|---|
| `regions/` | Region kernels: boxes, balls and frustums against a tree or a scene. |
| `pairs/` | Pair kernels: which faces of two trees meet, or are closest. |
| `points/` | Point query kernels: closest point, k nearest, winding number. |
| `rays/` | Ray traversal kernels: streams and single rays, leaves, candidates, hit details. |
"""
