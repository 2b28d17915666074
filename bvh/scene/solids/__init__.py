"""Contacts and distances of a scene's instances; as solids, how they are related and interfere.

Each file imports only from those above it.

| file | contents |
|---|---|
| `round_instances.py` | Distances between instances over spheres or capsules, and from these to instances over triangles |
| `round_trees.py` | Distances and contacts of two trees, at least one over spheres or capsules |
| `round_relations.py` | How a ball or a capsule is related to another, or to a closed mesh |
| `instance_contacts.py` | Contacts of instances, and distances between instances |
| `instance_solids.py` | Instances as solids in world coordinates: which are near, how they are related and interfere |
| `instance_queries.py` | Queries of the pairs of a scene's instances: contacts, distances, relations, interferences |
"""
