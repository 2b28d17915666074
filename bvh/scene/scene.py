"""`Scene`: instances of trees and of other scenes, which can be added, moved and removed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import mirrored
from bvh.io.meshes import fits, surface_of
from bvh.io.trimesh_scenes import ReversedAttributes, attributes_of, placements, up_of
from bvh.queries.hierarchy import BVH
from bvh.queries.public_names import PublicClass, public
from bvh.queries.tree_base import MappedFile
from bvh.runtime.arguments import ALL_BITS, Axis, Quality, bit_masks, label, thread_count, truths
from bvh.runtime.jit import called_by_address, warms
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.runtime.registry import enrolled
from bvh.scene.instance_access import InstanceAccess, many_maps, one_map, spread
from bvh.scene.leaves import check_nesting
from bvh.scene.picking import Picking
from bvh.scene.table import IDENTITY, nested_scenes
from bvh.tree.primitives import Custom

if TYPE_CHECKING:
    from bvh.queries.on_devices import DeviceScene


@public
class Scene(Picking, InstanceAccess, metaclass=PublicClass):
    """Instances of trees and of other scenes, each under an affine transform.

    An instance under a transform M is its mesh with every vertex v moved to the double nearest to
    M v: results are bit for bit those of the mesh that `flattened` returns. `add` assigns ids in
    ascending order and never reuses one.

    Dask arrays give lazy results, as in `BVH`, of the scene as it is when it is queried. Arrays of
    other libraries, such as PyTorch's, give arrays of their library, and errors are as in `BVH`.

    When a nested scene is changed, or a tree refitted, all scenes that contain it follow. Many
    threads may query a scene together, but neither it nor its contents may be changed meanwhile.
    Scenes can be pickled, forked and copied: `copy.copy` shares trees, `copy.deepcopy` does not.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> scene = bvh.Scene()
    >>> low = scene.add(tree, name="low")
    >>> high = scene.add(tree, np.diag([1.0, 1.0, -1.0, 1.0]), name="high")
    >>> M = np.eye(4)
    >>> M[2, 3] = 5.0
    >>> scene.set_transform(high, M)
    >>> scene
    Scene(2 instances, 2 leaves, 1 tree)
    >>> scene[high].name, scene.find("low").tolist()
    ('high', [0])
    """

    __slots__ = ()

    @classmethod
    def from_trimesh(
        cls, trimesh_scene: Any, *, up: Axis | None = None, quality: Quality = "medium",
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Scene:  # fmt: skip
        """Create a scene from one of trimesh, with an instance for each node that has triangles.

        Parameters
        ----------
        trimesh_scene : trimesh.Scene
            Each geometry becomes one tree, however many nodes use it; names are those of nodes,
            and transforms those from a node to the world. Where a transform reflects, the outside
            of a mesh stays outside, as in glTF and in `BVH.from_file`: such nodes share a second
            tree, of the same vertices, with the corners of each face in reverse order. Nodes of
            glTF without a name get that of their mesh, and the parts of a mesh in several materials
            that of its node, with a number where a name repeats: the same each time. `attributes`
            returns vertex normals, texture coordinates and base colours of the meshes. Nodes with
            points or paths, or with a singular transform, are left out with a `BVHWarning`. trimesh
            misreads some glTF files, which `load_scene` reads correctly.
        up : {"x", "y", "z", "-x", "-y", "-z"}, optional
            The axis that is up (see `Scene.up`); by default y in scenes of glTF files, else z.
        quality, threads, progress
            As in `BVH.from_triangles`.

        Examples
        --------
        >>> import bvh, trimesh
        >>> ball = trimesh.creation.icosphere()
        >>> scene = bvh.Scene.from_trimesh(trimesh.Scene({"ball": ball}))
        >>> scene[0].name, scene.closest_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0]).t
        ('ball', 4.0)
        """
        nodes = placements(trimesh_scene)
        maps = np.array([node.matrix for node in nodes]).reshape(-1, 3, 4)
        # A tree for each geometry, and a second one, with reversed faces, for mirrored nodes.
        keys = list(zip((n.geometry for n in nodes), mirrored(maps).tolist(), strict=True))
        used = {key: trimesh_scene.geometry[key[0]] for key in keys}
        total, done = sum(len(mesh.faces) for mesh in used.values()), 0
        scene, trees = cls(), dict[tuple[str, bool], BVH]()
        scene.up = up_of(trimesh_scene) if up is None else up
        with heard(progress) as report:
            for (name, is_reversed), mesh in used.items():

                def step(part: int, _: int, before: int = done) -> None:
                    """Report `part` faces of this mesh, after `before` faces of other meshes."""
                    assert report is not None
                    report(before + part, total)

                steps = step if report else None
                surface = surface_of(mesh, threads)
                if is_reversed:
                    surface = surface._replace(faces=np.asarray(surface.faces)[:, ::-1])
                # Both trees of a geometry share their vertices.
                twin = trees.get((name, not is_reversed))
                if twin is not None:
                    surface = surface._replace(vertices=twin.vertices)
                tree = BVH.from_mesh(surface, quality=quality, threads=threads, progress=steps)
                trees[name, is_reversed] = tree
                attributes = attributes_of(mesh)
                attributes = ReversedAttributes(*attributes) if is_reversed else attributes
                scene._attributes[id(tree)] = tree, attributes
                done += len(mesh.faces)
        if nodes:
            children = np.array([scene._instances.child_index(trees[k]) for k in keys], np.int32)
            scene._instances.extend(children, maps, [node.name for node in nodes])
        return scene

    @property
    def up(self) -> Axis:
        """Up axis of pictures, pages and cameras: "z", "y", "x", "-x", "-y" or "-z".

        "y" in scenes that come from glTF, "z" by default in others. The axis can be set, is saved,
        and has no effect on queries; nested scenes use the axis of the outermost scene.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> scene.up = "y"
        >>> number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
        >>> bvh.Camera.framing(scene) == bvh.Camera.framing(scene, up="y")
        True
        """
        return self._up

    @up.setter
    def up(self, axis: Axis) -> None:
        if not isinstance(axis, str) or axis not in get_args(Axis):
            kind = ValueError if isinstance(axis, str) else TypeError
            raise kind(f"up must be one of {', '.join(get_args(Axis))}, got {axis!r}")
        self._up, self._saved = axis, None

    @property
    def source(self) -> MappedFile | None:
        """The file that the scene is mapped from; None if it is in memory or has been changed.

        Examples
        --------
        >>> import bvh, os, tempfile
        >>> scene = bvh.Scene()
        >>> number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     scene.save(os.path.join(folder, "one.bvh"))
        ...     mapped = bvh.load(os.path.join(folder, "one.bvh"), mmap=True)
        ...     os.path.basename(mapped.source.path), scene.source is None
        ('one.bvh', True)
        """
        file = self._saved
        # A nested scene in a file has no checksum of its own.
        if file is None or not file.checksum:
            return None
        # All nested scenes and trees must still be as they were in this file.
        for part in nested_scenes(self):
            instances, saved = part._instances, part._saved
            if saved is None or saved.content is not file.content or not instances.is_as_made:
                return None
            files = (tree.source for tree in instances.children if isinstance(tree, BVH))
            if any(each is None or each.content is not file.content for each in files):
                return None
        return file

    def add(
        self, child: Any, transform: ArrayLike | None = None, name: str | None = None,
        mask: int = ALL_BITS, visible: bool = True,
    ) -> int:  # fmt: skip
        """Add an instance, and return its id.

        Parameters
        ----------
        child : BVH, Scene or mesh
            A mesh is anything that `BVH.from_mesh` takes; added again, it shares its tree. A scene
            must not contain this one.
        transform : array_like, shape (4, 4), optional
            From the child's coordinates to the scene's: affine and invertible, which includes
            reflections, shear and any scale. Spheres and capsules, also in nested scenes, may only
            be rotated, reflected, moved and scaled by one factor, within 2**-20 of it. The identity
            by default.
        name : str, optional
            Need not be unique.
        mask : int
            32 bits; queries whose mask shares no bit with it ignore the instance.
        visible : bool
            Queries ignore instances that are not visible.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> lifted = np.eye(4)
        >>> lifted[2, 3] = 2.0
        >>> scene.add(mesh, name="low"), scene.add(mesh, lifted, name="high", mask=2)
        (0, 1)
        >>> ray = [0.2, 0.2, 5.0], [0.0, 0.0, -1.0]
        >>> scene.closest_hit(*ray).t, scene.closest_hit(*ray, mask=2).t, len(scene.leaves.trees)
        (3.0, 3.0, 1)
        """
        maps = IDENTITY if transform is None else one_map(transform)
        bits, shown = bit_masks("mask", mask), truths("visible", visible)
        if bits.ndim or shown.ndim:
            raise ValueError("mask and visible must be single values; add_many takes many")
        names = (label("name", name),)
        child = self._child_of(child)
        restricted = self._must_suit("transform", child, maps[None])
        index = self._instances.child_index(child, restricted)
        return int(self._instances.extend(index, maps[None], names, int(bits), bool(shown))[0])

    def add_many(
        self, child: Any, transforms: ArrayLike, names: Sequence[str | None] | None = None,
        masks: ArrayLike = ALL_BITS, visible: ArrayLike = True,
    ) -> NDArray[np.int64]:  # fmt: skip
        """Add many instances of one child, and return their ids.

        Parameters
        ----------
        child : BVH, Scene or mesh
            As in `add`.
        transforms : array_like, shape (n, 4, 4)
        names : sequence of str or None, length n, optional
        masks : int or array_like of int, shape (n,)
        visible : bool or array_like of bool, shape (n,)
            As in `add`, for each instance; one mask or truth value is for all of them.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> at = np.tile(np.eye(4), (3, 1, 1))
        >>> at[:, 0, 3] = [0.0, 5.0, 10.0]
        >>> scene.add_many(mesh, at, names=["a", "b", "c"], visible=[True, True, False])
        array([0, 1, 2])
        >>> scene.any_hit([[0.2, 0.2, 5], [5.2, 0.2, 5], [10.2, 0.2, 5]], [0, 0, -1])
        array([ True,  True, False])
        """
        maps = many_maps(transforms)
        labels: Any = itertools.repeat(None)
        if names is not None:
            if isinstance(names, str) or len(names) != len(maps):
                raise ValueError(f"names must be {len(maps)} names, one for each transform")
            labels = [label("names", name) for name in names]
        bits = spread("masks", bit_masks("masks", masks), len(maps))
        shown = spread("visible", truths("visible", visible), len(maps))
        child = self._child_of(child)
        restricted = self._must_suit("transforms", child, maps)
        if len(maps) == 0:  # a child without an instance does not belong to the table
            return np.empty(0, np.int64)
        index = self._instances.child_index(child, restricted)
        return self._instances.extend(index, maps, labels, bits, shown)

    def _child_of(self, child: Any) -> BVH | Scene:
        """Return `child`, checked, if it is a tree or a scene; else the tree over it as a mesh."""
        if isinstance(child, Scene):
            parts = nested_scenes(child)
            if any(part is self for part in parts):
                raise ValueError("child must not hold the scene that it is added to")
            check_nesting(parts, 1)
        elif not isinstance(child, BVH):
            mesh, child = child, self._meshes.get(id(child))
            # `child` is the tree of an earlier mesh with this id, or None. That may have been
            # another mesh, and a mesh may have changed, so vertices and faces are compared.
            if child is None or not fits(mesh, child.vertices, child.faces):
                child = BVH.from_mesh(mesh)
                self._meshes[id(mesh)] = child
                self._attributes[id(child)] = child, attributes_of(mesh)
        elif isinstance(child.arrays.primitives, Custom):
            raise TypeError("child must be over triangles or shapes, not over custom primitives")
        return child  # type: ignore[no-any-return]

    def to(self, device: Any = "cuda") -> DeviceScene:
        """Return a copy of the scene on a GPU, or on Warp's CPU device, for ray queries.

        The copy follows the scene: later changes of instances, and refits, apply to it, too.

        Parameters
        ----------
        device
            As in `BVH.to`, with the same errors; all leaves must be over triangles.

        Returns
        -------
        bvh.warp.DeviceScene

        Examples
        --------
        >>> import bvh, trimesh
        >>> scene = bvh.Scene()
        >>> scene.add(trimesh.creation.box())
        0
        >>> scene.to("cpu").any_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0])  # doctest: +SKIP
        True
        """
        there: DeviceScene = enrolled("trees on devices")(self, device)
        return there

    def save(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Write the scene to a file, for `bvh.load`.

        The file holds every tree and every nested scene once, the instances with their ids, names,
        masks and transforms, the up axis, and the vertex normals, texture coordinates and materials
        of meshes (see `attributes`), with images as PNG.

        Parameters
        ----------
        path, threads
            As in `BVH.save`, with the same errors; files are written atomically.

        Examples
        --------
        >>> import bvh, os, tempfile
        >>> scene = bvh.Scene()
        >>> number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), name="one")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     scene.save(os.path.join(folder, "scene.bvh"))
        ...     again = bvh.load(os.path.join(folder, "scene.bvh"))
        >>> again[0].name
        'one'
        """
        enrolled("files of scenes")(self, path, thread_count(threads))


@warms("rays in scenes")
def _warm() -> None:
    """Compile the ray queries of scenes."""
    scene, rays = Scene(), (np.ones((2, 3)), -np.ones((2, 3)))
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2]]))
    scene.closest_hit(*rays)
    scene.closest_hit(*rays, counters=True).position.sum()
    scene.any_hit(*rays)
    scene.all_hits(*rays)
    scene.all_hits(*rays, max_hits=1)
    scene.count_hits(*rays)
    scene.count_hits(rays[0][0], rays[1][0])
    scene.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)


@warms("point queries of scenes")
def _warm_points() -> None:
    """Compile the point queries of scenes."""
    scene, points = Scene(), np.zeros((1, 3))
    # A closed surface, because contains warns about others.
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2], [0, 2, 1]]))
    for count in (None, 1):
        scene.closest_point(points, k=count)
    scene.distance(points[0])
    scene.contains(np.zeros((2, 3)))
    scene.add(BVH.from_spheres(points, 1.0))
    scene.closest_point(points)
    scene.contains(points)
    scene.all_hits(points, points + 1.0)


@called_by_address
def _accept_all(ray_id, instance_id, prim_id, t, u, v, data):
    """Return True, as a user's filter that accepts every hit: filters have these arguments."""
    return True


@warms("filters in scenes")
def _warm_filters() -> None:
    """Compile ray queries with users' filters."""
    scene, rays = Scene(), (np.ones((2, 3)), -np.ones((2, 3)))
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2]]))
    scene.closest_hit(*rays, filter=_accept_all)
    scene.any_hit(*rays, filter=_accept_all)
