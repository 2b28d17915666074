"""What a cursor, rectangle or lasso selects in a picture.

Each file imports only from those above it.

| file | contents |
|---|---|
| `enclosing.py` | Exact test of whether a region contains a triangle, in rational numbers, for unsure cases |
| `outlines.py` | Closed outlines in a picture, and tests of which projected triangles touch them or are inside |
| `projected.py` | Triangles projected to the picture of a camera, and clipped to near and far |
| `region.py` | Region of a picture, a rectangle or a lasso: its frustum, and selection from one tree |
| `snapping.py` | Snapping: the point of triangles or of edges that is nearest to a cursor in the picture |
| `results.py` | Results of picking: `Pick` under a cursor, `Selection` by a region of the picture |
| `marquee.py` | Selection of faces, vertices or instances by a region of the picture, those visible alone |
| `cursor.py` | Picking: what lies under a cursor in the picture of a scene, or within a few pixels of it |
"""
