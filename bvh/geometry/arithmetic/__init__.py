"""Floating-point and rational arithmetic that geometric predicates rely on.

Each file imports only from those above it.

| file | contents |
|---|---|
| `games.py` | Matrix games: weights of the rows of small matrices that make the sums of columns equal |
| `floats.py` | Floating-point functions for kernels: bits, powers of two, error-free transformations |
| `exact_sums.py` | Exact sums of products of doubles, and their signs and quotients |
| `roots.py` | The double nearest to a root, found by exact signs from an estimate of it |
| `rational.py` | Exact arithmetic in rows of integers: points, planes, faces, clipping, distances |
| `rational_surfaces.py` | Exact tests of spheres and capsules with balls and convex polytopes |
| `vectors.py` | Vectors of three numbers as tuples: their products and differences, every operation rounded |
| `feature_distances.py` | Distances from a point to a vertex, an edge and a plane, of any size |
| `predicates.py` | Exact orientation predicates: signs of areas and volumes spanned by points |
| `edge_sides.py` | Sides of edges: on which side a ray passes each edge of a triangle, exactly |
"""
