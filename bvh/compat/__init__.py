"""Drop-in replacements for other libraries.

Each file imports only from those above it.

| file | contents |
|---|---|
| `open3d_results.py` | Arguments and results as in Open3D: arrays or Tensors, ids and normals of its geometries |
| `open3d.py` | Drop-in replacement for Open3D's RaycastingScene: the same methods, keys, shapes and types |
| `followed_meshes.py` | Trees over data sets of VTK and PyVista, which may change between queries |
| `trimesh_points.py` | Trees of trimesh meshes, and point queries with the interface of `trimesh.proximity` |
| `trimesh_rays.py` | Ray queries of trimesh meshes, with the interface of its two ray casters |
| `collisions/` | Collisions of many meshes, with the interface of `trimesh.collision`. |
| `trimesh.py` | Drop-in replacements for rays, nearest points and collisions of trimesh |
| `embreex/` | Drop-in replacement for embreex, and pyembree: exact, on all platforms. |
| `pyvista.py` | Accessor `mesh.bvh` of PyVista's data sets: queries of `BVH`, and some with PyVista's signatures |
| `vtk.py` | Drop-in replacement for VTK's `vtkOBBTree` and cell locators: the same methods, exact answers |
| `mathutils.py` | Drop-in replacement for Blender's `mathutils.bvhtree.BVHTree`, in float64 and exact |
| `ifcopenshell.py` | Drop-in replacement for `ifcopenshell.geom.tree`: clashes of solids, decided exactly |
| `mujoco.py` | Rays of MuJoCo's models: `scene(model)` follows `MjData`, for `mj_ray` and `mj_multiRay` |
"""
