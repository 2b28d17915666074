"""Polygons that were read from a file, in its order, and their parts as meshes of trimesh."""

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.gltf.files import NAMED, numbered

Ints = NDArray[np.integer]

# Metadata keys of meshes of trimesh that were made of polygons: the polygon of each triangle, and
# the colour of each, in addition to their materials.
FACE_IDS, FACE_COLORS = "bvh_face_ids", "bvh_face_colors"


class Part(NamedTuple):
    """A part of a mesh, with its name and its material of trimesh, each None if it has none.

    If `painted`, its faces have the colours of `FileMesh.face_colors`, if the mesh has these.
    """

    name: str | None = None
    material: Any = None
    painted: bool = True


class OfCorners(NamedTuple):
    """Texture coordinates or normals, `rows`, and `ids`, the row of each corner; -1 for none."""

    rows: NDArray[np.float64]
    ids: Ints


class FileMesh(NamedTuple):
    """The content of a file: polygons, their parts, and what pictures use.

    The vertices of polygon i are ``points[corners[offsets[i] : offsets[i + 1]]]``.
    """

    points: NDArray[np.float64]
    corners: NDArray[np.int32]
    offsets: NDArray[np.int64]
    parts: tuple[Part, ...] = (Part(),)
    # The part of each polygon; None: the first.
    part_ids: NDArray[np.int64] | None = None
    uv: OfCorners | None = None
    normals: OfCorners | None = None
    # Bytes, or numbers from 0 to 1; NaN where a vertex has none.
    vertex_colors: NDArray[Any] | None = None
    face_colors: NDArray[Any] | None = None


# The m triangles of a part: indices of their vertices (m, 3); the number of the polygon of each in
# the file, (m,), and in the part, (m,); and indices of their corners in `FileMesh.corners` (m, 3),
# or None where there are no texture coordinates or normals.
_Triangles = tuple[Ints, Ints, Ints, Ints | None]


def as_trimesh(mesh: FileMesh, faces: Ints, face_ids: Ints | None, name: str) -> Any:
    """Return the triangles of a file as a mesh of trimesh, or as a scene of the file's parts.

    `faces` (n, 3) are the triangles of the polygons of `mesh`, and `face_ids` (n,) the polygon of
    each, None for 0, 1, 2, ... Parts without a name get `name`, that of the file. A file without
    polygons becomes a cloud of points.
    """
    trimesh: Any = importlib.import_module("trimesh")
    if len(mesh.offsets) == 1:
        return trimesh.PointCloud(mesh.points)
    meshes = [
        (part, _mesh_of_part(mesh, part, *triangles))
        for part, triangles in zip(mesh.parts, _divided(mesh, faces, face_ids), strict=True)
        if len(triangles[0])
    ]
    named = {part.name for part, _ in meshes if part.name is not None}
    names = numbered([part.name or name for part, _ in meshes], named)
    if len(meshes) == 1:
        meshes[0][1].metadata["name"] = names[0]
        return meshes[0][1]
    scene = trimesh.Scene()
    for label, (_, made) in zip(names, meshes, strict=True):
        scene.add_geometry(made, node_name=label, geom_name=label)
    scene.metadata[NAMED] = True
    return scene


def _divided(mesh: FileMesh, faces: Ints, face_ids: Ints | None) -> Iterator[_Triangles]:
    """Yield the triangles of each part of a mesh; arguments are as in `as_trimesh`."""
    polygons = np.arange(len(faces)) if face_ids is None else face_ids
    corners = None
    if mesh.uv is not None or mesh.normals is not None:
        corners = _corners_of(mesh, faces, polygons)
    if mesh.part_ids is None or len(mesh.parts) == 1:
        yield faces, polygons, polygons, corners
        return
    order = np.argsort(mesh.part_ids, kind="stable")
    begins = np.searchsorted(mesh.part_ids[order], np.arange(len(mesh.parts)))
    # The number of each polygon in its part: polygons keep their order.
    in_part = np.empty(len(order), np.int64)
    in_part[order] = np.arange(len(order)) - begins[mesh.part_ids[order]]
    part_of = mesh.part_ids[polygons]
    order = np.argsort(part_of, kind="stable")
    for rows in np.split(order, np.searchsorted(part_of[order], np.arange(1, len(mesh.parts)))):
        some = None if corners is None else corners[rows]
        yield faces[rows], polygons[rows], in_part[polygons[rows]], some


def _corners_of(mesh: FileMesh, faces: Ints, polygons: Ints) -> Ints:
    """Return the index in `mesh.corners` of each corner of triangles, shape (n, 3).

    Row i of `faces` (n, 3) has the vertices of a triangle of the polygon `polygons[i]`.
    """
    lengths = np.diff(mesh.offsets)
    if len(faces) == len(lengths) and (lengths == 3).all():
        return np.arange(3 * len(faces)).reshape(-1, 3)
    # The key of a corner combines its polygon and its vertex. If a polygon has a vertex twice, the
    # first of the two corners is returned.
    size = len(mesh.points)
    keys = np.repeat(np.arange(len(lengths)), lengths) * size + mesh.corners
    sorted_keys, first = np.unique(keys, return_index=True)
    return np.asarray(first[np.searchsorted(sorted_keys, polygons[:, None] * size + faces)])


def _mesh_of_part(
    mesh: FileMesh, part: Part, faces: Ints, polygons: Ints, in_part: Ints, corners: Ints | None
) -> Any:
    """Return a part as a mesh of trimesh, with the vertices that its triangles use, in order.

    The last four arguments are its `_Triangles`. The only part of a file has all vertices, also
    those that no triangle uses. Vertices with several texture coordinates or normals are repeated
    behind the others.
    """
    trimesh: Any = importlib.import_module("trimesh")
    # `used` are vertices of the file, and `faces` index these.
    if len(mesh.parts) == 1:
        used = np.arange(len(mesh.points))
    else:
        used, faces = np.unique(faces, return_inverse=True)
        faces = faces.reshape(-1, 3)
    columns = {
        name: OfCorners(column.rows, column.ids[corners].reshape(-1))
        for name, column in (("uv", mesh.uv), ("vertex_normals", mesh.normals))
        if column is not None and corners is not None
    }
    options: dict[str, Any] = {}
    if columns:
        faces, repeated, corner = _split(faces, len(used), [each.ids for each in columns.values()])
        used = np.concatenate([used, used[repeated]])
        # A vertex has the values of its corner; a vertex without faces has none.
        for name, column in columns.items():
            ids = np.where(corner < 0, -1, column.ids[corner])
            missing = ids[corner >= 0] < 0
            # Normals are left out if any corner has none.
            if missing.all() or (name == "vertex_normals" and missing.any()):
                continue
            options[name] = column.rows[np.maximum(ids, 0)]
            options[name][ids < 0] = np.nan if name == "uv" else 0.0
    if "uv" in options or part.material is not None:
        look = {"uv": options.pop("uv", None), "material": part.material}
        options["visual"] = trimesh.visual.TextureVisuals(**look)
    elif mesh.vertex_colors is not None and not np.isnan(mesh.vertex_colors[used]).any():
        options["vertex_colors"] = mesh.vertex_colors[used]
    made = trimesh.Trimesh(mesh.points[used], faces, process=False, **options)
    if mesh.face_colors is not None and part.painted and "vertex_colors" not in options:
        made.metadata[FACE_COLORS] = mesh.face_colors[polygons]
    if not np.array_equal(in_part, np.arange(len(faces))):
        made.metadata[FACE_IDS] = in_part.astype(np.int32)
    return made


def _split(faces: Ints, count: int, columns: list[Ints]) -> tuple[Ints, Ints, Ints]:
    """Return faces of repeated vertices, so that all corners at a vertex have the same ids.

    `faces` (n, 3) index `count` vertices, and each column has an id for each of the 3 n corners.
    Returns (new faces, vertices that are repeated behind the others, a corner at each vertex, old
    or repeated). This corner is -1 for a vertex without faces.
    """
    flat = faces.reshape(-1).astype(np.int64)
    corner = np.full(count, -1)
    # The first corner of each vertex: the last assignment to a repeated index counts.
    corner[flat[::-1]] = np.arange(len(flat))[::-1]
    differs = np.zeros(len(flat), np.bool_)
    for column in columns:
        differs |= column != column[corner[flat]]
    others = np.flatnonzero(differs)
    # One key for each combination of a vertex and ids.
    keys = flat[others]
    for column in columns:
        ids = column[others].astype(np.int64) + 1
        # Keys are replaced by small numbers, so that products stay in range.
        keys = np.unique(keys * (ids.max(initial=0) + 1) + ids, return_inverse=True)[1]
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    flat[others] = count + numbers
    repeated = faces.reshape(-1)[others[first]]
    return flat.reshape(-1, 3), repeated, np.concatenate([corner, others[first]])
