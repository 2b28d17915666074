"""Trees: memory layouts, primitives, construction, refits and statistics.

Each file imports only from those above it.

| file | contents |
|---|---|
| `builders/` | Builders of binary trees from records of primitives' boxes. |
| `changes.py` | Modification counters of trees and scenes in this process |
| `frame.py` | The local frame of a tree: its memory layout and accessors |
| `hulls.py` | Discrete oriented polytope (26-DOP) around points, by its vertices |
| `rows.py` | Tree rows: the one layout in which a tree stands in memory for kernels, and its accessors |
| `shapes.py` | Shapes: kinds of primitives that are rows of numbers, such as boxes; a class for each |
| `instanced.py` | Instanced trees: arrays of the transforms and trees of a scene, as kernels read them |
| `multipoles.py` | Multipole expansion of the solid angle of a piece of surface, as seen from far away |
| `nodes.py` | Binary nodes, which builders make: their memory layout and accessors, and float32 boxes |
| `primitives.py` | Primitives of a tree: triangles, shapes and users' own, with one ray test |
| `open_edges.py` | Open edges of a mesh: whether its faces bound a volume, so that the parity of crossings counts |
| `boundary.py` | The boundary of an oriented surface, as closed loops, whose angles give winding numbers |
| `edge_rule.py` | Edge rule: which one of the faces that share an edge or vertex is crossed by a ray through it |
| `compact_groups.py` | Compact groups: triangle groups of 16-bit numbers, of half the bytes, on a grid of their own |
| `triangle_groups.py` | Triangle groups: their memory layout and accessors, and the filter of a ray against them |
| `wide_nodes.py` | Wide nodes, which queries traverse: their memory layout and accessors |
| `binary_nodes.py` | Binary nodes of a tree, as devices have them, made from its wide nodes |
| `face_bits.py` | Bits of faces, which select the faces that a query sees: in the order of faces, and of leaves |
| `arrays.py` | `TreeArrays`: the arrays of a tree, its row, and the pointers that kernels make of either |
| `node_view.py` | `TreeNodes`: the nodes of a tree as plain arrays in world coordinates, for a user's traversal |
| `oriented_boxes.py` | Oriented boxes around the children of wide nodes: their memory layout, fitting and accessors |
| `collapse.py` | Collapse of a binary tree to wide nodes, and the visiting orders of their children |
| `build.py` | Build of a tree: from primitives to records in a local frame, to nodes, to its arrays |
| `refit.py` | Refit: new boxes for a tree whose primitives have moved, with the old topology |
| `stats.py` | Statistics of a tree: its size, shape, SAH cost and memory; and the check of its structure |
| `tlas.py` | Top-level acceleration structure (TLAS) of a scene: a tree over moving boxes, one box a leaf |
| `winding_moments.py` | Multipole moments of a surface for fast winding numbers |
| `world_bounds.py` | World bounds of instances, from a few boxes around each tree: its *extent* |
"""
