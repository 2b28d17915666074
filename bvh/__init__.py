"""The exact nearest hit of a ray on triangle meshes and boxes."""

from bvh.arguments import BVHWarning
from bvh.triangles import ray_triangle

__version__ = "0.1.0"
