"""traversal/points."""
