"""Geometries of a RaycastingScene under one tree, with Open3D's ids and normals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from trimesh.util import append_faces

from bvh.compat.tensors import CHUNK, InputRows
from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.runtime.threads import share

INVALID_ID = 0xFFFFFFFF

Columns = dict[str, NDArray[Any]]
Reals = NDArray[np.floating]
Geometry = tuple[NDArray[np.float64], NDArray[np.int32]]


class CastSurface:
    """The tree over all geometries, and tables of its triangles with a last row for misses."""

    def __init__(self, geometries: list[Geometry], threads: int) -> None:
        # The tree shares the arrays of a single geometry.
        one = len(geometries) == 1
        columns = ([geometry[k] for geometry in geometries] for k in (0, 1))
        points, faces = geometries[0] if one else append_faces(*columns)
        # Open3D does not warn of open meshes.
        self.tree = BVH.from_triangles(points.reshape(-1, 3), faces, threads=threads, warn=False)
        # The geometry of each triangle, and its number there; None for a single geometry.
        self._ids: list[NDArray[np.uint32]] | None = None
        if len(geometries) > 1:
            counts = [len(part) for _, part in geometries]
            owners = np.repeat(np.arange(len(counts)), counts)
            local = np.concatenate([np.arange(count) for count in counts])
            self._ids = [np.append(ids, INVALID_ID).astype(np.uint32) for ids in (owners, local)]
        self._normals: dict[np.dtype[Any], Reals] = {}

    def details(
        self, found: Hits | AllHits | ClosestPoints, given: InputRows, *, normals: bool = True
    ) -> Columns:
        """Return ids, weights and unit normals of hits or closest points, flat."""
        # Misses have `INVALID_ID` and zeros.
        prim, *weights = (np.reshape(column, -1) for column in (found.prim_id, found.u, found.v))
        n, table = len(prim), None
        answers: Columns = {
            "geometry_ids": np.empty(n, np.uint32), "primitive_ids": np.empty(n, np.uint32),
            "primitive_uvs": np.empty((n, 2), given.dtype),
        }  # fmt: skip
        geometry, primitive, uvs = answers.values()
        if normals:
            table = self._unit_normals(given.dtype, given.threads)
            answers["primitive_normals"] = np.empty((n, 3), given.dtype)

        def work(begin: int, end: int) -> None:
            part = slice(begin, end)
            # With mode="wrap", -1 is the last row.
            rows = prim[part].astype(np.intp)
            if self._ids is None:
                # With one geometry the ids are 0 and -1, which has the bits of INVALID_ID.
                np.right_shift(prim[part], 31, out=geometry[part].view(np.int32))
                primitive[part] = prim[part].view(np.uint32)
            else:
                self._ids[0].take(rows, out=geometry[part], mode="wrap")
                self._ids[1].take(rows, out=primitive[part], mode="wrap")
            for axis, weight in enumerate(weights):
                # fmax replaces NaN by 0.
                np.fmax(weight[part], 0.0, out=uvs[part, axis], casting="same_kind")
            if table is not None:
                table.take(rows, axis=0, out=answers["primitive_normals"][part], mode="wrap")

        share(n, CHUNK, work, given.threads)
        return answers

    def _unit_normals(self, dtype: np.dtype[Any], threads: int) -> Reals:
        """Return the unit normals of all triangles by their winding, and zeros for a miss."""
        table = self._normals.get(dtype)
        if table is None:
            table = np.zeros((len(self.tree) + 1, 3), dtype)
            vertices, faces = self.tree.vertices, self.tree.faces

            def work(begin: int, end: int) -> None:
                table[begin:end] = normals_of(vertices[faces[begin:end]])

            # Two threads may both fill a table with the same normals.
            share(len(self.tree), CHUNK, work, threads)
            self._normals[dtype] = table
        return table
