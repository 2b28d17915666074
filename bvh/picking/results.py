"""`Pick`: result of picking under a cursor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.obbs import inverses
from bvh.geometry.transforms import moved
from bvh.picking.snapping import nearest_on_triangles
from bvh.tree.primitives import Boxes, Triangles

Floats = NDArray[np.float64]


class NearVertex(NamedTuple):
    """The corner of a face that is nearest to the cursor in the picture."""

    id: int
    position: Floats
    distance: float


class NearEdge(NamedTuple):
    """The edge of a face that is nearest to the cursor in the picture.

    `side` k joins corners k and k + 1 (mod 3) of the face, the vertices with ids `vertices`;
    `position` is the point of it that is nearest to the cursor.
    """

    side: int
    vertices: tuple[int, int]
    position: Floats
    distance: float


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
        Row of ``scene.leaves`` at the time of the pick.
    prim_id : int
        Face, or box, in that leaf's tree.
    u, v : float
        Weights of the face's second and third vertex; NaN for boxes.
    front : bool
        Whether the ray meets the side of the winding normal. False for faces without area, and for
        picks beside the cursor.
    """

    __slots__ = ("_found", "_hit", "_where")

    def __init__(self, where: tuple[Any, ...], hit: tuple[Any, ...]) -> None:
        # The scene, the camera, the cursor, its ray, the leaves; t, prim_id, u, v, front, leaf, and
        # for picks beside the cursor the distance in pixels and the position.
        self._where = where
        self._hit = hit
        self._found: dict[str, Any] | None = None

    @property
    def t(self) -> float:
        return float(self._hit[0])

    @property
    def leaf(self) -> int:
        return int(self._hit[5])

    @property
    def prim_id(self) -> int:
        return int(self._hit[1])

    @property
    def u(self) -> float:
        return float(self._hit[2])

    @property
    def v(self) -> float:
        return float(self._hit[3])

    @property
    def front(self) -> bool:
        return bool(self._hit[4])

    @property
    def screen_distance(self) -> float:
        """Distance from the cursor in pixels; 0 directly under it."""
        return float(self._hit[6]) if len(self._hit) > 6 else 0.0

    @property
    def path(self) -> tuple[int, ...]:
        """Ids of the instances on the path of the leaf, from the outermost inward."""
        return tuple(self._held().path)

    @property
    def instance_id(self) -> int:
        """The outermost instance on the path."""
        return int(self._held().path[0])

    @property
    def name(self) -> str | None:
        """Name of the innermost instance on the path that has one."""
        name: str | None = self._held().name
        return name

    @property
    def face_id(self) -> int:
        """The face of the original mesh, which may be a quad or polygon (see `BVH.face_of`)."""
        return int(self._held().tree.face_of(self.prim_id))

    @property
    def position(self) -> Floats:
        """Position in the world, shape (3,)."""
        return np.asarray(self._keep("position", self._find_position))

    @property
    def local_position(self) -> Floats:
        """Position in the coordinates of the leaf's tree, shape (3,)."""
        return np.asarray(self._keep("local_position", self._find_local_position))

    @property
    def normal(self) -> Floats:
        """Unit normal in the world, by the face's winding; outward for boxes; NaN without area."""
        return np.asarray(self._keep("normal", self._find_normal))

    @property
    def smooth_normal(self) -> Floats | None:
        """Interpolated vertex normal of the mesh as a unit vector in the world; None without any.

        Normals are transformed by the inverse transpose.
        """
        normals = self._attribute("vertex_normals")
        if normals is None:
            return None
        inverse = np.linalg.inv(self._held().transform[:3, :3])
        return _unit(self._blend(normals) @ inverse)

    @property
    def uv(self) -> Floats | None:
        """Interpolated texture coordinates, shape (2,); None if the mesh has none."""
        uv = self._attribute("uv")
        return None if uv is None else self._blend(uv)

    @property
    def vertex(self) -> NearVertex | None:
        """The corner of the face nearest to the cursor in the picture; None for boxes."""
        return self._snap()[0]

    @property
    def edge(self) -> NearEdge | None:
        """The edge of the face nearest to the cursor in the picture; None for boxes."""
        return self._snap()[1]

    def resolve(self) -> Pick:
        """Compute all attributes now, before the scene changes; return the pick itself."""
        for name in ("position", "local_position", "normal", "smooth_normal", "uv", "vertex"):
            getattr(self, name)
        return self

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes as plain numbers, lists and strings, as JSON takes them."""
        content: dict[str, Any] = {}
        for name in (
            "instance_id", "name", "path", "leaf", "prim_id", "face_id", "t", "u", "v", "front",
            "position", "local_position", "normal", "smooth_normal", "uv", "screen_distance",
        ):  # fmt: skip
            content[name] = _plain(getattr(self, name))
        for name, snap in (("vertex", self.vertex), ("edge", self.edge)):
            content[name] = snap and {k: _plain(x) for k, x in snap._asdict().items()}
        return content

    def __repr__(self) -> str:
        position = ", ".join(f"{x:.6g}" for x in self.position)
        return (
            f"Pick(instance_id={self.instance_id}, name={self.name!r}, prim_id={self.prim_id}, "
            f"t={self.t:.6g}, position=[{position}])"
        )

    def _keep(self, name: str, find: Any) -> Any:
        """Return a cached attribute, or compute it."""
        if self._found is None:
            self._found = {}
        if name not in self._found:
            found = self._found[name] = find()
            if isinstance(found, np.ndarray):
                # It is returned again later.
                found.flags.writeable = False
        return self._found[name]

    def _held(self) -> Any:
        """Return the leaf."""
        return self._keep("leaf", self._find_leaf)

    def _find_leaf(self) -> Any:
        scene, leaves = self._where[0], self._where[5]
        # After instances have been added or removed, the scene's leaves are others.
        if leaves.is_current():
            leaves = scene._current_leaves()
        return leaves.leaf(self.leaf)

    def _triangles(self) -> Triangles | None:
        primitives = self._held().tree.arrays.primitives
        return primitives if isinstance(primitives, Triangles) else None

    def _local(self) -> Floats:
        """Return the corners of the face in its tree."""
        triangles = self._triangles()
        assert triangles is not None
        return np.asarray(triangles.points[triangles.faces[self.prim_id]])

    def _world(self) -> Floats:
        """Return the corners of the face in the world."""
        matrix = np.ascontiguousarray(self._held().transform[:3])
        return np.asarray(self._keep("world", lambda: moved(self._local(), matrix)))

    def _weights(self) -> Floats:
        return np.array([1.0 - self.u - self.v, self.u, self.v])

    def _blend(self, values: Floats) -> Floats:
        """Interpolate values of the vertices at the hit."""
        triangles = self._triangles()
        assert triangles is not None
        return np.asarray(self._weights() @ values[triangles.faces[self.prim_id]])

    def _attribute(self, name: str) -> Floats | None:
        """Return a vertex attribute of the mesh, if it has it."""
        if self._triangles() is None:
            return None
        known = self._keep("attributes", lambda: self._where[0].attributes(self._held().tree))
        values: Floats | None = getattr(known, name)
        return values

    def _find_position(self) -> Floats:
        if len(self._hit) > 7:
            return np.asarray(self._hit[7])
        if self._triangles() is not None:
            return np.asarray(self._weights() @ self._world())
        ray = np.array(self._where[4])
        return np.asarray(ray[:3] + self.t * ray[3:])

    def _find_local_position(self) -> Floats:
        if self._triangles() is not None:
            return np.asarray(self._weights() @ self._local())
        transform = self._held().transform
        rows = inverses(np.ascontiguousarray(transform[None, :3]))[0][0]
        return np.asarray(rows[:, :3] @ self.position + rows[:, 3])

    def _find_normal(self) -> Floats:
        if self._triangles() is not None:
            a, b, c = self._world()
            return _unit(np.cross(_unit(b - a), _unit(c - a)))
        # The nearest side of the box, relative to the box's size.
        tree, transform = self._held().tree, self._held().transform
        boxes = tree.arrays.primitives
        row = boxes.points[self.prim_id]
        to_box = np.linalg.inv(transform)[:3]
        if not isinstance(boxes, Boxes):
            frame = np.vstack([row[6:18].reshape(3, 4), [0.0, 0.0, 0.0, 1.0]])
            to_box = frame[:3] @ np.linalg.inv(transform)
        inside = to_box[:, :3] @ self.position + to_box[:, 3]
        half = 0.5 * (row[3:6] - row[0:3])
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.where(half > 0.0, (inside - 0.5 * (row[0:3] + row[3:6])) / half, 1.0)
        axis = int(np.abs(off).argmax())
        return _unit(np.copysign(1.0, off[axis]) * to_box[axis, :3])

    def _snap(self) -> tuple[NearVertex | None, NearEdge | None]:
        if self._triangles() is None:
            return None, None
        found: tuple[NearVertex | None, NearEdge | None] = self._keep("snap", self._find_snap)
        return found

    def _find_snap(self) -> tuple[NearVertex | None, NearEdge | None]:
        _, camera, x, y, _, _ = self._where
        world, triangles = self._world(), self._triangles()
        assert triangles is not None
        ids = triangles.faces[self.prim_id].tolist()
        # Corners and edges as triangles that are points and segments.
        points = nearest_on_triangles(camera, np.repeat(world[:, None], 3, axis=1), x, y)
        ends = np.array([[0, 1, 1], [1, 2, 2], [2, 0, 0]])
        lines = nearest_on_triangles(camera, world[ends], x, y)
        k, e = int(points.distance.argmin()), int(lines.distance.argmin())
        corner = edge = None
        if points.distance[k] < np.inf:
            corner = NearVertex(ids[k], world[k], float(points.distance[k]))
        if lines.distance[e] < np.inf:
            at = np.asarray(lines.weights[e] @ world[ends[e]])
            edge = NearEdge(e, (ids[e], ids[(e + 1) % 3]), at, float(lines.distance[e]))
        return corner, edge


def _unit(vector: Floats) -> Floats:
    """Return a vector scaled to length 1; NaN for the zero vector."""
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = vector / np.abs(vector).max()
        return np.asarray(scaled / np.sqrt((scaled * scaled).sum()))


def _plain(value: Any) -> Any:
    """Return arrays and tuples as lists."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
