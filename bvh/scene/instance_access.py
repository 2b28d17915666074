"""Instances of a scene: looked up by their ids, moved, hidden, renamed, replaced and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import EVEN, affine_maps, even_scales, refuse
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import bit_masks, index_rows, integers, label, truths
from bvh.scene.scene_content import SceneContent
from bvh.scene.table import Instance, InstanceHolder, Instances, nested_scenes, table_guard
from bvh.tree.shapes import HOLLOW


class InstanceAccess(SceneContent):
    """The methods of `Scene` that look up and change instances."""

    __slots__ = ()

    # Defined by `Scene`: returns a child, checked; of a mesh, the tree over it.
    _child_of: Callable[[Any], TreeBase | InstanceHolder]

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of all instances, ascending, shape (n,)."""
        self._instances.compact()
        return self._instances.column("ids").copy()

    def instance(self, instance_id: int | str) -> Instance:
        """Return a snapshot of an instance by its id or name, like ``scene[instance_id]``.

        All methods that take an id also take the name of exactly one instance. A name of no
        instance or of several, and an unknown id, raise a KeyError.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="plate")
        >>> one = scene.instance(number)
        >>> one.name, one.visible, one.transform.shape
        ('plate', True, (4, 4))
        >>> scene["plate"].id == number
        True
        """
        with self._instances.without_compaction():
            return self._instances.record(self._row(instance_id))

    __getitem__ = instance

    def __iter__(self) -> Iterator[Instance]:
        """Iterate over the instances in the order of their ids, without those removed meanwhile."""
        # By id, because rows change when the table is compacted.
        for number in self.ids.tolist():
            if number in self:
                yield self.instance(number)

    def __contains__(self, instance_id: object) -> bool:
        if isinstance(instance_id, str):
            return bool(self._ids_of(instance_id))
        try:
            with self._instances.without_compaction():
                self._row(instance_id)  # type: ignore[arg-type]
        except (KeyError, TypeError):
            return False
        return True

    def find(self, name: str) -> NDArray[np.int64]:
        """Return the ids of the instances with a name, ascending; nested scenes are not searched.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> [scene.add(mesh, name=name) for name in ("left", "right", "left")]
        [0, 1, 2]
        >>> scene.find("left"), scene.find("top")
        (array([0, 2]), array([], dtype=int64))
        """
        return np.array(self._ids_of(name), np.int64)

    def names(
        self, instance_ids: int | ArrayLike, missing: str | None = None
    ) -> NDArray[np.object_] | Any:
        """Return the names of instances by their ids, such as those of hits.

        Parameters
        ----------
        instance_ids : int or array_like of int, shape (...)
            For example ``hits.instance_id``; -1 for a miss. Unknown ids raise a KeyError.
        missing : str, optional
            The name returned for misses and for instances without a name, instead of None: names
            that are all strings can be sorted, and counted by `numpy.unique`.

        Returns
        -------
        str or None, or ndarray of object, shape (...)
            Names of instances of this scene; `name_of` has those within nested scenes.

        Examples
        --------
        >>> import bvh, trimesh
        >>> scene = bvh.Scene()
        >>> number = scene.add(trimesh.creation.box(), name="box")
        >>> hits = scene.closest_hit([[0.1, 0.2, 5], [9, 9, 5]], [0, 0, -1])
        >>> scene.names(hits.instance_id), scene.names(0)
        (array(['box', None], dtype=object), 'box')
        """
        return self._instances.names_of(integers("instance_ids", instance_ids), missing)

    def remove(self, ids: int | str | ArrayLike) -> None:
        """Remove one instance or many, given by ids or names; unknown ones raise a KeyError.

        Ids of removed instances are not reused.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> [scene.add(mesh) for _ in range(3)]
        [0, 1, 2]
        >>> scene.remove([0, 2])
        >>> scene.ids, scene.add(mesh)
        (array([1]), 3)
        """
        self._instances.remove(np.unique(self._rows(ids)))

    def replace(self, instance_id: int | str, child: Any) -> None:
        """Replace the child of an instance by another `child`: a tree, scene or mesh, as in `add`.

        The instance keeps its id, transform, name, mask and visibility.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="part")
        >>> scene.replace(number, bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
        >>> scene[number].name, scene.closest_hit([0.5, 0.5, 5.0], [0.0, 0.0, -1.0]).t
        ('part', 4.0)
        """
        table, row, child = self._instances, self._row(instance_id), self._child_of(child)
        restricted = self._must_suit("the transform", child, table.column("maps")[row][None])
        table.replace(row, table.child_index(child, restricted))

    def set_transform(self, instance_id: int | str, transform: ArrayLike) -> None:
        """Set the `transform` (4, 4) of the instance `instance_id` (id or name), in microseconds.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh)
        >>> lifted = np.eye(4)
        >>> lifted[2, 3] = 2.0
        >>> scene.set_transform(number, lifted)
        >>> scene.closest_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0]).t
        3.0
        """
        table, row, maps = self._instances, self._row(instance_id), one_map(transform)
        self._must_suit("transform", table.children[table.column("child")[row]], maps[None])
        table.write("maps", np.array([row]), maps)

    def set_transforms(self, ids: ArrayLike, transforms: ArrayLike) -> None:
        """Change the transforms of many instances.

        Parameters
        ----------
        ids : array_like of int or str, shape (n,)
            If an id is repeated, its last transform is set.
        transforms : array_like, shape (n, 4, 4)
            From each child's coordinates to the scene's, as in `add`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids, at = [scene.add(mesh), scene.add(mesh)], np.tile(np.eye(4), (2, 1, 1))
        >>> at[:, 2, 3] = [2.0, 3.0]
        >>> scene.set_transforms(ids, at)
        >>> scene.bounds[:, 2]
        array([2., 3.])
        """
        table = self._instances
        rows = table.rows_of(index_rows("ids", self._names_to_ids(ids)))
        maps, count = many_maps(transforms), len(rows)
        if len(maps) != count:
            raise ValueError(f"transforms must have shape ({count}, 4, 4), got ({len(maps)}, 4, 4)")
        # Only some children, those over spheres and capsules, restrict their maps.
        if table.unchecked:
            children = table.column("child")[rows]
            for index in sorted(table.unchecked.intersection(children.tolist())):
                child, chosen = table.children[index], children == index
                if not self._must_suit("transforms", child, maps, chosen):
                    # One check is enough, because a refit does not change what a tree is over.
                    table.unchecked.discard(index)
        table.write("maps", rows, maps)

    def _must_suit(self, name: str, child: Any, maps: Any, chosen: Any = True) -> bool:
        """Return whether a child is over spheres or capsules; ValueError if a map distorts these.

        Spheres and capsules need one scale for all axes. `maps` (n, 3, 4) are maps of the child,
        or only those where `chosen` (n,) is True. Errors call the maps `name`.
        """
        if not (isinstance(child, TreeBase) and isinstance(child._arrays.primitives, HOLLOW)):
            return False
        bad = np.isnan(even_scales(maps)) & chosen
        # For "transforms" the error has the index of the bad one; other arguments are one matrix.
        shape = bad.shape if name == "transforms" else ()
        refuse(name, shape, bad, f"{EVEN}, for {child.kind}")
        return True

    def set_visible(self, ids: int | str | ArrayLike, visible: ArrayLike) -> None:
        """Show or hide instances.

        `ids` is an id or a name, or many of these; `visible` is for all of them, or one for each.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh)
        >>> scene.set_visible(number, False)
        >>> scene.any_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0])
        False
        """
        rows = self._rows(ids)
        values = spread("visible", truths("visible", visible), len(rows))
        self._instances.write("visible", rows, values)

    def set_mask(self, ids: int | str | ArrayLike, mask: ArrayLike) -> None:
        """Change the masks of instances, 32 bits as in `add`.

        `ids` is an id or a name, or many of these; `mask` is for all of them, or one for each.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids, ray = [scene.add(mesh), scene.add(mesh)], ([0.2, 0.2, 5.0], [0.0, 0.0, -1.0])
        >>> scene.set_mask(ids, [1, 2])
        >>> scene.closest_hit(*ray, mask=2).instance_id, scene.any_hit(*ray, mask=4)
        (1, False)
        """
        rows = self._rows(ids)
        self._instances.write("masks", rows, spread("mask", bit_masks("mask", mask), len(rows)))

    def rename(self, instance_id: int | str, name: str | None) -> None:
        """Change the name of the instance `instance_id` (id or name) to `name`; None removes it.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="old")
        >>> scene.rename(number, "new")
        >>> scene[number].name, scene.find("old").tolist()
        ('new', [])
        """
        number = int(self._instances.column("ids")[self._row(instance_id)])
        self._instances.rename(number, label("name", name))

    def __copy__(self) -> Self:
        """Return a copy that shares the trees and has copies of nested scenes.

        Other threads may change the scene meanwhile: its tables are locked, and not compacted.
        """
        copies: dict[int, Self] = {}
        with table_guard.lock:
            for part in nested_scenes(self, compact=False):
                state = part._instances.state()
                state["children"] = [copies.get(id(child), child) for child in state["children"]]
                copies[id(part)] = copy = object.__new__(type(self))
                copy._begin(Instances.of_state(state), dict(part._attributes))
                copy._up = part._up
        return copies[id(self)]

    @property
    def revision(self) -> tuple[int, ...]:
        """Versions of all nested scenes and, last, of the scene itself: they differ after changes.

        Refits of trees do not count as changes. Other threads may change the scene meanwhile.
        """
        with table_guard.lock:
            parts = nested_scenes(self, compact=False)
            return tuple(part._instances.version for part in parts)

    def follow(self, source: Self, revision: tuple[int, ...]) -> bool:
        """Apply changes of transforms, masks and visibility from the scene that this is a copy of.

        Other threads may change that scene meanwhile.

        Parameters
        ----------
        source : Scene
            The scene that this one is a copy of.
        revision : tuple of int
            ``source.revision`` when the copy was made, or when it last followed `source`.

        Returns
        -------
        bool
            False if `source` has changed otherwise: then make a new copy.

        Examples
        --------
        >>> import bvh, copy, numpy as np
        >>> scene = bvh.Scene()
        >>> number = scene.add(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))
        >>> other, revision = copy.copy(scene), scene.revision
        >>> scene.set_transform(number, np.diag([2.0, 2.0, 2.0, 1.0]))
        >>> other.follow(scene, revision), other.leaves.matrices[0].diagonal().tolist()
        (True, [2.0, 2.0, 2.0])
        """
        with table_guard.lock:
            tables, copies = (
                [part._instances for part in nested_scenes(top, compact=False)]
                for top in (source, self)
            )
            if not len(tables) == len(copies) == len(revision):
                return False
            pairs = list(zip(tables, copies, revision, strict=True))
            # Rows of table and copy correspond if nothing was added, removed or replaced since, and
            # if the table has no gaps of removed rows, which copies do not have.
            if any(
                t.structure_version > old or len(t.column("ids")) != len(copy)
                for t, copy, old in pairs
            ):
                return False
            if any(table.names != copy.names for table, copy, _ in pairs):
                return False
            for table, copy, version in pairs:
                # All rows may have changed if the table's log does not reach back to `version`.
                every = np.arange(len(copy))
                moved, masked = table.changed_since(version) or (every, every)
                for name, rows in (("maps", moved), ("masks", masked), ("visible", masked)):
                    if len(rows):
                        copy.write(name, rows, table.column(name)[rows])
            return True


def one_map(transform: ArrayLike) -> NDArray[np.float64]:
    """Return the first three rows of a user's `transform`, checked to be one affine map (4, 4)."""
    maps = affine_maps("transform", transform)
    if maps.ndim != 2:
        raise ValueError(f"transform must have shape (4, 4), got {(*maps.shape[:-2], 4, 4)}")
    return maps


def many_maps(transforms: ArrayLike) -> NDArray[np.float64]:
    """Return the first three rows of a user's `transforms`, checked to be affine maps (n, 4, 4)."""
    if np.size(transforms) == 0:
        return np.empty((0, 3, 4))
    maps = affine_maps("transforms", transforms)
    if maps.ndim != 3:
        raise ValueError(f"transforms must have shape (n, 4, 4), got {np.shape(transforms)}")
    return maps


def spread(name: str, values: NDArray[Any], count: int) -> NDArray[Any]:
    """Return `values`, one or `count` of them, as (count,); errors name the argument `name`."""
    if values.ndim and values.shape != (count,):
        raise ValueError(f"{name} must be one value or {count} of them, got {values.shape}")
    return np.broadcast_to(values, (count,))
