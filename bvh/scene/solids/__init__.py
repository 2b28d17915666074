"""Solids of a scene: how its instances are related, and how much they interfere.

Each file imports only from those above it.

| file | contents |
|---|---|
| `instance_solids.py` | Instances as solids in world coordinates, which of them are near each other, their relations |
"""
