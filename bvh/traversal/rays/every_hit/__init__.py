"""Kernels of all hits of rays: the traversal that visits all boxes that a ray enters; lists, counts.

Each file imports only from those above it.

| file | contents |
|---|---|
| `visits.py` | Visits: pairs of a ray and a node, or leaf, that it enters, for goals that need all hits |
| `all_hits.py` | All hits of each ray, or the first few, in order; or how many there are |
"""
