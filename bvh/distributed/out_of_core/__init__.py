"""Meshes larger than memory: cut into parts, each a tree in a file, and queried as one tree.

Each file imports only from those above it.

| file | contents |
|---|---|
| `mesh_windows.py` | Windows of a large mesh: its triangles, some at a time, from arrays, files or a memory map |
| `part_splits.py` | Splits of a mesh into parts, by a grid of centroids and the surface area heuristic |
| `part_folder.py` | Folder of a partitioned mesh: files of trees and ids, an index with checksums |
| `open_parts.py` | Parts that are open: mapped trees with their ids, as many as memory is given for |
| `part_visits.py` | Visits of parts: which rays, points and regions go to which part, near to far, some at a time |
| `part_results.py` | Merging of answers of parts: the least by (t, id), sums, sorted lists |
| `part_content.py` | Content of a mesh in parts: boxes, sizes, sources and vertices, read from its folder |
| `part_points.py` | Point queries of parts: closest points, distances, containment, winding numbers |
| `parts.py` | `Parts`: a mesh in parts, with the queries of one tree |
| `partitioning.py` | `bvh.partition`: cuts a mesh larger than memory into parts |
| `part_pictures.py` | Trees that look to a camera like a mesh in parts |
| `opening.py` | `bvh.load`: saved trees and scenes, and folders of parts |
"""
