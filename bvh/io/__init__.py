"""Meshes in, saved files out; nothing that is read is trusted.

Each file imports only from those above it.

| file | contents |
|---|---|
| `untrusted_files.py` | Files of meshes that are not trusted: regular files alone, unpacked up to a limit |
| `container.py` | Container format of saved trees and scenes: a header with a table of arrays, then the arrays |
| `file_formats.py` | File formats of saved trees and scenes: the fields of their headers, their arrays and tables |
| `gltf/` | glTF files, decoded and checked before trimesh reads them |
| `formats/` | Formats of meshes that we read, in the order of the file: OBJ, OFF, PLY and STL |
| `polygons.py` | Triangulation of polygons by exact signs: fans of convex ones, ear clipping of others |
| `mesh_objects.py` | Points and polygons of objects of PyVista, Open3D and meshio; lines and points as faces |
| `materials.py` | Base colours of meshes: factors, images and colours of vertices or faces, as trimesh has them |
| `trimesh_scenes.py` | Nodes of trimesh scenes and their names, and attributes of their meshes |
| `meshes.py` | Triangles of meshes, other libraries' or pairs of arrays, and the groups of their faces |
| `mesh_files.py` | Triangles of files of meshes, and of archives of them |
| `untrusted.py` | Safety checks of a saved tree's arrays, because kernels check nothing |
"""
