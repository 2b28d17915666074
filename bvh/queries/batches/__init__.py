"""Batches of rays, points and regions, in chunks on threads.

Each file imports only from those above it.

| file | contents |
|---|---|
| `distance_batches.py` | Batches of distances between two trees: chunks on threads; what kernels leave undecided |
| `single_distances.py` | Distance of two trees for one plain transform: one call of the kernel, with little around it |
| `kept_calls.py` | Calls of kernels whose arguments stay in memory, for one ray or one point |
| `hit_memory.py` | Memory of a thread for all hits of rays: those of a ray block, and those of a chunk |
| `overlap_batches.py` | Batches of overlap queries: chunks on threads, growing buffers, sorted results |
| `image_rows.py` | Rows of an image among the directions of rays that come without a shape |
| `ray_batches.py` | Batches of rays: their order, their chunks on threads, and their results |
| `containment.py` | Inside or outside of a closed mesh, by the parity of crossings |
| `point_batches.py` | Batches of points: their chunks on threads, and their results |
| `single_hits.py` | All hits of one plain ray, and how many: one call of the kernel, with little more around it |
| `single_points.py` | Queries of one plain point: one call of the kernel, with little more around it |
| `small_batches.py` | Small batches of plain rays: one call of the kernel, with little more than that around it |
"""
