"""Meshes larger than memory: cut into parts, each a tree in a file, and queried as one tree.

Each file imports only from those above it.

| file | contents |
|---|---|
| `mesh_windows.py` | Windows of a large mesh: its triangles and their groups, some at a time, from arrays or files |
| `part_splits.py` | Splits of a large mesh into parts: binned SAH over a grid of centroids |
| `open_parts.py` | Parts that are open: mapped trees with their ids, as many as memory is given for |
| `part_scenes.py` | Open parts as one scene, in which rays meet all of them at once, by a TLAS over their boxes |
| `part_visits.py` | Visits of parts: which rays, points and regions go to which part, near to far |
| `part_targets.py` | Targets of queries of a mesh in parts: parts are searched near to far, and answers merged |
| `part_content.py` | Content of a mesh in parts: boxes, sizes, sources and vertices, read from its folder |
| `parts.py` | `Parts`: a mesh in parts, each a tree in a file, with the queries of one tree; and `bvh.load` |
| `partitioning.py` | `bvh.partition`: cuts a mesh larger than memory into parts, each a tree in a file |
"""
