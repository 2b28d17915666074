"""Collisions of many meshes, with the interface of `trimesh.collision`.

Each file imports only from those above it.

| file | contents |
|---|---|
| `contacts.py` | Contacts and distances of two meshes, as `trimesh.collision` returns them, and where they are |
| `trimesh_collisions.py` | Collisions and distances of many meshes, with the interface of `trimesh.collision` |
"""
