"""Saved trees and scenes: written, read, mapped and checked; scenes of other libraries.

Each file imports only from those above it.

| file | contents |
|---|---|
| `restoring.py` | Reading of a saved scene: its tables are checked, and scenes are created from them |
| `loading.py` | `bvh.load` and `bvh.load_scene`: saved trees and scenes, and scenes of other formats |
| `saving.py` | `Scene.save`: all scenes and trees in one file, each once |
"""
