"""Command line `bvh`."""
