"""Ray casters under one roof: `Ours`, and the peers that are installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import bvh
from .workloads import Workload

Call = Callable[[], Any]


class Answer(NamedTuple):
    """What a caster said of each ray; `ids` and `t` are None where it was asked for any hit."""

    hit: NDArray[np.bool_]
    ids: NDArray[np.int64] | None = None
    t: NDArray[np.float64] | None = None


class Caster(Protocol):
    """Something that rays are cast with.

    `batch` and `singles` convert the rays to what the caster takes, which is not timed, and return
    what to time: one call for the batch, or one that casts the rays one by one.
    """

    name: str

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""


class Ours:
    """bvh, through its public methods."""

    name = "bvh"

    def __init__(self, tree: bvh.BVH, threads: int) -> None:
        self.tree = tree
        self.threads = threads

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        query = getattr(self.tree, work.query)
        rays = work.origins, work.directions, 0.0, work.t_max
        return lambda: query(*rays, threads=self.threads)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as arrays of shape (3,)."""
        return self._each(list(zip(work.origins, work.directions, strict=True)), work.query)

    def floats(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as lists of Python floats."""
        rays = zip(work.origins.tolist(), work.directions.tolist(), strict=True)
        return self._each(list(rays), work.query)

    def _each(self, rays: list[Any], query: str) -> Call:
        ask = getattr(self.tree, query)

        def cast() -> None:
            for o, d in rays:
                ask(o, d)

        return cast

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            return Answer(result)
        return Answer(result.mask, result.prim_id, result.t)


class Open3D:
    """Embree behind Open3D's `RaycastingScene`.

    Its `nthreads` argument changes nothing: it uses as many threads as the process has CPUs, so a
    figure for one thread needs a process that is bound to one CPU.
    """

    name = "Open3D"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        self.tensor = _module("open3d").core.Tensor
        self.scene = _module("open3d").t.geometry.RaycastingScene()
        self.scene.add_triangles(self.tensor.from_numpy(vertices), self.tensor.from_numpy(faces))
        # The tree is built when the first ray is cast.
        self.scene.cast_rays(self.tensor(np.ones((1, 6), np.float32)))

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        return self._call(self._rays(work), work)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as tensors of shape (1, 6)."""
        rows = np.array(self._rays(work).numpy())[:, None]
        calls = [self._call(self.tensor(row), work) for row in rows]

        def cast() -> None:
            for call in calls:
                call()

        return cast

    def _rays(self, work: Workload) -> Any:
        rays = np.concatenate([work.origins, work.directions], axis=1)
        return self.tensor(rays.astype(np.float32))

    def _call(self, rays: Any, work: Workload) -> Call:
        if work.query == "any_hit":
            return lambda: self.scene.test_occlusions(rays, tnear=0.0, tfar=work.t_max)
        return lambda: self.scene.cast_rays(rays)

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            return Answer(result.numpy())
        ids = result["primitive_ids"].numpy()
        hit = ids != self.scene.INVALID_ID
        return Answer(hit, np.where(hit, ids, 0).astype(np.int64) - ~hit, result["t_hit"].numpy())


class Embreex:
    """Embree behind embreex, which casts on one thread whatever the machine has."""

    name = "embreex"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        self.scene = _module("embreex.rtcore_scene").EmbreeScene()
        mesh = _module("embreex.mesh_construction").TriangleMesh
        self.mesh = mesh(self.scene, vertices, faces.astype(np.int32))
        ray = np.ones((1, 3), np.float32)
        self.scene.run(ray, ray)

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        return self._call(work.origins.astype(np.float32), work.directions.astype(np.float32), work)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as arrays of shape (1, 3)."""
        rows = [a.astype(np.float32)[:, None] for a in (work.origins, work.directions)]
        calls = [self._call(o, d, work) for o, d in zip(*rows, strict=True)]

        def cast() -> None:
            for call in calls:
                call()

        return cast

    def _call(self, o: NDArray[np.float32], d: NDArray[np.float32], work: Workload) -> Call:
        if work.query == "any_hit":
            far = np.full(len(o), work.t_max, np.float32)
            return lambda: self.scene.run(o, d, dists=far, query="OCCLUDED")
        return lambda: self.scene.run(o, d)

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says; distances come from another call."""
        if work.query == "any_hit":
            return Answer(np.asarray(result) == 0)
        rays = work.origins.astype(np.float32), work.directions.astype(np.float32)
        ids = np.asarray(result).astype(np.int64)
        return Answer(ids >= 0, ids, np.asarray(self.scene.run(*rays, output=True)["tfar"]))


class RTree:
    """trimesh's own caster, on rtree: thousands of times slower, so for a few rays only."""

    name = "r-tree"

    def __init__(self, vertices: NDArray[np.float32], faces: NDArray[np.uint32]) -> None:
        _module("rtree")
        import trimesh
        from trimesh.ray.ray_triangle import RayMeshIntersector

        mesh = trimesh.Trimesh(vertices.astype(np.float64), faces.astype(np.int64), process=False)
        self.caster = RayMeshIntersector(mesh)
        self.caster.intersects_first(np.ones((1, 3)), np.ones((1, 3)))

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        return lambda: self.caster.intersects_first(work.origins, work.directions)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one."""
        rays = list(zip(work.origins[:, None], work.directions[:, None], strict=True))

        def cast() -> None:
            for o, d in rays:
                self.caster.intersects_first(o, d)

        return cast

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        ids = np.asarray(result).astype(np.int64)
        return Answer(ids >= 0, ids)


# Module that must be there, and what is made with it.
PEERS: dict[str, Callable[[NDArray[np.float32], NDArray[np.uint32]], Caster]] = {
    "open3d": Open3D,
    "embreex": Embreex,
}


def installed(module: str) -> bool:
    """Tell whether a peer's module can be imported."""
    try:
        _module(module)
    except ImportError:
        return False
    return True


def _module(name: str) -> Any:
    return importlib.import_module(name)
