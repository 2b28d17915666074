"""Overlap kernels: boxes, balls and frustums against a tree, tree against tree.

Each file imports only from those above it.

| file | contents |
|---|---|
| `regions.py` | Regions of overlap queries (boxes, balls, convex polytopes) against nodes and primitives |
| `instanced_regions.py` | Regions of overlap queries in the frame of an instance's tree, and boxes against them |
| `region_search.py` | Region search in a tree or a scene: the primitives that overlap boxes, balls or polytopes |
| `tree_to_tree.py` | Transform between the local frames of two trees, applied to boxes and triangles |
| `side_frames.py` | Both trees of a pair in one frame, aligned with the world: their maps, boxes and triangles |
| `distance_memory.py` | Memory of a search for the closest pair of two trees, and the tables of addresses it is given by |
| `tree_pairs.py` | Search for pairs of faces that intersect: of two trees, or of one tree with itself |
| `near_pairs.py` | Pairs of boxes of two trees, by their distances: opened, sorted and pushed |
| `near_faces.py` | Faces of two leaves: those that may be near enough, and lower bounds of their distances in lanes |
| `measured_pairs.py` | Pairs of faces that are measured: the bound, points, shared vertices |
| `common_points.py` | A point of two triangles that touch: where a feature of one meets one of the other, rounded |
| `closest_pairs.py` | Search for the closest pair of faces of two trees |
"""
