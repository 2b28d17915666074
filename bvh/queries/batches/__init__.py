"""Batches of rays, points and regions, in chunks on threads.

Each file imports only from those above it.

| file | contents |
|---|---|
| `distance_batches.py` | Batches of distances between two trees: chunks on threads; exact decisions |
| `scratch.py` | Memory of rays and points: of their results, and scratch of a thread, reused by later calls |
| `overlap_batches.py` | Batches of overlap queries: chunks on threads, growing buffers, sorted results |
| `block_chunks.py` | Chunks of the blocks of rays on threads: claimed by kernels, or shared with progress |
| `hit_lists.py` | All hits of each ray of a batch, or their number, in chunks on threads |
| `ray_batches.py` | Batches of rays: their order, their chunks on threads, and their results |
| `quick_calls.py` | Single rays and points, and small batches of rays, with little overhead |
| `round_ends.py` | All hits of rays with spheres and capsules: where they enter one, and where they leave it |
| `containment.py` | Inside or outside of a closed mesh, by the parity of crossings |
| `winding.py` | Winding numbers of points: signed crossings of a ray from each, and angles over open edges |
| `point_batches.py` | Batches of points: their chunks on threads, and their results |
"""
