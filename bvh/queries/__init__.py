"""`BVH`, its queries in batches on threads, and their results.

Each file imports only from those above it.

| file | contents |
|---|---|
| `batches/` | Batches of rays, points and regions, in chunks on threads. |
| `point_arguments.py` | Batches of query points: checked, flat, with their limits |
| `results.py` | Results of queries: closest hits, all hits, closest points |
| `overlap_results.py` | Results of overlap queries: primitives that overlap regions, and pairs of faces |
| `targets.py` | Target of a query: the arrays of a tree or of a scene |
| `ray_arguments.py` | Arguments of ray queries: checked, broadcast, and as kernels take them |
| `containment.py` | Inside or outside of a closed mesh, by the parity of crossings |
| `tree_base.py` | Base class of `BVH`: its arrays, properties, statistics and pickling |
| `overlap_queries.py` | Overlap queries of a tree: primitives that overlap a region, pairs of faces that meet |
| `point_queries.py` | Point queries of a tree: closest points, distances, inside or outside, winding numbers |
| `ray_queries.py` | Ray queries of a tree: the closest hit, any hit, all hits, how many |
| `refitting.py` | `BVH.refit`: update a tree in place after its primitives have moved |
| `hierarchy.py` | `BVH`: a tree over triangles, boxes or custom primitives, and its constructors |
"""
