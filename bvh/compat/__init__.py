"""Drop-in replacements for the ray interfaces of trimesh and Open3D.

Each file imports only from those above it.

| file | contents |
|---|---|
| `tensors.py` | Arguments as Open3D takes them, arrays or Tensors; results are of the kind of the input |
| `geometries.py` | Geometries of a RaycastingScene: triangles under one tree, with Open3D's ids and normals |
| `open3d.py` | Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types |
| `trimesh_points.py` | Trees of trimesh meshes, and point queries with the interface of `trimesh.proximity` |
| `trimesh_rays.py` | Ray queries of trimesh meshes, with the interface of its two ray casters |
| `contact_data.py` | Contacts and distances of two meshes, as `trimesh.collision` returns them, and their points |
| `managed_meshes.py` | Meshes of a collision manager: trees in a scene, which of them are solid, and how they touch |
| `trimesh_collisions.py` | Collisions and distances of many meshes, with the interface of `trimesh.collision` |
| `trimesh.py` | Drop-in replacements for rays, nearest points and collisions of trimesh |
"""
