"""What a cursor, rectangle or lasso selects in a picture.

Each file imports only from those above it.

| file | contents |
|---|---|
| `enclosing.py` | Whether a region holds all of a triangle, in rational numbers: for what `outlines` leaves open |
| `outlines.py` | Closed outlines in a picture, and tests of which projected triangles touch them or are inside |
| `projected.py` | Triangles as a camera sees them: corners in pixels, and what lies between near and far |
| `region.py` | What a rectangle or a lasso in the picture holds of one tree, and which trees to look at |
| `selections.py` | `Selection`: result of selecting faces, vertices or instances by a region of the picture |
| `snapping.py` | What is nearest to a cursor in the picture: points of triangles and of edges |
| `results.py` | `Pick`: result of picking under a cursor |
| `visibility.py` | What a camera sees of what is selected, by the rays of its picture |
| `marquee.py` | Selection of faces, vertices or instances by a region of the picture of a scene |
| `cursor.py` | Picking: what lies under a cursor in the picture of a scene, or within a few pixels of it |
"""  # noqa: E501
