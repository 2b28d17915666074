"""The exact nearest hit of a ray on triangle meshes and boxes, and the nearest point."""

from bvh import kernels as kernels
from bvh.boxes import ray_box
from bvh.camera import Camera
from bvh.expansion import Leaf, Leaves
from bvh.figures import TreeStats
from bvh.instances import Attributes, Instance
from bvh.jit import BVHWarning, warmup
from bvh.lab.page import RayLab, ray_lab
from bvh.obbs import ray_obb
from bvh.overlap_queries import Overlaps
from bvh.picks import Pick
from bvh.pictures.thumbnails import show
from bvh.planes import ray_plane
from bvh.points import ClosestPoints, SceneClosestPoints
from bvh.rays import (
    AllHits,
    CountedHits,
    CountedSceneHits,
    Hits,
    SceneAllHits,
    SceneHits,
)
from bvh.scene import Scene
from bvh.scene_overlaps import SceneOverlaps, ScenePairs
from bvh.scene_sources import load_scene
from bvh.selections import Selection
from bvh.spheres import ray_sphere
from bvh.storage import load
from bvh.tree import BVH
from bvh.triangles import ray_triangle
from bvh.viewer.window import Viewer, view

__version__ = "0.1.0"

__all__ = [
    "BVH",
    "AllHits",
    "Attributes",
    "BVHWarning",
    "Camera",
    "ClosestPoints",
    "CountedHits",
    "CountedSceneHits",
    "Hits",
    "Instance",
    "Leaf",
    "Leaves",
    "Overlaps",
    "Pick",
    "RayLab",
    "Scene",
    "SceneAllHits",
    "SceneClosestPoints",
    "SceneHits",
    "SceneOverlaps",
    "ScenePairs",
    "Selection",
    "TreeStats",
    "Viewer",
    "load",
    "load_scene",
    "ray_box",
    "ray_lab",
    "ray_obb",
    "ray_plane",
    "ray_sphere",
    "ray_triangle",
    "show",
    "view",
    "warmup",
]
