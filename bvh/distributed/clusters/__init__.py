"""Rays and pictures on a cluster, for the command line: connected to, sent, summed, received.

Each file imports only from those above it.

| file | contents |
|---|---|
| `connection.py` | Connection to a scheduler that has workers, and the results of tasks as they complete |
| `camera_casts.py` | Rays of a camera or a file, cast on a cluster: their hits, or a summary of these |
| `rendered_bands.py` | Pictures rendered on a cluster, some rows a task |
"""
