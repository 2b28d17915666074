"""Solids of a scene: how its instances are related, and how much they interfere.

Each file imports only from those above it.

| file | contents |
|---|---|
| `instance_solids.py` | Instances as solids in world coordinates, which of them are near each other, their relations |
| `interferences.py` | Interferences of a scene's instances: how they are related, what they share, where they meet |
| `interference_queries.py` | `Scene.interferences`: all pairs of instances that touch or overlap, and how much |
"""
