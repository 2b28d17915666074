"""Ray queries in stages, each with few registers: what is left by one goes on to the next.

1. Search: boxes and triangles in float32 alone; keeps the triangles that a ray may hit first, or
   counts sure hits and keeps the others. In a scene it searches the trees of leaves.
2. Decide, for rays that may hit several or whose hit is not sure: which one, or how many, by
   doubles and double-doubles; what these leave open, next to edges and origins, by a point nearby.
3. Measure: t, u and v of closest hits, likewise.
4. Exact sums, for the rays that all this leaves open. On a CPU they follow the search.

Rays with more triangles than are kept are searched again, with more room; what is still undecided
goes to the CPU.

Each file imports only from those above it.

| file | contents |
|---|---|
| `loads.py` | Loads of 16 bytes, and fused operations of float32, where the margins cover both |
| `search.py` | The kernel of the search, and what stages hand on |
| `decide.py` | The kernels that decide and measure, by doubles, by nearby points and by exact sums |
| `chain.py` | The stages one after the other: launches recorded once, counters read once a chunk |
"""
