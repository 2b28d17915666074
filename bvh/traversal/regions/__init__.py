"""Region kernels: boxes, balls and frustums against a tree or a scene.

Each file imports only from those above it.

| file | contents |
|---|---|
| `regions.py` | Regions of overlap queries (boxes, balls, convex polytopes) against nodes and primitives |
| `instanced_regions.py` | Regions of overlap queries in the frame of an instance's tree, and boxes against them |
| `region_search.py` | Region search in a tree or a scene: the primitives that overlap boxes, balls or polytopes |
"""
