"""`Scene`: instances, their two-level tree, and its queries.

Each file imports only from those above it.

| file | contents |
|---|---|
| `merged_leaves.py` | Merged tree of a scene: one tree over the triangles of all leaves, built where that pays |
| `scene_view.py` | View of a scene for kernels: a TLAS over the boxes of leaves, and the BLAS that they share |
| `table.py` | Table of a scene's instances: children under affine maps, in growing columns |
| `instance_pairs.py` | Overlap searches of scenes: faces that overlap regions, pairs of faces that meet; pairs of instances to ignore |
| `leaves.py` | Leaves of a scene: flattened instances, the trees at the ends of paths through nested scenes |
| `stats.py` | Statistics of a scene: instances, leaves, trees and memory |
| `scene_content.py` | State of a scene: its table of instances, its leaves, and the arrays that kernels traverse |
| `instance_access.py` | Instances of a scene: looked up by their ids, moved, hidden, renamed, replaced and removed |
| `solids/` | Contacts, distances, relations and interferences of a scene's instances |
| `scene_queries.py` | Queries of a scene: targets of the queries that trees and scenes share, and sections |
| `picking.py` | Queries of a scene by a cursor, a rectangle or a lasso in the picture |
| `scene.py` | `Scene`: instances of trees and of other scenes, which can be added, moved and removed |
| `files/` | Saved trees and scenes: written, read, mapped and checked; scenes of other libraries |
"""
