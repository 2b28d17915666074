"""Exact arithmetic of device kernels: bit for bit what `geometry` has for CPUs.

Each file imports only from those above it.

| file | contents |
|---|---|
| `arithmetic.py` | Floating-point functions |
| `volumes.py` | Exact volumes of three vectors, by expansions |
| `triangles.py` | The exact intersection of a ray with a triangle |
| `near.py` | The same for rays that pass near an edge or begin near a face, by a point nearby |
| `point_triangle.py` | Distance from a point to a triangle |
"""
