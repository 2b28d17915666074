"""`SceneContent`: a scene as it is held: its instances, its leaves, its copies.

What kernels work on is brought up to date when it is asked for. Nothing is done where nothing has
changed in the process; where something has, only what has moved is moved, and the whole is made
anew where instances have come or gone, or trees have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.affine import moved
from bvh.arguments import ALL_BITS, MAX_ROWS, bit_masks, kernel_input, one_index
from bvh.changes import changes
from bvh.expansion import Expansion, Leaves, leaf_counts
from bvh.forks import ForkSafeLock
from bvh.hierarchy import Hierarchy
from bvh.instances import Assembly, Instance, Instances, below
from bvh.primitives import Triangles
from bvh.scene_graph import Attributes
from bvh.two_level import TwoLevel

# Held while a scene takes note of what has changed: two threads may ask at once.
_guard = ForkSafeLock()


class SceneContent(Assembly):
    """What `Scene` is apart from how it is made and changed, and what it is asked."""

    __slots__ = (
        "_arrays", "_attributes", "_deformed", "_expansion", "_meshes", "_read", "_seen", "_up",
        "_view", "_view_of",
    )  # fmt: skip

    # By Python's id of a tree, which it holds so that the id stays its own.
    _attributes: dict[int, tuple[Hierarchy, Attributes]]
    # Trees of meshes, by Python's id of those: a hint of where to look, and no more.
    _meshes: dict[int, Hierarchy]
    _expansion: Expansion | None
    # What kernels work on; of which leaves, up to where in their journals, of which arrays.
    _view: TwoLevel | None
    _view_of: Expansion | None
    _read: tuple[int, int]
    _arrays: list[Any]
    _up: str
    # The numbers of the last changes in the process that have been looked at.
    _seen: int
    _deformed: int

    def __init__(self) -> None:
        self._begin(Instances(), {})

    def _begin(self, table: Instances, attributes: dict[int, tuple[Hierarchy, Attributes]]) -> None:
        """Hold a table; nothing has been asked yet."""
        self._instances, self._attributes, self._meshes = table, attributes, {}
        self._expansion = self._view = self._view_of = None
        self._arrays, self._read, self._seen, self._deformed = [], (0, 0), -1, -1
        self._up = "z"

    def _current(self) -> TwoLevel:
        """Return what kernels work on, up to date."""
        if self._seen == changes.count:
            return self._view  # type: ignore[return-value]
        return self._renewed()

    def _renewed(self) -> TwoLevel:
        """Bring what kernels work on up to date."""
        with _guard.lock:
            # What changes from now on will be noticed by the next who asks.
            seen, deformed = changes.count, changes.trees
            leaves = self._followed()
            # Should anything fail below, all is made anew; who has been let past the lock by an
            # earlier look may still be about to take the old one.
            view, view_of, self._view_of = self._view, self._view_of, None
            read = leaves.moved.end, leaves.masked.end
            same = view is not None and view_of is leaves
            if same and deformed != self._deformed:
                held = zip(leaves.trees, self._arrays, strict=True)
                same = all(tree._arrays is arrays for tree, arrays in held)
            if view is None or not same:
                self._arrays = [tree._arrays for tree in leaves.trees]
                view = TwoLevel(
                    leaves.trees, leaves.tree_of, leaves.maps, leaves.masks, leaves.instance_id
                )
            else:
                moved = leaves.moved.since(self._read[0])
                if moved is None:
                    view.move(np.arange(len(leaves)), leaves.maps)
                elif len(moved):
                    view.move(moved, leaves.maps[moved])
                masked = leaves.masked.since(self._read[1])
                if masked is None:
                    view.set_masks(np.arange(len(leaves)), leaves.masks)
                elif len(masked):
                    view.set_masks(masked, leaves.masks[masked])
            self._view, self._view_of, self._read = view, leaves, read
            self._deformed, self._seen = deformed, seen
            return view

    def _followed(self) -> Expansion:
        """Return the leaves, up to date."""
        with _guard.lock:
            if self._expansion is None or not self._expansion.is_current():
                self._expansion = Expansion(self)
                held = {id(child) for child in self._instances.children}
                self._attributes = {k: v for k, v in self._attributes.items() if k in held}
                self._meshes = {k: v for k, v in self._meshes.items() if id(v) in held}
            else:
                self._expansion.follow()
            return self._expansion

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Corners of a box around all leaves, visible or not, shape (2, 3); NaN if there are none.

        Around an instance that is turned it may be a little larger than what the instance needs.
        """
        return kernel_input(self._current().bounds)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that rays go through: of each tree once, and of what joins them."""
        view = self._current()
        trees = {id(tree): tree for tree in self._followed().trees}
        return view.nbytes + sum(tree.stats().bytes for tree in trees.values())

    @property
    def leaves(self) -> Leaves:
        """The trees that the scene leads to, nested scenes included: what `hits.leaf` counts."""
        return Leaves(self._followed())

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of all instances, ascending, shape (n,)."""
        self._instances.settle()
        return self._instances.column("ids").copy()

    def path(self, leaf: int) -> tuple[int, ...]:
        """Return the ids of the instances that lead to a leaf, from the outermost inward.

        Parameters
        ----------
        leaf : int
            As in `hits.leaf`.
        """
        leaves = self._followed()
        return leaves.path(_leaf(leaves, leaf))

    def name_of(self, leaf: int) -> str | None:
        """Return the name of the innermost instance on a leaf's path that has one, or None.

        Parameters
        ----------
        leaf : int
            As in `hits.leaf`.
        """
        leaves = self._followed()
        return leaves.name_of(_leaf(leaves, leaf))

    def instance(self, instance_id: int) -> Instance:
        """Return an instance as it is now; `scene[instance_id]` is the same.

        Parameters
        ----------
        instance_id : int

        Returns
        -------
        Instance
            With id, child, transform, name, mask and visible.

        Raises
        ------
        KeyError
            If there is none.
        """
        with self._instances.steady():
            return self._instances.record(self._row(instance_id))

    def __getitem__(self, instance_id: int) -> Instance:
        return self.instance(instance_id)

    def __len__(self) -> int:
        """Return the number of instances."""
        with self._instances.steady():
            return len(self._instances)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Instance]:
        """Iterate over the instances in the order of their ids; those removed meanwhile are not."""
        # By their ids: rows are others once the scene is asked after a removal.
        for number in self.ids.tolist():
            if number in self:
                yield self.instance(number)

    def __contains__(self, instance_id: object) -> bool:
        try:
            with self._instances.steady():
                self._row(instance_id)  # type: ignore[arg-type]
        except (KeyError, TypeError):
            return False
        return True

    def _row(self, number: int) -> int:
        return self._instances.row_of(one_index("instance_id", number))

    def find(self, name: str) -> NDArray[np.int64]:
        """Return the ids of the instances with a name, ascending; nested scenes are not searched.

        Parameters
        ----------
        name : str

        Returns
        -------
        ndarray of int64, shape (k,)
        """
        return np.array(
            sorted(k for k, given in self._instances.names.items() if given == name), np.int64
        )

    def attributes(self, child: Any) -> Attributes:
        """Return what is known of a tree's vertices beside their places: normals, uv.

        Parameters
        ----------
        child : BVH
            A tree of this scene, or of one that it holds.

        Returns
        -------
        Attributes
            Of a tree that was made of a mesh, what that knew; else nothing but None.
        """
        held = self._attributes.get(id(child))
        if held is None:
            for part in reversed(below(self)[:-1]):
                if isinstance(part, SceneContent):
                    held = held or part._attributes.get(id(child))
        return Attributes() if held is None else held[1]

    def face_of(self, leaf: int | ArrayLike, prim_id: int | ArrayLike) -> Any:
        """Return the face of its mesh, as that was given, that a triangle is a part of.

        Parameters
        ----------
        leaf, prim_id : int or array_like of int
            As in `SceneHits`; both -1 for a miss. They broadcast.

        Returns
        -------
        int or ndarray of int32
            What `BVH.face_of` of the leaf's tree returns; -1 for a miss.

        Raises
        ------
        ValueError, TypeError
            If there is no such leaf or triangle.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> scene.add((square, [[0, 1, 2, 3]]))
        0
        >>> hit = scene.closest_hit([0.1, 0.5, 1], [0, 0, -1])
        >>> hit.prim_id, scene.face_of(hit.leaf, hit.prim_id)
        (1, 0)
        """
        rows, ids = np.broadcast_arrays(np.asarray(leaf), np.asarray(prim_id))
        if not all(array.dtype.kind in "iu" or array.size == 0 for array in (rows, ids)):
            raise TypeError("leaf and prim_id must be integers")
        leaves = self._followed()
        missed = rows < 0
        if rows.size and not (rows.min() >= -1 and rows.max() < len(leaves)):
            raise ValueError(f"leaf must be in -1..{len(leaves) - 1}, got {leaf!r}")
        if (ids[missed] >= 0).any():
            raise ValueError("prim_id must be -1 where leaf is")
        found = np.full(rows.shape, -1, np.int32)
        tree_of = leaves.tree_of[rows[~missed].astype(np.int64)]
        hit = np.empty(len(tree_of), np.int32)
        for k in np.unique(tree_of).tolist():
            mine = tree_of == k
            hit[mine] = leaves.trees[k].face_of(ids[~missed][mine])
        found[~missed] = hit
        return found.item() if found.ndim == 0 else found

    def flattened(
        self, mask: int = ALL_BITS
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return the scene as one mesh in world coordinates.

        Parameters
        ----------
        mask : int
            Leaves that share no bit with it are left out, and those that are not visible always.

        Returns
        -------
        vertices : ndarray of float64, shape (n, 3)
            Each coordinate the double nearest to the exact one.
        faces : ndarray of int32, shape (m, 3)
        leaf_id : ndarray of int32, shape (m,)
            The leaf that each face is of.
        prim_id : ndarray of int32, shape (m,)
            Its number there.

        Raises
        ------
        TypeError
            If there is a tree over something else than triangles.
        ValueError
            If there are too many vertices for faces of int32, or the mask is not one number of 32
            bits.
        """
        bits = bit_masks("mask", mask)
        if bits.ndim:
            raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
        leaves = self._followed()
        chosen = np.flatnonzero(leaves.masks & bits).tolist()
        trees = [leaves.trees[k] for k in leaves.tree_of[chosen]]
        for tree in {id(tree): tree for tree in trees}.values():
            tree._must_hold("a flattened scene", Triangles)
        total = sum(len(tree.vertices) for tree in trees)
        if total > MAX_ROWS:
            raise ValueError(f"a mesh can have {MAX_ROWS} vertices, and the scene has {total}")
        vertices = np.empty((total, 3))
        count = sum(len(tree.faces) for tree in trees)
        faces = np.empty((count, 3), np.int32)
        leaf_id, prim_id = np.empty(count, np.int32), np.empty(count, np.int32)
        at = begin = 0
        for leaf, tree in zip(chosen, trees, strict=True):
            end = begin + len(tree.faces)
            faces[begin:end] = tree.faces + np.int32(at)
            leaf_id[begin:end], prim_id[begin:end] = leaf, np.arange(end - begin)
            vertices[at : at + len(tree.vertices)] = moved(tree.vertices, leaves.maps[leaf])
            at, begin = at + len(tree.vertices), end
        return vertices, faces, leaf_id, prim_id

    def __repr__(self) -> str:
        parts = below(self)
        trees = {id(c) for part in parts for c in part._instances.children} - {*map(id, parts)}
        leaves = leaf_counts(parts)[id(self)]
        return f"{type(self).__name__}({len(self)} instances, {leaves} leaves, {len(trees)} trees)"

    def __getstate__(self) -> dict[str, Any]:
        held = [tree for tree in self._instances.children if id(tree) in self._attributes]
        attributes = [(tree, self._attributes[id(tree)][1]) for tree in held]
        return {"table": self._instances.state(), "attributes": attributes, "up": self._up}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = {id(tree): (tree, known) for tree, known in state["attributes"]}
        self._begin(Instances.of_state(state["table"]), attributes)
        self._up = state["up"]


def _leaf(leaves: Expansion, leaf: int) -> int:
    """Return a leaf's number, if it is one."""
    number = one_index("leaf", leaf)
    if not 0 <= number < len(leaves):
        raise IndexError(f"leaf must be one of the {len(leaves)} leaves, got {number}")
    return number
