"""Kernels of all hits of rays: the traversal that visits all that a ray enters, lists, and counts.

Each file imports only from those above it.

| file | contents |
|---|---|
| `visits.py` | Visits: pairs of a ray and a node, or leaf, that it enters, for goals that need all hits |
| `all_hits.py` | All hits of each ray, or the first few, in order; or how many there are |
| `far_ends.py` | Where rays leave spheres and capsules that they have entered |
"""
