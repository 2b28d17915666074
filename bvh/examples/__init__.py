"""Programs to learn from.

Each file imports only from those above it.

| file | contents |
|---|---|
| `ambient_occlusion.py` | Ambient occlusion: the visible share of the sky for each pixel of a picture |
| `foliage.py` | Foliage: leaves cut out of cards, by a filter that accepts hits where a texture is opaque |
| `lidar.py` | Lidar over rough ground: several returns a pulse with random dropouts, in one compiled loop |
"""
