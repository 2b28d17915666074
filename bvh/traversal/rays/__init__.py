"""traversal/rays."""
