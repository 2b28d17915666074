"""Packets: runs of rays that visit nodes together, in a tree and through the instances of a scene.

Each file imports only from those above it.

| file | contents |
|---|---|
| `packet_closest.py` | Closest hits of a packet's rays, and its scratch: in a tree, or in the BLAS of an instance |
| `moved_rays.py` | Packet rays in an instance's BLAS: setup and return |
| `packet_walk.py` | Packets: rays that visit nodes together, and leaves one by one |
| `instanced_packets.py` | Packets in a scene: through its TLAS, and into the BLAS of each instance |
"""
