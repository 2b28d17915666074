"""Pixels to rays and back.

Each file imports only from those above it.

| file | contents |
|---|---|
| `matrices.py` | Geometry of pixels from projection matrices, in exact arithmetic |
| `lens.py` | Numbers of a camera: an affine map from pixels to rays, and its inverse |
| `pixel_rays.py` | Queries of a camera: rays of pixels, pixels of points, planes of rectangles |
| `placement.py` | Placement of cameras: by eye, direction and up, or from OpenCV and trimesh |
| `camera.py` | Camera: constructors by eye and target, and from matrices of other programs |
"""
