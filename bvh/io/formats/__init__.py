"""Formats of meshes that we read, in the order of the file: OBJ, OFF, PLY and STL.

Each file imports only from those above it.

| file | contents |
|---|---|
| `text_lines.py` | Lines of text files as tables of numbers, some megabytes at a time |
| `file_meshes.py` | Polygons that were read from a file, in its order, and their parts as meshes of trimesh |
| `meshio_files.py` | Files that meshio reads; a cut file is an error where meshio would loop at its end |
| `obj_files.py` | OBJ files: faces and vertices in the order of the file, parts by objects and groups |
| `off_files.py` | OFF files: vertices and faces in their order, whatever is behind them in their lines |
| `ply_headers.py` | Headers of PLY files: the elements, and the types of their properties |
| `ply_files.py` | PLY files: text or binary, with polygons of any lengths and lists of any types, in their order |
| `stl_files.py` | STL files: binary ones by their length, text by its facets, each solid a part |
| `threemf_files.py` | 3MF files: objects of other models in them, as the production extension has them |
"""
