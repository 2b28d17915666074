"""Tools of a page: marks, selections, measurements, sections, the list of instances, views.

Each file imports only from those above it.

| file | contents |
|---|---|
| `marks.py` | Marks on a page: faces, lines, points, arrows and labels, in page coordinates |
| `page_events.py` | Events of a page that viser does not report: taps, regions, keys, lists, colour schemes |
| `selecting.py` | Selecting: faces, vertices and instances in rectangles and lassos, added up and exported |
| `measuring.py` | Measuring: the distance between the last two picks, or between their instances |
| `sectioning.py` | Sectioning: a plane, one side of which the page draws |
| `instance_list.py` | List of a scene's instances: names, a search, eyes that hide, one to frame |
| `views.py` | Views: camera positions, ground and axes, and pictures |
"""
