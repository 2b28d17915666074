"""Base class of `BVH`: its arrays, properties, targets of queries, and pickling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.io.file_formats import tree_contents
from bvh.queries.batches.quick_calls import Searched
from bvh.queries.batches.ray_batches import RaySearch
from bvh.queries.batches.round_ends import ray_search_of
from bvh.queries.query_arguments import SHAPE_QUERIES, one_mask
from bvh.runtime.arguments import kernel_input, number_of, thread_count
from bvh.runtime.forks import ForkSafeLock
from bvh.runtime.simd import WIDTH
from bvh.tree.arrays import TreeArrays, emptied, frozen, frozen_primitives, with_bits
from bvh.tree.build import build, in_full, without_hidden
from bvh.tree.face_bits import NO_BITS, selected
from bvh.tree.primitives import THIN, Triangles, count_of, kind_of_faces
from bvh.tree.shapes import HOLLOW
from bvh.tree.triangle_groups import GROUP_SIZE

# Many kernels, imported by the first query that needs them.
if TYPE_CHECKING:
    from bvh.queries.batches.overlap_batches import RegionSearch

# Attributes that a memory-mapped tree gets at its first use, when its file is checked.
LATE = {"_arrays", "_closed", "_face_ids", "_groups", "_origin", "_quick"}

T = TypeVar("T")
OPEN_IS_FINE = "open is fine"
# Most masks for which boundaries and moments are cached, and for which closedness is.
MAX_WINDINGS, MAX_CLOSED = 4, 1024
# Held while a refit puts a new state in place of an old one, and while one is read.
state_guard = ForkSafeLock()


class MappedFile(NamedTuple):
    """The file of a memory-mapped tree or scene."""

    path: str
    content: np.memmap[Any, np.dtype[np.uint8]]
    offset: int  # where the tree or scene begins in `content`
    checksum: str  # of the file's headers


class TreeBase:
    """Base class of `BVH`: its arrays, properties, targets of queries, and pickling."""

    __slots__ = (
        "_arrays", "_bounds", "_build_seconds", "_closed", "_face_ids", "_first_use", "_groups",
        "_origin", "_quality", "_quick", "_source",
    )  # fmt: skip

    _arrays: TreeArrays  # queries cache derived data in their `vars` (see `cached`)
    _bounds: NDArray[np.float64]
    _build_seconds: float
    _quality: str
    _face_ids: NDArray[np.int32] | None  # see `face_ids`
    # The bits of each face, or None; `_arrays` have them, too, if there is a face without any bit.
    _groups: NDArray[np.uint32] | None
    _quick: Searched  # the arrays with functions for single calls
    # By mask, whether the faces that count bound a volume; OPEN_IS_FINE is a key once the caller
    # has been warned of open edges, or if no warning is to be given.
    _closed: dict[int | str, bool]
    _origin: Any  # the tree before its first refit (see `refitting`), or None
    # Of mapped trees alone: a function that sets the attributes in LATE (see `loading`); the file.
    _first_use: Callable[[TreeBase], None]
    _source: MappedFile | None

    def __init__(self, *given: object, **options: object) -> None:
        """Raise a TypeError that names the constructor to call; constructors do not come here."""
        call = "one of BVH.from_triangles, from_mesh, from_file, from_boxes, from_obbs, from_custom"
        if given and isinstance(given[0], str | os.PathLike):
            call = "BVH.from_file(path)"
        elif len(given) == 2 or {"vertices", "faces"} & set(options):
            call = "BVH.from_triangles(vertices, faces)"
        elif given:
            call = "BVH.from_mesh(mesh)"
        raise TypeError(f"BVH is not made by calling it: call {call}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Check a memory-mapped tree at its first use; called for unset attributes only."""
            if name in LATE:
                object.__getattribute__(self, "_first_use")(self)
            return object.__getattribute__(self, name)

    @property
    def arrays(self) -> TreeArrays:
        """The tree's arrays, read-only, as kernels take them."""
        return self._arrays

    @property
    def kind(self) -> str:
        """Kind of the primitives: "triangles", "boxes", "obbs", "spheres", "capsules" or "custom".

        Also "points" and "segments", which are triangles that repeat a vertex.
        """
        primitives = self._arrays.primitives
        if isinstance(primitives, Triangles):
            return kind_of_faces(primitives.faces)
        return type(primitives).__name__.lower()

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of all valid primitives, shape (2, 3); NaN if there are none."""
        return self._bounds

    @property
    def vertices(self) -> NDArray[np.float64]:
        """The vertices of a tree over triangles, read-only, shape (n, 3)."""
        return self._triangles().points

    @property
    def faces(self) -> NDArray[np.int32]:
        """The faces of a tree over triangles, read-only, shape (m, 3)."""
        return self._triangles().faces

    @property
    def face_ids(self) -> NDArray[np.int32] | None:
        """The face or cell of the source of each triangle, read-only, shape (m,).

        None if the triangles are the source's own faces (see `BVH.from_mesh`).
        """
        return self._face_ids

    @property
    def groups(self) -> NDArray[np.uint32] | None:
        """The bits of each face, which select the faces that count for the `mask` of a query.

        Read-only, shape (m,); None if the tree was built without `groups`: faces have all bits.
        """
        return self._groups

    @property
    def source(self) -> MappedFile | None:
        """The file that the tree is mapped from; None of a tree in memory, and after a refit."""
        return getattr(self, "_source", None)

    def __copy__(self) -> Self:
        """Return a tree on the same arrays, which a refit of this one does not change."""
        if is_in_use(self):
            return self._snapshot()
        # A mapped tree, not used yet: the copy, too, is checked at its first use.
        copy = object.__new__(type(self))
        for name in ("_bounds", "_build_seconds", "_first_use", "_quality", "_source"):
            setattr(copy, name, getattr(self, name))
        return copy

    def _snapshot(self) -> Self:
        """Return the tree as it is now: a new tree on the same arrays, which no refit changes.

        Queries that read several attributes, or one several times, take a snapshot first.
        """
        now = object.__new__(type(self))
        # Read once before the lock is taken: the first use of a mapped tree checks its file.
        _ = self._arrays
        with state_guard.lock:
            now._arrays, now._bounds, now._quick = self._arrays, self._bounds, self._quick
            now._origin = self._origin
        now._quality, now._build_seconds = self._quality, self._build_seconds
        now._groups, now._face_ids, now._closed = self._groups, self._face_ids, self._closed
        now._source = self.source
        return now

    def _grouped_arrays(self) -> TreeArrays:
        """Return the arrays for queries with masks: with the bits of faces, if there are groups."""
        groups, arrays = self._groups, self._arrays
        if groups is None or len(arrays.face_bits):
            return arrays
        return cached(arrays, "_grouped", lambda arrays: with_bits(arrays, groups))

    def _shown_arrays(self) -> TreeArrays:
        """Return the arrays for pairs of trees: not compact, without faces whose bits are 0."""
        arrays = self._arrays
        if not len(arrays.face_bits):
            return in_full(arrays)
        # The key is free: `_grouped_arrays` stores nothing for arrays that have bits of faces.
        return cached(arrays, "_grouped", without_hidden)

    def _arrays_for(self, mask: int) -> TreeArrays:
        """Return the arrays for a query of faces that share a bit with `mask`, an int32."""
        if mask == -1:
            return self._arrays
        # Without groups, each face has all bits: only the mask 0 leaves faces out, all of them.
        empty = mask == 0 and self._groups is None
        return emptied(self._arrays) if empty else self._grouped_arrays()

    def _ray_target(self) -> RaySearch:
        """Return the search for rays in the tree as it is now, whatever a refit changes."""
        now = self._snapshot()
        return ray_search_of(
            now._quick, now._arrays, split=now._quality == "high", owner=now,
            masked=now._grouped_arrays,
        )  # fmt: skip

    def _point_target(self, query: str, mask: int | None) -> Any:
        """Return a `PointTarget` of the primitives that `mask` selects; None selects all.

        A TypeError with the name `query` is raised if that query does not support the primitives.
        """
        from bvh.queries.batches.point_batches import PointSearch, ShapeSearch
        from bvh.queries.batches.winding import oriented_surface
        from bvh.traversal.points.closest_point import TreeTarget

        bits, now = one_mask(mask), self._snapshot()
        arrays = now._arrays_for(bits)
        if isinstance(arrays.primitives, HOLLOW) and query in SHAPE_QUERIES:
            # -1: shapes have no bits of their own, and `_arrays_for` has applied the mask to all.
            return ShapeSearch(TreeTarget(arrays.row, -1), arrays)
        now._must_hold(query, Triangles)
        rays = RaySearch(arrays, split=now._quality == "high", owner=now)
        # The argument of the function is ignored: a tree has no reflected leaves to reverse.
        return PointSearch(lambda: rays, bits, lambda _: oriented_surface(now, rays, bits))

    def _open_surface(self, mask: int | None) -> str | None:
        """Return a text for a warning, such as "BVH(...) has open edges", once for this tree.

        None afterwards, if the selected faces are closed, and for spheres and capsules.
        """
        bits, closed_of = one_mask(mask), self._closed
        if OPEN_IS_FINE in closed_of or isinstance(self._arrays.primitives, HOLLOW):
            return None
        closed = closed_of.get(bits)
        if closed is None:
            from bvh.tree.open_edges import is_closed

            closed = is_closed(self._selected_triangles(self._arrays, bits))
            if len(closed_of) >= MAX_CLOSED:
                closed_of.clear()
            closed_of[bits] = closed  # kept after a refit, which seldom opens a surface
        if closed:
            return None
        closed_of[OPEN_IS_FINE] = True
        return f"{self!r} {'bounds no volume' if self.kind in THIN else 'has open edges'}"

    def _region_target(self, query: str, mask: int | None, kinds: tuple[type, ...]) -> RegionSearch:
        """Return the search for regions in faces of `mask`; a TypeError if they are not `kinds`."""
        from bvh.queries.batches.overlap_batches import search_of

        now = self._snapshot()
        now._must_hold(query, *kinds)
        bits, arrays = one_mask(mask), in_full(now._arrays)
        if bits == -1 and not len(arrays.face_bits):
            return search_of(arrays, now._bounds)
        groups = now._groups

        def select(overlaps: Any) -> Any:
            """Return the overlaps with primitives that the mask selects."""
            return overlaps._only(are_selected(groups, overlaps.prim_id, bits))

        return search_of(arrays, now._bounds, select)

    def _by_mask(self, compute: Callable[..., Any], mask: int, *threads: int) -> Any:
        """Return `compute(triangles that the mask selects, *threads)`, cached for each mask.

        `threads` is the number of threads, if `compute` takes one: results do not depend on it.
        """
        arrays = self._arrays
        results: dict[int, Any] = vars(arrays).setdefault(f"_{compute.__name__}", {})
        result = results.get(mask)
        if result is None:
            result = compute(self._selected_triangles(arrays, mask), *threads)
            if len(results) >= MAX_WINDINGS:
                results.clear()
            results[mask] = result
        return result

    def _selected_triangles(self, arrays: TreeArrays, mask: int) -> Triangles:
        """Return the triangles that share a bit with `mask`; without groups, they have all bits."""
        triangles, groups = arrays.primitives, self._groups
        assert isinstance(triangles, Triangles)
        if groups is None:
            chosen: slice | NDArray[np.bool_] = slice(None) if mask else slice(0)
        elif mask == -1 and not len(arrays.face_bits):
            chosen = slice(None)
        else:
            chosen = selected(groups, mask)
        return Triangles(triangles.points, kernel_input(triangles.faces[chosen]))

    def _triangles(self) -> Triangles:
        """Return the primitives; raise an AttributeError unless they are triangles."""
        primitives = self._arrays.primitives
        if not isinstance(primitives, Triangles):
            raise AttributeError(f"a BVH over {self.kind} has no vertices and faces")
        return primitives

    def _other_tree(self, query: str, other: object) -> TreeBase:
        """Return `other`; raise a TypeError that names `query` unless both trees have triangles."""
        self._must_hold(query, Triangles)
        if not isinstance(other, TreeBase):
            raise TypeError(f"other must be a BVH, got {type(other).__name__}")
        other._must_hold(query, Triangles)
        return other

    def _must_hold(self, query: str, *kinds: type, thin: bool = True) -> None:
        """Raise a TypeError if primitives are not of `kinds`, or thin although `thin` is False."""
        # Points and segments are thin, and stored as triangles.
        if not isinstance(self._arrays.primitives, kinds) or (not thin and self.kind in THIN):
            *others, last = (kind.__name__.lower() for kind in kinds)
            names = f"{', '.join(others)} or {last}" if others else last
            raise TypeError(f"{query} needs a BVH over {names}, not over {self.kind}")

    def __len__(self) -> int:
        """Return the number of primitives, including ignored ones."""
        return count_of(self._arrays.primitives)

    def __repr__(self) -> str:
        nodes = number_of(self._arrays.nodes.size, "nodes")
        return f"BVH({number_of(len(self), self.kind)}, {nodes})"

    def __getstate__(self) -> dict[str, object]:
        """Return the attributes to pickle, and the width of vectors, on which nodes depend."""
        names = ("_arrays", "_bounds", "_build_seconds", "_face_ids", "_groups", "_quality")
        now = self._snapshot()
        state = {"_width": WIDTH} | {name: getattr(now, name) for name in names}
        # Without bits, which follow from `_groups`, and triangle groups, which are the nodes' rows.
        arrays = now._arrays._replace(face_bits=NO_BITS, groups=now._arrays.groups[:0])
        return state | {"_arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a pickled tree; triangle groups are a view of the nodes' rows."""
        self._bounds = kernel_input(state["_bounds"])
        self._build_seconds = state["_build_seconds"]
        self._quality, face_ids, bits = (state[k] for k in ("_quality", "_face_ids", "_groups"))
        self._face_ids = None if face_ids is None else kernel_input(face_ids)
        if state["_width"] == WIDTH:
            nodes, groups, primitives, frame, _ = state["_arrays"]
            if isinstance(primitives, Triangles):
                groups = nodes.rows.view(groups.dtype).reshape(-1)
                if len(groups) != GROUP_SIZE * len(nodes.rows):
                    raise ValueError("the tree was pickled by bvh 0.2.0 or before: build it again")
            self._set_arrays(frozen(TreeArrays(nodes, groups, primitives, frame)))
        else:
            # Pickled with another width of vectors: nodes have another layout, so build anew.
            primitives = frozen_primitives(state["_arrays"].primitives)
            lanes = state["_arrays"].groups.dtype  # int16 in compact trees, else float32
            self._set_arrays(build(primitives, self._quality, thread_count(None), None, lanes)[0])
        self._set_groups(None if bits is None else kernel_input(bits))

    def _set_arrays(self, arrays: TreeArrays) -> None:
        """Set the arrays of a new tree, whose faces have no groups before `_set_groups`."""
        self._groups, self._origin, self._closed = None, None, {}
        self._replace_arrays(arrays)

    def _set_groups(self, groups: NDArray[np.uint32] | None) -> None:
        """Set the bits (m,) of faces, None for all bits, after `_set_arrays`."""
        self._groups = groups
        # A face without bits is hidden from all queries: the arrays must have the bits, too.
        if groups is not None and not groups.all():
            self._replace_arrays(with_bits(self._arrays, groups))

    def _replace_arrays(self, arrays: TreeArrays) -> None:
        """Set the arrays, and functions for single calls that are made for them."""
        # In a tree of quality "high", a primitive may be in several leaves.
        self._arrays, self._quick = arrays, Searched(arrays, split=self._quality == "high")


def cached(arrays: TreeArrays, key: str, compute: Callable[[TreeArrays], T]) -> T:
    """Return `compute(arrays)`, computed once and stored by `key` in the `vars` of `arrays`."""
    result: T | None = vars(arrays).get(key)
    # If two threads compute it, both return the one that was stored first.
    return vars(arrays).setdefault(key, compute(arrays)) if result is None else result


def are_selected(
    groups: NDArray[np.uint32] | None, ids: NDArray[np.int32], mask: int
) -> NDArray[np.bool_]:
    """Return which of the faces `ids` share a bit with `mask`, (n,); all bits without groups."""
    return np.full(len(ids), mask != 0) if groups is None else selected(groups[ids], mask)


def is_in_use(tree: TreeBase) -> bool:
    """Return whether a tree has its arrays; a mapped tree gets them at its first use."""
    # `object.__getattribute__`, because `getattr` would be such a use.
    try:
        object.__getattribute__(tree, "_arrays")
    except AttributeError:
        return False
    return True


def file_size_and_pieces(tree: TreeBase, threads: int) -> tuple[int, Iterator[NDArray[np.uint8]]]:
    """Return the size in bytes of a tree's file, and an iterator over arrays of its bytes."""
    now = tree._snapshot()
    return tree_contents(
        now._arrays, now._face_ids, now._groups, now._bounds, now._quality, now._build_seconds,
        threads,
    )  # fmt: skip
