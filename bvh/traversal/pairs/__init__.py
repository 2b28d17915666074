"""Pair kernels: which faces of two trees meet, or are closest.

Each file imports only from those above it.

| file | contents |
|---|---|
| `pair_frames.py` | Frame of a pair of trees: the maps of both sides to it, with margins, applied to their boxes |
| `pair_walk.py` | Walk through pairs of subtrees of two trees: the stack, the task, and the loop of both searches |
| `meeting_pairs.py` | Search for pairs of faces that intersect: of two trees, or of one tree with itself |
| `closest_memory.py` | Memory of a search for the closest pair of two trees, and the tables of its addresses |
| `near_pairs.py` | Pairs of boxes of two trees, by their distances: opened, sorted and pushed |
| `near_faces.py` | Faces of two leaves: those that may be near enough, and lower bounds of their distances in lanes |
| `measured_pairs.py` | Measurement of pairs of faces: the bound, nearest and common points, shared vertices |
| `closest_pairs.py` | Search for the closest pair of faces of two trees |
"""
