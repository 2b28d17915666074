"""The exact nearest hit of a ray on triangle meshes and boxes, and the nearest point."""

import os
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

# Records the working directory at import.
from bvh.runtime.cache import starting_folder as starting_folder
from bvh.runtime.registry import enrol

if TYPE_CHECKING:
    from bvh import kernels as kernels
    from bvh.apps.lab.page import RayLab, ray_lab
    from bvh.apps.viewer.window import Viewer, view
    from bvh.camera.camera import Camera
    from bvh.distributed.out_of_core.opening import load
    from bvh.distributed.out_of_core.partitioning import partition
    from bvh.distributed.out_of_core.parts import Parts
    from bvh.geometry.boxes import ray_box
    from bvh.geometry.obbs import ray_obb
    from bvh.geometry.planes import ray_plane
    from bvh.geometry.spheres import ray_sphere
    from bvh.geometry.triangles import ray_triangle
    from bvh.io.trimesh_scenes import Attributes
    from bvh.picking.results import Pick, Selection
    from bvh.pictures.thumbnails import show
    from bvh.queries.answers.clearances import Clearances, SceneClearances
    from bvh.queries.answers.closest_points import ClosestPoints, SceneClosestPoints
    from bvh.queries.hierarchy import BVH
    from bvh.queries.results import (
        AllHits,
        CountedHits,
        CountedSceneHits,
        Hits,
        Overlaps,
        SceneAllHits,
        SceneHits,
        SceneOverlaps,
        ScenePairs,
    )
    from bvh.runtime.jit import BVHWarning, warmup
    from bvh.scene.files.loading import load_scene
    from bvh.scene.flattened_instances import Leaf, Leaves
    from bvh.scene.instances import Instance
    from bvh.scene.scene import Scene
    from bvh.scene.stats import SceneStats
    from bvh.tree.stats import TreeStats

__version__ = "0.2.0"

__all__ = [
    "BVH",
    "AllHits",
    "Attributes",
    "BVHWarning",
    "Camera",
    "Clearances",
    "ClosestPoints",
    "CountedHits",
    "CountedSceneHits",
    "Hits",
    "Instance",
    "Leaf",
    "Leaves",
    "Overlaps",
    "Parts",
    "Pick",
    "RayLab",
    "Scene",
    "SceneAllHits",
    "SceneClearances",
    "SceneClosestPoints",
    "SceneHits",
    "SceneOverlaps",
    "ScenePairs",
    "SceneStats",
    "Selection",
    "TreeStats",
    "Viewer",
    "load",
    "load_scene",
    "partition",
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

# The module of each name above: it is imported when the name is first used. The statements
# above say the same to type checkers and to what packs programs.
_MODULES = {
    "BVH": "queries.hierarchy",
    "AllHits": "queries.results",
    "Attributes": "io.trimesh_scenes",
    "BVHWarning": "runtime.jit",
    "Camera": "camera.camera",
    "Clearances": "queries.answers.clearances",
    "ClosestPoints": "queries.answers.closest_points",
    "CountedHits": "queries.results",
    "CountedSceneHits": "queries.results",
    "Hits": "queries.results",
    "Instance": "scene.instances",
    "Leaf": "scene.flattened_instances",
    "Leaves": "scene.flattened_instances",
    "Overlaps": "queries.results",
    "Pick": "picking.results",
    "RayLab": "apps.lab.page",
    "Scene": "scene.scene",
    "SceneAllHits": "queries.results",
    "SceneClearances": "queries.answers.clearances",
    "SceneClosestPoints": "queries.answers.closest_points",
    "SceneHits": "queries.results",
    "SceneOverlaps": "queries.results",
    "ScenePairs": "queries.results",
    "SceneStats": "scene.stats",
    "Selection": "picking.results",
    "TreeStats": "tree.stats",
    "Viewer": "apps.viewer.window",
    "Parts": "distributed.out_of_core.parts",
    "load": "distributed.out_of_core.opening",
    "load_scene": "scene.files.loading",
    "partition": "distributed.out_of_core.partitioning",
    "ray_box": "geometry.boxes",
    "ray_lab": "apps.lab.page",
    "ray_obb": "geometry.obbs",
    "ray_plane": "geometry.planes",
    "ray_sphere": "geometry.spheres",
    "ray_triangle": "geometry.triangles",
    "show": "pictures.thumbnails",
    "view": "apps.viewer.window",
    "warmup": "runtime.jit",
}

# What lower folders leave to upper ones, whose modules are imported when they are needed.
enrol("queries of lazy arrays", f"{__name__}.distributed.lazy_queries", "answer")
enrol("queries of other arrays", f"{__name__}.queries.answers.other_libraries", "answer")
enrol("picks in trees", f"{__name__}.picking.tree_picks", "pick_in_tree")

# Modules to import by these names, listed beside the names above.
_LISTED_MODULES = ("kernels",)

# Threads that ask at the same time take turns, as they would at `import bvh`: Numba's own modules
# cannot be imported by two at once. No module of the package uses these names at its import.
_turns = RLock()


# Whether this process was forked from a thread while another had the turn.
_cut_short = False


def _renew_turns() -> None:
    """Have nobody's turn in a child process, where the other threads are not."""
    global _turns, _cut_short
    # It cannot wait for them: modules register callbacks of forks when they are imported, and
    # only some of them would be called.
    if not _turns.acquire(blocking=False):
        _cut_short = True
    _turns = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_turns)


def __getattr__(name: str) -> Any:
    """Import a public name, or a module of the package, on first use."""
    if name in _MODULES:
        if _cut_short:
            raise RuntimeError(
                "this process was forked while another thread imported parts of bvh, which stay "
                f"half imported: ask for bvh.{name} before forking, or start processes with the "
                "method 'spawn'"
            )
        with _turns:
            found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found
    if not name.startswith("_"):
        module = f"{__name__}.{name}"
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, and no others."""
    return sorted([*__all__, "__version__", *_LISTED_MODULES])
