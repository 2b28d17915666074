"""Builders: each takes records of primitives' boxes and returns a tree of nodes.

They know no geometry, but for `clipping`, which cuts triangles. Whatever they do, the answers of a
tree stay the same; only its speed and its shape depend on them.
"""
