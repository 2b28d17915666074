"""`BVH`, its queries in batches on threads, and their results.

Each file imports only from those above it.

| file | contents |
|---|---|
| `batches/` | Batches of rays, points and regions, in chunks on threads. |
| `query_arguments.py` | Arguments of queries: what is searched, and rays and points, checked, as kernels take them |
| `results.py` | Results of queries: closest hits, all hits, closest points, overlaps |
| `containment.py` | Inside or outside of a closed mesh, by the parity of crossings |
| `tree_base.py` | Base class of `BVH`: its arrays, properties, statistics and pickling |
| `overlap_queries.py` | Overlap queries of trees and scenes: primitives that overlap regions, pairs of faces |
| `point_queries.py` | Point queries of trees and scenes: closest points, distances, containment, winding numbers |
| `ray_queries.py` | Ray queries of trees and scenes: the closest hit, any hit, all hits, how many |
| `tree_queries.py` | Queries of a tree: what it adds to those that trees and scenes share |
| `refitting.py` | `BVH.refit`: update a tree in place after its primitives have moved |
| `hierarchy.py` | `BVH`: a tree over triangles, boxes or custom primitives, and its constructors |
"""
