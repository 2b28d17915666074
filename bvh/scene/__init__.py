"""`Scene`: instances, their two-level tree, and its queries.

Each file imports only from those above it.

| file | contents |
|---|---|
| `files/` | Saved trees and scenes: written, read, mapped and checked; scenes of other libraries. |
| `merged_leaves.py` | Merged leaves of a scene: its triangles as one mesh, and as one tree where that pays |
| `scene_view.py` | Instanced trees of a scene: a TLAS over the boxes of leaves, and the BLAS that they share |
| `table.py` | Table of a scene's instances: children under affine maps, in growing columns |
| `instance_pairs.py` | Overlap searches of scenes: faces that overlap regions, pairs of faces that meet; pairs of instances to ignore |
| `instance_contacts.py` | Contacts of instances, the distances between those that do not touch, and relations of solids |
| `leaves.py` | Flattened instances of a scene: its *leaves*, the trees at the ends of paths of nested scenes |
| `stats.py` | Statistics of a scene: instances, leaves, trees and memory |
| `content.py` | State of a scene: its instances, its leaves, and the two levels that kernels traverse |
| `instance_access.py` | Instances of a scene: looked up by their ids, moved, hidden, renamed, replaced and removed |
| `scene_queries.py` | Queries of a scene: what it adds to those that trees and scenes share |
| `picking.py` | Queries of a scene by a cursor, a rectangle or a lasso in the picture |
| `scene.py` | `Scene`: instances of trees and of other scenes, which can be added, moved and removed |
"""
