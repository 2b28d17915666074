"""The viewer: a page that shows scenes and what the cursor hits.

Each file imports only from those above it.

| file | contents |
|---|---|
| `drawing.py` | Drawing of a scene in page coordinates: the meshes sent, and boxes for those beyond the limit |
| `readouts.py` | Texts of the page's panel, as HTML with an id for each value, and its script |
| `box_overlay.py` | Boxes of tree nodes on the page: of the tree that was picked, or of a scene's top level |
| `tracing.py` | Ray-cast pictures of what a page shows: coarse while the camera moves, then fine |
| `session.py` | Session: one page in a browser, with its panel, picks, selections and marks |
| `window.py` | Viewer of a scene in the browser, and `view`, which serves it |
"""
