"""Exact arithmetic of device kernels: bit for bit what `geometry` has for CPUs.

Each file imports only from those above it.

| file | contents |
|---|---|
| `floats.py` | Floating-point functions |
| `volumes.py` | Exact volumes of three vectors, by expansions |
| `triangles.py` | The exact intersection of a ray with a triangle: sides, and quotients of volumes |
| `measures.py` | t, u and v of hits: by double-doubles, by a point nearby, by exact sums |
| `point_triangle.py` | Distance from a point to a triangle |
"""
