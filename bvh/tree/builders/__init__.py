"""Builders of binary trees from records of primitives' boxes.

Only `space` deals with triangles. Queries return the same for any builder; only the speed and
the shape of a tree depend on it.

Each file imports only from those above it.

| file | contents |
|---|---|
| `records.py` | Box records, the input of builders, bins of them, and operations on both |
| `bins.py` | Bins: equal intervals of the centres of a range of records, and the split between two of them |
| `space.py` | Spatial splits: the planes that a range of records can be split at, and the split at one |
| `subtrees.py` | Subtrees that threads build in parallel, and the limit of depth; shared by all builders |
| `grid.py` | The top of a tree, split between the cells of a grid; threads share the passes |
| `shared_splits.py` | The top of a tree with spatial splits, level by level; threads share the passes |
| `binned_sah.py` | Top-down builder: binned surface area heuristic (Wald 2007, "On fast construction of SAH-based bounding volume hierarchies") |
| `sbvh.py` | Builder with spatial splits (Stich, Friedrich and Dietrich 2009, "Spatial splits in bounding volume hierarchies") |
"""
