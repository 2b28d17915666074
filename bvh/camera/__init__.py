"""Pixels to rays and back.

Each file imports only from those above it.

| file | contents |
|---|---|
| `matrices.py` | Geometry of pixels from projection matrices, in exact arithmetic |
| `projection.py` | Projection: an affine map from pixels to rays, its inverse, and frusta |
| `placement.py` | Placement of cameras: by eye, direction and up, by what is seen, from OpenCV, VTK or trimesh |
| `camera.py` | Camera: constructors by eye and target, and from cameras of other programs |
"""
