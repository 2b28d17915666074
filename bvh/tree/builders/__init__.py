"""Builders of binary trees from records of primitives' boxes.

Only `clipping` deals with triangles. Queries return the same for any builder; only the speed and
the shape of a tree depend on it.
"""
