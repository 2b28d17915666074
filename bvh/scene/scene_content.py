"""State of a scene: its table of instances, its leaves, and the arrays that kernels traverse.

Each query begins by updating them (see the table in `table.py`).
"""

from __future__ import annotations

from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.trimesh_scenes import Attributes
from bvh.queries.query_arguments import one_mask
from bvh.queries.tree_base import TreeBase
from bvh.queries.verbs import verb
from bvh.runtime import arguments
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.forks import ForkSafeLock
from bvh.scene.leaves import FlattenedInstances, Leaves, leaf_counts
from bvh.scene.merged_leaves import mesh_of_leaves
from bvh.scene.scene_view import SceneView
from bvh.scene.stats import SceneStats, scene_stats
from bvh.scene.table import InstanceHolder, Instances, nested_scenes
from bvh.tree.changes import changes
from bvh.tree.primitives import Triangles

# Lock of updates: several threads may query a scene together.
_guard = ForkSafeLock()


class SceneContent(InstanceHolder):
    """Base class of `Scene`: its state and its leaves."""

    __slots__ = ("_flattened", "_meshes", "_seen", "_view", "_view_of")

    def __init__(self) -> None:
        self._begin(Instances(), {})

    def _begin(self, table: Instances, attributes: dict[int, tuple[TreeBase, Attributes]]) -> None:
        """Initialise with a table of instances; `attributes` has (tree, attributes) by id(tree)."""
        self._instances, self._attributes = table, attributes
        # Trees by ``id(mesh)`` of the mesh that they were built from. Another mesh may have got the
        # same id since, so `Scene._child_of` compares the arrays.
        self._meshes: dict[int, TreeBase] = {}
        # The table of leaves, and the view of it that kernels traverse.
        self._flattened: FlattenedInstances | None = None
        self._view: Any = None
        # What the view was made from: leaves, `changes.trees` at that time, and arrays of trees.
        self._view_of: tuple[FlattenedInstances | None, int, list[Any]] = None, -1, []
        # The value of `changes.count` when leaves and view were last brought up to date.
        self._seen = -1
        self._up, self._saved = "z", None

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        """Return a token of the scene's content for Dask."""
        table = self._instances.state()
        columns = b"".join(column.tobytes() for column in table["columns"].values())
        children = [child.__dask_tokenize__() for child in table["children"]]
        return "bvh.Scene", blake2b(columns).hexdigest(), children, self._up, table["names"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the table of instances, the attributes of its trees and the axis, for pickle."""
        # The children of `table`: those of removed instances stay in `_instances` until a query.
        table = self._instances.state()
        pairs = (self._attributes.get(id(child)) for child in table["children"])
        return {"table": table, "attributes": [*filter(None, pairs)], "up": self._up}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes = {id(pair[0]): pair for pair in state["attributes"]}
        self._begin(Instances.of_state(state["table"]), attributes)
        self._up = state["up"]

    def _current(self) -> SceneView:
        """Return the view of the scene that kernels traverse, brought up to date."""
        if self._seen == changes.count:
            return self._view  # type: ignore[no-any-return]
        with _guard.lock:
            # Read before the update, so that the next query notices changes made meanwhile.
            change_count, tree_changes = changes.count, changes.trees
            leaves = self._current_leaves()
            viewed_leaves, viewed_changes, arrays = self._view_of
            is_current = viewed_leaves is leaves
            # A refit replaces the arrays of a tree.
            if is_current and viewed_changes != tree_changes:
                is_current = all(t._arrays is a for t, a in zip(leaves.trees, arrays, strict=True))
            if not is_current:
                arrays = [tree._arrays for tree in leaves.trees]
                columns = leaves.tree_of, leaves.maps, leaves.masks, leaves.instance_id
                # A new object: a thread that did not need the lock may still return the old one.
                self._view = SceneView(leaves.trees, *columns)
            self._view_of, self._seen = (leaves, tree_changes, arrays), change_count
            return self._view  # type: ignore[no-any-return]

    def _current_leaves(self) -> FlattenedInstances:
        """Return the table of leaves, after bringing it and its view, if any, up to date."""
        with _guard.lock:
            leaves = self._flattened
            if leaves is None or not leaves.is_current():
                leaves = self._flattened = FlattenedInstances(self)
                # Forget trees that have no instance any more.
                used = {id(child) for child in self._instances.children}
                self._attributes = {k: v for k, v in self._attributes.items() if k in used}
                self._meshes = {k: v for k, v in self._meshes.items() if id(v) in used}
                return leaves
            try:
                moved, masked = leaves.follow()
                if self._view_of[0] is leaves:
                    if len(moved):
                        self._view.move(moved, leaves.maps[moved])
                    if len(masked):
                        self._view.set_masks(masked, leaves.masks[masked])
            except BaseException:
                # The update may be incomplete: the next query computes all leaves again.
                self._flattened = None
                raise
            return leaves

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of the box around all leaves, hidden or not; NaN without leaves.

        The shape is (2, 3). The box is exact for triangles under translations; otherwise it may be
        slightly too large.
        """
        return arguments.kernel_input(self._current().tlas.bounds)

    @property
    def nbytes(self) -> int:
        """Bytes of the trees, each once, with their cached tables, and of the arrays of `view`.

        Trees over all leaves, built by queries of many rays or of winding numbers, are included.
        """
        return self._current().nbytes + sum(tree.nbytes for tree in self._current_leaves().trees)

    def stats(self) -> SceneStats:
        """Return statistics of the scene: instances, primitives shown and stored, depth, memory.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add_many(mesh, [np.eye(4)] * 3, visible=[True, True, False])
        >>> scene.stats()
        SceneStats(3 instances of 1 tree, 3 primitives, 2 shown, 1 stored, depth 2, 0.00 MiB)
        """
        return scene_stats(self)

    def view(self) -> SceneView:
        """Return the arrays that queries traverse, brought up to date.

        For code that searches a scene itself, such as kernels on devices; `leaves` describes the
        leaves. Adding, removing and replacing instances, and refits, lead to a new view; transforms
        and masks are written to the same one.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add(mesh), scene.add(mesh)
        >>> view = scene.view()
        >>> len(view), len(view.trees), view.tree_of, view.tlas.boxes.shape
        (2, 1, array([0, 0], dtype=int32), (2, 6))
        """
        return self._current()

    @property
    def leaves(self) -> Leaves:
        """The trees at the ends of all paths of instances; `hits.leaf` indexes this table."""
        return Leaves(self._current_leaves())

    def path(self, leaf: int) -> tuple[int, ...]:
        """Return the ids of the instances on the path of a `leaf` of hits, outermost first.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> inner, number = bvh.Scene(), scene.add(mesh)
        >>> inner.add(mesh), scene.add(inner)
        (0, 1)
        >>> scene.path(0), scene.path(1)
        ((0,), (1, 0))
        """
        return self._current_leaves().path(self._leaf_row(leaf))

    def name_of(self, leaf: int) -> str | None:
        """Return the name of the innermost named instance on the path of a leaf, or None.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="plate")
        >>> hit = scene.closest_hit([0.2, 0.2, 5.0], [0.0, 0.0, -1.0])
        >>> scene.name_of(hit.leaf)
        'plate'
        """
        return self._current_leaves().name_of(self._leaf_row(leaf))

    def _leaf_row(self, leaf: int) -> int:
        """Return the index of a leaf as an int; raise an IndexError if there is no such leaf."""
        number, count = arguments.one_index("leaf", leaf), len(self._current_leaves())
        if not 0 <= number < count:
            raise IndexError(f"leaf must be one of the {count} leaves, got {number}")
        return number

    def __len__(self) -> int:
        """Return the number of instances."""
        return len(self._instances)

    def __bool__(self) -> bool:
        return True

    def _row(self, key: int | str, name: str = "instance_id") -> int:
        """Return the row of the instance with an id or name; errors call the argument `name`."""
        number = self._id_of(key) if isinstance(key, str) else key
        return self._instances.row_of(arguments.one_index(name, number))

    def _rows(self, ids: int | str | ArrayLike, name: str = "ids") -> NDArray[np.int64]:
        """Return the rows (n,) of one or many instances, given by ids or names.

        Errors call the argument `name`.
        """
        numbers = self._names_to_ids(ids)
        if np.ndim(numbers) == 0:
            return np.array([self._row(numbers, name)])  # type: ignore[arg-type]
        return self._instances.rows_of(arguments.index_rows(name, numbers))

    def _names_to_ids(self, ids: int | str | ArrayLike) -> int | ArrayLike:
        """Return `ids` with each name replaced by the id of the only instance with that name."""
        if isinstance(ids, str):
            return self._id_of(ids)
        # Arrays of strings, or of objects that may be strings.
        given = ids.tolist() if isinstance(ids, np.ndarray) and ids.dtype.kind in "UO" else ids
        if isinstance(given, list | tuple) and any(isinstance(each, str) for each in given):
            # One pass through all names, not one for each name.
            ids_of: dict[str, list[int]] = {each: [] for each in given if isinstance(each, str)}
            for number, name in self._instances.names.items():
                if name in ids_of:
                    ids_of[name].append(number)
            return [
                self._id_of(each, ids_of[each]) if isinstance(each, str) else each for each in given
            ]
        return ids

    def _ids_of(self, name: str) -> list[int]:
        """Return the ids of all instances with a name, ascending."""
        return sorted(k for k, each in self._instances.names.items() if each == name)

    def _id_of(self, name: str, ids: list[int] | None = None) -> int:
        """Return the id of the only instance with a name; KeyError if there are none or several.

        `ids` are those of all instances with the name, None to look them up.
        """
        ids = self._ids_of(name) if ids is None else sorted(ids)
        if len(ids) > 1:
            raise KeyError(f"{len(ids)} instances are named {name!r}: use one of the ids {ids}")
        if not ids:
            names = [*map(str, self._instances.names.values())]
            begun = [other for other in names if other.startswith(name)]
            close = get_close_matches(name, names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            if len(begun) > 1:
                hint = f"; {len(begun)} names begin so, such as {begun[0]!r}"
            raise KeyError(f"no instance is named {name!r}{hint}")
        return ids[0]

    def attributes(self, child: Any) -> Attributes:
        """Return the attributes of a tree: vertex normals, texture coordinates and material.

        `child` is a tree of this scene or of a nested one. All attributes are None for a tree that
        was not built from a mesh by a scene.

        Examples
        --------
        >>> import bvh, trimesh
        >>> box, scene = trimesh.creation.box(), bvh.Scene()
        >>> box.vertex_normals.shape, scene.add(box)
        ((8, 3), 0)
        >>> known = scene.attributes(scene[0].child)
        >>> known.vertex_normals.shape, known.uv is None
        ((8, 3), True)
        """
        for part in [self] if id(child) in self._attributes else reversed(nested_scenes(self)):
            if id(child) in part._attributes:
                return part._attributes[id(child)][1]
        return Attributes()

    @verb({"leaf": (), "prim_id": ()}, np.int32)
    def face_of(self, leaf: int | ArrayLike, prim_id: int | ArrayLike) -> arguments.IdResult:
        """Return the face of the source mesh that contains a triangle.

        Parameters
        ----------
        leaf, prim_id : int or array_like of int
            As in `Hits`; both -1 for a miss. They broadcast.

        Returns
        -------
        int or ndarray of int32
            The result of `BVH.face_of` for the leaf's tree; -1 for a miss.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> number = scene.add((square, [[0, 1, 2, 3]]))
        >>> hit = scene.closest_hit([0.1, 0.5, 1], [0, 0, -1])
        >>> hit.prim_id, scene.face_of(hit.leaf, hit.prim_id)
        (1, 0)
        """
        if is_other(leaf, prim_id):
            return foreign_answer(self.face_of, locals())
        given = arguments.integers("leaf", leaf), arguments.integers("prim_id", prim_id)
        rows, ids = np.broadcast_arrays(*given)
        leaves = self._current_leaves()
        missed = rows < 0
        if rows.size and not (rows.min() >= -1 and rows.max() < len(leaves)):
            raise ValueError(f"leaf must be in -1..{len(leaves) - 1}, got {leaf!r}")
        if (ids[missed] >= 0).any():
            raise ValueError("prim_id must be -1 where leaf is")
        faces = np.full(rows.shape, -1, np.int32)
        # The leaf -1 of a miss indexes the -1 that is appended.
        tree_of = np.append(leaves.tree_of, np.int32(-1))[rows.astype(np.int64)]
        for k in np.unique(tree_of[~missed]).tolist():
            faces[tree_of == k] = leaves.trees[k].face_of(ids[tree_of == k])
        return faces.item() if faces.ndim == 0 else faces

    def flattened(
        self, mask: int = arguments.ALL_BITS
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return the scene, which must be over triangles, as one mesh in world coordinates.

        Parameters
        ----------
        mask : int
            Leaves whose mask shares no bit with it, and those not visible, are left out.

        Returns
        -------
        vertices : ndarray of float64, shape (n, 3)
            Each coordinate the double nearest to the exact one.
        faces : ndarray of int32, shape (m, 3)
        leaf_id : ndarray of int32, shape (m,)
            The leaf of each face.
        prim_id : ndarray of int32, shape (m,)
            The id of each face in its leaf's tree.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add_many(mesh, [np.eye(4), np.diag([2.0, 2.0, 2.0, 1.0])])
        >>> vertices, faces, leaf_id, prim_id = scene.flattened()
        >>> vertices.shape, faces.tolist(), leaf_id, prim_id
        ((6, 3), [[0, 1, 2], [3, 4, 5]], array([0, 1], dtype=int32), array([0, 0], dtype=int32))
        """
        bits, leaves = np.uint32(one_mask(mask) & arguments.ALL_BITS), self._current_leaves()
        chosen = np.flatnonzero(leaves.masks & bits).tolist()
        trees = [leaves.trees[k] for k in leaves.tree_of[chosen]]
        for tree in {id(tree): tree for tree in trees}.values():
            tree._must_hold("a flattened scene", Triangles)
        total = sum(len(tree.vertices) for tree in trees)
        if total > arguments.MAX_ROWS:
            most = arguments.MAX_ROWS
            raise ValueError(f"a mesh can have {most} vertices, and the scene has {total}")
        return (*mesh_of_leaves(chosen, [tree._triangles() for tree in trees], leaves.maps),)

    def __repr__(self) -> str:
        parts = nested_scenes(self)
        # Children that are no scenes.
        trees = {id(c) for part in parts for c in part._instances.children} - {*map(id, parts)}
        counts = len(self), leaf_counts(parts)[id(self)], len(trees)
        texts = map(arguments.number_of, counts, ("instances", "leaves", "trees"))
        return f"{type(self).__name__}({', '.join(texts)})"
