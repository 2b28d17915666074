"""Drop-ins for the rays and the nearest points of trimesh.

`install` puts them into all meshes at once; `RayMeshIntersector` and `ProximityQuery` into one, as
its `ray` and its `nearest`.
"""

from bvh.compat.trimesh_patches import Installation, install, uninstall
from bvh.compat.trimesh_points import ProximityQuery, closest_point, contains, signed_distance
from bvh.compat.trimesh_rays import RayMeshIntersector

__all__ = [
    "Installation",
    "ProximityQuery",
    "RayMeshIntersector",
    "closest_point",
    "contains",
    "install",
    "signed_distance",
    "uninstall",
]
