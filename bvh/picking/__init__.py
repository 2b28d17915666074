"""Picking by a cursor, a rectangle or a lasso in a picture.

Each file imports only from those above it.

| file | contents |
|---|---|
| `outlines.py` | Closed outlines in a picture, and tests of which projected triangles touch them or are inside |
| `projected.py` | Triangles in the picture of a camera: projected, clipped, and the nearest to a cursor |
| `silhouettes.py` | The edges of images of spheres and capsules: the points of them nearest to a cursor |
| `placed_trees.py` | Trees in place, of a scene or one alone, and which of their faces may be in a frustum |
| `region.py` | Region of a picture, a rectangle or a lasso: its frustum, and selection from one tree |
| `rounds.py` | Spheres and capsules in a region of the picture: those that it touches, or that are inside |
| `results.py` | Results of picking: `Pick` under a cursor, `Selection` by a region of the picture |
| `marquee.py` | Selection of faces, vertices or instances by a region of the picture, those visible alone |
| `cursor.py` | Picking: the nearest hit in a scene or tree under a cursor, or within a few pixels of it |
"""
