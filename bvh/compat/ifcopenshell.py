"""Drop-in replacement for `ifcopenshell.geom.tree`: clashes of solids, decided exactly.

Elements come from `ifcopenshell.geom.iterator`; others, such as those without geometry, are left
out of searches. Solids clash, too, if they share a plane, are equal or one is in the other. A mesh
that is not closed is a surface, without an inside.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.transforms import moved
from bvh.queries.answers.clearances import Clearances
from bvh.queries.hierarchy import BVH
from bvh.scene.scene import Scene

__all__ = ["Clash", "RayHit", "tree"]
__dir__ = __all__.copy

Reals = NDArray[np.float64]
CLASH_TYPES = ("protrusion", "pierce", "collision", "clearance")
PROTRUSION, PIERCE, COLLISION, CLEARANCE = range(4)


@dataclass(frozen=True)
class Clash:
    """A clash of two elements, with the fields of IfcOpenShell's.

    Attributes
    ----------
    clash_type : int
        The index of its name in `CLASH_TYPES`: 0 protrusion, 1 pierce, 2 collision, 3 clearance.
    a, b : entity_instance
        The elements; `a` of a protrusion or piercing is the element that is in the other.
    distance : float
        Depth of a protrusion, length of a pierced part, clearance, or 0 for a collision.
    p1, p2 : tuple of float
        A point of each: nearest points, or `a`'s deepest point in `b` and the nearest one of `b`.
    """

    clash_type: int
    a: Any
    b: Any
    distance: float
    p1: tuple[float, ...]
    p2: tuple[float, ...]


@dataclass(frozen=True)
class RayHit:
    """A face of an element that a ray hits, with its position and normal.

    `distance` and `ray_distance` are both the length along the ray, `instance` is the element,
    `style_index` is -1, and `dot_product` is that of the unit normal and the ray's unit direction.
    """

    distance: float
    style_index: int
    instance: Any
    position: tuple[float, ...]
    normal: tuple[float, ...]
    ray_distance: float
    dot_product: float


class tree:
    """Tree of building elements with the methods of ``ifcopenshell.geom.tree``.

    Parameters
    ----------
    file, settings
        A file to add, and the settings of its geometry.
    backend : str, optional
        Ignored: there is only this one.
    """

    def __init__(self, file: Any = None, settings: Any = None, backend: str | None = None) -> None:
        # Element k is instance k of the scene. Its product, whether its mesh is closed, and its
        # tree are item k of the lists; `_indices` maps its GUID to k.
        self._scene = Scene()
        self._products: list[Any] = []
        self._indices: dict[str, int] = {}
        self._closed: list[bool] = []
        self._solids: list[BVH] = []
        if file is not None:
            self.add_file(file, settings)

    @property
    def scene(self) -> Scene:
        """The elements as instances, in the order in which they were added."""
        return self._scene

    def add_file(self, file: Any, settings: Any = None) -> None:
        """Add all elements of a file, with the settings of their geometry, None for the default."""
        import ifcopenshell.geom

        geom: Any = ifcopenshell.geom
        threads = 1
        self.add_iterator(geom.iterator(settings or geom.settings(), file, threads))

    def add_iterator(self, iterator: Any) -> None:
        """Add the elements of an `ifcopenshell.geom.iterator` that has not been initialized."""
        if iterator.initialize():
            self.add_element(iterator.get())
            while iterator.next():
                self.add_element(iterator.get())

    def add_element(self, element: Any) -> None:
        """Add a triangulated element, as an iterator returns it, in world coordinates."""
        points = np.array(element.geometry.verts, np.float64).reshape(-1, 3)
        faces = np.array(element.geometry.faces, np.int64).reshape(-1, 3)
        # The matrix is stored column by column.
        matrix = np.array(element.transformation.matrix, np.float64).reshape(4, 4).T
        mesh = BVH.from_triangles(moved(points, matrix[:3]), faces, warn=False)
        self._indices[element.guid] = len(self._products)
        self._products.append(element.product)
        self._closed.append(mesh.is_closed and len(mesh) > 0)
        self._solids.append(mesh)
        self._scene.add(mesh)

    def clash_intersection_many(
        self, set_a: Iterable[Any], set_b: Iterable[Any], tolerance: float = 0.002,
        check_all: bool = True,
    ) -> tuple[Clash, ...]:  # fmt: skip
        """Return a clash for each two solids that overlap by more than a tolerance.

        One is of `set_a`, the other of `set_b`. A clash is a piercing if only edges of one are
        inside the other, else a protrusion. `check_all` has no effect: each pair is checked.
        """
        result = []
        for a, b in self._pairs(set_a, set_b, reach=0.0):
            if self._relation(a, b) in ("disjoint", "touching"):
                continue
            deep = self._solids[a].penetration(self._solids[b])
            # The deepest point of one in the other, and the nearest one of the other's surface.
            ends: Any = deep.point, deep.point + deep.depth * np.asarray(deep.direction)
            depth = float(deep.length if deep.pierces else deep.depth)
            if depth > tolerance:
                # The element that is in the other comes first; it is a if the point is a's own.
                pair = (a, b) if deep.own else (b, a)
                kind = PIERCE if deep.pierces else PROTRUSION
                result.append(self._clash(kind, *pair, depth, *ends))
        return tuple(result)

    def clash_collision_many(
        self, set_a: Iterable[Any], set_b: Iterable[Any], allow_touching: bool = False
    ) -> tuple[Clash, ...]:
        """Return a clash for each two elements, one of each set, whose interiors meet.

        It is enough that surfaces touch with `allow_touching`, or if a mesh is not closed.
        """
        result = []
        for a, b in self._pairs(set_a, set_b, reach=0.0):
            near, both_closed = self._nearest(a, b), self._closed[a] and self._closed[b]
            clash = near.distance == 0.0 and (allow_touching or not both_closed)
            if clash or self._relation(a, b) not in ("disjoint", "touching"):
                result.append(self._clash(COLLISION, a, b, 0.0, *near.position))
        return tuple(result)

    def clash_clearance_many(
        self, set_a: Iterable[Any], set_b: Iterable[Any], clearance: float = 0.05,
        check_all: bool = False,
    ) -> tuple[Clash, ...]:  # fmt: skip
        """Return a clash for each two elements, one of each set, that are nearer than a clearance.

        Distances are those of surfaces; touching ones always clash. `check_all` has no effect.
        """
        result = []
        for a, b in self._pairs(set_a, set_b, clearance):
            near = self._nearest(a, b)
            if near.distance < clearance or near.distance == 0.0:
                result.append(self._clash(CLEARANCE, a, b, float(near.distance), *near.position))
        return tuple(result)

    def select(self, value: Any, **options: Any) -> tuple[Any, ...]:
        """Return the elements at a point, or those that meet an element.

        `value` is the point or element. The option `extend` is a distance: elements that are at
        most so far from it are returned, too. Other `options` are ignored.
        """
        extend = max(float(options.get("extend", 0.0)), 0.0)
        if not hasattr(value, "is_a"):  # A point: elements have `is_a`.
            point = np.asarray(value, np.float64)
            near = [
                k for k, (solid, closed) in enumerate(zip(self._solids, self._closed, strict=True))
                if (closed and solid.contains(point)) or solid.distance(point) <= extend
            ]  # fmt: skip
        else:
            near = [
                b for a, b in self._pairs([value], self._products, extend, with_itself=True)
                if b == a or self._relation(a, b) != "disjoint"
                or self._nearest(a, b).distance <= extend
            ]  # fmt: skip
        return tuple(self._products[k] for k in near)

    def select_box(
        self, value: Sequence[Sequence[float]], completely_within: bool = False,
        extend: float = 0.0,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Return the elements whose boxes meet the box `value`, (lower, upper), grown by `extend`.

        With `completely_within`, return only those whose boxes are within the grown box.
        """
        low, high = np.asarray(value, np.float64)
        low, high = low - max(extend, 0.0), high + max(extend, 0.0)
        lower, upper = self._boxes().swapaxes(0, 1)
        within, meet = (lower >= low) & (upper <= high), (lower <= high) & (upper >= low)
        chosen = within if completely_within else meet
        return tuple(self._products[k] for k in np.flatnonzero(chosen.all(axis=1)))

    def select_ray(
        self, origin: Sequence[float], direction: Sequence[float], length: float = 1000.0
    ) -> tuple[RayHit, ...]:
        """Return all faces that a ray hits within a length, ordered by distance."""
        unit = np.asarray(direction, np.float64)
        unit = unit / (hypot(*unit.tolist()) or 1.0)
        hits = self._scene.all_hits(np.asarray(origin, np.float64), unit, t_max=length)
        columns = (
            column.tolist() for column in (hits.t, hits.instance_id, hits.position, hits.normal)
        )
        return tuple(
            RayHit(t, -1, self._products[k], tuple(p), tuple(n), t, float(np.dot(n, unit)))
            for t, k, p, n in zip(*columns, strict=True)
        )

    @staticmethod
    def get_clash_type(clash_type_i: int) -> str:
        """Return the name of a `Clash.clash_type`."""
        return CLASH_TYPES[clash_type_i]

    def _boxes(self) -> Reals:
        """Return the boxes of all elements, shape (n, 2, 3)."""
        return np.array([solid.bounds for solid in self._solids]).reshape(-1, 2, 3)

    def _known(self, elements: Iterable[Any]) -> NDArray[np.int64]:
        """Return the indices of elements in the lists, found by GUIDs, which are attribute 0."""
        guids = (e.get_argument(0) if hasattr(e, "get_argument") else e[0] for e in elements)
        return np.array([self._indices[guid] for guid in guids if guid in self._indices], np.int64)

    def _nearest(self, a: int, b: int) -> Clearances:
        """Return the `BVH.distance_to` of two elements, by index."""
        return self._solids[a].distance_to(self._solids[b])

    def _relation(self, a: int, b: int) -> str:
        """Return the `BVH.relation` of two solids; "disjoint" where a mesh is not closed."""
        both = self._closed[a] and self._closed[b]
        return self._solids[a].relation(self._solids[b]) if both else "disjoint"

    def _pairs(
        self, set_a: Iterable[Any], set_b: Iterable[Any], reach: float, with_itself: bool = False
    ) -> Iterable[tuple[int, int]]:
        """Yield indices (a, b) of elements, one of each set, whose boxes are at most `reach` apart.

        Each pair is yielded once, and an element is paired with itself only if `with_itself`.
        """
        first, second = map(self._known, (set_a, set_b))
        boxes, seen = self._boxes(), set[tuple[int, int]]()
        # A distance that is rounded to `reach` may be a little more.
        reach *= 1.0 + 2.0**-50
        for a in first.tolist():
            low, high = boxes[a, 0] - reach, boxes[a, 1] + reach
            near = (boxes[second, 0] <= high) & (boxes[second, 1] >= low)
            for b in second[near.all(axis=1)].tolist():
                key = (min(a, b), max(a, b))
                if key not in seen and (a != b or with_itself):
                    seen.add(key)
                    yield a, b

    def _clash(self, kind: int, a: int, b: int, distance: float, p: Reals, q: Reals) -> Clash:
        """Return a `Clash` of the type `kind`, of elements a and b, at points p and q."""
        ends = tuple(np.asarray(p).tolist()), tuple(np.asarray(q).tolist())
        return Clash(kind, self._products[a], self._products[b], distance, *ends)
