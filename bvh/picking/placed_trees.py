"""Trees in place, of a scene or one alone, and which of their faces may be in a frustum.

A frustum is planes (k, 4), nonnegative inside, as `Camera.frustum` returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
from bvh.io.trimesh_scenes import Attributes
from bvh.picking.projected import OwnedTriangles, surface_of, transformed
from bvh.queries.hierarchy import BVH
from bvh.queries.methods.ray_queries import CasterQueries
from bvh.queries.query_arguments import one_mask
from bvh.queries.results import AllHits, Hits
from bvh.queries.tree_queries import RegionMode, Selected
from bvh.runtime.arguments import ALL_BITS, check_option, thread_count, whole_number
from bvh.tree.face_bits import selected
from bvh.tree.primitives import Triangles
from bvh.tree.shapes import HOLLOW, shape_of

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Ids = NDArray[np.int32]
Flags = NDArray[np.bool_]

# In trees of fewer faces all are tested, in larger ones those near the frustum.
FEW_FACES = 2048
# How much wider than the region the frustum of candidates is, relative to coordinates: far more
# than the rounding of projected and moved vertices.
SLACK = 2.0**-30


class PickOptions(NamedTuple):
    """Options of picks and selections, as in `Scene.pick` and `Scene.pick_rect`."""

    mask: int | None = None
    threads: int | None = 1
    what: Selected = "faces"
    mode: RegionMode = "touching"
    visible_only: bool = False
    samples: int = 1

    @property
    def want_inside(self) -> bool:
        """Whether all of a face or instance has to be in the region."""
        return self.mode == "inside"

    def for_selection(self) -> PickOptions:
        """Return the options after checks, with the number of threads to use as `threads`."""
        check_option("what", self.what, get_args(Selected))
        check_option("mode", self.mode, get_args(RegionMode))
        samples = whole_number("samples", self.samples)
        return self._replace(samples=samples, threads=thread_count(self.threads))


@dataclass(frozen=True, eq=False, repr=False)
class PlacedTree:
    """A tree at the end of a path of instances; the path of a tree outside scenes is empty."""

    path: tuple[int, ...]  # ids of instances, from the outermost inward
    tree: BVH
    transform: Floats  # (4, 4), from the tree's coordinates to the world
    name: str | None  # of the innermost instance that has one


class LeafTable(Protocol):
    """The leaves of a scene at one time, by row."""

    def is_current(self) -> bool: ...  # whether no leaf was added or removed since
    def leaf(self, row: int) -> PlacedTree: ...  # a snapshot of the leaf in a row
    def name_of(self, leaf: int) -> str | None: ...  # of the innermost named instance of a row


class PickableScene(CasterQueries[tuple[float, int, float, float, bool, int]]):
    """Interface that scenes provide to picking: queries of rays, and the leaves as they are now."""

    __slots__ = ()

    attributes: Callable[[BVH], Attributes]
    _current_leaves: Callable[[], LeafTable]
    _placed: Callable[[], PlacedTrees]
    _flattened: Any
    _quick: Any


@dataclass(frozen=True, slots=True, eq=False)
class PlacedTrees:
    """The n leaves of a scene, in columns; or one tree as the only leaf."""

    source: PickableScene | BVH
    table: LeafTable | None  # of the scene; None for one tree
    trees: Sequence[BVH]
    tree_of: Ints  # (n,): the index in `trees` of each leaf's tree
    matrices: Floats  # (n, 3, 4), from the tree's coordinates to the world
    masks: NDArray[np.uint32]  # (n,); 0 for leaves that are not visible
    instance_id: Ints  # (n,): the outermost instance of each leaf; -1 for one tree
    boxes: Floats  # (n, 6): lower and upper corner of each leaf in the world

    @classmethod
    def of(cls, source: PickableScene | BVH) -> PlacedTrees:
        """Return the leaves of a scene; or a tree as one leaf, with all bits in its mask."""
        if not isinstance(source, BVH):
            return source._placed()
        return cls(
            source, table=None, trees=(source,), tree_of=np.zeros(1, np.int64),
            matrices=np.eye(3, 4)[None], masks=np.full(1, ALL_BITS, np.uint32),
            instance_id=np.full(1, -1, np.int64), boxes=source.bounds.reshape(1, 6),
        )  # fmt: skip

    def name_of(self, row: int) -> str | None:
        """Return the name of the innermost named instance of a leaf; None without one."""
        return None if self.table is None else self.table.name_of(row)


class TreeFaces:
    """The faces or shapes of a tree that share a bit with a mask: all, or those near a frustum."""

    def __init__(self, tree: BVH, mask: int = ALL_BITS) -> None:
        self.tree, self._mask = tree, mask

    @cached_property
    def surface(self) -> OwnedTriangles:
        """The triangles of all these faces, or of boxes around shapes, computed at first access."""
        found, groups = surface_of(self.tree), self.tree.groups
        if groups is None:
            return found
        visible = selected(groups, self._mask)[found.owners]
        return OwnedTriangles(found.points, found.faces[visible], found.owners[visible])

    @cached_property
    def is_small(self) -> bool:
        """Whether faces and points are so few that all are tested, together with other leaves."""
        return len(self.tree) <= FEW_FACES and len(self.surface.points) <= 8 * FEW_FACES

    @cached_property
    def owners(self) -> Ids:
        """Ids, ascending, of the primitives in `surface`, or of all finite spheres or capsules."""
        shapes = self.tree.arrays.primitives
        if not isinstance(shapes, HOLLOW):
            return distinct(self.surface.owners, len(self.tree))
        return np.flatnonzero(shape_of(shapes).bounds(shapes.points)[2]).astype(np.int32)

    def vertices(self) -> Ids:
        """Return the ids of the vertices that have a face, ascending."""
        self.tree._must_hold("a selection of vertices", Triangles)
        return distinct(self.surface.faces, len(self.surface.points))

    def candidates(self, matrix: Floats, planes: Floats) -> tuple[OwnedTriangles, Ids]:
        """Return the triangles that may be in a frustum, and the vertex id of each of their points.

        The triangles are in the tree's coordinates; `matrix` (3, 4) maps them to the world, and
        `planes` (k, 4) are the frustum's. For shapes, the points are corners of boxes, whose ids
        are their indices.
        """
        tree = self.tree
        is_mesh = isinstance(tree.arrays.primitives, Triangles)
        ids = self.reaching(matrix, planes) if is_mesh else None
        if ids is None or len(ids) == len(tree):
            return self.surface, np.arange(len(self.surface.points), dtype=np.int32)
        return compacted(OwnedTriangles(tree.vertices, tree.faces[ids], ids))

    def reaching(self, matrix: Floats, planes: Floats) -> Ids | None:
        """Return the ids of primitives that may be in a frustum; None if all may be.

        `matrix` (3, 4) maps the tree to the world, where `planes` (k, 4) are those of the frustum.
        """
        tree = self.tree
        if len(tree) <= FEW_FACES:
            return None
        normals, offsets = planes[:, :3], planes[:, 3]
        largest = np.abs(tree.bounds).max(axis=0)
        size = np.abs(matrix[:, :3]) @ largest + np.abs(matrix[:, 3])
        margin = 2.0 * SLACK * (np.abs(normals) @ size + np.abs(offsets))
        # The planes in the tree's coordinates, moved outward by more than all rounding errors.
        shifts = normals @ matrix[:, 3] + offsets + margin
        local = np.column_stack([normals @ matrix[:, :3], shifts])
        if not np.isfinite(local).all():
            return None
        return np.asarray(tree.overlap_frustum(local, mask=self._mask).prim_id, np.int32)

    def rounds_in(self, matrix: Floats, planes: Floats) -> tuple[Floats, Ids]:
        """Return the spheres or capsules that may be in a frustum, and their ids, (n,).

        Rows (n, 7) are those of `moved_rounds`, in the world, where the `planes` (k, 4) are.
        """
        found = self.reaching(matrix, planes)
        ids = self.owners if found is None else found
        rounds = self.moved_rounds(matrix, ids)
        p, q, radii = rounds[:, :3], rounds[:, 3:6], rounds[:, 6:]
        normals, offsets = planes[:, :3], planes[:, 3]
        with np.errstate(invalid="ignore", over="ignore"):
            # The largest value of each plane's n . p + offset on the shape.
            top = np.maximum(p @ normals.T, q @ normals.T) + offsets
            top += radii * np.sqrt((normals * normals).sum(axis=1))
            size = (np.abs(p) + np.abs(q) + radii) @ np.abs(normals).T + np.abs(offsets)
            near = ~(top < -SLACK * size).any(axis=1)
        return rounds[near], ids[near]

    def moved_rounds(self, matrix: Floats, ids: Ints) -> Floats:
        """Return the spheres or capsules `ids`, moved by `matrix` (3, 4), in rows (n, 7).

        A row is both ends of an axis, equal for a sphere, and a radius.
        """
        shapes = self.tree.arrays.primitives
        assert isinstance(shapes, HOLLOW)
        rows = shape_of(shapes).instances(shapes.points[ids], matrix)
        # Rows are a box, the axis, which is one point of a sphere, and the radius.
        return np.hstack([rows[:, 6:9], rows[:, -4:]])


class VisitedTrees:
    """Placed trees as a camera sees them; faces of a tree are computed when they are needed."""

    def __init__(self, placed: PlacedTrees, camera: Camera, options: PickOptions) -> None:
        self.placed, self.camera, self.options = placed, camera, options
        self._faces: dict[int, TreeFaces] = {}
        self._bits = one_mask(options.mask) & ALL_BITS
        # Which leaves share a bit with the mask, (n,).
        self.shown = (placed.masks & np.uint32(self._bits)) != 0

    def near(self, planes: Floats) -> tuple[NDArray[np.int64], Flags]:
        """Return (rows, inside): the leaves that may be in a frustum, and which are surely inside.

        Both are (m,): rows of leaves, and whether all of each of them is surely in the frustum,
        which is given by planes (k, 4).
        """
        placed = self.placed
        if len(placed.masks) == 0:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        # World boxes exclude most leaves; the others are judged by the bounds of their trees.
        rows = np.flatnonzero(self.shown & _reaching(planes, placed.boxes))
        bounds = np.array([tree.bounds for tree in placed.trees])[placed.tree_of[rows]]
        near, within = _judged_bounds(planes, bounds, placed.matrices[rows])
        return rows[near], within[near]

    def leaf(self, row: int) -> tuple[TreeFaces, Floats]:
        """Return the faces of a leaf in its tree's coordinates, and its map (3, 4)."""
        tree = int(self.placed.tree_of[row])
        if tree not in self._faces:
            self._faces[tree] = TreeFaces(self.placed.trees[tree], self._bits)
        return self._faces[tree], self.placed.matrices[row]

    def faces_in(self, planes: Floats, rows: list[int]) -> tuple[Floats, Ids, Ints]:
        """Return the triangles (n, 3, 3) of leaves `rows` that may be in a frustum, in the world.

        Also return the primitive and the leaf of each triangle, (n,).
        """
        leaves_and_maps = map(self.leaf, rows)
        surfaces = [transformed(faces.candidates(m, planes)[0], m) for faces, m in leaves_and_maps]
        triangles, prims, leaves = joined(rows, surfaces)
        normals, offsets = planes[:, :3], planes[:, 3]
        with np.errstate(invalid="ignore", over="ignore"):
            level = triangles @ normals.T + offsets
            margin = SLACK * (np.abs(triangles) @ np.abs(normals).T + np.abs(offsets))
            possible = ~np.any(np.all(level < -margin, axis=1), axis=1)
        return triangles[possible], prims[possible], leaves[possible]

    def cast(self, points: Floats, t_max: ArrayLike) -> tuple[Floats, Ints, Ints]:
        """Return (t, leaf, prim_id) of the closest hits of rays through n pixels, given by (n, 2).

        Rays begin at the near plane and end at `t_max`. Misses have t +inf and prim_id -1.
        """
        rays = *self.camera.ray(points[:, 0], points[:, 1]), self.camera.near, t_max
        options = self.options
        hits = self.placed.source.closest_hit(*rays, threads=options.threads, mask=options.mask)
        return hits.t, leaves_of(hits), hits.prim_id


def leaves_of(hits: Hits | AllHits) -> Ints:
    """Return the leaf of each hit of a batch of rays; 0 for hits of a tree alone."""
    if hits.leaf is not None:
        return hits.leaf
    return np.zeros(len(hits.prim_id), np.int64)


def joined(rows: list[int], surfaces: list[OwnedTriangles]) -> tuple[Floats, Ids, Ints]:
    """Return the triangles (n, 3, 3) of several leaves, with the primitive and leaf of each, (n,).

    `rows` are the leaves, and `surfaces` has the triangles of each leaf.
    """
    triangles = np.concatenate([some.points[some.faces] for some in surfaces])
    prims = np.concatenate([some.owners for some in surfaces])
    return triangles, prims, np.repeat(rows, [len(some.faces) for some in surfaces])


def compacted(surface: OwnedTriangles) -> tuple[OwnedTriangles, Ids]:
    """Return a surface without its unused points, and the former indices of the others."""
    used = distinct(surface.faces, len(surface.points))
    new_index = np.empty(len(surface.points), np.int32)
    new_index[used] = np.arange(len(used), dtype=np.int32)
    return OwnedTriangles(surface.points[used], new_index[surface.faces], surface.owners), used


def distinct(ids: Ints, count: int) -> Ids:
    """Return the distinct numbers in `ids`, all below `count`, ascending."""
    marks = np.zeros(count, np.bool_)
    marks[ids.ravel()] = True
    return np.flatnonzero(marks).astype(np.int32)


def _judged_bounds(planes: Floats, bounds: Floats, matrices: Floats) -> tuple[Flags, Flags]:
    """Return which of n boxes may meet a frustum, planes (k, 4), and which are certainly inside.

    `bounds` (n, 2, 3) are the boxes' lower and upper corners in local coordinates, and `matrices`
    (n, 3, 4) the maps to the world.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        middle = 0.5 * bounds[:, 0] + 0.5 * bounds[:, 1]
        half = 0.5 * bounds[:, 1] - 0.5 * bounds[:, 0]
        linear = np.abs(matrices[:, :, :3])
        centre = np.einsum("nij,nj->ni", matrices[:, :, :3], middle) + matrices[:, :, 3]
        reach = np.einsum("nij,nj->ni", linear, half)
        size = np.abs(centre) + reach + np.einsum("nij,nj->ni", linear, np.abs(middle))
        normals, offsets = planes[:, :3], planes[:, 3]
        level = centre @ normals.T + offsets
        span = reach @ np.abs(normals).T
        margin = SLACK * (size @ np.abs(normals).T + np.abs(offsets))
        # The box of an empty tree, NaN, is outside. After an overflow comparisons with NaN are
        # False, so that a box is neither outside nor surely inside.
        outside = (level + span < -margin).any(axis=1) | np.isnan(bounds).any(axis=(1, 2))
        within = (level - span > margin).all(axis=1)
    return np.asarray(~outside), np.asarray(within & ~outside)


def _reaching(planes: Floats, boxes: Floats) -> Flags:
    """Return which boxes (n, 6) have, for each plane of a frustum, a corner that may be inside."""
    # Empty boxes have a lower corner above the upper one.
    found = boxes[:, 0] <= boxes[:, 3]
    with np.errstate(invalid="ignore", over="ignore"):
        for *normal, offset in planes.tolist():
            # The largest value of the plane in each box. By columns, which is faster than by rows.
            level, size = np.full(len(boxes), offset), np.full(len(boxes), abs(offset))
            for axis, n in enumerate(normal):
                term = n * boxes[:, axis + 3 if n > 0.0 else axis]
                level += term
                size += np.abs(term)
            found &= ~(level < -SLACK * size)
    return np.asarray(found)
