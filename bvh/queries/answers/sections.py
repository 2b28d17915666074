"""`Section` of meshes by a plane, with its loops and areas, as SVG and DXF; `Sections` by many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.locations import unit
from bvh.queries.answers.result_bases import Ragged
from bvh.queries.answers.solids import Ids, Intersections, Reals
from bvh.runtime.arguments import IdResult, number_of, reals

# The most points of a loop that are tested to decide whether another loop contains it.
MAX_TESTED = 63
# A drawing in DXF without entities, which trimesh does not write.
EMPTY_DXF = "0\nSECTION\n2\nENTITIES\n0\nENDSEC\n0\nEOF\n"


@dataclass(frozen=True, eq=False, repr=False)
class Section(Intersections):
    """The section of a mesh, or of a scene, by a plane.

    Has the attributes of `Intersections`, without polygons; `faces` has one column. The plane's
    coordinates are along `axes`: of a horizontal plane the first axis is x, of another one the
    second is the steepest way up. Seen from where the normal points, the second axis is a quarter
    turn counterclockwise from the first.

    Attributes
    ----------
    plane : ndarray of float64, shape (4,)
        (nx, ny, nz, offset): the points with n . p + offset = 0.
    instance_id : ndarray of int32, shape (n,), or None
        Of a scene, the instance of each segment's face.

    Examples
    --------
    >>> import bvh, trimesh
    >>> pipe = bvh.BVH.from_mesh(trimesh.creation.annulus(1.0, 2.0, 4.0, sections=64))
    >>> cut = pipe.section([0, 0, 1, 0])
    >>> cut, cut.parents.tolist(), cut.areas.round(3).tolist(), round(cut.area, 3)
    (Section(256 segments, 2 polylines, 2 closed), [-1, 0], [12.546, -3.137], 9.41)
    """

    plane: Any = None
    instance_id: IdResult = None

    @property
    def loops(self) -> list[Reals]:
        """The closed polylines: points (k, 3) of each, the first again at the end."""
        return [line for line, closed in zip(self.polylines, self.closed, strict=True) if closed]

    @cached_property
    def axes(self) -> Reals:
        """Two axes of length 1 in the plane, shape (2, 3): ``loop @ axes.T`` are coordinates."""
        # The first axis is horizontal. Unit vectors, so that no product overflows or underflows.
        n = unit(self.plane[:3])
        first = unit(np.array([-n[1], n[0], 0.0])) if n[:2].any() else np.array([1.0, 0.0, 0.0])
        return np.stack([first, unit(np.cross(n, first))])

    @cached_property
    def _nesting(self) -> tuple[Ids, Reals]:
        """For each of m loops: the smallest loop around it, or -1; its area, negative for holes."""
        loops = [loop @ self.axes.T for loop in self.loops]
        # Relative to a vertex, so that loops far from the origin lose no digits.
        sizes = np.array([abs(_area(loop - loop[0])) for loop in loops])
        parents, depth = np.full(len(loops), -1, np.int32), np.zeros(len(loops), np.int64)
        low = np.array([loop.min(axis=0) for loop in loops])
        high = np.array([loop.max(axis=0) for loop in loops])
        # Only larger loops contain a loop; of loops of equal area, the first counts as larger.
        order = np.argsort(-sizes, kind="stable")
        for rank, i in enumerate(order.tolist()):
            larger = order[:rank]
            boxed = ((low[larger] <= low[i]) & (high[larger] >= high[i])).all(axis=1)
            around = [int(j) for j in larger[boxed] if _is_within(loops[i], loops[j])]
            depth[i] = len(around)
            # `larger` is by descending area: the last one around is the smallest.
            parents[i] = around[-1] if around else -1
        # A loop inside an odd number of others is a hole.
        return parents, np.where(depth % 2 == 0, sizes, -sizes)

    @property
    def parents(self) -> Ids:
        """The smallest loop around each loop, -1 for those with none, shape (number of loops,)."""
        return self._nesting[0]

    @property
    def areas(self) -> Reals:
        """Areas of the loops; negative for holes, which are inside an odd number of other loops."""
        return self._nesting[1]

    @property
    def area(self) -> float:
        """Area of the section: the sum of `areas`."""
        return float(self.areas.sum())

    def to_svg(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the section as a drawing in SVG, holes left free; written to `path`, if given.

        Coordinates are those along `axes`, the second one negated, as the y axis of SVG points
        down.

        Examples
        --------
        >>> import bvh, trimesh
        >>> cut = bvh.BVH.from_mesh(trimesh.creation.box()).section([0, 0, 1, 0])
        >>> cut.to_svg()[:4], cut.to_svg().count("path")
        ('<svg', 1)
        """
        lines = [line @ self.axes.T * (1.0, -1.0) for line in self.polylines]
        points = np.concatenate([*lines, np.zeros((0, 2))])
        low, size = np.zeros(2), np.ones(2)  # of an empty drawing
        if len(points):
            low, size = points.min(axis=0), np.ptp(points, axis=0)
        margin = 0.02 * (float(size.max()) or 1.0)
        box = " ".join(map(repr, [*(low - margin).tolist(), *(size + 2 * margin).tolist()]))
        elements = []
        # One path for all closed polylines, so that holes are left free, and one for all others.
        for closed, fill in ((True, "#d9d9d9"), (False, "none")):
            some = [line for line, ends in zip(lines, self.closed, strict=True) if ends == closed]
            texts = [" ".join(f"{x!r},{y!r}" for x, y in line.tolist()) for line in some]
            steps = " ".join(f"M {text}{' Z' if closed else ''}" for text in texts)
            if steps:
                elements.append(
                    f'<path d="{steps}" fill="{fill}" fill-rule="evenodd" stroke="black" '
                    f'stroke-width="{margin / 10!r}"/>\n'
                )
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}">\n'
        return _written(path, "".join([head, *elements, "</svg>\n"]))

    def to_dxf(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the section as a drawing in DXF; written to `path`, if given.

        Layers are "outer", "holes" and "open"; coordinates are those along `axes`.

        Examples
        --------
        >>> import bvh, trimesh
        >>> cut = bvh.BVH.from_mesh(trimesh.creation.box()).section([0, 0, 1, 0])
        >>> "LWPOLYLINE" in cut.to_dxf(), "outer" in cut.to_dxf().lower()
        (True, True)
        """
        if not self.polylines:
            return _written(path, EMPTY_DXF)
        from trimesh.path import Path2D
        from trimesh.path.entities import Line

        new_line: Any = Line
        # The layers of the closed polylines in their order.
        layers = iter(["outer" if area >= 0.0 else "holes" for area in self.areas])
        lines, entities, first = [np.zeros((0, 2))], [], 0
        for line, closed in zip(self.polylines, self.closed, strict=True):
            ids = np.arange(first, first + len(line))
            if closed:  # the last point is the first
                ids[-1] = first
            entities.append(new_line(ids, layer=next(layers) if closed else "open"))
            lines.append(line @ self.axes.T)
            first += len(line)
        drawing: Any = Path2D(entities=entities, vertices=np.concatenate(lines), process=False)
        # Restores NumPy's print options, which trimesh sets for the whole process.
        with np.printoptions():
            return _written(path, drawing.export(file_type="dxf"))


@dataclass(frozen=True, eq=False, repr=False)
class Sections(Ragged):
    """Sections by many planes: ``sections[k]`` is the `Section` by plane k, counted flat.

    Attributes
    ----------
    segments : ndarray of float64, shape (m, 2, 3)
        Those of plane k are ``segments[offsets[k] : offsets[k + 1]]``; as in `Intersections`.
    faces : ndarray of int32, shape (m, 1)
    offsets : ndarray of int64, shape (n + 1,)
    shape : tuple of int
        Leading shape of the planes.
    planes : ndarray of float64, shape (n, 4)
    instance_id : ndarray of int32, shape (m,), or None
        As in `Section`.

    Examples
    --------
    >>> import bvh, numpy as np, trimesh
    >>> ball = bvh.BVH.from_mesh(trimesh.creation.icosphere(4))
    >>> cuts = ball.section([[0, 0, 1, -z] for z in (0.0, 0.6, 2.0)])
    >>> cuts, [round(cut.area / np.pi, 2) for cut in cuts]
    (Sections(338 segments by 3 planes), [1.0, 0.64, 0.0])
    """

    segments: Reals
    faces: Ids
    offsets: NDArray[np.int64]
    shape: tuple[int, ...]
    planes: Reals
    _each: list[Section]
    instance_id: IdResult = None

    @classmethod
    def _of(cls, each: list[Section], planes: Reals, shape: tuple[int, ...]) -> Sections:
        """Return the sections `each` by flat `planes` (n, 4), whose leading shape is `shape`."""
        offsets = np.cumsum([0, *map(len, each)]).astype(np.int64)
        ids = [cut.instance_id for cut in each]
        return cls(
            np.concatenate([np.empty((0, 2, 3)), *(cut.segments for cut in each)]),
            np.concatenate([np.empty((0, 1), np.int32), *(cut.faces for cut in each)]),
            offsets, shape, planes, each,
            np.concatenate(ids) if ids and ids[0] is not None else None,
        )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of planes."""
        return len(self._each)

    def __getitem__(self, k: int) -> Section:
        return self._each[k]

    def __iter__(self) -> Iterator[Section]:
        return iter(self._each)

    def __repr__(self) -> str:
        counts = number_of(len(self.segments), "segments"), number_of(len(self), "planes")
        return f"Sections({' by '.join(counts)})"


def sections_by(
    vertices: Reals, faces: Ids, planes: ArrayLike, ids_of: Callable[[Ids], tuple[Ids, Ids]] | None
) -> Section | Sections:
    """Return the `Section` of a mesh by a plane (4,), or the `Sections` by planes (..., 4).

    `planes` are checked here. If the mesh is a flattened scene, `ids_of(faces)` returns two arrays
    for faces of the mesh: their prim_id and their instance. `ids_of` is None for a tree.
    """
    from bvh.surfaces.sections import sections_of

    rows = reals("planes", planes)
    shape = rows.shape[:-1]
    valid = np.isfinite(rows).all() and rows.shape[-1:] == (4,) and rows[..., :3].any(axis=-1).all()
    if not valid:
        what = "planes must be rows of four finite numbers with normals, got"
        if rows.ndim == 1:
            raise ValueError(f"plane must be four finite numbers with a normal, got {planes!r}")
        if rows.shape[-1:] != (4,):
            raise ValueError(f"{what} the shape {rows.shape}")
        rows = rows.reshape(-1, 4)
        wrong = int(np.argmin(np.isfinite(rows).all(axis=1) & rows[:, :3].any(axis=1)))
        raise ValueError(f"{what} {rows[wrong].tolist()} in row {wrong}")
    rows = rows.reshape(-1, 4)
    each = []
    for plane, curves in zip(rows, sections_of(vertices, faces, rows), strict=True):
        segments, cut_faces, edges, ends, polygons, polygon_faces = curves
        instances: Any = None
        if ids_of is not None:
            prim_id, instances = ids_of(cut_faces[:, 0])
            cut_faces = prim_id.reshape(-1, 1)
        given = segments, cut_faces, edges, polygon_faces, polygons, ends
        each.append(Section(*given, _normal=plane[:3], plane=plane, instance_id=instances))
    return Sections._of(each, rows, shape) if shape else each[0]


def _area(loop: Reals) -> float:
    """Return the signed area of a closed polygon (k, 2), whose last point is its first."""
    x, y = loop.T
    return 0.5 * float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum())


def _is_within(inner: Reals, outer: Reals) -> bool:
    """Return whether the loop `inner`, (k, 2), is inside the loop `outer`, (m, 2).

    It is inside if most of the tested middles of its segments, at most MAX_TESTED, are inside. Not
    all need be, because loops may touch, and coordinates are rounded.
    """
    middles = 0.5 * (inner[:-1] + inner[1:])
    # Columns (tested, 1), which broadcast against the edges of the outer loop.
    x, y = middles[:: len(middles) // MAX_TESTED + 1, :, None].transpose(1, 0, 2)
    (px, py), (qx, qy) = outer[:-1].T, outer[1:].T
    # Edges whose ends p and q are on different sides of the line through a middle along x. All
    # others, also those along x, which divide by 0 below, are no crossings.
    spans = (py > y) != (qy > y)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_left = x < px + (y - py) / (qy - py) * (qx - px)
    # A point is inside if a ray from it along x crosses an odd number of edges.
    inside = np.count_nonzero(spans & is_left, axis=1) % 2
    return bool(2 * inside.sum() > len(inside))


def _written(path: str | os.PathLike[str] | None, text: str) -> str:
    """Return `text`, after writing it to the file `path` unless that is None."""
    if path is not None:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return text
