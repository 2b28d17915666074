"""Pictures of hits.

Each file imports only from those above it.

| file | contents |
|---|---|
| `colours.py` | Colour maps that all pictures share, with components from 0 to 1 |
| `picture.py` | Picture: pixels, the data of its pixels, its legend, files and display in notebooks |
| `render_source.py` | Sources of pictures: surfaces for rays of cameras, and occluders of light |
| `drawn_shapes.py` | Shapes that are drawn as triangles: points and segments, which rays never hit; round shapes |
| `surfaces.py` | Surfaces that rays hit: points, normals, texture coordinates, and starts of light rays |
| `lights.py` | Lights: a lamp and a sky, the rays to them, and the ground, which shows only shadows |
| `shading.py` | Shading of a band of rays: data of their hits, and colours |
| `rendering.py` | Rendering: pictures of trees and scenes by a camera's rays |
| `thumbnails.py` | Thumbnails of trees, scenes and hits, for notebooks |
"""

from bvh.pictures.picture import Picture
from bvh.pictures.rendering import render

__all__ = ["Picture", "render"]
