"""Traversals: kernels that walk a tree, one query a file."""
