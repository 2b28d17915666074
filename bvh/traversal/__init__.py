"""Traversal kernels: what rays, points and regions meet in a tree or a scene.

Each file imports only from those above it.

| file | contents |
|---|---|
| `overlaps/` | Overlap kernels: boxes, balls and frustums against a tree, tree against tree. |
| `points/` | Point query kernels: closest point, k nearest, winding number. |
| `rays/` | Ray traversal kernels: streams and single rays, leaves, candidates, hit details. |
"""
