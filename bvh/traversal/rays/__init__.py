"""Ray traversal kernels: packets and single rays, leaves, candidates, hit details.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ray_block.py` | Ray block: memory layout of BLOCK rays, and its accessors |
| `goals.py` | Goals of a traversal: closest hit, any hit, first hits, all hits or their number |
| `ray_batch.py` | Ray batch: the rays of a query inside kernels, and the order in which blocks take them |
| `ray_setup.py` | Ray setup: rays in the local frame of a tree, clipped to its box, written to a ray block |
| `ray_slots.py` | Ray slots: memory layout of rays that are traced one by one, in a tree or in a scene |
| `candidates.py` | Candidates for the closest hit, decided exactly; of equal distances, the lowest id wins the tie |
| `hit_details.py` | Hit details: t, weights and side of the primitive that a ray hits, correctly rounded |
| `instanced_setup.py` | Ray setup at an instance: from the local frame of the TLAS to that of a BLAS |
| `instanced_rays.py` | Traversal of single rays in a scene: from its TLAS to its BLAS and back |
| `leaf_all_hits.py` | All hits of a ray with a leaf, appended to those of its ray block |
| `leaf_first_hits.py` | First hits of a ray with a leaf: the closest ones that a filter accepts |
| `leaf_tests.py` | Intersection of a ray with a leaf: the filter of triangle groups, then the test of candidates |
| `packet_leaf.py` | Intersection of a packet of rays with a leaf: its box, then one triangle after the other |
| `single_rays.py` | Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency |
| `one_ray.py` | Query of one ray from Python with little overhead: numbers in, a tuple out |
| `packets.py` | Traversal of rays in packets, which visit nodes together |
| `packets_or_singles.py` | Choice of the traversal of a ray block: packets or single rays, whichever was faster |
| `all_hits.py` | All hits of each ray, or the first few, in order; or how many there are |
| `closest_hit.py` | Closest hit of each ray of a batch, or whether there is any: the kernel, block by block |
"""
