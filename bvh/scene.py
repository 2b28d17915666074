"""`Scene`: many trees, each under its own transform, that come, go and move."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.affine import affine_maps
from bvh.arguments import ALL_BITS, bit_masks, index_rows, label, one_index, truths
from bvh.expansion import check_extent
from bvh.instances import below
from bvh.jit import alone, warms
from bvh.placement import axis_name
from bvh.primitives import Custom
from bvh.progress_bars import ProgressLike, heard
from bvh.scene_graph import attributes_of, fits, placements, up_of
from bvh.scene_overlaps import SceneOverlapQueries
from bvh.scene_picking import Picking
from bvh.scene_points import ScenePoints
from bvh.scene_saving import SceneSaving
from bvh.tree import BVH

IDENTITY = np.eye(3, 4)


class Scene(Picking, ScenePoints, SceneOverlapQueries, SceneSaving):
    """Instances of trees and of other scenes, each under an affine transform.

    An instance is its mesh with every vertex moved to the double nearest to M v: the scene answers
    bit for bit as the mesh that `flattened` returns. Ids are given by `add`, in ascending order,
    and never again.

    A scene within a scene can be changed there, and a tree can be refitted: whatever holds them
    notices. A scene may be asked by many threads at once, but must not be changed, nor must what it
    holds, while others ask; it can be pickled and copied (`copy.copy` shares the trees,
    `copy.deepcopy` does not), and survives a fork.

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
    Scene(2 instances, 2 leaves, 1 trees)
    >>> scene[high].name, scene.find("low").tolist()
    ('high', [0])
    """

    __slots__ = ()

    @classmethod
    def from_trimesh(
        cls,
        trimesh_scene: Any,
        *,
        up: str | None = None,
        quality: str = "medium",
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Scene:
        """Make a scene of one of trimesh: an instance for each node of its graph with triangles.

        Parameters
        ----------
        trimesh_scene : trimesh.Scene
            Each geometry becomes one tree, however many nodes hold it; names are those of nodes,
            and transforms those from a node to the world. Nodes of glTF without a name have that
            of their mesh, and the parts of a mesh in several materials that of its node, with a
            number where it comes again: the same each time. What the meshes know of vertex normals
            and texture coordinates is kept (see `attributes`). Nodes with points or paths, or with
            a transform that cannot be inverted, are left out with a `BVHWarning`.
        up : {"x", "y", "z", "-x", "-y", "-z"}, optional
            What is up (see `Scene.up`); by default y if trimesh has read it from glTF, else z.
        quality, threads
            As in `BVH.from_triangles`.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in triangles.

        Returns
        -------
        Scene
        """
        nodes = placements(trimesh_scene)
        used = {node.geometry: trimesh_scene.geometry[node.geometry] for node in nodes}
        total, done = sum(len(mesh.faces) for mesh in used.values()), 0
        scene, places = cls(), {}
        scene.up = up_of(trimesh_scene) if up is None else up
        with heard(progress) as report:
            for name, mesh in used.items():

                def step(part: int, _: int, before: int = done) -> None:
                    assert report is not None
                    report(before + part, total)

                tree = BVH.from_mesh(
                    mesh, quality=quality, threads=threads, progress=step if report else None
                )
                places[name] = scene._instances.place_of(tree)
                scene._attributes[id(tree)] = tree, attributes_of(mesh)
                done += len(mesh.faces)
        if nodes:
            children = np.array([places[node.geometry] for node in nodes], np.int32)
            maps = np.stack([node.matrix for node in nodes])
            scene._instances.extend(children, maps, [node.name for node in nodes])
        return scene

    @property
    def up(self) -> str:
        """What is up in pictures, on pages and for cameras: "z", "y", "x", "-x", "-y" or "-z".

        "y" in scenes that come from glTF, in others "z" unless they are told; it can be set, is
        saved, and changes no answer. Of a scene within a scene, that of the outer one counts.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> scene.up = "y"
        >>> scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
        0
        >>> bvh.Camera.framing(scene) == bvh.Camera.framing(scene.bounds, up="y")
        True
        """
        return self._up

    @up.setter
    def up(self, axis: str) -> None:
        self._up = axis_name("up", axis)

    def add(
        self,
        child: Any,
        transform: ArrayLike | None = None,
        name: str | None = None,
        mask: int = ALL_BITS,
        visible: bool = True,
    ) -> int:
        """Add an instance.

        Parameters
        ----------
        child : BVH, Scene or mesh
            A mesh is what `BVH.from_mesh` takes; the same mesh, added again, shares one tree.
        transform : array_like, shape (4, 4), optional
            Affine and invertible, from the child's coordinates to the scene's; reflections, shear
            and any scale are. None leaves it in place.
        name : str, optional
            Need not be unique.
        mask : int
            32 bits; a ray passes through what shares no bit with its own mask.
        visible : bool
            What is not visible is hit by no ray.

        Returns
        -------
        int
            Its id.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range; if the child holds this scene.
        """
        maps = IDENTITY if transform is None else affine_maps("transform", transform)
        if maps.shape != (3, 4):
            raise ValueError(f"transform must have shape (4, 4), got {(*maps.shape[:-2], 4, 4)}")
        bits, seen = bit_masks("mask", mask), truths("visible", visible)
        if bits.ndim or seen.ndim:
            raise ValueError("mask and visible must be single values; add_many takes many")
        names = (label("name", name),)
        place = self._place_of(child)
        return int(self._instances.extend(place, maps[None], names, int(bits), bool(seen))[0])

    def add_many(
        self,
        child: Any,
        transforms: ArrayLike,
        names: Sequence[str | None] | None = None,
        masks: ArrayLike = ALL_BITS,
        visible: ArrayLike = True,
    ) -> NDArray[np.int64]:
        """Add many instances of one child.

        Parameters
        ----------
        child : BVH, Scene or mesh
            As in `add`.
        transforms : array_like, shape (n, 4, 4)
        names : sequence of str or None, length n, optional
        masks : int or array_like of int, shape (n,)
        visible : bool or array_like of bool, shape (n,)

        Returns
        -------
        ndarray of int64, shape (n,)
            Their ids.
        """
        maps = _many_maps(transforms)
        labels: Any = itertools.repeat(None)
        if names is not None:
            if isinstance(names, str) or len(names) != len(maps):
                raise ValueError(f"names must be {len(maps)} names, one for each transform")
            labels = [label("names", name) for name in names]
        bits = _spread("masks", bit_masks("masks", masks), len(maps))
        seen = _spread("visible", truths("visible", visible), len(maps))
        return self._instances.extend(self._place_of(child), maps, labels, bits, seen)

    def remove(self, ids: int | ArrayLike) -> None:
        """Remove an instance, or many; their ids are not given again.

        Parameters
        ----------
        ids : int or array_like of int, shape (n,)

        Raises
        ------
        KeyError
            If there is no such instance.
        """
        self._instances.remove(np.unique(self._rows(ids)))

    def replace(self, instance_id: int, child: Any) -> None:
        """Give an instance another child; all else about it stays.

        Parameters
        ----------
        instance_id : int
        child : BVH, Scene or mesh
            As in `add`.
        """
        row = self._row(instance_id)
        self._instances.replace(row, self._place_of(child))

    def set_transform(self, instance_id: int, transform: ArrayLike) -> None:
        """Move an instance, in microseconds, however many there are.

        Parameters
        ----------
        instance_id : int
        transform : array_like, shape (4, 4)
            As in `add`.
        """
        row = self._row(instance_id)
        maps = affine_maps("transform", transform)
        if maps.shape != (3, 4):
            raise ValueError(f"transform must have shape (4, 4), got {(*maps.shape[:-2], 4, 4)}")
        self._instances.move(np.array([row]), maps)

    def set_transforms(self, ids: ArrayLike, transforms: ArrayLike) -> None:
        """Move many instances.

        Parameters
        ----------
        ids : array_like of int, shape (n,)
            Of one that is given twice, the last transform counts.
        transforms : array_like, shape (n, 4, 4)
        """
        rows = self._instances.rows_of(index_rows("ids", ids))
        maps = _many_maps(transforms)
        if len(maps) != len(rows):
            raise ValueError(
                f"transforms must have shape ({len(rows)}, 4, 4), got ({len(maps)}, 4, 4)"
            )
        self._instances.move(rows, maps)

    def set_visible(self, ids: int | ArrayLike, visible: ArrayLike) -> None:
        """Show or hide instances.

        Parameters
        ----------
        ids : int or array_like of int, shape (n,)
        visible : bool or array_like of bool, shape (n,)
        """
        found = self._rows(ids)
        values = _spread("visible", truths("visible", visible), len(found))
        self._instances.mark(found, "visible", values)

    def set_mask(self, ids: int | ArrayLike, mask: ArrayLike) -> None:
        """Give instances another mask.

        Parameters
        ----------
        ids : int or array_like of int, shape (n,)
        mask : int or array_like of int, shape (n,)
            As in `add`.
        """
        found = self._rows(ids)
        self._instances.mark(found, "masks", _spread("mask", bit_masks("mask", mask), len(found)))

    def rename(self, instance_id: int, name: str | None) -> None:
        """Give an instance another name, or none.

        Parameters
        ----------
        instance_id : int
        name : str or None
        """
        number = int(self._instances.column("ids")[self._row(instance_id)])
        if label("name", name) is None:
            self._instances.names.pop(number, None)
        else:
            self._instances.names[number] = str(name)

    def _rows(self, ids: int | ArrayLike) -> NDArray[np.int64]:
        if np.ndim(ids) == 0:
            return np.array([self._instances.row_of(one_index("ids", ids))])  # type: ignore[arg-type]
        return self._instances.rows_of(index_rows("ids", ids))

    def _place_of(self, child: Any) -> int:
        """Return the number of a child among ours, a tree made of it if it is a mesh."""
        table = self._instances
        if isinstance(child, Scene):
            parts = below(child)
            if any(part is self for part in parts):
                raise ValueError("child must not hold the scene that it is added to")
            check_extent(parts, 1)
        elif not isinstance(child, BVH):
            mesh, child = child, self._meshes.get(id(child))
            if child is None or not fits(mesh, child.vertices, child.faces):
                child = BVH.from_mesh(mesh)
                self._meshes[id(mesh)] = child
                self._attributes[id(child)] = child, attributes_of(mesh)
        elif isinstance(child.arrays.primitives, Custom):
            raise TypeError("child must be over triangles, boxes or obbs, not over custom")
        return table.place_of(child)


def _many_maps(transforms: ArrayLike) -> NDArray[np.float64]:
    """Return the maps (n, 3, 4) of matrices (n, 4, 4)."""
    if np.size(transforms) == 0:
        return np.empty((0, 3, 4))
    maps = affine_maps("transforms", transforms)
    if maps.ndim != 3:
        raise ValueError(f"transforms must have shape (n, 4, 4), got {np.shape(transforms)}")
    return maps


def _spread(name: str, values: NDArray[Any], count: int) -> NDArray[Any]:
    """Return one value for each of `count` instances."""
    if values.ndim and values.shape != (count,):
        raise ValueError(f"{name} must be one value or {count} of them, got {values.shape}")
    return np.broadcast_to(values, (count,))


@warms("rays in scenes")
def _warm() -> None:
    """Compile what rays ask of scenes."""
    scene, rays = Scene(), (np.ones((2, 3)), -np.ones((2, 3)))
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2]]))
    scene.closest_hit(*rays)
    scene.closest_hit(*rays, counters=True)
    scene.any_hit(*rays)
    scene.all_hits(*rays)
    scene.all_hits(*rays, max_hits=1)
    scene.count_hits(*rays)
    scene.caster()(1.0, 1.0, 1.0, -1.0, -1.0, -1.0)


@alone
def _any_hit_counts(ray_id, instance_id, prim_id, t, u, v, data):
    return True


@warms("filters in scenes")
def _warm_filters() -> None:
    """Compile what calls users' filters."""
    scene, rays = Scene(), (np.ones((2, 3)), -np.ones((2, 3)))
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2]]))
    scene.closest_hit(*rays, filter=_any_hit_counts)
    scene.any_hit(*rays, filter=_any_hit_counts)
