"""`DeviceBVH` and `DeviceScene`: a tree, or a scene, on a device, and its queries."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from bvh.devices.building import cost_of
from bvh.devices.calls import PointCall, RayCall, SightCall
from bvh.devices.exchange import is_on_device, on_host, read, stream_of
from bvh.devices.instances import LateView, build_top, place, scene_on
from bvh.devices.layout import target_on
from bvh.devices.rebuilding import Members, MovedTriangles, moved
from bvh.devices.stages.chain import Stages
from bvh.devices.transfers import Buffers
from bvh.queries.batches.ray_batches import source_of
from bvh.queries.methods.point_queries import warn_if_open
from bvh.queries.public_names import public
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.queries.targets import ray_target
from bvh.runtime.arguments import Cull, EdgeRule
from bvh.scene.leaves import FlattenedInstances
from bvh.tree.arrays import TreeArrays
from bvh.tree.changes import changes

if TYPE_CHECKING:
    from bvh.queries.hierarchy import BVH
    from bvh.scene.scene import Scene


class DeviceObject:
    """Base class of trees and scenes on a device: ray queries."""

    is_scene = False
    # Return the source of hits, by which results compute positions (see `answers.locations`).
    _hit_source: Callable[[], Any]
    # Return the `Target` on the device, after sending changes to it; and the tree or scene on the
    # CPU in the same state.
    _current_target: Callable[[], Any]
    _on_cpu: Callable[[], Any]
    # The tree or scene on the CPU, which answers rays and points that the device does not decide.
    host: Any

    def __init__(self, device: Any) -> None:
        self.device, self.undecided = device, 0
        self.stages, self.buffers = Stages(device), Buffers(device)
        self._current_target()

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError; only called for names that are no attributes."""
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if not name.startswith("_") and name != "host" and hasattr(self.host, name):
            text += f": the tree or scene on the CPU has it, host.{name}"
        raise AttributeError(text)

    @property
    def target(self) -> Any:
        """A struct of Warp for kernels of your own (see `bvh.warp`), in the present state."""
        return self._current_target()

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

    def visible(
        self, p: Any, q: Any, *, margin: float = 1e-10, mask: Any = None, cull: Cull | None = None
    ) -> Any:
        """Return for each pair of points whether nothing is between them; as `BVH.visible`."""
        return SightCall(self, p, q, margin, mask, cull).seen()


def device_of(device: Any) -> Any:
    """Return a Warp device, given as such, by name or as PyTorch's; ValueError if there is none."""
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
    `BVH`'s; arrays on a device must all have one leading shape, or one item for all rays. One
    thread at a time may use it.

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

    def __init__(self, tree: BVH, device: Any) -> None:
        if not hasattr(tree, "faces"):
            raise TypeError(f"to needs a BVH over triangles, not over {tree.kind}")
        # The caller's tree; a copy in its state when it was sent, with vertices of that time; and
        # whether the vertices on the device are newer.
        self._tree, self._copy, self._is_ahead = tree, copy(tree), False
        self._target: Any = None
        super().__init__(device)

    @property
    def host(self) -> BVH:
        """The tree on the CPU, refitted if the device has newer vertices."""
        if self._is_ahead and self._tree.arrays is self._copy.arrays:
            self._on_cpu()
        return self._tree

    def _current_target(self) -> Any:
        """Return the `Target`; send the tree first if it was refitted on the CPU."""
        if self._target is None or self._tree.arrays is not self._copy.arrays:
            self._copy, self._is_ahead = copy(self._tree), False
            self._target = target_on([ray_target(self._copy).masked()], self.device)
            # The faces in leaves; whether a rebuild has left out faces that are not valid; the cost
            # of the tree before refits, 0 if unknown.
            self._members: Members | None = None
            self._lacks_faces, self._cost = False, 0.0
        return self._target

    def _on_cpu(self) -> BVH:
        """Return the tree as it was sent, refitted if the device has moved it since."""
        # The caller's tree is refitted, too, unless it has been refitted by other means.
        if self._is_ahead:
            self._is_ahead, vertices = False, self._target.vertices.numpy()
            if self._tree.arrays is self._copy.arrays:
                self._tree.refit(vertices)
                self._copy = copy(self._tree)
            else:
                self._copy.refit(vertices)
        return self._copy

    def __copy__(self) -> DeviceBVH:
        """Return the tree on the device as it is now, which no refit changes."""
        self._current_target()
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        # Each has its own, as both may be refitted.
        found._tree, found._copy = copy(self._copy), copy(self._copy)
        found.stages = Stages(self.device)
        found.buffers = Buffers(self.device)
        return found

    def _hit_source(self) -> Any:
        """As of `DeviceObject`: the vertices are those that the device had at the query."""
        if self._is_ahead:
            return MovedTriangles(self._tree.faces, self._target.vertices), 0, None
        # No scene, and no rays, which hits on triangles do not need.
        return source_of(self._copy.arrays, None, None)

    def __repr__(self) -> str:
        return f"DeviceBVH({len(self._tree)} triangles, on {self.device})"

    def __len__(self) -> int:
        return len(self._tree)

    @property
    def vertices(self) -> Any:
        """The vertices of the tree, on the CPU."""
        return self.host.vertices

    @property
    def faces(self) -> Any:
        """The faces of the tree, on the CPU."""
        return self._tree.faces

    def refit(self, vertices: Any) -> float:
        """Refit the tree, here and on the CPU; as `BVH.refit`.

        Vertices on the device stay there: `host` is refitted when it is read, or when it answers
        what the device does not decide; the cost is that of the nodes on the device.
        """
        self._current_target()
        self._cost = self._cost or (cost_of(self._target) if is_on_device(vertices) else 0.0)
        if not is_on_device(vertices) or not self._move(vertices, self._lacks_faces):
            return self._tree.refit(on_host(vertices))
        cost = cost_of(self._target)
        return cost / self._cost if cost > 0.0 else 1.0

    def rebuild(self, vertices: Any) -> None:
        """Build the tree on the device anew, for vertices that have moved far.

        Builds take a few times as long as refits there; rays are faster afterwards if triangles
        that were neighbours are no more (see `BVH.refit`). `host` is refitted, as by `refit`.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            The new positions of all vertices, as many as before: arrays of numpy or on the device.

        Raises
        ------
        ValueError, TypeError
            As by `BVH.refit`.

        Examples
        --------
        >>> import bvh, trimesh
        >>> there = bvh.BVH.from_mesh(trimesh.creation.box()).to("cpu")
        >>> there.rebuild(there.vertices * [1.0, 1.0, 4.0])
        >>> there.closest_hit([0.1, 0.2, 5.0], [0.0, 0.0, -1.0]).t
        3.0
        """
        self._current_target()
        # Built anew (True).
        if self._move(vertices, True):
            self._cost = 0.0
        else:
            self._tree.refit(on_host(vertices))

    def _move(self, vertices: Any, anew: bool) -> bool:
        """Refit the tree on the device or, if `anew`, rebuild it, with new `vertices`.

        Return False, with nothing changed, if a valid face is in no leaf.
        """
        shape = self._tree.vertices.shape
        with stream_of(vertices, self.device):
            array, lead = read("vertices", vertices, self.device, wp.vec3d)
            if lead != shape[:1]:
                raise ValueError(f"vertices must have shape {shape}, got {(*lead, 3)}")
            self._members = self._members or Members.of(self._target, self._copy.groups)
            found = moved(self._target, self._members, wp.clone(array), anew)
        if found is not None:
            self._target, count = found
            self._is_ahead, self._lacks_faces = True, anew and count < len(self._members.ids)
        return found is not None

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
        warn_if_open(self._tree, mask, "contains")
        return PointCall(self, points, np.inf, mask).inside()

    def signed_distance(self, points: Any, *, mask: int | None = None) -> Any:
        """Return the distance of each point, negative inside; as `BVH.signed_distance`."""
        warn_if_open(self._tree, mask, "the sign of signed_distance")
        return PointCall(self, points, np.inf, mask).signed()


@public
class DeviceScene(DeviceObject):
    """Scene of trees over triangles on a device, made by `Scene.to`; rays alone.

    As `DeviceBVH`, for the ray queries of `Scene`. Each tree is stored once, whatever the number
    of instances. Changes of the scene are sent before a query; of instances that move, only the
    transforms are.

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
        self.host = scene
        # The leaves as they were sent, and the arrays of their trees; `changes.count` before.
        self._leaves: FlattenedInstances | None = None
        self._arrays: list[TreeArrays] = []
        self._change_count = -1
        self._target: Any = None
        self._source: Any = None
        self._extents: Any = None
        super().__init__(device)

    def _hit_source(self) -> Any:
        """As of `DeviceObject`: hits on leaves that move later are refused."""
        return self._source, self._source.moves, None

    def _on_cpu(self) -> Scene:
        """Return the scene on the CPU."""
        return self.host

    def __repr__(self) -> str:
        return f"DeviceScene({len(self.host)} instances, on {self.device})"

    def _current_target(self) -> Any:
        """Return the `Target` of the scene, after sending what has changed in the scene."""
        # Read first, so that changes made meanwhile are sent by the next call.
        change_count, leaves = changes.count, self._leaves
        if leaves is not None and change_count == self._change_count:
            return self._target
        # None until all is sent: after an error the next query sends everything.
        self._leaves = None
        if (
            leaves is None
            or not leaves.is_current()
            or any(t.arrays is not a for t, a in zip(leaves.trees, self._arrays, strict=True))
        ):
            leaves = FlattenedInstances(self.host)
            self._arrays = [tree.arrays for tree in leaves.trees]
            self._source = LateView(leaves)
            self._target, self._extents = scene_on(self._source.view, self.device)
        else:
            rows, masked = leaves.follow()
            if len(masked):
                self._source.set_masks(masked, leaves.masks[masked])
                masks = leaves.masks.view(np.int32)
                self._target.masks = wp.array(masks, dtype=wp.int32, device=self.device)
            if len(rows):
                self._source.note(rows)
                place(self._target, self._extents, rows, leaves.maps[rows])
                build_top(self._target)
        self._leaves, self._change_count = leaves, change_count
        return self._target

    def set_transforms(self, ids: Any, transforms: Any) -> None:
        """Move instances, here and in `host`; as `Scene.set_transforms`, arrays of any kind.

        The CPU checks the transforms; the device inverts them, and updates boxes and nodes.
        """
        self.host.set_transforms(on_host(ids), on_host(transforms))


def on_device(host: Any, device: Any) -> DeviceObject:
    """Return a copy of `host`, a tree or a scene, on a device; it follows the changes of `host`."""
    kind = DeviceScene if hasattr(host, "view") else DeviceBVH
    return kind(host, device_of(device))
