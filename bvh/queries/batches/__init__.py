"""Batches of rays, points and regions, in chunks on threads.

Each file imports only from those above it.

| file | contents |
|---|---|
| `overlap_batches.py` | Batches of overlap queries: chunks on threads, growing buffers, sorted results |
| `point_batches.py` | Batches of points: their chunks on threads, and their results |
| `ray_batches.py` | Batches of rays: their order, their chunks on threads, and their results |
"""
