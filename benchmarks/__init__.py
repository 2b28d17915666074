"""Benchmarks of bvh and its peers. Every answer is checked before a time is printed."""
