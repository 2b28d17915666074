"""Applications: the command line, the viewer, the ray lab.

Each file imports only from those above it.

| file | contents |
|---|---|
| `cli/` | The command `bvh`. |
| `lab/` | The ray lab: a page where a ray meets a box. |
| `viewer/` | The viewer: a page that shows scenes and what the cursor hits. |
| `bundled.py` | What comes with the package: the contract, as text; modules of meshes and benchmarks |
| `page_server.py` | Page server: pages that this process serves to browsers, and their common texts |
| `demo.py` | The demo: a scene that comes with the package, with moving parts and buttons to try |
"""
