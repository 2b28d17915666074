"""The public names, and the module of each: read by type checkers, and when one is first used."""

from typing import Any

from bvh import kernels as kernels
from bvh.apps.bundled import guide as guide
from bvh.apps.lab.page import RayLab as RayLab
from bvh.apps.lab.page import ray_lab as ray_lab
from bvh.apps.viewer.window import Viewer as Viewer
from bvh.apps.viewer.window import view as view
from bvh.camera.camera import Camera as Camera
from bvh.distributed.out_of_core.partitioning import partition as partition
from bvh.distributed.out_of_core.parts import Parts as Parts
from bvh.distributed.out_of_core.parts import load as load
from bvh.geometry.boxes import ray_box as ray_box
from bvh.geometry.obbs import ray_obb as ray_obb
from bvh.geometry.planes import ray_plane as ray_plane
from bvh.geometry.spheres import ray_sphere as ray_sphere
from bvh.geometry.triangles import ray_triangle as ray_triangle
from bvh.io.trimesh_scenes import Attributes as Attributes
from bvh.picking.results import Pick as Pick
from bvh.picking.results import Selection as Selection
from bvh.pictures.thumbnails import show as show
from bvh.queries.answers.clearances import Clearances as Clearances
from bvh.queries.answers.clearances import SceneClearances as SceneClearances
from bvh.queries.answers.interferences import Interferences as Interferences
from bvh.queries.answers.sections import Section as Section
from bvh.queries.answers.sections import Sections as Sections
from bvh.queries.answers.solids import Intersections as Intersections
from bvh.queries.answers.solids import Penetrations as Penetrations
from bvh.queries.hierarchy import BVH as BVH
from bvh.queries.results import AllHits as AllHits
from bvh.queries.results import ClosestPoints as ClosestPoints
from bvh.queries.results import CountedHits as CountedHits
from bvh.queries.results import CountedSceneHits as CountedSceneHits
from bvh.queries.results import Hits as Hits
from bvh.queries.results import Overlaps as Overlaps
from bvh.queries.results import SceneAllHits as SceneAllHits
from bvh.queries.results import SceneClosestPoints as SceneClosestPoints
from bvh.queries.results import SceneHits as SceneHits
from bvh.queries.results import SceneOverlaps as SceneOverlaps
from bvh.queries.results import ScenePairs as ScenePairs
from bvh.runtime.jit import BVHWarning as BVHWarning
from bvh.runtime.jit import warmup as warmup
from bvh.scene.files.loading import load_scene as load_scene
from bvh.scene.leaves import Leaf as Leaf
from bvh.scene.leaves import Leaves as Leaves
from bvh.scene.scene import Scene as Scene
from bvh.scene.stats import SceneStats as SceneStats
from bvh.scene.table import Instance as Instance
from bvh.tree.node_view import TreeNodes as TreeNodes
from bvh.tree.stats import TreeStats as TreeStats

__version__: str

def __getattr__(name: str) -> Any: ...
