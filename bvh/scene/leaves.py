"""Leaves of a scene: flattened instances, the trees at the ends of paths through nested scenes.

The leaves below an instance are consecutive, in the order of its child's leaves, so the table is in
the order of paths. The map of a leaf is the product of those along its path, from the outside in,
every entry rounded to the nearest double at each step. The first leaf of an instance follows from
counts, so all leaves below any number of copies of a scene are computed together.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import affine_maps, transformed_point
from bvh.picking.placed_trees import PlacedTree
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import kernel_input, number_of
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import warms
from bvh.scene.table import (
    NO_ROWS,
    InstanceHolder,
    Instances,
    Rows,
    format_name,
    format_placement,
    matrices_of,
    nested_scenes,
)

Ints = NDArray[Any]

# Nested scenes can have far more leaves than instances.
MAX_LEAVES = 2**24
MAX_DEPTH = 64


@dataclass(frozen=True, eq=False, repr=False)
class Leaf(PlacedTree):
    """A tree at the end of one path of instances in a scene.

    Attributes
    ----------
    path : tuple of int
        Ids of the instances on the path, from the outermost inward.
    tree : BVH
    transform : ndarray of float64, shape (4, 4)
        From the tree's coordinates to the scene's.
    name : str or None
        The name of the innermost named instance on the path.
    mask : int
        The bits that all masks on the path share; 0 if an instance on it is not visible.

    Examples
    --------
    >>> import bvh
    >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> number = scene.add(mesh, name="plate")
    >>> leaf = scene.leaves[0]
    >>> leaf.path, leaf.name, len(leaf.tree), leaf.transform.shape
    ((0,), 'plate', 1, (4, 4))
    """

    mask: int

    @property
    def instance_id(self) -> int:
        """The id of the outermost instance on the path."""
        return self.path[0]

    def __repr__(self) -> str:
        path, name = "/".join(map(str, self.path)), format_name(self.name)
        rest = format_placement(self.transform, self.mask, self.mask != 0)
        return f"Leaf({path}{name}, {self.tree!r}{rest})"


class _NestedScene(NamedTuple):
    """Snapshot of one of the nested scenes: n rows are instances, m children trees or scenes."""

    table: Instances
    ids: NDArray[np.int64]  # (n,): the id of the instance in each row
    child: NDArray[np.int32]  # (n,): the index of the child of each row
    trees: NDArray[np.int32]  # (m,): the index in `FlattenedInstances.trees` of a tree; else -1
    parts: NDArray[np.int32]  # (m,): the index in `FlattenedInstances._parts` of a scene; else -1
    begins: NDArray[np.int64]  # (n + 1,): the first leaf of each row, then the number of leaves


class _LeafRows(NamedTuple):
    """Some leaves of a scene, in columns."""

    rows: NDArray[np.int64]  # the rows of these leaves in the table of all leaves
    tree_of: NDArray[np.int32]  # the indices of their trees
    maps: NDArray[np.float64]  # (n, 3, 4), from a tree's coordinates to the scene's
    masks: NDArray[np.uint32]  # 0 for leaves that are not visible


@entry
def _compose_all(outer, linear, inner, out):
    """Write to `out`, (k * m, 3, 4), each of k outer maps composed with each of m inner ones.

    `outer` and `inner` are maps (k, 3, 4) and (m, 3, 4), and `linear` is `outer` without shifts,
    which moves the first three columns of an inner map.
    """
    # Map i of `outer` begins at its number 12 i.
    for i in range(len(outer)):
        for j in range(len(inner)):
            for column in range(4):
                v = (inner[j, 0, column], inner[j, 1, column], inner[j, 2, column])
                x = transformed_point(outer if column == 3 else linear, 12 * i, v)
                for row in range(3):
                    out[i * len(inner) + j, row, column] = x[row]


def products(outer: NDArray[np.float64], inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each outer map (k, 3, 4) composed with each inner map (m, 3, 4), as (k * m, 3, 4)."""
    out = np.empty((len(outer) * len(inner), 3, 4))
    linear = outer.copy()
    linear[:, :, 3] = 0.0
    _compose_all(kernel_input(outer), kernel_input(linear), kernel_input(inner), out)
    return out


def leaf_counts(parts: Sequence[InstanceHolder]) -> dict[int, int]:
    """Return the number of leaves of each scene by ``id(scene)``; `parts` are `nested_scenes`."""
    counts: dict[int, int] = {}
    for part in parts:
        table = part._instances
        uses = np.bincount(table.column("child"), minlength=len(table.children)).tolist()
        # Python's integers: nested copies may be more than an int64 can count. A tree is one leaf.
        sizes = [counts.get(id(child), 1) for child in table.children]
        counts[id(part)] = sum(map(operator.mul, uses, sizes))
    return counts


def depth_of(parts: Sequence[InstanceHolder]) -> int:
    """Return the levels of nesting of a scene: 1 if all its children are trees.

    `parts` is the result of `nested_scenes`: inner scenes first, the scene itself last.
    """
    depths: dict[int, int] = {}
    for part in parts:
        inner = (depths.get(id(child), 0) for child in part._instances.children)
        depths[id(part)] = 1 + max(inner, default=0)
    return depths[id(parts[-1])]


def check_nesting(parts: Sequence[InstanceHolder], above: int = 0) -> dict[int, int]:
    """Return `leaf_counts`; raise a ValueError for too many leaves, or too deep a nesting.

    `parts` is the result of `nested_scenes` for a scene that is `above` levels deep in another one.
    """
    depth = depth_of(parts) + above
    if depth > MAX_DEPTH:
        raise ValueError(f"scenes can be nested {MAX_DEPTH} deep, and this one is {depth}")
    counts = leaf_counts(parts)
    total = counts[id(parts[-1])]
    if total > MAX_LEAVES:
        raise ValueError(f"a scene can have {MAX_LEAVES} leaves, and this one has {total}")
    return counts


class FlattenedInstances:
    """Table of the leaves of a scene, in columns; `Leaves` shows them to users."""

    def __init__(self, top: InstanceHolder) -> None:
        parts = nested_scenes(top)
        counts = check_nesting(parts)
        children_of = {id(child): child for part in parts for child in part._instances.children}
        self.trees: list[BVH] = [c for c in children_of.values() if isinstance(c, BVH)]
        trees = {id(tree): k for k, tree in enumerate(self.trees)}
        numbers = {id(part): k for k, part in enumerate(parts)}
        self._parts: list[_NestedScene] = []
        for part in parts:
            table = part._instances
            children = [id(child) for child in table.children]
            sizes = np.array([counts.get(k, 1) for k in children], np.int64)
            child_of = table.column("child").copy()
            tree_of = np.array([trees.get(k, -1) for k in children], np.int32)
            part_of = np.array([numbers.get(k, -1) for k in children], np.int32)
            begins = np.append(0, np.cumsum(sizes[child_of]))
            columns = table.column("ids").copy(), child_of, tree_of, part_of, begins
            self._parts.append(_NestedScene(table, *columns))
        # The versions of the tables from which maps and masks were computed last.
        self._read = self._versions()
        rows, tree_of, maps, masks = self._leaves_below(np.arange(len(self._parts[-1].ids)))
        order = np.argsort(rows)
        self.tree_of: NDArray[np.int32] = tree_of[order]
        self.maps: NDArray[np.float64] = maps[order]
        self.masks: NDArray[np.uint32] = masks[order]
        ids, begins = self._parts[-1].ids, self._parts[-1].begins
        self.instance_id = np.repeat(ids.astype(np.int32), np.diff(begins))

    def __len__(self) -> int:
        return len(self.tree_of)

    def _versions(self) -> list[int]:
        """Return the versions of all tables as they are now."""
        return [part.table.version for part in self._parts]

    def _leaves_below(self, rows: NDArray[np.int64]) -> _LeafRows:
        """Return the leaves below rows of the outermost scene, in no particular order.

        Scenes are visited from the outermost inward, each once for all its uses together. A use of
        a scene is one path to it, with the first leaf below, and the map and mask along the path.
        """
        last, top = len(self._parts) - 1, self._parts[-1]
        begins, child = top.begins[rows], top.child[rows]
        maps, masks = top.table.column("maps")[rows], _masks_of(top.table, rows)
        leaves: list[_LeafRows] = []
        # For each scene, tuples of arrays: the first leaf, the map and the mask of some uses.
        uses: list[list[Any]] = [[] for _ in self._parts]
        for number in range(last, -1, -1):
            part = self._parts[number]
            if number < last:
                if not uses[number]:
                    continue
                outer_begins, outer_maps, outer_masks = map(
                    np.concatenate, zip(*uses[number], strict=True)
                )
                begins = (outer_begins[:, None] + part.begins[:-1]).ravel()
                child = np.tile(part.child, len(outer_maps))
                maps = products(outer_maps, part.table.column("maps"))
                masks = (outer_masks[:, None] & _masks_of(part.table)).ravel()
                self._check_products(begins, child, part, maps)
            # Rows sorted by child: those of a child that is a scene are uses of this scene.
            order = np.argsort(child, kind="stable")
            ends = np.cumsum(np.bincount(child, minlength=len(part.trees)))
            for k in np.flatnonzero(part.parts >= 0):
                chosen = order[ends[k - 1] if k else 0 : ends[k]]
                uses[part.parts[k]].append((begins[chosen], maps[chosen], masks[chosen]))
            chosen = np.flatnonzero(part.trees[child] >= 0)
            trees = part.trees[child[chosen]]
            leaves.append(_LeafRows(begins[chosen], trees, maps[chosen], masks[chosen]))
        return _LeafRows(*map(np.concatenate, zip(*leaves, strict=True)))

    def _check_products(
        self, begins: Ints, child: Ints, part: _NestedScene, maps: NDArray[np.float64]
    ) -> None:
        """Raise a ValueError unless products of maps are invertible, which rounding can prevent.

        `maps` (n, 3, 4) are the products along paths to instances in the scene `part`; `begins`,
        (n,), are the first leaves of these instances, and `child`, (n,), indices of their children.
        """
        matrices = matrices_of(maps)
        try:
            affine_maps("transforms", matrices)
        except ValueError:  # one by one, for an error that names the path
            for i in range(len(matrices)):
                is_leaf = part.trees[child[i]] >= 0
                name = f"the product of the transforms along path {self.path(int(begins[i]))}"
                affine_maps(name if is_leaf else "the product of nested transforms", matrices[i])

    def is_current(self) -> bool:
        """Return whether no scene has gained, lost or replaced an instance since this was made."""
        pairs = zip(self._parts, self._read, strict=True)
        return all(part.table.structure_version <= version for part, version in pairs)

    def follow(self) -> tuple[Rows, Rows]:
        """Update maps and masks; return the rows of leaves with new maps, and those with new masks.

        The table must be current (see `is_current`).
        """
        read, now, top = self._read, self._versions(), self._parts[-1]
        if now == read:
            return NO_ROWS, NO_ROWS
        # (rows with new maps, rows with new masks) of the outermost scene, if only it has changed.
        changed = top.table.changed_since(read[-1]) if now[:-1] == read[:-1] else None
        if changed is not None and (
            len(self._parts) == 1
            or not any((top.parts[top.child[rows]] >= 0).any() for rows in changed)
        ):
            # All changed instances are of trees, and each of these is one leaf.
            moved, masked = (top.begins[rows] if len(rows) else NO_ROWS for rows in changed)
            if len(moved):
                self.maps[moved] = top.table.column("maps")[changed[0]]
            if len(masked):
                self.masks[masked] = _masks_of(top.table, changed[1])
        else:
            # Compute the leaves below all instances that may have changed, and compare.
            every = np.arange(len(top.ids)) if changed is None else np.union1d(*changed)
            rows, _, maps, masks = self._leaves_below(every)
            # Compared as bits, -0.0 and 0.0 differ.
            has_new_map = (maps.view(np.int64) != self.maps[rows].view(np.int64)).any(axis=(1, 2))
            has_new_mask = masks != self.masks[rows]
            moved, masked = rows[has_new_map], rows[has_new_mask]
            self.maps[moved], self.masks[masked] = maps[has_new_map], masks[has_new_mask]
        self._read = now
        return moved, masked

    def leaf(self, row: int) -> Leaf:
        """Return a snapshot of the leaf in a row."""
        tree, transform = self.trees[self.tree_of[row]], matrices_of(self.maps[row])
        return Leaf(self.path(row), tree, transform, self.name_of(row), int(self.masks[row]))

    def steps(self, leaf: int) -> Iterator[tuple[Instances, int]]:
        """Yield the table and the id of each instance on a leaf's path, outermost first."""
        number = len(self._parts) - 1
        while number >= 0:
            part = self._parts[number]
            # The last row that begins at or before this leaf: others that begin there are empty.
            row = int(part.begins.searchsorted(leaf, "right")) - 1
            leaf -= int(part.begins[row])
            yield part.table, int(part.ids[row])
            # The next scene on the path; -1 for a tree, which ends the path.
            number = int(part.parts[part.child[row]])

    def path(self, leaf: int) -> tuple[int, ...]:
        """Return the ids of the instances on a leaf's path, outermost first."""
        return tuple(number for _, number in self.steps(leaf))

    def name_of(self, leaf: int) -> str | None:
        """Return the name of the innermost named instance on a leaf's path, or None."""
        names = [table.names.get(number) for table, number in self.steps(leaf)]
        return next((name for name in reversed(names) if name is not None), None)


def _masks_of(table: Instances, rows: Any = slice(None)) -> NDArray[np.uint32]:
    """Return the masks of some rows of a table, or of all; 0 for instances that are not visible."""
    return np.where(table.column("visible")[rows], table.column("masks")[rows], np.uint32(0))


class Leaves(Sequence[Leaf]):
    """The leaves of a scene, in the order of their paths; each `Leaf` is created when indexed.

    `hits.leaf` indexes it. After instances are added, removed or replaced, `Scene.leaves` returns a
    new table. Arrays are read-only, and show new transforms and masks after the scene's next query.

    Attributes
    ----------
    trees : list of BVH
        The trees of the leaves, each once.
    tree_of : ndarray of int32, shape (n,)
        Index of the leaf's tree in `trees`.
    matrices : ndarray of float64, shape (n, 3, 4)
        The first three rows of each leaf's transform.
    masks : ndarray of uint32, shape (n,)
    instance_id : ndarray of int32, shape (n,)
        The outermost instance on each leaf's path.

    Examples
    --------
    >>> import bvh, numpy as np
    >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> ids = scene.add_many(mesh, [np.eye(4)] * 2, ["a", "b"])
    >>> leaves = scene.leaves
    >>> len(leaves), leaves.tree_of, [leaf.name for leaf in leaves]
    (2, array([0, 0], dtype=int32), ['a', 'b'])
    """

    def __init__(self, flattened: FlattenedInstances) -> None:
        """Show the columns of `flattened`, the table of the leaves of a scene."""
        self._flattened = flattened
        self.trees: list[BVH] = list(flattened.trees)
        self.tree_of = kernel_input(flattened.tree_of)
        self.matrices = kernel_input(flattened.maps)
        self.masks = kernel_input(flattened.masks)
        self.instance_id = kernel_input(flattened.instance_id)

    def __len__(self) -> int:
        return len(self._flattened)

    @overload
    def __getitem__(self, leaf: int) -> Leaf: ...
    @overload
    def __getitem__(self, leaf: slice) -> list[Leaf]: ...
    def __getitem__(self, leaf: Any) -> Leaf | list[Leaf]:
        if isinstance(leaf, slice):
            return [self[k] for k in range(*leaf.indices(len(self)))]
        return self._flattened.leaf(self.row(leaf))

    def row(self, leaf: int) -> int:
        """Return the index of a leaf as a number in 0..n-1; a negative `leaf` counts from the end.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add(mesh), scene.add(mesh)
        >>> scene.leaves.row(-1)
        1
        """
        return range(len(self))[leaf]

    def __repr__(self) -> str:
        return f"Leaves({number_of(len(self), 'leaves')} of {number_of(len(self.trees), 'trees')})"


@warms("nested scenes")
def _warm() -> None:
    """Compile the product of maps of nested scenes."""
    maps = np.eye(4)[None, :3]
    products(maps, maps)
