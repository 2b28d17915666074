"""Overlap kernels: boxes, balls and frustums against a tree, tree against tree.

Each file imports only from those above it.

| file | contents |
|---|---|
| `regions.py` | Regions of overlap queries (boxes, balls, convex polytopes) against nodes and primitives |
| `instanced_regions.py` | Regions of overlap queries in the frame of an instance's tree, and boxes against them |
| `region_search.py` | Region search in one tree: the primitives that meet boxes, balls or polytopes |
| `instanced_region_search.py` | Region search in a scene: the leaves of the top level (TLAS), then their trees (BLAS) |
| `tree_to_tree.py` | The map from one tree's local frame to another's, and boxes and triangles brought there |
| `tree_pairs.py` | Pairs of faces that meet: of two trees, or of one tree against itself |
"""  # noqa: E501
