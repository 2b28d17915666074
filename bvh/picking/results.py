"""Results of picking: `Pick` under a cursor, `Selection` by a region of the picture."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.obbs import inverses
from bvh.geometry.transforms import moved
from bvh.io.trimesh_scenes import Attributes
from bvh.picking.placed_trees import LeafTable, PickableScene, PlacedTree
from bvh.picking.projected import nearest_on_triangles
from bvh.queries.answers.locations import normals_of, positions_on, shape_normals, unit
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_queries import Selected
from bvh.runtime.arguments import number_of
from bvh.tree.primitives import Custom, Triangles

Floats = NDArray[np.float64]
T = TypeVar("T")

# A hit of a ray in a scene: t, prim_id, u, v, front and leaf; -1 for the leaf of a tree alone.
Hit = tuple[float, int, float, float, bool, int]


class NearVertex(NamedTuple):
    """The corner of a face that is nearest to the cursor in the picture."""

    id: int  # of the vertex in the tree
    position: Floats  # (3,), in the world
    distance: float  # from the cursor, in pixels


class NearEdge(NamedTuple):
    """The edge of a face that is nearest to the cursor in the picture.

    `side` k joins corners k and k + 1 (mod 3) of the face, the vertices with ids `vertices`;
    `position` is the point of the edge that is nearest to the cursor.
    """

    side: int
    vertices: tuple[int, int]
    position: Floats  # (3,), in the world
    distance: float  # from the cursor, in pixels


def _hit_item(k: int, kind: Callable[[Any], T]) -> T:
    """Return a property of `Pick`: item k of its hit, converted to the type `kind`.

    Type checkers see a value of that type instead of the property.
    """
    return property(lambda pick: kind(pick._hit[k]))  # type: ignore[return-value]


def _once(find: Callable[[Pick], T]) -> T:
    """Return a property of `Pick` that `find` computes at first access; arrays are read-only."""
    name = find.__name__

    @functools.wraps(find)
    def get(pick: Pick) -> T:
        cache = pick._cache
        if cache is None:
            cache = pick._cache = {}
        if name not in cache:
            cache[name] = find(pick)
            if isinstance(cache[name], np.ndarray):
                cache[name].flags.writeable = False
        value: T = cache[name]
        return value

    return property(get)  # type: ignore[return-value]


@dataclass(slots=True, eq=False, repr=False)
class Pick:
    """Result of picking under a cursor: the hit, and more about it on demand.

    All but the first six attributes are computed when first accessed. The pick keeps its instance
    and primitive however the scene changes, but transform and name are those at that access: access
    them before the instance moves, or call `resolve`.

    Attributes
    ----------
    t : float
        Parameter of the cursor's ray: depth, in units of space.
    leaf : int
        Row of ``scene.leaves`` at the time of the pick; -1 for that of `BVH.pick`, which has no
        instance, name or vertex attributes either.
    prim_id : int
        Face, or other primitive, in that leaf's tree.
    u, v : float
        Weights of the face's second and third vertex; NaN for boxes, spheres and capsules.
    front : bool
        Whether the ray meets the side of the winding normal. False for faces without area, and for
        picks near the cursor.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
    >>> pick = tree.pick(camera, 55, 40)
    >>> pick.prim_id, pick.t, pick.position.tolist(), pick.normal.tolist()
    (0, 9.0, [0.2, 0.4, 0.0], [0.0, 0.0, 1.0])
    >>> pick.vertex.id, pick.edge.vertices
    (0, (2, 0))
    """

    _hit: Hit
    # A scene, and its leaves at the time of the pick; or a tree, and None.
    _source: PickableScene | BVH
    _leaves: LeafTable | None
    _camera: Camera
    _x: float
    _y: float
    _ray: tuple[float, ...]
    # For picks near the cursor: its distance in pixels, and the position.
    _distance: float = 0.0
    _point: Floats | None = None
    _cache: dict[str, Any] | None = field(default=None, init=False)

    t = _hit_item(0, float)
    prim_id = _hit_item(1, int)
    u = _hit_item(2, float)
    v = _hit_item(3, float)
    front = _hit_item(4, bool)
    leaf = _hit_item(5, int)

    @property
    def screen_distance(self) -> float:
        """Distance from the cursor in pixels; 0 directly under it."""
        return self._distance

    @property
    def path(self) -> tuple[int, ...]:
        """Ids of the instances on the path of the leaf, from the outermost inward; () in a tree."""
        return tuple(self._placed.path)

    @property
    def instance_id(self) -> int:
        """The outermost instance on the path; -1 in a tree."""
        path = self.path
        return int(path[0]) if path else -1

    @property
    def name(self) -> str | None:
        """Name of the innermost instance on the path that has one."""
        return self._placed.name

    @property
    def face_id(self) -> int:
        """The face of the original mesh, which may be a quad or polygon (see `BVH.face_of`)."""
        return int(self._placed.tree.face_of(self.prim_id))

    @_once
    def position(self) -> Floats:
        """Position in the world, shape (3,)."""
        if self._point is not None:
            return self._point
        if self._world is not None:
            return positions_on(self._world, self.u, self.v)
        ray = np.array(self._ray)
        return np.asarray(ray[:3] + self.t * ray[3:])

    @_once
    def local_position(self) -> Floats:
        """Position in the coordinates of the leaf's tree, shape (3,)."""
        local = self._local
        if local is not None:
            return positions_on(local, self.u, self.v)
        # The map from the world to the tree, (3, 4): `inverses` returns (maps, their status).
        rows = inverses(np.ascontiguousarray(self._placed.transform[None, :3]))[0][0]
        return np.asarray(rows[:, :3] @ self.position + rows[:, 3])

    @_once
    def normal(self) -> Floats:
        """Unit normal in the world: by a face's winding, outward of a shape; NaN if undefined."""
        if self._world is not None:
            return normals_of(self._world)
        shapes, matrix = self._placed.tree.arrays.primitives, self._placed.transform[:3]
        if isinstance(shapes, Custom):  # as faces without area, they have no normal
            return np.full(3, np.nan)
        return np.asarray(shape_normals(shapes, [self.prim_id], self.position[None], matrix)[0])

    @property
    def smooth_normal(self) -> Floats | None:
        """Interpolated vertex normal of the mesh, a unit vector in the world; None without any."""
        normal = self._blend("vertex_normals")
        if normal is None:
            return None
        # Normals are transformed by the inverse transpose.
        return unit(normal @ np.linalg.inv(self._placed.transform[:3, :3]))

    @property
    def uv(self) -> Floats | None:
        """Interpolated texture coordinates, shape (2,); None if the mesh has none."""
        return self._blend("uv")

    @property
    def vertex(self) -> NearVertex | None:
        """The corner of the face nearest to the cursor in the picture.

        None for other shapes, and if no corner is between near and far.
        """
        return self._snap[0]

    @property
    def edge(self) -> NearEdge | None:
        """The edge of the face nearest to the cursor in the picture.

        None for other shapes, and if no edge is between near and far.
        """
        return self._snap[1]

    def resolve(self) -> Pick:
        """Compute all attributes now, before the scene changes; return the pick itself.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> pick = tree.pick(camera, 55, 40).resolve()
        >>> pick.position.tolist()
        [0.2, 0.4, 0.0]
        """
        for name in ("position", "local_position", "normal", "smooth_normal", "uv", "vertex"):
            getattr(self, name)  # fills the cached values that all other attributes follow from
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes as plain numbers, lists and strings, for JSON: None for NaN.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> found = tree.pick(camera, 55, 40).as_dict()
        >>> found["t"], found["position"], found["vertex"]["id"]
        (9.0, [0.2, 0.4, 0.0], 0)
        """
        names = (
            "instance_id", "name", "path", "leaf", "prim_id", "face_id", "t", "u", "v", "front",
            "position", "local_position", "normal", "smooth_normal", "uv", "screen_distance",
        )  # fmt: skip
        content = {name: _plain(getattr(self, name)) for name in names}
        for name, snap in (("vertex", self.vertex), ("edge", self.edge)):
            content[name] = snap and {k: _plain(x) for k, x in snap._asdict().items()}
        return content

    def __repr__(self) -> str:
        position = ", ".join(f"{x:.6g}" for x in self.position)
        owner = f"instance_id={self.instance_id}, name={self.name!r}, " if self.leaf >= 0 else ""
        return f"Pick({owner}prim_id={self.prim_id}, t={self.t:.6g}, position=[{position}])"

    @_once
    def _placed(self) -> PlacedTree:
        """The leaf that was picked, as it is now; a tree alone as a leaf."""
        leaves, source = self._leaves, self._source
        if isinstance(source, BVH):
            return PlacedTree((), source, np.eye(4), None)
        assert leaves is not None
        # With its present transform and name. But after instances were added or removed, rows have
        # changed: then the leaf is that of the table at the time of the pick.
        if leaves.is_current():
            leaves = source._current_leaves()
        return leaves.leaf(self.leaf)

    @property
    def _triangles(self) -> Triangles | None:
        """The triangles of the leaf's tree; None for a tree over other shapes."""
        primitives = self._placed.tree.arrays.primitives
        return primitives if isinstance(primitives, Triangles) else None

    @property
    def _local(self) -> Floats | None:
        """The corners (3, 3) of the face in the coordinates of its tree; None for other shapes."""
        triangles = self._triangles
        return None if triangles is None else triangles.points[triangles.faces[self.prim_id]]

    @_once
    def _world(self) -> Floats | None:
        """The corners (3, 3) of the face in the world; None for other shapes."""
        local, matrix = self._local, self._placed.transform[:3]
        return None if local is None else moved(local, np.ascontiguousarray(matrix))

    def _blend(self, name: str) -> Floats | None:
        """Return the vertex attribute `name`, "vertex_normals" or "uv", interpolated at the hit.

        None if the mesh does not have it.
        """
        triangles, values = self._triangles, getattr(self._attributes, name)
        if triangles is None or values is None:
            return None
        weights = np.array([1.0 - self.u - self.v, self.u, self.v])
        return np.asarray(weights @ values[triangles.faces[self.prim_id]])

    @_once
    def _attributes(self) -> Attributes:
        """Attributes of the mesh that was picked, each None if the mesh does not have it."""
        source = self._source
        return Attributes() if isinstance(source, BVH) else source.attributes(self._placed.tree)

    @_once
    def _snap(self) -> tuple[NearVertex | None, NearEdge | None]:
        """The corner and the edge nearest to the cursor, of those between near and far, or None."""
        triangles, world = self._triangles, self._world
        if triangles is None or world is None:
            return None, None
        camera, x, y = self._camera, self._x, self._y
        ids = triangles.faces[self.prim_id].tolist()
        # Corners and edges as triangles without area: a point three times, or an end twice.
        points = nearest_on_triangles(camera, np.repeat(world[:, None], 3, axis=1), x, y)
        ends = np.array([[0, 1, 1], [1, 2, 2], [2, 0, 0]])
        lines = nearest_on_triangles(camera, world[ends], x, y)
        k, side = int(points.distance.argmin()), int(lines.distance.argmin())
        corner = edge = None
        if points.distance[k] < np.inf:
            corner = NearVertex(ids[k], world[k], float(points.distance[k]))
        if lines.distance[side] < np.inf:
            position = np.asarray(lines.weights[side] @ world[ends[side]])
            vertices, distance = (ids[side], ids[(side + 1) % 3]), float(lines.distance[side])
            edge = NearEdge(side, vertices, position, distance)
        return corner, edge


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """What was selected: row i is a leaf with the ids ``ids[offsets[i] : offsets[i + 1]]``.

    Attributes
    ----------
    what : {"faces", "vertices", "instances"}
    instance_id : ndarray of int32, shape (k,)
        Outermost instance of each row, ascending; ``what="instances"`` has a row an instance.
    leaf : ndarray of int32, shape (k,)
        Index of each row in ``scene.leaves``; for ``what="instances"`` that of the first leaf.
    names : tuple of str or None, length k
        Name of the innermost named instance of each leaf.
    ids : ndarray of int32, shape (m,)
        Ids of primitives or vertices, ascending in each row; none for ``what="instances"``.
    offsets : ndarray of int64, shape (k + 1,)
        Where the ids of each row begin, and m.

    Examples
    --------
    >>> import bvh
    >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
    >>> number = scene.add(mesh, name="a")
    >>> found = scene.pick_rect(camera, 40, 40, 60, 60, what="vertices")
    >>> found.names, found.ids, found.offsets, found.row
    (('a',), array([0], dtype=int32), array([0, 1]), array([0]))
    """

    what: Selected
    instance_id: NDArray[np.int32]
    leaf: NDArray[np.int32]
    names: tuple[str | None, ...]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of faces, vertices or instances that are selected."""
        return len(self.leaf) if self.what == "instances" else len(self.ids)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        """Return the selected ids of one row, a leaf; negative rows count from the end."""
        if not -len(self.leaf) <= row < len(self.leaf):
            raise IndexError(f"row must be below {len(self.leaf)}, got {row}")
        row %= len(self.leaf)
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each id, shape (m,)."""
        return np.repeat(np.arange(len(self.leaf), dtype=np.int64), np.diff(self.offsets))

    def __repr__(self) -> str:
        text = number_of(len(self), self.what)
        if self.what != "instances":
            text += f" of {number_of(len(np.unique(self.instance_id)), 'instances')}"
        return f"Selection({text})"


def _plain(value: Any) -> Any:
    """Return an array or a tuple as a list, None for NaN, and anything else as it is."""
    if isinstance(value, float | np.ndarray) and np.isnan(value).any():
        return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
