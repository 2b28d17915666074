"""Answers as callers get them: in numpy's arrays, or in those of the library that they use.

Each file imports only from those above it.

| file | contents |
|---|---|
| `other_libraries.py` | Queries of other libraries' arrays, such as PyTorch's: results are arrays of the same library |
| `result_bases.py` | Bases of results: one entry a query, or any number; as arrays of any library |
| `locations.py` | Positions and normals of hits, and of points on faces; those of hits are computed on first access |
| `clearances.py` | `Clearances` of two meshes, and of the instances of a scene: distances and nearest points |
| `solids.py` | `Intersections` of meshes and planes; `Penetrations` and `OverlapVolumes` of solids |
| `interferences.py` | `Interferences` of the instances of a scene: relation, shared volume, depth, where they meet |
"""
