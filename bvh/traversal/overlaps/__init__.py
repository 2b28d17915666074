"""traversal/overlaps."""
