"""Pairs of triangles: whether they overlap, and how far apart they are; pairs with round shapes.

Each file imports only from those above it.

| file | contents |
|---|---|
| `triangle_overlap.py` | Overlap tests of triangles with triangles and boxes, as closed sets, in every degenerate case |
| `triangle_distance.py` | Distance of two triangles: a filter with a proven bound, then features in double-doubles |
| `common_polygons.py` | The polygon that two triangles in one plane share: exact signs, and corners rounded correctly |
| `flat_contacts.py` | What two triangles in one plane share: at most a point, a segment, or an area |
| `round_gaps.py` | Gaps between the surfaces of spheres and capsules, and between these and faces: bounds |
| `round_regions.py` | Overlap tests of the surfaces of spheres and capsules with balls, boxes and convex polytopes |
| `face_overlap.py` | Overlap test of two faces of one mesh, beyond the corner or edge that they share |
| `face_contacts.py` | What pairs of faces that meet share, as far as signs of few corners tell; kernels |
| `edge_segments.py` | Segments in which edges meet faces in whose planes they are; kernels |
"""
