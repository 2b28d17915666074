"""Overlap kernels: boxes, balls and frustums against a tree, tree against tree.

Each file imports only from those above it.

| file | contents |
|---|---|
| `regions.py` | Regions of overlap queries (boxes, balls, convex polytopes) against nodes and primitives |
| `instanced_regions.py` | Regions of overlap queries in the frame of an instance's tree, and boxes against them |
| `region_search.py` | Region search in a tree or a scene: the primitives that overlap boxes, balls or polytopes |
| `tree_to_tree.py` | Transform between the local frames of two trees, applied to boxes and triangles |
| `tree_pairs.py` | Search for pairs of faces that intersect: of two trees, or of one tree with itself |
"""
