"""Triangles of meshes, other libraries' or pairs of arrays, and the groups of their faces."""

import contextlib
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.geometry.transforms import mirrored, moved
from bvh.io.formats.file_meshes import FACE_IDS
from bvh.io.mesh_objects import is_graph, polygons_of, thin_of
from bvh.io.polygons import corner_lists, triangulated
from bvh.runtime.arguments import bit_masks, owned, rows, thread_count

# Meshes that `surface_of` accepts, for error messages.
MESHES = "a mesh of trimesh, pyvista, open3d or meshio, a trimesh.Scene or a pair (vertices, faces)"


class Surface(NamedTuple):
    """Triangles: vertices (n, 3), faces (m, 3), and for each triangle its face in the source.

    `face_ids` (m,) is None for 0, 1, 2, ... Arrays are of any types until a tree checks them.
    """

    vertices: Any
    faces: Any
    face_ids: NDArray[np.int32] | None = None


def surface_of(mesh: object, threads: int | None = None) -> Surface:
    """Return the triangles of a mesh, any of those in MESHES; `threads` triangulate polygons."""
    if isinstance(mesh, Surface):
        return mesh
    if isinstance(mesh, tuple | list) and len(mesh) == 2:
        return paired(mesh[0], mesh[1], threads)
    thin = thin_of(mesh)
    if thin is not None:
        return Surface(*thin)
    polygons = polygons_of(mesh)
    if polygons is not None:
        return surface_of_polygons(*polygons, threads=threads)
    if is_graph(mesh):
        return _flatten(mesh)
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        metadata = getattr(mesh, "metadata", None)
        # The polygons of triangles, of meshes that we have made from files.
        if isinstance(metadata, dict) and FACE_IDS in metadata:
            return Surface(mesh.vertices, mesh.faces, metadata[FACE_IDS])
        return paired(np.asarray(mesh.vertices), np.asarray(mesh.faces), threads)
    if isinstance(mesh, str | os.PathLike):
        calls = f"call BVH.from_file for the file {mesh!r}, or bvh.load_scene to keep its instances"
        raise TypeError(f"mesh must be {MESHES}; {calls}")
    raise TypeError(f"mesh must be {MESHES}, got {type(mesh).__name__}")


def fits(mesh: object, vertices: NDArray[np.float64], faces: NDArray[np.int32]) -> bool:
    """Return whether a mesh still has the vertices and faces that a tree was built from."""
    points, index = (np.asarray(array) for array in surface_of(mesh)[:2])
    same_points = np.array_equal(points, vertices, equal_nan=points.dtype.kind == "f")
    return same_points and np.array_equal(index, faces)


def paired(vertices: ArrayLike, faces: ArrayLike, threads: int | None = None) -> Surface:
    """Return the triangles of polygons; `faces` are lists of vertex indices, or an array (m, k)."""
    if not isinstance(faces, np.ndarray):
        # Lists of different lengths are not an array.
        with contextlib.suppress(ValueError):
            faces = np.asarray(faces)
    if isinstance(faces, np.ndarray) and faces.dtype != object:
        if faces.ndim != 2 or faces.shape[1] <= 3:
            # There is nothing to triangulate: the caller checks these arrays.
            return Surface(vertices, faces)
    points = rows("vertices", vertices)
    return surface_of_polygons(points, *corner_lists(faces, len(points)), threads=threads)


def surface_of_polygons(
    points: NDArray[np.float64], corners: NDArray[np.int32], offsets: NDArray[np.int64],
    ids: NDArray[np.int32] | None = None, threads: int | None = None,
) -> Surface:  # fmt: skip
    """Return the triangles of checked polygons, triangulated by `threads` threads.

    The vertices of polygon i are ``corners[offsets[i] : offsets[i + 1]]``, rows of `points`, and
    its face in the source is ids[i], or i if `ids` is None.
    """
    if len(corners) == 3 * (len(offsets) - 1) and (np.diff(offsets) == 3).all():
        faces, face_ids = corners.reshape(-1, 3), ids
    else:
        faces, polygons = triangulated(points, corners, offsets, thread_count(threads))
        face_ids = polygons if ids is None else ids[polygons]
    if face_ids is not None and np.array_equal(face_ids, np.arange(len(face_ids))):
        face_ids = None
    return Surface(points, faces, face_ids)


def _flatten(scene: Any) -> Surface:
    """Return the triangles of a scene in world coordinates, reversed where a node mirrors them."""
    import trimesh

    surfaces = []
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        mesh = scene.geometry[name]
        if isinstance(mesh, trimesh.Trimesh):
            place = np.asarray(matrix, np.float64)[:3]
            finite = np.isfinite(place).all()
            step = -1 if finite and mirrored(place[None])[0] else 1
            # Under a transform that is not finite, vertices are NaN: trees ignore their faces.
            points = np.array(mesh.vertices, np.float64)
            points = moved(points, place) if finite else np.full_like(points, np.nan)
            surfaces.append(Surface(points, np.asarray(mesh.faces)[:, ::step]))
    return joined(surfaces)


def joined(surfaces: list[Surface]) -> Surface:
    """Return several meshes as one; source faces are numbered on from one mesh to the next."""
    points, faces = [np.empty((0, 3))], [np.empty((0, 3), np.int32)]
    ids: list[NDArray[Any]] = [np.empty(0, np.int32)]
    count = polygons = 0
    for vertices, index, face_ids in surfaces:
        points.append(np.asarray(vertices))
        faces.append(np.asarray(index) + count)
        polygon_ids = np.arange(len(index)) if face_ids is None else face_ids
        ids.append(polygon_ids + polygons)
        count, polygons = count + len(vertices), polygons + int(polygon_ids.max(initial=-1)) + 1
    surface = Surface(np.concatenate(points), np.concatenate(faces))
    if all(one.face_ids is None for one in surfaces):
        return surface
    return surface._replace(face_ids=np.concatenate(ids).astype(np.int32))


def face_groups(groups: ArrayLike, count: int) -> NDArray[np.uint32]:
    """Return the group bits (count,) of faces; `groups` is one number for all, or one for each."""
    bits = bit_masks("groups", groups)
    if bits.shape not in ((), (count,)):
        raise wrong_groups(f"of {count} faces", bits.shape)
    return owned(np.broadcast_to(bits, (count,)), np.uint32)


def groups_of_triangles(groups: ArrayLike | None, surface: Surface) -> ArrayLike | None:
    """Return the group bits of the triangles of `surface`, from `groups` of the source's faces.

    None, and one number for all faces, are returned as they are.
    """
    if groups is None or surface.face_ids is None:
        return groups
    bits = bit_masks("groups", groups)
    if bits.ndim == 0:
        return bits
    most = int(surface.face_ids.max(initial=-1))
    if bits.ndim != 1 or len(bits) <= most:
        raise wrong_groups(f"face, which are numbered up to {most}", bits.shape)
    return bits[surface.face_ids]


def wrong_groups(each: str, shape: tuple[int, ...]) -> ValueError:
    """Return the error for groups of the wrong `shape`; `each` says what has one, "of 3 faces"."""
    what = f"groups must be one number, or one for each {each}"
    return ValueError(f"{what}, got an array of shape {shape}")
