"""Ray traversal kernels: packets and single rays, leaves, candidates, hit details.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ray_memory.py` | Ray memory: layouts of a block of BLOCK rays, and of the slots of rays traced one by one |
| `ray_batch.py` | Ray batch: the rays of a query inside kernels, and the order in which blocks take them |
| `ray_setup.py` | Ray setup: rays in the local frame of a tree, clipped to its box, written to a ray block |
| `leaf_hits.py` | Goals of several hits of a ray: all of them, or the first ones that a filter accepts |
| `candidates.py` | Candidates of a ray at a leaf: the filter that finds them; the closest hit, exactly; ties |
| `hit_details.py` | Hit details: t, weights and side of the primitive that a ray hits, correctly rounded |
| `instanced_rays.py` | Rays in a scene: from its TLAS to its BLAS and back, and their setup at each instance |
| `single_rays.py` | Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency |
| `one_ray.py` | Query of one ray from Python with little overhead: numbers in, a tuple out |
| `packets.py` | Packets: rays that visit nodes together, and leaves one triangle after the other |
| `closest_hit.py` | Closest hit of each ray of a batch, or whether there is any: in packets or as single rays |
| `all_hits.py` | All hits of each ray, or the first few, in order; or how many there are |
"""
