"""Pictures, each with the question that it answers and the script that answers it.

Each file imports only from those above it.

| file | contents |
|---|---|
| `sheet.py` | Sheet: paper for lit pictures, titles and colour bars, in the style that all pictures share |
| `scenery.py` | Scenery: a wall, a tower, a city, a street, sculptures, and a robot at a table. |
| `leaks.py` | Leaks: which rays slip through a wall that are aimed at its edges and vertices? |
| `thickness.py` | Wall thickness: how much material is behind each point of a part? |
| `deviation.py` | Deviation: how far is a scan from the plan, in the coordinates of a map? |
| `sun.py` | Sun hours and a viewshed: how long does the sun shine there, and who sees the tower? |
| `drive.py` | A drive: what does the lidar of a moving car see of a street with trees, return by return? |
| `solid.py` | A solid of a mesh with holes: what is inside, how deep, and which voxels? |
| `selection.py` | Selection: which faces are under the cursor, in the rectangle, and in the lasso? |
| `clearances.py` | Clearances: how close does a robot come to what is around it, and where? |
| `tour.py` | A tour: a cursor that hovers, a lasso that selects, and what each ray costs, as an animation |
| `__main__.py` | Draw all pictures, or those that are named: ``python -m bvh.docs.programs.gallery FOLDER`` |
"""
