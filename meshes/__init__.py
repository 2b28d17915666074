"""Meshes the tests, the benchmarks and the pictures share, each from a generator of ours.

Every generator returns ``(vertices, faces)``: float64 of shape ``(n, 3)`` and int64 of shape
``(m, 3)``. ``python -m meshes`` rewrites the files next to this one.
"""
