"""Collisions of many meshes, with the interface of `trimesh.collision`.

Each file imports only from those above it.

| file | contents |
|---|---|
| `contact_data.py` | Contacts and distances of two meshes, as `trimesh.collision` returns them, and their points |
| `contact_places.py` | Where parts of meshes, spheres and capsules touch: points, normals and depths |
| `trimesh_collisions.py` | Collisions and distances of many meshes, with the interface of `trimesh.collision` |
"""
