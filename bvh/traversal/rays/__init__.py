"""Ray traversal kernels: streams and single rays, leaves, candidates, hit details.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ray_numbers.py` | Numbers of a ray, which blocks, slots and moved rays hold in the same rows |
| `blocks.py` | Ray blocks: the layout of BLOCK rays that one thread traces, and its accessors |
| `slots.py` | Slots: the layout of the memory of rays that are traced one by one, and its accessors |
| `ray_batch.py` | Ray batch: the rays of a query inside kernels, and the order in which blocks take them |
| `sight_lines.py` | Lines of sight: rays between pairs of points that leave out both ends, HALF side by side |
| `ray_setup.py` | Ray setup: rays in the local frame of a tree, clipped to its box, written to a ray block |
| `windows.py` | Windows: runs of rays that are traced in an order of their own |
| `instance_setup.py` | Setup of rays at an instance: bounds of the errors of their transform, and float32 limits |
| `leaf_hits.py` | Goals of several hits of a ray: all of them, or the first ones that a filter accepts |
| `hit_details.py` | Hit details: t, weights and side of the primitive that a ray hits, correctly rounded |
| `near_candidates.py` | Near candidates: those of a triangle group, tested again from a nearer point of the ray |
| `candidates.py` | Candidates of a ray at a leaf: the filter that finds them; the closest hit, exactly; ties |
| `hit_points.py` | Hit points: positions and unit normals of hits on triangles; where rays leave round shapes |
| `instanced_rays.py` | Single rays in a scene: from its TLAS to its BLAS and back |
| `single_rays.py` | Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency |
| `one_ray.py` | One ray from Python: numbers or points in, a tuple or a hit out |
| `streams.py` | Streams: rays of one octant that visit nodes together, each tested on its own |
| `moved_rays.py` | Moved rays: rays of a block in the BLAS of an instance, their setup and return |
| `instanced_streams.py` | Streams in a scene: through its TLAS, and into the BLAS of each instance |
| `trials.py` | Trials: which of two ways of tracing is faster for the blocks of a batch, by the cycle counter |
| `closest_hit.py` | Closest hit of each ray of a batch, or whether there is any: in streams, or singly |
| `every_hit/` | Kernels of all hits of rays: the traversal that visits all boxes that a ray enters; lists, counts |
"""
