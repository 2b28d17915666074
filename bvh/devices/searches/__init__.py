"""Rays and points in a tree or a scene: float32 discards, what is left is decided exactly.

Each file imports only from those above it.

| file | contents |
|---|---|
| `moved.py` | Leaves of a scene: rays in the frame of their tree, and their faces in the world |
| `local_rays.py` | Rays in the local frame of a tree: set up, and tested against boxes and triangles |
| `rays.py` | Rays through a tree or a scene |
| `points.py` | Closest points of a tree |
"""
