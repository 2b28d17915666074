"""Drop-in replacements for the ray interfaces of trimesh and Open3D.

Each file imports only from those above it.

| file | contents |
|---|---|
| `mesh_trees.py` | Trees of trimesh meshes: built on first use, and again after a change |
| `surface.py` | Triangles of several geometries under one tree, with ids and normals as Open3D reports them |
| `tensors.py` | Conversion of arrays and Tensors of Open3D: results are of the kind of the input |
| `geometries.py` | Geometries of a RaycastingScene, and the tree over all of them |
| `pinholes.py` | Rays of pinhole cameras with Open3D's parameters |
| `open3d.py` | Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types |
| `trimesh_points.py` | Point queries of trimesh meshes, with the interface of `trimesh.proximity` |
| `trimesh_rays.py` | Ray queries of trimesh meshes, with the interface of its two ray casters |
| `trimesh_patches.py` | Patches that replace trimesh's own queries, and undo it |
| `trimesh.py` | Drop-in replacements for rays and nearest points of trimesh |
"""
