"""The viewer: a page that shows scenes and what the cursor hits.

Each file imports only from those above it.

| file | contents |
|---|---|
| `page_frame.py` | Coordinates of a page: the world, translated and scaled so that float32 is precise |
| `page_script.py` | Script of the page: it reports the hovering pointer, and the time of a frame |
| `readouts.py` | Texts of the page's panel, as HTML with an id for each value |
| `box_overlay.py` | Boxes of tree nodes on the page: of the tree that was picked, or of a scene's top level |
| `drawing.py` | Drawing of a scene: the meshes sent to the page, and boxes for those beyond its limit |
| `tracing.py` | Ray-cast pictures of what a page shows: coarse while the camera moves, then fine |
| `session.py` | Session: one page in a browser, with its panel, picks, selections and marks |
| `window.py` | Viewer of a scene in the browser, and `view`, which serves it |
"""
