"""Saved trees and scenes: written, read, mapped and checked; scenes of other libraries.

Each file imports only from those above it.

| file | contents |
|---|---|
| `saved_materials.py` | Materials in saved scenes: factors, colours, and images as PNG, each stored once |
| `saved_scenes.py` | Saved scenes: `Scene.save` writes each scene and tree once; `scene_of` checks and reads a file |
| `loading.py` | Saved trees and scenes, and `bvh.load_scene`: scenes of other formats |
"""
