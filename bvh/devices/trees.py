"""`DeviceBVH` and `DeviceScene`: a tree, or a scene, on a device, and its queries."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from bvh.devices.calls import PointCall, RayCall
from bvh.devices.exchange import on_host
from bvh.devices.layout import move_leaves, scene_on, tree_on
from bvh.devices.stages.chain import Stages
from bvh.queries.methods.point_queries import warn_if_open
from bvh.queries.public_names import public
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.queries.targets import ray_target
from bvh.runtime.arguments import Cull, EdgeRule

if TYPE_CHECKING:
    from bvh.queries.hierarchy import BVH
    from bvh.scene.scene import Scene


class DeviceObject:
    """Base class of trees and scenes on a device: ray queries.

    Attributes
    ----------
    device : warp.Device
    undecided : int
        Number of rays or points of the last call that the CPU answered.
    """

    is_scene = False
    # The arrays that are searched, and the scene's view that has them, or None.
    _searched: Callable[[], tuple[Any, Any]]
    # The current content on the CPU, sent to the device if it has changed, and its struct.
    _state: Callable[[], tuple[Any, Any]]
    # The tree or scene on the CPU, which answers rays and points that the device does not decide.
    host: Any

    def __init__(self, host: Any, device: Any) -> None:
        self.host, self.device, self.undecided, self.stages = host, device, 0, Stages(device)

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError; called for unknown attributes alone."""
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name != "host" and hasattr(self.host, name):
            text += f": the tree or scene on the CPU has it, host.{name}"
        raise AttributeError(text)

    @property
    def target(self) -> Any:
        """A struct of Warp for kernels of your own (see `bvh.warp`), as it is now."""
        return self._state()[1]

    def closest_hit(
        self, origins: Any, directions: Any, t_min: Any = 0.0, t_max: Any = np.inf, *,
        mask: Any = None, cull: Cull | None = None,
    ) -> Hits:  # fmt: skip
        """Find the closest hit of each ray; as `BVH.closest_hit`."""
        return RayCall(self, (origins, directions, t_min, t_max, mask), cull).closest()

    def any_hit(
        self, origins: Any, directions: Any, t_min: Any = 0.0, t_max: Any = np.inf, *,
        mask: Any = None, cull: Cull | None = None,
    ) -> Any:  # fmt: skip
        """Return for each ray whether it hits anything; as `BVH.any_hit`."""
        return RayCall(self, (origins, directions, t_min, t_max, mask), cull).any()

    def count_hits(
        self, origins: Any, directions: Any, t_min: Any = 0.0, t_max: Any = np.inf, *,
        edges: EdgeRule = "once", mask: Any = None, cull: Cull | None = None,
    ) -> Any:  # fmt: skip
        """Count the hits of each ray; as `BVH.count_hits`."""
        return RayCall(self, (origins, directions, t_min, t_max, mask), cull, edges).counts()

    def all_hits(
        self, origins: Any, directions: Any, t_min: Any = 0.0, t_max: Any = np.inf, *,
        max_hits: int | None = None, edges: EdgeRule = "closed", mask: Any = None,
        cull: Cull | None = None,
    ) -> AllHits:  # fmt: skip
        """Find all hits of each ray, or the first few; as `BVH.all_hits`.

        Rays are traced twice: to count their hits, and to list them.
        """
        rays = origins, directions, t_min, t_max, mask
        return RayCall(self, rays, cull, edges).listed(max_hits)


def device_of(device: Any) -> Any:
    """Return a device by its name, or a device of PyTorch; a ValueError if there is none."""
    name = device if isinstance(device, wp.Device) else str(device)
    try:
        return wp.get_device(name)
    except (RuntimeError, ValueError) as error:
        known = ", ".join(str(d) for d in wp.get_devices())
        cause = "" if wp.is_cuda_available() else "; Warp finds no CUDA driver, or no GPU"
        raise ValueError(f"device must be one of {known}, got {device!r}{cause}") from error


@public
class DeviceBVH(DeviceObject):
    """Tree over triangles on a device, made by `BVH.to`.

    Answers are those of the tree, bit for bit. Boxes and triangles in float32 only discard; the
    rest is decided in float64, by double-doubles and by exact sums, on the device. Rays and points
    that these do not decide, such as rays of extreme sizes, are answered on the CPU.

    Arguments are arrays of numpy, or arrays on the device of Warp, PyTorch, JAX, CuPy and others,
    which are read in place where they are float64 and contiguous. Results are arrays of the same
    library, on the device; PyTorch's current stream is used. Rays and points have the shapes of
    `BVH`'s; on a device all have one leading shape, or one item for all. One thread at a time may
    use it.

    Attributes
    ----------
    host : BVH
        The tree on the CPU.
    device : warp.Device
    undecided : int
        Number of rays or points of the last call that the CPU answered.

    Examples
    --------
    >>> import bvh, trimesh
    >>> there = bvh.BVH.from_mesh(trimesh.creation.box()).to("cpu")
    >>> there
    DeviceBVH(12 triangles, on cpu)
    >>> there.closest_hit([[0.1, 0.2, 5.0], [3.0, 0.0, 5.0]], [0.0, 0.0, -1.0]).t
    array([4.5,  inf])
    >>> there.signed_distance([0.0, 0.0, 0.25]), there.undecided
    (-0.25, 0)
    """

    host: BVH

    def __init__(self, tree: BVH, device: Any) -> None:
        if not hasattr(tree, "faces"):
            raise TypeError(f"to needs a BVH over triangles, not over {tree.kind}")
        super().__init__(tree, device)
        # The tree that was sent last, and its struct on the device.
        self._copy: BVH | None = None
        self._target: Any = None
        self._state()

    def _state(self) -> tuple[BVH, Any]:
        """Return a copy of the tree as it is now, and its struct; send it if it was refitted."""
        if self._copy is None or self.host.arrays is not self._copy.arrays:
            self._copy = copy(self.host)
            self._target = tree_on(ray_target(self._copy).masked(), self.device)
        return self._copy, self._target

    def __copy__(self) -> DeviceBVH:
        """Return the tree on the device as it is now, which no refit changes."""
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        found.host, found.stages = self._state()[0], Stages(self.device)
        return found

    def _searched(self) -> tuple[Any, Any]:
        """Return the arrays that are searched, and their owner."""
        assert self._copy is not None
        return self._copy.arrays, None

    def __repr__(self) -> str:
        return f"DeviceBVH({len(self.host)} triangles, on {self.device})"

    def __len__(self) -> int:
        return len(self.host)

    @property
    def vertices(self) -> Any:
        """The vertices of the tree, on the CPU."""
        return self.host.vertices

    @property
    def faces(self) -> Any:
        """The faces of the tree, on the CPU."""
        return self.host.faces

    def refit(self, vertices: Any) -> float:
        """Refit the tree, here and on the CPU; as `BVH.refit`."""
        return self.host.refit(on_host(vertices))

    def closest_point(
        self, points: Any, max_distance: Any = np.inf, *, mask: int | None = None
    ) -> ClosestPoints:
        """Find the closest point of the surface for each point; as `BVH.closest_point`."""
        return PointCall(self, points, max_distance, mask).closest()

    def distance(self, points: Any, max_distance: Any = np.inf, *, mask: int | None = None) -> Any:
        """Return the distance of each point from the surface; as `BVH.distance`."""
        return PointCall(self, points, max_distance, mask).distances()

    def contains(self, points: Any, *, mask: int | None = None) -> Any:
        """Return for each point whether it is inside the surface, by parity; as `BVH.contains`."""
        warn_if_open(self.host, mask, "contains")
        return PointCall(self, points, np.inf, mask).inside()

    def signed_distance(self, points: Any, *, mask: int | None = None) -> Any:
        """Return the distance of each point, negative inside; as `BVH.signed_distance`."""
        warn_if_open(self.host, mask, "the sign of signed_distance")
        return PointCall(self, points, np.inf, mask).signed()


@public
class DeviceScene(DeviceObject):
    """Scene of trees over triangles on a device, made by `Scene.to`; rays alone.

    As `DeviceBVH`, for the ray queries of `Scene`. Each tree is stored once, whatever the number
    of instances. Changes of the scene are sent before a query.

    Attributes
    ----------
    host : Scene
        The scene on the CPU: add, remove and move its instances.
    device, undecided
        As of `DeviceBVH`.

    Examples
    --------
    >>> import bvh, numpy as np, trimesh
    >>> scene = bvh.Scene()
    >>> ids = scene.add_many(trimesh.creation.box(), np.eye(4)[None].repeat(2, axis=0))
    >>> there = scene.to("cpu")
    >>> lifted = np.eye(4)
    >>> lifted[2, 3] = 2.0
    >>> there.set_transforms([1], [lifted])
    >>> hit = there.closest_hit([0.1, 0.2, 5.0], [0.0, 0.0, -1.0])
    >>> hit.t, hit.instance_id
    (2.5, 1)
    """

    is_scene = True
    host: Scene

    def __init__(self, scene: Scene, device: Any) -> None:
        super().__init__(scene, device)
        self._view: Any = None
        # The view's count of moves and its masks, as they were sent.
        self._copy, self._target = (-1, b""), None
        self._state()

    def _searched(self) -> tuple[Any, Any]:
        """Return the arrays that are searched, and their owner."""
        return self._view.arrays, self._view

    def __repr__(self) -> str:
        return f"DeviceScene({len(self.host)} instances, on {self.device})"

    def _state(self) -> tuple[Scene, Any]:
        """Return the scene and its struct; send trees that are new, or leaves that have changed."""
        view = self.host.view()
        now = view.moves, view.masks.tobytes()
        if view is self._view and now == self._copy:
            return self.host, self._target
        kind = view.first_other(-1)
        if kind is not None:
            raise TypeError(
                f"only scenes of triangles can be on a device, but leaf {kind[0]} is over {kind[1]}"
            )
        if view is not self._view or not move_leaves(self._target, view, self.device):
            self._target = scene_on(view, self.device)
        self._view, self._copy = view, now
        return self.host, self._target

    def set_transforms(self, ids: Any, transforms: Any) -> None:
        """Move instances, here and in the scene; as `Scene.set_transforms`, arrays of any kind."""
        self.host.set_transforms(on_host(ids), on_host(transforms))


def on_device(host: Any, device: Any) -> DeviceObject:
    """Return a copy of a tree or a scene on a device, which follows its changes."""
    kind = DeviceScene if hasattr(host, "view") else DeviceBVH
    return kind(host, device_of(device))
