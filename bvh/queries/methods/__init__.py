"""Queries as trees and scenes have them: signatures, documentation, routes; one kind a file.

Each file imports only from those above it.

| file | contents |
|---|---|
| `distance_queries.py` | `BVH.distance_to`: the distance between the meshes of two trees |
| `overlap_queries.py` | Overlap queries of trees and scenes: primitives that overlap regions, pairs of faces |
| `section_queries.py` | Where meshes meet: curves in which two meet or one meets itself, and sections by planes |
| `point_queries.py` | Point queries of trees and scenes: closest points, distances, containment, winding numbers |
| `ray_queries.py` | Ray queries of trees and scenes: the closest hit, any hit, all hits, how many |
| `sight_queries.py` | Lines of sight in trees and scenes: which points see each other |
"""
