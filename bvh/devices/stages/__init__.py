"""Queries in stages, each with few registers: what is left by one goes on to the next.

1. Search, by boxes and triangles in float32 alone, lists candidates: the triangles that a ray may
   hit first; for lists all that it may hit; for counts those whose hits are not sure, while sure
   hits are counted. In a scene it searches the trees of leaves. Candidates of a point are the
   triangles that may be the closest.
2. Decide, for rays that may hit several candidates or whose hit is not sure, which or how many they
   hit: by doubles and double-doubles or, next to edges and origins, by a point nearby. For points,
   decide exactly which candidate is the closest.
3. Measure t, u and v of closest hits and of listed hits, by the same means.
4. Exact sums serve what these stages leave open. On a CPU they directly follow the search.

Rays with more candidates than there is room for are searched again, with more room; what is still
undecided goes to the CPU.

Each file imports only from those above it.

| file | contents |
|---|---|
| `marks.py` | Numbers with names: query modes, what is known of rays, and their queues |
| `work.py` | Structs that stages take and hand on: rays or points, answers, and queues |
| `moved.py` | Leaves of a scene: rays in the frame of their tree, and their faces in the world |
| `local_rays.py` | Rays in the local frame of a tree, with the margins of their tests |
| `search.py` | The search of rays, and the kernel of a search |
| `decide.py` | Decisions and measures of hits: by doubles, by nearby points and by exact sums |
| `points.py` | Closest points of a tree |
| `chain.py` | The stages one after the other: launches recorded once, counters read once a chunk |
"""
