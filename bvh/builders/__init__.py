"""Builders: each takes the boxes of primitives and returns a tree of nodes.

They know no geometry. Whatever they do, the answers of a tree stay the same; only its speed and
its shape depend on them.
"""
