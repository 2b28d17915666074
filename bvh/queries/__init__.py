"""`BVH`, its queries in batches on threads, and their results.

Each file imports only from those above it.

| file | contents |
|---|---|
| `verbs.py` | Declarations of queries: their arrays, their results, and how answers of parts become one |
| `query_arguments.py` | Arguments of queries: rays, points and options, checked, as kernels take them |
| `answers/` | Answers as callers get them: in numpy's arrays, or in those of the library that they use. |
| `results.py` | Results of queries: closest hits, all hits, closest points, overlaps, pairs in a scene |
| `targets.py` | Interface that searchable objects provide to queries: trees, scenes, meshes in parts |
| `batches/` | Batches of rays, points and regions, in chunks on threads. |
| `tree_base.py` | Base class of `BVH`: its arrays, properties, targets of queries, and pickling |
| `methods/` | Queries as trees and scenes have them: signatures, documentation, routes; one kind a file. |
| `tree_queries.py` | Queries of a tree alone: statistics, files, faces of the source, closedness |
| `heightfields.py` | Height fields: heights on a grid of rows and columns as triangles, numbered by cells |
| `mesh_trees.py` | Constructors of trees over triangles: from arrays, meshes and files |
| `refitting.py` | `BVH.refit`: update a tree in place after its primitives have moved |
| `solid_queries.py` | Queries of solids: how two are related, what they share, how thick one is |
| `public_names.py` | Names in errors of public classes: of inherited methods, functions elsewhere, and options |
| `hierarchy.py` | `BVH`: a tree over triangles, boxes or custom primitives, and its constructors |
"""
