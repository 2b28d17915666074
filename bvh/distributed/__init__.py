"""Rays and meshes larger than one machine."""
