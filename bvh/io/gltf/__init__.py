"""glTF files, decoded and checked before trimesh reads them.

Each file imports only from those above it.

| file | contents |
|---|---|
| `accessors.py` | Accessors of glTF files as arrays: ranges checked, sparse values applied, integers normalized |
| `meshes.py` | Meshes of glTF files as plain triangles, for trimesh: fans, strips, morph targets, instances |
| `files.py` | glTF files rewritten for trimesh: checked, with plain arrays and names |
"""
