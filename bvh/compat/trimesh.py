"""Drop-in replacements for rays and nearest points of trimesh.

`install` replaces them in all meshes; `RayMeshIntersector` and `ProximityQuery` replace `ray` and
`nearest` of one mesh.
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
