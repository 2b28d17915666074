"""Triangles of several geometries under one tree, with ids and normals as Open3D reports them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.runtime.threads import share

INVALID_ID = 0xFFFFFFFF

# Rows that a thread works on at a time, so that they stay in its cache.
CHUNK = 1 << 13

Geometry = tuple[NDArray[np.float64], NDArray[np.int32]]


class Surface:
    """All triangles of a scene: geometry after geometry, each a pair (vertices, faces).

    Tables of triangles have an additional last row for misses, whose id is -1.
    """

    def __init__(self, geometries: list[Geometry], threads: int) -> None:
        counts = [len(faces) for _, faces in geometries]
        firsts = np.cumsum([0, *(len(vertices) for vertices, _ in geometries)])
        points = [np.empty((0, 3)), *(vertices for vertices, _ in geometries)]
        faces: list[NDArray[Any]] = [np.empty((0, 3), np.int32)]
        for (_, rows), first in zip(geometries, firsts[:-1], strict=True):
            faces.append(rows + first if first else rows)
        self.tree = BVH.from_triangles(
            np.concatenate(points), np.concatenate(faces), threads=threads
        )
        self._ids: tuple[NDArray[np.uint32], NDArray[np.uint32]] | None = None
        if len(geometries) > 1:
            locals_ = [np.arange(count, dtype=np.uint32) for count in counts]
            owner = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
            invalid = np.array([INVALID_ID], np.uint32)
            self._ids = np.append(owner, invalid), np.concatenate([*locals_, invalid])
        self._normals: dict[Any, NDArray[Any]] = {}

    def details(
        self, found: Any, dtype: np.dtype[Any], threads: int, *, normals: bool = True
    ) -> dict[str, NDArray[Any]]:
        """Return the ids, weights and unit normals of hits or closest points, flat.

        Misses have `INVALID_ID` and zeros.
        """
        prim = np.reshape(found.prim_id, -1)
        weights = np.reshape(found.u, -1), np.reshape(found.v, -1)
        n = len(prim)
        geometry, primitive = np.empty(n, np.uint32), np.empty(n, np.uint32)
        uvs = np.empty((n, 2), dtype)
        answers = {"geometry_ids": geometry, "primitive_ids": primitive, "primitive_uvs": uvs}
        table = None
        if normals:
            table = self._unit_normals(dtype, threads)
            answers["primitive_normals"] = np.empty((n, 3), dtype)

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

        share(n, CHUNK, work, threads)
        return answers

    def _unit_normals(self, dtype: np.dtype[Any], threads: int) -> NDArray[Any]:
        """Return the unit normals of all triangles by their winding, and zeros for a miss."""
        table = self._normals.get(dtype)
        if table is None:
            table = np.zeros((len(self.tree) + 1, 3), dtype)
            vertices, faces = self.tree.vertices, self.tree.faces

            def work(begin: int, end: int) -> None:
                corners = vertices[faces[begin:end]]
                table[begin:end] = _normals(corners[:, 1:] - corners[:, :1])

            # Two threads may both fill a table with the same.
            share(len(self.tree), CHUNK, work, threads)
            self._normals[dtype] = table
        return table


def _normals(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit normals from two edges of each triangle; NaN for no area."""
    with np.errstate(all="ignore"):
        # Scaled, so that products neither overflow nor underflow.
        edges = edges / np.abs(edges).max(axis=2, keepdims=True)
        normals = np.cross(edges[:, 0], edges[:, 1])
        return np.asarray(normals / np.sqrt((normals**2).sum(axis=1, keepdims=True)))


def split_rays(rays: NDArray[Any], threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the origins and directions of rays (..., 6) as contiguous arrays."""
    flat = rays.reshape(-1, 6)
    parts = np.empty((2, len(flat), 3))

    def work(begin: int, end: int) -> None:
        # Column by column, which is faster than rows of three.
        for column in range(6):
            parts[column // 3, begin:end, column % 3] = flat[begin:end, column]

    share(len(flat), CHUNK, work, threads)
    # A single ray is a batch of one.
    shape = (*(rays.shape[:-1] or (1,)), 3)
    return parts[0].reshape(shape), parts[1].reshape(shape)
