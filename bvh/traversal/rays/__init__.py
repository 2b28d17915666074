"""Ray traversal kernels: packets and single rays, leaves, candidates, hit details.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ray_block.py` | Ray block: the memory layout of BLOCK rays, known in this file alone |
| `goals.py` | Goals: what a traversal looks for along each ray of a block |
| `ray_batch.py` | Ray batch: rays inside kernels, how they are read, and the order in which blocks take them |
| `ray_setup.py` | Ray setup: rays in the local frame of a tree, clipped to its box, written to a ray block |
| `ray_slots.py` | Memory layout of rays that are traced one by one, in a tree or in a scene |
| `candidates.py` | Candidates for the closest hit, decided exactly; of equal distances, the lowest id wins the tie |
| `hit_details.py` | Hit details: t, weights and side of the primitive that a ray hits, correctly rounded |
| `instanced_setup.py` | Ray setup at an instance: from the local frame of the TLAS into that of a BLAS |
| `instanced_rays.py` | What a scene adds to the traversal of single rays: the way between its two levels |
| `leaf_all_hits.py` | All hits: what a leaf adds to those of a ray block |
| `leaf_first_hits.py` | First hits: the closest ones of each ray that a filter accepts |
| `leaf_tests.py` | Intersection of a ray with a leaf: a filter of triangle groups, then what the goal accepts |
| `packet_leaf.py` | Intersection of a packet of rays with a leaf: its box, then one triangle after the other |
| `single_rays.py` | Single rays: slab tests of a node's boxes, with several rays interleaved to hide memory latency |
| `one_ray.py` | One ray, by the shortest way from Python: numbers in, a tuple out |
| `packets.py` | Traversal of rays in packets, which go through the nodes together |
| `packets_or_singles.py` | Choice of the traversal of a ray block: packets or single rays, whichever was faster |
| `all_hits.py` | All hits of each ray, or the first few, in order; or how many there are |
| `closest_hit.py` | Closest hit of each ray of a batch, or whether there is any: the kernel, block by block |
"""  # noqa: E501
