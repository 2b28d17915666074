"""Pictures: rendering by rays, colours of hits, and charts of trees."""

from bvh.pictures import charts
from bvh.pictures.picture import Picture
from bvh.pictures.rendering import render

__all__ = ["Picture", "charts", "render"]
