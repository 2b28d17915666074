"""The viewer: a page that shows scenes and what the cursor hits.

Each file imports only from those above it.

| file | contents |
|---|---|
| `scene_copy.py` | Copy of a scene that shares its trees, for pages, while other threads change the scene |
| `drawing.py` | Drawing of a scene in page coordinates: the meshes sent, and boxes for those beyond the limit |
| `ground_shadow.py` | Shadow of a scene on the ground below it, cast by our rays, as an image for pages |
| `meshes.py` | Meshes on a page: the parts of a drawing; only changes since the last drawing are sent |
| `readouts.py` | Texts of the page's panel, as HTML with an id for each value, and the page's script |
| `box_overlay.py` | Boxes of tree nodes on the page: of the tree that was picked, or of a scene's top level |
| `tracing.py` | Ray-cast pictures of the view of a page: coarse while the camera moves, then fine |
| `tools/` | Tools of a page: marks, selections, measurements, sections, the list of instances, views. |
| `html_export.py` | HTML export: one file that shows a scene and a pick, without a server |
| `session.py` | Session: one page in a browser, with its panel, picks, selections and marks |
| `window.py` | Viewer of a scene in the browser, updated by a thread, and `view`, which serves it |
"""
