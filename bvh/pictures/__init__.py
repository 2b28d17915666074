"""Pictures of what rays hit."""

from bvh.pictures.picture import Picture
from bvh.pictures.rendering import render

__all__ = ["Picture", "render"]
